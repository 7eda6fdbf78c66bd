"""Jamming: one point does what several points of a domain do, one of each equal part of an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.base import TableOp
from cuesta.dialects.loops.surgery import Substitution, clone_op, index_ranges

_MOST_PARTS = 4
"""The most parts of an axis that one point takes.

Source: a bound against code growth; as many parts of a concatenation are told apart by masks.
"""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@struct
class Parts:
    """An axis of a domain as so many parts of one size: side by side, each in one piece (part p of point i is
    p · size + i), or, `in_turns`, element by element (i · count + p).
    """

    axis: int
    count: int
    in_turns: bool

    def place(self, point: sym.IndexExpr, part: int, size: int) -> sym.IndexExpr:
        """Where along the axis a part of a point lies; `size` is that of the part."""
        return point * self.count + part if self.in_turns else point + part * size


@struct
class Jammed:
    """What a nest becomes, which stands nowhere yet; and what its parts `share`: for each op that a part needs and
    another one has made before, that op.
    """

    nest: loops.NestOp
    shared: tuple[Operation, ...]


def parts_of(nest: loops.NestOp) -> Iterator[Parts]:
    """The ways to cut an axis of a nest of points into equal parts so that comparisons of indices, which masks are made
    of, are decided in each part; the fewest parts that decide as many, and more only where they decide more.

    Near misses: parts of different sizes; sizes that only a call knows.
    """
    comparisons = {_asked(found): op for op in ops_of(nest.body) if (found := _compared(op)) is not None}.values()
    for axis, size in enumerate(nest.sizes):
        asked = [op for op in comparisons if nest.induction_variables[axis] in _indices_of(op)]
        if not asked or not isinstance(size, int):
            continue
        most = 0
        for count in range(2, _MOST_PARTS + 1):
            if size % count or size < count:
                continue
            for in_turns in (False, True) if count < size else (False,):
                if most == len(asked):
                    break
                parts = Parts(axis, count, in_turns)
                decided = sum(_decides(parts, nest, op) for op in asked)
                if decided > most:
                    most = decided
                    yield parts


def jam(nest: loops.NestOp, parts: Parts) -> Jammed:
    """nest (i : n · k) { S(i) } -> nest (i : n) { S(i); S(n + i); …; S((k − 1) · n + i) }, what is computed alike once.

    Law: the points of a nest are independent of each other, and each runs exactly once: in either. Comparisons of
    indices that a part decides are followed (through masks, connectives and choices), so that of a concatenation each
    part is computed, and loaded, by itself. Exact. The nest itself stays.
    Requires: a nest of points that reads none of its outs; `parts` is one of its `parts_of`.
    """
    sizes = [*nest.sizes]
    whole = sizes[parts.axis]
    assert isinstance(whole, int), "the size of what is cut is a number"
    size = sizes[parts.axis] = whole // parts.count
    made = loops.NestOp.build(sizes, [result.type for result in nest.results])
    made.location = nest.location
    for old, new in zip((*nest.results, *nest.body.args), (*made.results, *made.body.args), strict=True):
        new.name_hint = old.name_hint
    known = dict[object, Operation]()
    shared = list[Operation]()
    for part in range(parts.count):
        substitution = Substitution(made.induction_variables)
        for k, old in enumerate(nest.induction_variables):
            place = sym.dim(k)
            substitution.set_index(old, parts.place(place, part, size) if k == parts.axis else place)
        substitution.values.update(zip(nest.handles, made.handles, strict=True))
        _Part(nest, made, substitution).write(known, shared)
    return Jammed(made, tuple(shared))


class _Part:
    """One part of a jammed nest: which values are known in it, and which are those of others."""

    def __init__(self, nest: loops.NestOp, made: loops.NestOp, substitution: Substitution) -> None:
        self.nest = nest
        self.made = made
        self.substitution = substitution
        self.truths = dict[SSAValue, bool]()
        self.equals = dict[SSAValue, SSAValue]()

    def write(self, known: dict[object, Operation], shared: list[Operation]) -> None:
        """Puts the part at the end of what is made. `known` are the ops there, by what they compute; of these the ones
        that another part has made already join `shared`.
        """
        ops = ops_of(self.nest.body)
        for op in ops:
            self.learn(op)
        others = set(known.values())
        for op in self.needed(ops):
            new = self.copied(op)
            if not new.results:
                self.made.body.add_op(new)
                continue
            key = (type(new), new.operands, tuple(one.type for one in new.results), frozenset(new.properties.items()))
            first = known.setdefault(key, new)
            if first is new:
                self.made.body.add_op(new)
                new.results[0].name_hint = op.results[0].name_hint
            else:
                new.erase()
                if first in others:
                    shared.append(first)
            self.substitution.values.update(zip(op.results, first.results, strict=True))

    def learn(self, op: Operation) -> None:
        """Notes what is known of an op's result in this part."""
        if (compared := _compared(op)) is not None:
            truth = _truth(compared, self.substitution, self.made.sizes)
        elif isinstance(op, TableOp) and op.results[0].type == i1 and op.row.name in ("and", "or"):
            truth = self.connected(op, op.row.name == "or")
        elif isinstance(op, TableOp) and op.results[0].type == i1 and op.row.name == "not":
            inner = self.truth(op.operands[0])
            truth = None if inner is None else not inner
        else:
            truth = None
            if isinstance(op, elem.SelectOp) and (chosen := self.truth(op.operands[0])) is not None:
                self.equals[op.result] = self.value(op.operands[1 if chosen else 2])
            elif isinstance(op, loops.LoadOp) and op.mask is not None and self.truth(op.mask) is False:
                self.equals[op.result] = self.value(op.rest[1])
        if truth is not None:
            self.truths[op.results[0]] = truth

    def connected(self, op: Operation, absorbing: bool) -> bool | None:
        """What `and` or `or` gives, as far as it is known: `absorbing` is what decides it alone."""
        for one, other in (op.operands, op.operands[::-1]):
            truth = self.truth(one)
            if truth is absorbing:
                return absorbing
            if truth is not None:
                self.equals[op.results[0]] = self.value(other)
                return self.truth(other)
        return None

    def value(self, value: SSAValue) -> SSAValue:
        """The value of the nest whose value it is here."""
        return self.equals.get(value, value)

    def truth(self, value: SSAValue) -> bool | None:
        """What a bool is known to be."""
        return self.truths.get(self.value(value))

    def uses(self, op: Operation) -> Sequence[SSAValue]:
        """What the copy of an op reads."""
        if isinstance(op, loops.LoadOp | loops.StoreOp) and op.mask is not None and self.truth(op.mask) is not None:
            rest = 2 if isinstance(op, loops.LoadOp) else 1
            return op.operands[: len(op.operands) - rest]
        return op.operands

    def needed(self, ops: Sequence[Operation]) -> list[Operation]:
        """The ops that what is stored needs, and those that may raise, in order."""
        wanted = set[SSAValue]()
        found = list[Operation]()
        for op in reversed(ops):
            if isinstance(op, loops.StoreOp):
                needed = op.mask is None or self.truth(op.mask) is not False
            else:
                needed = self.may_raise(op) or any(result in wanted for result in op.results)
            if not needed:
                continue
            found.append(op)
            if not op.results or op.results[0] not in self.truths:
                wanted.update(map(self.value, self.uses(op)))
        return found[::-1]

    def may_raise(self, op: Operation) -> bool:
        """Whether an index may be out of range in this part. Under a mask that does not hold it is a number that is
        not.
        """
        if not isinstance(op, loops.BoundOp):
            return False
        index = self.value(op.operands[0]).owner
        if not isinstance(index, elem.ConstantOp) or not isinstance(index.value, int):
            return True
        return not (isinstance(op.size, int) and 0 <= index.value < op.size)

    def copied(self, op: Operation) -> Operation:
        """The copy of an op in this part."""
        new: Operation
        values = self.substitution.values
        for operand in op.operands:
            if (equal := self.equals.get(operand)) is not None:
                values[operand] = values.get(equal, equal)
        if op.results and (truth := self.truths.get(op.results[0])) is not None:
            new = elem.constant(truth, i1)
        elif isinstance(op, loops.LoadOp):
            rest = op.rest if op.mask is not None and self.truth(op.mask) is None else ()
            masked = [values.get(one, one) for one in rest]
            new = loops.LoadOp.build(op.source, self.places(op), self.substitution.axes, *masked)
        elif isinstance(op, loops.StoreOp):
            mask = op.mask if op.mask is not None and self.truth(op.mask) is None else None
            own = None if mask is None else values.get(mask, mask)
            stored, target = values.get(op.value, op.value), values[op.target]
            new = loops.StoreOp.build(stored, target, self.places(op), self.substitution.axes, own)
        elif isinstance(op, loops.IndexOp):
            (place,) = self.places(op)
            new = loops.IndexOp.build(place, self.substitution.axes, op.result.type)
        else:
            new = clone_op(op, self.substitution)
        new.location = op.location
        return new

    def places(self, op: IndexedOp) -> list[sym.IndexExpr]:
        """An op's index expressions in this part."""
        expressions = self.substitution.expressions(op.map.results, op.indices)
        ranges = index_ranges(self.made, self.substitution.axes)
        return expressions if ranges is None else [sym.simplify(one, ranges) for one in expressions]


