"""`narrow-updates`: what an argument becomes, and differs from it in a part only, is made by changing that part.

    %y = loops.nest (%i : 8, %t : 4096) outs(%o) {        // what %c becomes
      %in = and(index[%t] >= 10, index[%t] < 11); %old = load %c[%i, %t]; …
      %v = select %in, %new, %old; store %v, %o[%i, %t]
    }
    →
    %s = loops.nest (%i : 8, %t : 4096) outs(%o) { %old = load %c[%i, %t]; store %old, %o[%i, %t] }
    %y = loops.nest (%i : 8, %t : 1) outs(%o) updates(%s) { …; scan (%p : 1) { combine assign %new, %o[%i, %t + 10] } }

`write-in-place` finds that the copy is of an argument to itself, and leaves it out: `cache[:, a:b] = x` costs what it
writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges, written_arguments
from cuesta.dialects.core.operation import all_ops, ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.func import ReturnOp
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, loads_of, remove, stores_of, top_level_nest

_LARGEST_PART = 2
"""Parts are changed by themselves when they are at most one element in so many.

Source: a definition: where half of the elements stay, what is not moved pays for another launch.
"""

_MOST_PARTS = 8
"""More are written together with the rest.

Source: a definition: what a launch costs each of them, and the time that a compiler takes for a chain of updates.
"""

_Bounds: TypeAlias = tuple[sym.IndexExpr, sym.IndexExpr]
_Box: TypeAlias = Mapping[SSAValue, _Bounds]
"""Of some axes, where a part begins and ends; of the others it has all."""
_Place: TypeAlias = tuple[SSAValue | int, ...]


@struct
class _Part:
    """A part of a tensor, what it becomes, and the conditions that are true there."""

    box: _Box
    value: SSAValue
    conditions: frozenset[SSAValue]


class NarrowUpdatesPass(ModulePass):
    """Of a nest of points with one out, which an argument becomes: every part that is not the argument's own elements.

    Exact. Near misses: a part that is no range of axes (every second element; a mask that a tensor holds), or most of
    the tensor; other elements of the argument that are read, or that somebody reads later, who would find them changed;
    a nest that makes something else as well, or that may fail.
    """

    name = "narrow-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block, ranges = entry_block(op), symbol_ranges(op)
        written, end = written_arguments(entry_function(op)), block.last_op
        if not written or not isinstance(end, ReturnOp):
            return
        places = {inner: place for place, inner in enumerate(ops_of(block))}
        for position, value in zip(written, end.operands[-len(written) :], strict=True):
            if isinstance(value.owner, loops.NestOp) and (points := _Points.of(value.owner)) is not None:
                _narrow(points, block.args[position], places, ranges)


@struct
class _Points:
    """A nest that stores each element of its only out once, in a domain or in one loop of it."""

    nest: loops.NestOp
    sizes: Mapping[SSAValue, sym.IndexExpr]
    """Of the axes, and of the loop's."""
    store: loops.StoreOp

    @classmethod
    def of(cls, nest: loops.NestOp) -> _Points | None:
        stores = stores_of(nest)
        if len(nest.results) != 1 or nest.operands or len(stores) != 1 or stores[0].mask is not None:
            return None
        (store,) = stores
        sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(nest.induction_variables, nest.sizes, strict=True))
        inner = store.parent_op()
        if isinstance(inner, loops.ForOp) and inner.parent is nest.body:
            sizes |= zip(inner.induction_variables, inner.sizes, strict=True)
        kinds = (loops.LoadOp, loops.IndexOp, elem.ElementwiseOp)
        if not all(isinstance(op, kinds) or op is store or op is inner or op is nest for op in all_ops(nest)):
            return None
        return cls(nest, sizes, store)

    def place(self, op: loops.LoadOp | loops.StoreOp, box: _Box = MappingProxyType({})) -> _Place | None:
        """Which element is read or written in a part: an axis, or the only place that the part has along it; None when
        there is more to it.
        """
        found: list[SSAValue | int] = []
        for result in op.map.results:
            axis = _axis_of(result, op.indices)
            if axis is None:
                if not isinstance(result, int):
                    return None
                found.append(result)
                continue
            low, high = box.get(axis, (0, self.sizes.get(axis, 0)))
            found.append(low if isinstance(low, int) and high - low == 1 else axis)
        return tuple(found)

    def is_old(self, value: SSAValue, argument: SSAValue) -> bool:
        """Whether a value is the argument's own element."""
        load = value.owner
        if not isinstance(load, loops.LoadOp) or load.rest or load.source is not argument:
            return False
        return self.place(load) is not None and self.place(load) == self.place(self.store)


