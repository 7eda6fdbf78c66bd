"""What passes may know of a device: the facts of its type, asked for in this one place.

    traits_of_device("cuda:1").atomics  # True

A value's are `layout.traits_of(value)`. Nobody below the targets asks which device it is, only what holds there; what a
target says of itself (`targets/target.py`) is this value, so that a target from outside is understood everywhere.
This module imports nothing heavy: who finds a program in the cache comes through here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from cuesta.dialects.core.extension import active
from cuesta.dialects.core.structs import struct


@struct
class DeviceTraits:
    """The facts of a type of device, and of who generates code for it. What is said of nothing is false."""

    blocks: bool = False
    """A program of a kernel is a block of threads, and a small part of the device: schedules say `target = cuda`, and
    what one program would do alone is cut up for many.
    """
    atomics: bool = False
    """Programs may change one element together: the points of a scatter come in any order."""
    arithmetic_is_cheap: bool = False
    """Beside memory: what a few operations give is computed again rather than stored and read."""
    contractions: bool = False
    """There is a `kernel.contract`: products of matrices may be kernels of ours."""
    tunes: bool = False
    """Schedules and tiles can be measured, as `max-autotune` asks for."""
    approximates: bool = False
    """Functions whose results are only ever rounded to 16 bits may be approximations."""
    floats_of_8_bits: bool = False
    """They are loaded, stored and moved."""
    casts_of_8_bits: tuple[str, ...] = ()
    """Those of them that it converts; casts of others become formulas over their bits."""
    wide_sums: bool = False
    """Eager accumulates cumulative sums and products of f32 in f64 there."""
    wide_products: bool = False
    """Libraries multiply matrices of 16 bits into f32 (`aten.mm.dtype`)."""
    eager_random: bool = False
    """Random numbers are drawn from eager's stream unless somebody asks for Philox."""
    free_biases: bool = False
    """Libraries add a bias to their convolutions and products at no cost."""
    onednn: bool = False
    """PyTorch has oneDNN's products of f32 there."""
    raises: bool = False
    """An index out of range is an IndexError. Otherwise it is an assertion, after which nothing on the device lives."""
    asynchronous: bool = False
    """A launch returns before the kernel has run."""
    captures: bool = False
    """Launches can be captured and replayed (CUDA graphs)."""
    chooser: Callable[..., Any] | None = None
    """Gives the schedule of an analysed nest (`NestAnalysis`, its axes merged) on a `Machine`, or None to leave it to
    the house's own for such devices. None stands for that, too.
    """


CPU: Final = DeviceTraits(
    floats_of_8_bits=True, wide_sums=True, eager_random=True, free_biases=True, onednn=True, raises=True
)
GPU: Final = DeviceTraits(
    blocks=True,
    atomics=True,
    arithmetic_is_cheap=True,
    contractions=True,
    wide_products=True,
    tunes=True,
    approximates=True,
    floats_of_8_bits=True,
    casts_of_8_bits=("f8E4M3FN", "f8E5M2"),
    asynchronous=True,
    captures=True,
)

TRAITS: Final[Mapping[str, DeviceTraits]] = MappingProxyType({"cpu": CPU, "cuda": GPU})
"""By type of device, as our own targets have them."""


def device_type(device: str) -> str:
    """`cuda` of `cuda:1`."""
    return device.partition(":")[0]


def claimed_types() -> tuple[str, ...]:
    """The types of devices that targets of extensions in force are for."""
    return tuple(kind for target in active().targets.values() for kind in target.devices)


def claimant(kind: str) -> Any:
    """The target of an extension in force that is for devices of a type, if there is one.

    Errors: CuestaError when there are two.
    """
    extensions = active()
    if not extensions:
        return None
    found = [target for target in extensions.targets.values() if kind in target.devices]
    if len(found) > 1:
        from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

        said = " and ".join(
            f"{target.name} ({'' if (owner := extensions.owner(target)) is None else owner.place})" for target in found
        )
        raise CuestaError(Diagnostic(f"two targets are for the devices of type {kind}: {said}"))
    return found[0] if found else None


def traits_of_device(device: str) -> DeviceTraits:
    """What holds on a device: `cpu`, `cuda:1`.

    Errors: CuestaError when no target is for it.
    """
    kind = device_type(device)
    target = claimant(kind)
    if target is not None and target.traits is not None:
        return target.traits
    found = TRAITS.get(kind)
    if found is None:
        from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

        raise CuestaError(Diagnostic(f"no target is for the device {device}; there are some for {', '.join(TRAITS)}"))
    return found
