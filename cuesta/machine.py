"""The machine at hand, as far as it is known: what the pipeline is given for a program that states none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE, Machine
from cuesta.dialects.layout import device_of, is_tensor_type
from cuesta.targets.cpu.features import host_features


def machine_for(module: ModuleOp) -> Machine:
    """The machine that a program runs on: this processor, and the first GPU that it names."""
    return detect(_devices(module))


def detect(devices: Iterable[str] = ()) -> Machine:
    """This processor, and the first GPU among `devices` (`cuda:1`); what is not known is the reference machine's."""
    machine = replace(REFERENCE, lanes=host_features().f32_lanes)
    for device in devices:
        if device.startswith("cuda"):
            return replace(machine, processors=_processors(device))
    return machine


def _processors(device: str) -> int:
    import torch

    if not torch.cuda.is_available():  # a program that somebody compiles elsewhere
        return REFERENCE.processors
    return torch.cuda.get_device_properties(device).multi_processor_count


def _devices(module: ModuleOp) -> Iterable[str]:
    block = entry_block(module)
    for value in block.args:
        if is_tensor_type(value.type):
            yield device_of(value.type)
    for op in block.ops:
        for result in op.results:
            if is_tensor_type(result.type):
                yield device_of(result.type)


__all__ = ["detect", "machine_for"]