def _axis_of(expression: sym.IndexExpr, indices: Sequence[SSAValue]) -> SSAValue | None:
    return next((index for k, index in enumerate(indices) if expression == sym.dim(k)), None)


def _narrow(points: _Points, argument: SSAValue, places: dict[Operation, int], ranges: sym.SymbolRanges) -> None:
    nest = points.nest
    if argument.type != nest.results[0].type or not any(load.source is argument for load in loads_of(nest)):
        return
    whole = _Part({}, points.store.value, frozenset())
    parts = list(islice(_parts(points, whole, argument, None, ranges), _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS or any(not part.box for part in parts) or not _leaves_enough(points, parts):
        return
    for use in argument.uses:
        user = top_level_nest(use.operation)
        if user is not nest and not (isinstance(user, loops.NestOp) and places[user] < places[nest]):
            no_match(nest, f"{user.name} reads, later, what would be changed")
            return
    needed = [_needed(part) for part in parts]
    for number, (part, ops) in enumerate(zip(parts, needed, strict=True)):
        for load in ops:
            if isinstance(load, loops.LoadOp) and load.source is argument:
                own = points.place(load, part.box)
                if number or own is None or own != points.place(points.store, part.box):
                    no_match(nest, "other elements of the argument are read, or such as were changed before")
                    return
    value = _copy_of(argument, nest)
    for part, ops in zip(parts, needed, strict=True):
        made = _update_of(value, points, part, ops, argument)
        places[made] = places[nest]
        value = made.results[0]
    value.name_hint = nest.results[0].name_hint
    replace_all_uses(nest.results[0], value)
    remove(nest)


# -- parts -------------------------------------------------------------------------------------------------------------


def _parts(
    points: _Points, inside: _Part, argument: SSAValue, there: SSAValue | None, ranges: sym.SymbolRanges
) -> Iterator[_Part]:
    """What changes make a value, one after the other, in a part of what is `there`: None is the old elements.

    select(c, x, w) is w there, and then x where c holds; so is load(x) if c else w.
    """
    value = inside.value
    if value is there or (there is None and points.is_old(value, argument)):
        return
    owner = value.owner
    chosen, rest = value, None
    condition: SSAValue | None = None
    if isinstance(owner, elem.SelectOp):
        condition, chosen, rest = owner.operands
    elif isinstance(owner, loops.LoadOp) and owner.rest:
        condition, rest = owner.rest
    box: _Box | None = None
    if condition is not None:
        box = {} if condition in inside.conditions else _box_of(condition, points.sizes, ranges)
    both = None if box is None else _intersection(inside.box, box, points.sizes, ranges)
    if condition is None or rest is None or both is None:
        yield inside
        return
    if box:
        yield from _parts(points, _Part(inside.box, rest, inside.conditions), argument, there, ranges)
        there = None if there is None and points.is_old(rest, argument) else rest
    part = _Part(both, chosen, inside.conditions | {condition, *_conjuncts(condition)})
    if chosen is value:
        yield part
    else:
        yield from _parts(points, part, argument, there, ranges)


def _conjuncts(condition: SSAValue) -> list[SSAValue]:
    owner = condition.owner
    if isinstance(owner, elem.TableOp) and owner.row.name == "and":
        return [one for operand in owner.operands for one in (operand, *_conjuncts(operand))]
    return []


def _box_of(condition: SSAValue, sizes: Mapping[SSAValue, sym.IndexExpr], ranges: sym.SymbolRanges) -> _Box | None:
    """Where a condition on indices holds; None when it is not on each axis by itself."""
    box: _Box = {}
    leaves = [one for one in (condition, *_conjuncts(condition)) if not _conjuncts(one)]
    for leaf in leaves:
        found = _comparison(leaf, sizes)
        joint = None if found is None else _intersection(box, found, sizes, ranges)
        if joint is None:
            return None
        box = joint
    return box


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}


def _comparison(condition: SSAValue, sizes: Mapping[SSAValue, sym.IndexExpr]) -> _Box | None:
    """index < bound, and its like, as a range of the axis."""
    op = condition.owner
    if not isinstance(op, elem.TableOp) or op.row.name not in _MIRRORED:
        return None
    kind, (index, bound) = op.row.name, op.operands
    if _number(index) is not None:
        kind, index, bound = _MIRRORED[kind], bound, index
    limit, place = _number(bound), index.owner
    if limit is None:
        return None
    if (own := _number(index)) is not None:  # of an axis with one element, say
        is_true = own == limit if kind == "eq" else None
        return {} if is_true else None
    if not isinstance(place, loops.IndexOp) or index.type != i64:
        return None
    axis = _axis_of(place.map.results[0], place.indices)
    if axis is None or axis not in sizes:
        return None
    size = sizes[axis]
    bounds: dict[str, _Bounds] = {
        "lt": (0, limit),
        "le": (0, limit + 1),
        "ge": (limit, size),
        "gt": (limit + 1, size),
        "eq": (limit, limit + 1),
    }
    return {axis: bounds[kind]}


def _number(value: SSAValue) -> sym.IndexExpr | None:
    """An integer that is the same at every point."""
    owner = value.owner
    if value.type != i64:
        return None
    if isinstance(owner, elem.ConstantOp):
        return int(owner.value)
    if isinstance(owner, loops.IndexOp) and not owner.indices:
        return owner.map.results[0]
    return None


def _intersection(
    one: _Box, other: _Box, sizes: Mapping[SSAValue, sym.IndexExpr], ranges: sym.SymbolRanges
) -> _Box | None:
    """The elements of both, if their ends can be compared, and are within the axes."""
    found = dict(one)
    for axis, (low, high) in other.items():
        first, last = found.get(axis, (0, sizes[axis]))
        begin, end = _greatest(first, low, ranges), _least(last, high, ranges)
        if begin is None or end is None:
            return None
        if not _at_most(begin, end, ranges):
            if not _at_most(end, begin, ranges):
                return None
            end = begin
        found[axis] = begin, end
    return found


def _greatest(a: sym.IndexExpr, b: sym.IndexExpr, ranges: sym.SymbolRanges) -> sym.IndexExpr | None:
    return b if _at_most(a, b, ranges) else a if _at_most(b, a, ranges) else None


def _least(a: sym.IndexExpr, b: sym.IndexExpr, ranges: sym.SymbolRanges) -> sym.IndexExpr | None:
    return a if _at_most(a, b, ranges) else b if _at_most(b, a, ranges) else None


def _at_most(a: sym.IndexExpr, b: sym.IndexExpr, ranges: sym.SymbolRanges) -> bool:
    return sym.prove_less_equal(a, b, (), ranges)


def _leaves_enough(points: _Points, parts: list[_Part]) -> bool:
    """Whether enough elements are in no part. What only a call knows counts as little."""
    every = sym.product_of(tuple(points.sizes.values()))
    changed: sym.IndexExpr = 0
    for part in parts:
        changed = changed + sym.product_of(tuple(_size(part, axis, size) for axis, size in points.sizes.items()))
    if not isinstance(every, int) or not isinstance(changed, int):
        return bool(parts)
    return bool(parts) and changed * _LARGEST_PART <= every


def _size(part: _Part, axis: SSAValue, size: sym.IndexExpr) -> sym.IndexExpr:
    low, high = part.box.get(axis, (0, size))
    return high - low


# -- nests -------------------------------------------------------------------------------------------------------------


def _needed(part: _Part) -> list[Operation]:
    """What computes the value of a part, in order. What is for other parts only is left out."""
    needed: dict[Operation, None] = {}
    work: list[tuple[Operation, bool]] = [(owner, False) for owner in _owners([part.value])]
    while work:
        op, is_ready = work.pop()
        if is_ready:
            needed[op] = None
        elif op not in needed:
            work.append((op, True))
            work += [(owner, False) for owner in _owners(_operands_in(op, part.conditions))]
    return list(needed)


def _owners(values: Sequence[SSAValue]) -> list[Operation]:
    """The ops of the nest that give the values."""
    owners = [value.owner for value in values]
    return [owner for owner in owners if isinstance(owner, Operation) and isinstance(owner.parent_op(), loops.DomainOp)]


def _operands_in(op: Operation, conditions: frozenset[SSAValue]) -> list[SSAValue]:
    """What an op reads where the conditions are true."""
    if isinstance(op, elem.SelectOp) and op.operands[0] in conditions:
        return [op.operands[1]]
    if isinstance(op, loops.LoadOp) and op.rest and op.rest[0] in conditions:
        return list(op.operands[: len(op.operands) - 2])
    return list(op.operands)


def _copy_of(argument: SSAValue, nest: loops.NestOp) -> SSAValue:
    """What is to be changed: the argument's elements, in memory that a nest may take over."""
    store = stores_of(nest)[0]
    rank = len(store.map.results)
    sizes = sizes_of(tensor_type_of(argument))
    copy = loops.NestOp.build(sizes, [argument.type])
    dims = [sym.dim(k) for k in range(rank)]
    load = loops.LoadOp.build(argument, dims, copy.induction_variables)
    kept = loops.StoreOp.build(load.result, copy.handles[0], dims, copy.induction_variables)
    copy.body.add_ops([load, kept])
    copy.location = load.location = kept.location = store.location
    Rewriter.insert_op(copy, InsertPoint.before(nest))
    return copy.results[0]


def _update_of(
    before: SSAValue, points: _Points, part: _Part, ops: list[Operation], argument: SSAValue
) -> loops.NestOp:
    """The nest that changes one part of what is there `before`."""
    nest, store = points.nest, points.store
    sizes = [_size(part, axis, size) for axis, size in points.sizes.items()]
    made = loops.NestOp.build(sizes, [before.type], [before])
    substitution = Substitution(made.induction_variables)
    for old, new in zip(points.sizes, made.induction_variables, strict=True):
        substitution.set_index(old, substitution.axis(new) + part.box.get(old, (0, 0))[0])
        new.name_hint = old.name_hint
    handle = made.handles[0]
    for op in ops:
        if isinstance(op, elem.SelectOp) and op.operands[0] in part.conditions:
            substitution.values[op.results[0]] = substitution.value(op.operands[1])
            continue
        if isinstance(op, loops.LoadOp):
            source = handle if op.source is argument else substitution.value(op.source)
            is_whole = bool(op.rest) and op.rest[0] in part.conditions
            rest = () if is_whole else [substitution.value(one) for one in op.rest]
            indices = substitution.expressions(op.map.results, op.indices)
            new_op: Operation = loops.LoadOp.build(source, indices, substitution.axes, *rest)
            new_op.location = op.location
            substitution.values[op.result] = new_op.results[0]
        else:
            new_op = clone_op(op, substitution)
        made.body.add_op(new_op)
        for old_result, new_result in zip(op.results, new_op.results, strict=True):
            new_result.name_hint = old_result.name_hint
    scan = loops.ScanOp.build((1,))
    written = substitution.expressions(store.map.results, store.indices)
    change = loops.CombineOp.build("assign", substitution.value(part.value), handle, written, substitution.axes)
    scan.body.add_op(change)
    made.body.add_op(scan)
    made.location = scan.location = change.location = store.location
    Rewriter.insert_op(made, InsertPoint.before(nest))
    return made


__all__ = ["NarrowUpdatesPass"]
