"""The machine at hand, as far as it is known: what the pipeline is given for a program that states none."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host
from cuesta.dialects.core.devices import device_type
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import device_of, is_tensor_type
from cuesta.targets.lookup import device_types, target_of


def machine_for(module: ModuleOp) -> Machine:
    """The machine that a program runs on: this processor, and the first GPU that it names."""
    return detect(_devices(module))


def detect(devices: Iterable[str] = ()) -> Machine:
    """This processor, and the first of each other type among `devices` (`cuda:1`); what is not known is the reference
    machine's.
    """
    first = {device_type(device): device for device in reversed(["cpu", *devices])}
    facts: dict[str, int | float] = {}
    for kind in device_types():
        if kind in first:
            facts.update(target_of(first[kind]).facts(first[kind]))
    return Machine.of(facts)


def _devices(module: ModuleOp) -> Iterable[str]:
    for program in dict.fromkeys((module, *host.programs_of(module))):
        block = entry_block(program)
        for value in block.args:
            if is_tensor_type(value.type):
                yield device_of(value.type)
        for op in block.ops:
            for result in op.results:
                if is_tensor_type(result.type):
                    yield device_of(result.type)


__all__ = ["detect", "machine_for"]
