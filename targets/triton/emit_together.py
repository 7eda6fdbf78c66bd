"""Ops on a lane's neighbouring elements, one by one, as one op on a block of them.

    a, b = tl.split(tl.load(columns)); c, d = tl.split(tl.load(columns_1))
    e = tl.maximum(a, c)
    f = tl.maximum(b, d)
    tl.store(columns_2, tl.join(e, f))
    →
    vector, vector_1 = tl.load(columns), tl.load(columns_1)
    e = tl.maximum(vector, vector_1)
    tl.store(columns_2, e)

Exact: every element is computed as it was. From what is stored together one goes back as long as all of the elements
come of the same op. What does not come together, such as neighbours by one place further, is joined: that is a choice
of registers. The text is shorter by so many times, and Triton compiles it sooner by more than that
(`emit_places.py`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue, Use

from cuesta.dialects import elem, kernel
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.targets.triton.emit_neighbours import Neighbours, joined

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

Values = tuple[SSAValue, ...]
"""Of neighbours, in order."""
_ELEMENTWISE = (elem.TableOp, elem.ConvertOp, elem.BitcastOp, elem.SelectOp)


class Together:
    """What is computed together in a block of a kernel."""

    def __init__(self, ops: Sequence[Operation], neighbours: Mapping[Operation, Neighbours]) -> None:
        self.neighbours = neighbours
        self.place = {op: place for place, op in enumerate(ops)}
        self.ops: dict[Values, tuple[Operation, ...]] = {}
        """Of what is computed together, the ops one by one."""
        self.names: dict[Values, str] = {}
        self.at: dict[Operation, list[Values]] = {}
        """After which op something is computed."""
        self.left_out: set[Operation] = set()
        """Ops that nothing needs one by one."""
        groups = {group.at: group.ops for group in neighbours.values() if isinstance(group.at, kernel.StoreOp)}
        self.stored = [tuple(source(op.operands[0]) for op in group) for group in groups.values()]
        self.stores = {op for group in groups.values() for op in group}
        self.lanes = max((shape_of(op.operands[0])[0] for op in self.stores), default=1)
        if self.stored:
            self.plan()

    def plan(self) -> None:
        """Finds what is worth it."""
        refused: set[Values] = set()
        while True:
            apart = self.spread(refused)
            alone = self.alone(apart)
            twice = {values for values, ops in self.ops.items() if not alone.isdisjoint(ops)}
            if not twice:
                break
            refused |= twice
        # What is stored was joined anyway.
        joins = sum(len(values) for values in apart if self.vector(values) is None and not is_one(values))
        joins -= sum(len(values) for values in self.stored)
        if sum(len(values) - 1 for values in self.ops) <= joins:
            self.ops.clear()
            return
        for values, ops in self.ops.items():
            self.at.setdefault(max(ops, key=self.place.__getitem__), []).append(values)
        self.left_out = {op for ops in self.ops.values() for op in ops}
        self.left_out |= {op for op in self.place if isinstance(op, kernel.BroadcastOp) and op not in alone}

    def spread(self, refused: set[Values]) -> set[Values]:
        """Goes back from what is stored, and sets `ops`; gives what is not computed together."""
        self.ops.clear()
        apart: set[Values] = set()
        waiting = list(self.stored)
        while waiting:
            values = waiting.pop()
            if values in self.ops or values in apart:
                continue
            ops = None if values in refused or is_one(values) else self.alike(values)
            if ops is None:
                apart.add(values)
            else:
                self.ops[values] = ops
                waiting += operands_of(ops)
        return apart

    def alike(self, values: Values) -> tuple[Operation, ...] | None:
        """The ops that neighbours come of, where they are of one kind and one op can say them."""
        ops = tuple(value.owner for value in values if isinstance(value.owner, _ELEMENTWISE))
        first = ops[0] if ops else None
        if first is None or len(set(ops)) < len(values) or any(op not in self.place for op in ops):
            return None
        if any(type(op) is not type(first) or op.properties != first.properties for op in ops):
            return None
        if any(op.operands[k].type != first.operands[k].type for op in ops for k in range(len(first.operands))):
            return None
        kinds = {value.type for value in values}
        known: dict[SSAValue, Values] = {}
        for operand, every in zip(first.operands, operands_of(ops), strict=True):
            constant = any(isinstance(value.owner, elem.ConstantOp) for value in every)
            if (constant and not is_one(every)) or known.setdefault(operand, every) != every:
                return None
        return ops if len(kinds) == 1 and len(shape_of(values[0])) == 1 else None

    def alone(self, apart: set[Values]) -> set[Operation]:
        """Ops whose results are needed one by one."""
        members = {op for ops in self.ops.values() for op in ops}
        needed = {value for values in apart for value in values}
        found: set[Operation] = set()
        for op in reversed(self.place):
            if op in members or isinstance(op, kernel.BroadcastOp):
                uses = [use for result in op.results for use in result.uses]
                if not any(map(needed.__contains__, op.results)) and not any(self.needs(use, found) for use in uses):
                    continue
            found.add(op)
        return found

    def needs(self, use: Use, alone: set[Operation]) -> bool:
        """Whether a use needs a value by itself."""
        op, index = use.operation, use.index
        if op in self.stores:
            return index > 0
        return op in alone or op not in self.place

    def vector(self, values: Values) -> Neighbours | None:
        """Loads that are done as one and give just these."""
        group = self.neighbours.get(values[0].owner) if isinstance(values[0].owner, Operation) else None
        if group is None or not isinstance(group.at, kernel.LoadOp):
            return None
        return group if tuple(op.results[0] for op in group.ops if op.results) == values else None

    # Text

    def emit(self, emitter: KernelEmitter, op: Operation) -> None:
        """What can be computed once an op has been emitted."""
        for values in self.at.get(op, ()):
            self.compute(emitter, values)

    def compute(self, emitter: KernelEmitter, values: Values) -> None:
        """Emits one op for several, by the first of them with other names for its operands."""
        from cuesta.targets.triton.emit_ops import EMITTERS, emit_table_op

        ops = self.ops[values]
        first = ops[0]
        texts = [self.block(emitter, every) for every in operands_of(ops)]
        names, real = emitter.names, emitter.real
        emitter.names, emitter.real = ChainMap({}, names), ChainMap({}, real)
        for operand, (name, shape) in zip(first.operands, texts, strict=True):
            emitter.names[operand], emitter.real[operand] = name, shape
        EMITTERS.get(type(first), emit_table_op)(emitter, first)
        self.names[values] = emitter.names[first.results[0]]
        emitter.names, emitter.real = names, real

    def stored_name(self, values: Values) -> str | None:
        """The name of what is stored together, where it has been computed together."""
        return self.names.get(tuple(map(source, values)))

    def block(self, emitter: KernelEmitter, values: Values) -> tuple[str, tuple[int, ...]]:
        """The text of neighbours as a block, and its shape."""
        if is_one(values):
            name, real = emitter.name(values[0]), emitter.real_of(values[0])
            return (emitter.bind(f"{name}[:, None]", "column"), (*real, 1)) if real else (name, real)
        known = self.names.get(values)
        group = self.vector(values)
        if known is None and group is not None:
            known = emitter.vectors.get(group)
        if known is None:
            known = emitter.bind(joined(emitter, values, self.lanes), "joined")
        return known, (self.lanes, len(values))


def operands_of(ops: Sequence[Operation]) -> list[Values]:
    """The operands of several ops, by position."""
    return [tuple(map(source, every)) for every in zip(*(op.operands for op in ops), strict=True)]


def source(value: SSAValue) -> SSAValue:
    """What a value is a repetition of."""
    while isinstance(value.owner, kernel.BroadcastOp):
        value = value.owner.operands[0]
    return value


def is_one(values: Values) -> bool:
    """Whether neighbours are one and the same."""
    return len({constant_of(value) for value in values}) == 1


def constant_of(value: SSAValue) -> object:
    """What tells a value from others."""
    owner = value.owner
    return (repr(owner.value), elem.scalar_of(value.type)) if isinstance(owner, elem.ConstantOp) else value


__all__ = ["Together"]
