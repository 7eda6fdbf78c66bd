"""The target of a device: an extension's, or else one of ours. This is where targets have names.

This module imports none of them before it is asked for it, nor anything else that is heavy.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cuesta.dialects.core.devices import claimant, claimed_types, device_type
from cuesta.dialects.core.setting import setting

if TYPE_CHECKING:
    from cuesta.targets.target import Target

_OURS: Final = {
    "cpu": ("cuesta.targets.cpu.target", "CpuTarget"),
    "cuda": ("cuesta.targets.triton.target", "TritonTarget"),
}
"""By type of device."""
_INSTEAD: Final = {
    "reference": ("cuesta.targets.reference.target", "ReferenceTarget"),
    "checked": ("cuesta.validating.kernels", "CheckedTarget"),
}
"""Those that are for any device, when a user asks for them by name."""

_chosen: Final[ContextVar[str | None]] = ContextVar("chosen_target", default=None)


@contextmanager
def running_on(name: str) -> Generator[None]:
    """The `with` block in which one target makes the kernels of all devices: `reference`; `checked`, their own beside
    the reference; or `device`, their own.

    What passes know of a device stays: the kernels are those that would run otherwise.
    """
    with setting(_chosen, None if name == "device" else name):
        yield


def target_of(device: str) -> Target:
    """Who makes the kernels of a device. Errors: CuestaError when nobody does."""
    if (name := _chosen.get()) is not None:
        return _made(*_INSTEAD[name])
    kind = device_type(device)
    found: Target | None = claimant(kind)
    if found is not None:
        from cuesta.targets.theirs import as_ours

        return as_ours(found)
    if kind not in _OURS:
        from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

        raise CuestaError(Diagnostic(f"no target is for the device {device}; there are some for {', '.join(_OURS)}"))
    return _made(*_OURS[kind])


def device_types() -> tuple[str, ...]:
    """The types of devices that there are targets for."""
    return tuple(dict.fromkeys((*_OURS, *claimed_types())))


def obstacle(device: str) -> str | None:
    """The device, and why no code can be made for it here, if none can."""
    if _chosen.get() is not None:
        return None
    kind = device_type(device)
    if kind not in _OURS and claimant(kind) is None:
        return device
    return target_of(device).obstacle(device)


@cache
def _made(module: str, name: str) -> Target:
    return getattr(import_module(module), name)()
