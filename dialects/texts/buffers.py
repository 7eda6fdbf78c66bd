"""Buffers of a `host` text: alive where they are used, written only where that is said."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host, kernel
from cuesta.dialects.aten.arguments import Operand, operands_of
from cuesta.dialects.core.contracts import Finding
from cuesta.dialects.core.entry import entry_block, entry_function, written_arguments
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.host.ops import buffer_bytes
from cuesta.dialects.layout import device_of, is_tensor, tensor_type_of


def buffers_are_alive(module: ModuleOp) -> Iterator[Finding]:
    """Nothing is used, or freed once more, after it was freed."""
    freed: dict[SSAValue, Operation] = {}
    for op in ops_of(entry_block(module)):
        for operand in op.operands:
            if operand in freed:
                what = "frees" if isinstance(op, host.FreeOp) else "uses"
                yield op, f"{what} {name_of_buffer(operand)}, which is freed before"
        if isinstance(op, host.FreeOp):
            if len(set(op.operands)) != len(op.operands):
                yield op, "frees a buffer twice"
            freed.update(dict.fromkeys(op.operands, op))


def aliases_lie_where_their_memory_does(module: ModuleOp) -> Iterator[Finding]:
    """An alias lies on the device of what it is an alias of."""
    for op in ops_of(entry_block(module)):
        if isinstance(op, host.ReinterpretOp) and device_of(tensor_type_of(op.source)) != device_of(
            tensor_type_of(op.results[0])
        ):
            yield op, "an alias lies where its memory does"


def launches_write_what_they_may(module: ModuleOp) -> Iterator[Finding]:
    """Launches and calls write to buffers of the program, and to the arguments that `aten.writes_to` names; what lies
    in two overlapping places of an arena is not used by one launch that writes one of them.
    """
    kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
    block = entry_block(module)
    positions = written_arguments(entry_function(module))
    if any(not 0 <= position < len(block.args) for position in positions):
        yield entry_function(module), f"aten.writes_to names argument {max(positions)}; there are {len(block.args)}"
        return
    protected = {argument for argument in block.args if argument.index not in positions}
    roots: dict[SSAValue, frozenset[SSAValue]] = {argument: frozenset((argument,)) for argument in block.args}
    for op in ops_of(block):
        sources = frozenset[SSAValue]().union(*(roots.get(operand, frozenset()) for operand in op.operands))
        if isinstance(op, host.ReinterpretOp | host.PlaceOp) or (isinstance(op, host.ExternOp) and may_alias(op)):
            for result in op.results:
                roots[result] = sources
        written: list[SSAValue] = []
        if isinstance(op, host.LaunchOp) and (func := kernels.get(op.kernel)) is not None:
            written = list(op.operands[len(op.operands) - func.num_outs :])
            devices = {device_of(tensor_type_of(operand)) for operand in op.operands}
            if len(devices) > 1:
                yield op, f"@{op.kernel} runs on one device, that of all its buffers, not {', '.join(sorted(devices))}"
            yield from _overlaps(op, written)
        elif isinstance(op, host.ExternOp):
            written = changed_by(op)
        for buffer in written:
            if not protected.isdisjoint(roots.get(buffer, frozenset())):
                yield op, f"writes to {name_of_buffer(buffer)}, an argument that `aten.writes_to` does not name"


def may_alias(op: host.ExternOp) -> bool:
    """Whether results of a call may lie in the memory of its operands."""
    schema = op.schema
    return op.may_alias or schema is None or schema.mutates or bool([one for one in schema.results if one.alias])


def changed_by(op: host.ExternOp) -> list[SSAValue]:
    """The operands that a call writes to."""
    schema = op.schema
    if schema is None or not schema.mutates:
        return []
    found: list[SSAValue] = []
    for argument in schema.arguments:
        if "!" in argument.alias:
            value = op.argument(argument.name)
            operands = operands_of(value) if isinstance(value, tuple) else [value] if isinstance(value, Operand) else []
            found += [op.operands[one.index] for one in operands]
    return found


def _overlaps(op: host.LaunchOp, written: list[SSAValue]) -> Iterator[Finding]:
    places = [value for value in dict.fromkeys(op.operands) if isinstance(value.owner, host.PlaceOp)]
    for one in places:
        for other in places:
            if one is not other and one in written and _overlap(one.owner, other.owner):
                yield op, f"writes to {name_of_buffer(one)}, which lies in the arena where {name_of_buffer(other)} does"


def _overlap(one: object, other: object) -> bool:
    if not isinstance(one, host.PlaceOp) or not isinstance(other, host.PlaceOp) or one.arena is not other.arena:
        return False
    ends = [place.offset + (buffer_bytes(place.results[0].type) or 0) for place in (one, other)]
    return one.offset < ends[1] and other.offset < ends[0]


def name_of_buffer(value: SSAValue) -> str:
    """How a message calls a value."""
    return f"%{value.name_hint}" if value.name_hint else "a buffer" if is_tensor(value) else "a value"


__all__ = ["aliases_lie_where_their_memory_does", "buffers_are_alive", "launches_write_what_they_may"]
