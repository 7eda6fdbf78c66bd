"""The machine at hand, as far as it is known: what the pipeline is given for a program that states none."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from cuesta.dialects import host
from cuesta.dialects.core.devices import device_type
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.layout import device_of, is_tensor_type
from cuesta.targets.lookup import device_types, target_of


def machine_for(module: ModuleOp) -> Machine:
    """The machine that a program runs on: this processor, and the first GPU that it names."""
    return detect(devices_of(module))


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


def devices_of(module: ModuleOp) -> list[str]:
    """The devices that a program's values lie on, each once, in order."""
    types = dict[int, Attribute]()  # by identity: most are interned, and equal ones do no harm
    for program in dict.fromkeys((module, *host.programs_of(module))):
        block = entry_block(program)
        for value in block.args:
            types[id(value.type)] = value.type
        for op in ops_of(block):
            for result in op.results:
                types[id(result.type)] = result.type
    return list(dict.fromkeys(device_of(one) for one in types.values() if is_tensor_type(one)))


__all__ = ["detect", "devices_of", "machine_for"]
