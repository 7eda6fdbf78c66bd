"""For which kind of device a nest is: what passes ask that do other things where kernels are for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.devices import DeviceTraits, traits_of_device
from cuesta.dialects.layout import traits_of

DEVICE = "device"
"""The value of a pass's option `target` that means: the device that a nest's results lie on."""


@dataclass(frozen=True)
class DevicePass(ModulePass):
    """A pass that does other things where kernels are for a GPU."""

    target: str = DEVICE
    """For which kind of device: that of the results, or else `cpu`, `cuda`, …"""


def traits_for(nest: loops.NestOp, target: str = DEVICE) -> DeviceTraits:
    """The facts of the device that a nest is for: the one that its results lie on, or `target`, whatever they do.

    Errors: CuestaError when no target is for such a device.
    """
    return traits_of(nest.results[0]) if target == DEVICE else traits_of_device(target)


__all__ = ["DEVICE", "DevicePass", "traits_for"]
