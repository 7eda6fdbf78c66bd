"""Which values are in memory when, from the final text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import host, sym
from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.layout import device_of, is_tensor, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.explain.model import Memory, MemoryPoint, Value
from cuesta.explain.nodes import type_text
from cuesta.explain.provenance import Sources, lines_of


class Values:
    """The tensors of a program, numbered in the order in which they come to be."""

    def __init__(
        self,
        module: ModuleOp,
        steps: Sequence[Operation],
        hints: Mapping[str, int],
        sources: Sources,
        names: Mapping[SSAValue, str],
    ) -> None:
        self.names = names
        self.hints = hints
        self.sources = sources
        self.steps = {op: number for number, op in enumerate(steps)}
        self.number: dict[SSAValue, int] = {}
        self.values: list[Value] = []
        main = entry_function(module)
        constants = main.attributes.get("aten.constants")
        count = len(getattr(constants, "data", ()))
        blocks = [main.regions[0].block, *(op.regions[0].block for op in module.body.ops if _is_part(op, main))]
        for block in blocks:
            for position, argument in enumerate(block.args):
                is_constant = block is blocks[0] and position >= len(block.args) - count
                role = "argument" if block is blocks[0] else "alias"
                self.add(argument, "constant" if is_constant else role, None)
        for op, number in self.steps.items():
            for result in op.results:
                self.add(result, _role(op), number)
        self.lives(blocks)

    def add(self, value: SSAValue, role: str, born: int | None) -> None:
        """Numbers a value, if it is a tensor."""
        if not is_tensor(value) or value in self.number:
            return
        kind = tensor_type_of(value)
        sizes = [self.known(size) for size in sizes_of(kind)]
        strides = tuple(self.known(stride) for stride in strides_of(kind))
        numbers = [size for size in sizes if isinstance(size, int)]
        size = math.prod(numbers) * byte_width(value) if len(numbers) == len(sizes) else None
        owner = value.owner
        of = self.number.get(owner.operands[0]) if isinstance(owner, host.ReinterpretOp | host.PlaceOp) else None
        where = self.sources.of(lines_of(owner.location)) if isinstance(owner, Operation) else ()
        self.number[value] = len(self.values)
        name = self.names.get(value, value.name_hint or "")
        dtype = _dtype(value)
        self.values.append(
            Value(name, type_text(dtype, sizes), strides, device_of(kind), size, role, of, False, born, None, where)
        )

    def known(self, size: sym.IndexExpr) -> int | str:
        """A size as a number, where the capture knew one."""
        if isinstance(size, int):
            return size
        if size.symbols <= self.hints.keys():
            return int(sym.evaluate(size, (), self.hints))
        return sym.format_expr(size)

    def lives(self, blocks: Sequence[Block]) -> None:
        """Says when each dies: after its last `host.free`, or else with the program, or with whom it lies in."""
        dies: dict[int, int] = {}
        for op, number in self.steps.items():
            if isinstance(op, host.FreeOp):
                dies.update((self.number[one], number) for one in op.operands if one in self.number)
        returned: set[int] = set()
        last = blocks[0].last_op
        for operand in () if last is None else last.operands:
            if operand in self.number:
                returned.add(self.number[operand])
        self.values = [
            replace(value, dies=dies.get(number), returned=number in returned)
            for number, value in enumerate(self.values)
        ]

    def root(self, number: int) -> int:
        """The value in whose memory one lies."""
        of = self.values[number].of
        while of is not None:
            number, of = of, self.values[of].of
        return number


def memory_of(values: Values, steps: int) -> Memory:
    """Memory over the steps of a program. What is an alias keeps alive what it is of."""
    ends: dict[int, int] = {}
    for number, value in enumerate(values.values):
        root = values.root(number)
        end = steps if value.dies is None or value.returned else value.dies
        ends[root] = max(ends.get(root, -1), end)
    born = [0] * (steps + 1)
    gone = [0] * (steps + 1)
    own_born, own_gone = list(born), list(gone)
    unknown = 0
    roots: list[int] = []
    for root, end in ends.items():
        value = values.values[root]
        if value.role == "alias":  # an argument of a part: its caller's value is counted
            continue
        roots.append(root)
        size = value.bytes or 0
        unknown += value.bytes is None
        begin = value.born or 0
        for starts, stops in ((born, gone), *(((own_born, own_gone),) if value.born is not None else ())):
            starts[begin] += size
            stops[min(end, steps)] += size
    points: list[MemoryPoint] = []
    alive = own = 0
    for step in range(steps):
        alive, own = alive + born[step], own + own_born[step]
        points.append(MemoryPoint(step, alive, own))
        alive, own = alive - gone[step], own - own_gone[step]
    notes = ["from the text: what a library takes besides is not seen"]
    if unknown:
        notes.append(f"{unknown} values have sizes that only a run knows: taken as nothing")
    peak = max(points, key=lambda point: point.own, default=None)
    at_peak: list[int] = []
    if peak is not None:
        at_peak = [one for one in roots if (values.values[one].born or 0) <= peak.step <= ends[one]]
        at_peak.sort(key=lambda one: -(values.values[one].bytes or 0))
    return Memory(
        tuple(points),
        None if peak is None else peak.step,
        0 if peak is None else peak.own,
        tuple(at_peak),
        None,
        tuple(notes),
    )


def _is_part(op: Operation, main: Operation) -> bool:
    return isinstance(op, host.FuncOp) and op is not main


def _role(op: Operation) -> str:
    if isinstance(op, host.AllocOp):
        return "buffer"
    if isinstance(op, host.PlaceOp):
        return "place"
    return "alias" if isinstance(op, host.ReinterpretOp) else "result"


def _dtype(value: SSAValue) -> str:
    dtype = dtypes.type_to_dtype(tensor_type_of(value).element_type)
    return str(dtype).removeprefix("torch.")


__all__ = ["Values", "memory_of"]