def _decides(parts: Parts, nest: loops.NestOp, comparison: Operation) -> bool:
    """Whether a comparison is decided in each part, and not in the same way in all."""
    sizes = [*nest.sizes]
    whole = sizes[parts.axis]
    assert isinstance(whole, int), "the size of what is cut is a number"
    size = sizes[parts.axis] = whole // parts.count
    compared, found = _compared(comparison), set[bool | None]()
    assert compared is not None
    for part in range(parts.count):
        substitution = Substitution(nest.induction_variables)
        place = parts.place(sym.dim(parts.axis), part, size)
        substitution.set_index(nest.induction_variables[parts.axis], place)
        found.add(_truth(compared, substitution, sizes))
    return found == {True, False}


_Number = loops.IndexOp | int


def _compared(op: Operation) -> tuple[str, _Number, _Number] | None:
    """A comparison of an index with a number, or with an index."""
    if not isinstance(op, TableOp) or op.row.name not in _COMPARISONS:
        return None
    left, right = (_number(operand) for operand in op.operands)
    if left is None or right is None or (isinstance(left, int) and isinstance(right, int)):
        return None
    return op.row.name, left, right


def _number(value: SSAValue) -> _Number | None:
    op = value.owner
    if isinstance(op, loops.IndexOp) and op.result.type in (i32, i64):
        return op
    return op.value if isinstance(op, elem.ConstantOp) and type(op.value) is int else None


def _asked(compared: tuple[str, _Number, _Number]) -> tuple[object, ...]:
    """What two comparisons that ask the same have in common."""
    name, *sides = compared
    return name, *(one if isinstance(one, int) else (one.map, one.indices) for one in sides)


def _indices_of(op: Operation) -> set[SSAValue]:
    """The indices that a comparison is about."""
    return {index for one in op.operands if isinstance(one.owner, loops.IndexOp) for index in one.owner.indices}


def _truth(
    compared: tuple[str, _Number, _Number], substitution: Substitution, sizes: Sequence[sym.IndexExpr]
) -> bool | None:
    """What a comparison gives wherever it is asked, if that is one thing."""
    name, left, right = compared
    sides = [
        one if isinstance(one, int) else substitution.expressions(one.map.results, one.indices)[0]
        for one in (left, right)
    ]
    if len(substitution.axes) > len(sizes):
        return None  # an index that is data
    low, high = sym.bounds(sym.simplify(sides[0] - sides[1], sizes), sizes)
    if low is None or high is None:
        return None
    compare = _COMPARISONS[name]
    ends = {compare(low, 0), compare(high, 0)}
    if len(ends) > 1:
        return None
    if low < 0 < high and name in ("eq", "ne"):
        return None
    return ends.pop()


__all__ = ["Jammed", "Parts", "jam", "parts_of"]
