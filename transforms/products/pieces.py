"""What nests compute at a point, done again where it is read: of those that store one element, and of those that store
several, as who takes numbers of 4 bits out of bytes does.

    %w = loops.nest (%n : 64, %b : 512) { … store low, %o[%n, %b * 2]; store high, %o[%n, %b * 2 + 1] }
    %w[n, k]  ->  low at (n, k floordiv 2) where k mod 2 is 0, and high there where it is 1

A sum along k of what reads that is two sums, one of each piece: neither asks at its points which one it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, stores_of
from cuesta.dialects.loops.writing import leading_to, load_only_where, type_of_positions

MOST = 8
"""So many elements a point may store.

Source: a definition: a byte has 8 bits.
"""


@struct
class Points:
    """What a nest does at a point, where it has no other domain than one loop at most, which has all of its stores."""

    variables: tuple[SSAValue, ...]
    """Of the nest, and of the loop."""
    sizes: tuple[sym.IndexExpr, ...]
    ops: tuple[Operation, ...]
    """In order, those of the loop in its place."""


def points_of(nest: loops.NestOp) -> Points | None:
    """A nest as points; None where it is more than that."""
    ops = list(nest.body.ops)
    domains = [op for op in ops if isinstance(op, loops.DomainOp)]
    if not domains:
        return Points(tuple(nest.induction_variables), tuple(nest.sizes), tuple(ops))
    loop = domains[0]
    if len(domains) > 1 or not isinstance(loop, loops.ForOp):
        return None
    if any(isinstance(op, loops.DomainOp) for op in loop.body.ops) or any(isinstance(op, loops.StoreOp) for op in ops):
        return None
    place = ops.index(loop)
    ops[place : place + 1] = loop.body.ops
    variables = (*nest.induction_variables, *loop.induction_variables)
    return Points(variables, (*nest.sizes, *loop.sizes), tuple(ops))


@struct
class Pieces:
    """A nest of points whose points store several elements each: its digit `stride` in the place of an element says
    which of the `stores` that is; the other digits are the nest's axes.
    """

    stores: tuple[loops.StoreOp, ...]
    stride: int
    axes: Mapping[SSAValue, tuple[int, int]]
    """Of each axis, its stride and its size: `place // stride % size`."""


@struct
class Cut:
    """Points of a sum, cut into so many interleaved parts that a factor's element is one piece in all of a part."""

    count: int
    stride: int
    """So many points in a row are of one part."""

    def point(self, k: sym.IndexExpr, part: int) -> sym.IndexExpr:
        """Point k of a part, among all."""
        return k // self.stride * (self.stride * self.count) + part * self.stride + k % self.stride


WHOLE = Cut(1, 1)
"""A sum that is one."""


def digits_of(
    place: sym.IndexExpr,
    variables: Sequence[SSAValue],
    sizes: Sequence[int],
    elements: int,
    apart: tuple[int, int] | None = None,
) -> dict[SSAValue, tuple[int, int]] | None:
    """The strides and sizes of axes, of which `place` (over them) is a number in a base: each of so many elements once.
    None where it is none. With `apart`, the stride and the size of a digit that no axis has.
    """
    digits: list[tuple[int, int, SSAValue | None]] = [] if apart is None else [(*apart, None)]
    for axis, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
        stride = sym.coefficient(place, axis) if size > 1 else 1
        if not isinstance(stride, int):
            return None
        digits.append((stride, size, variable))
    weight = 1
    for stride, size, _ in sorted(digits, key=lambda digit: digit[:2]):
        if size > 1:
            if stride != weight:
                return None
            weight *= size
    if weight != elements:
        return None
    return {variable: (stride, size) for stride, size, variable in digits if variable is not None}


def pieces_of(nest: loops.NestOp) -> Pieces | None:
    """How a nest of points that gives one tensor stores several elements at each; None for any other."""
    points = points_of(nest)
    if len(nest.results) != 1 or nest.operands or points is None:
        return None
    stores = stores_of(nest)
    if not 2 <= len(stores) <= MOST or len(list(nest.handles[0].uses)) > len(stores):
        return None
    if any(store.mask is not None or store.target is not nest.handles[0] for store in stores):
        return None
    shape = sizes_of(tensor_type_of(nest.results[0]))
    elements, variables = 1, list(points.variables)
    for size in shape:
        if not isinstance(size, int):
            return None
        elements *= size
    sizes = [size for size in points.sizes if isinstance(size, int)]
    if len(sizes) < len(points.sizes):
        return None
    placed: list[tuple[int, loops.StoreOp]] = []
    first: sym.IndexExpr | None = None
    for store in stores:
        substitution = Substitution(variables)
        place = sym.linearize(substitution.expressions(store.map.results, store.indices), shape)
        if len(substitution.axes) > len(variables):
            return None  # an index made of data
        place = sym.simplify(place, sizes)
        first = place if first is None else first
        offset = sym.simplify(place - first, sizes)
        if not isinstance(offset, int):
            return None
        placed.append((offset, store))
    placed.sort(key=lambda one: one[0])
    stride = placed[1][0] - placed[0][0]
    if any(offset - placed[0][0] != number * stride for number, (offset, _) in enumerate(placed)):
        return None
    assert first is not None
    lowest = sym.simplify(first + placed[0][0], sizes)
    axes = digits_of(lowest, variables, sizes, elements, (stride, len(placed)))
    if axes is None or sym.substitute(lowest, [0] * len(variables)) != 0:
        return None
    return Pieces(tuple(store for _, store in placed), stride, axes)


def cut_of(
    pieces: Pieces,
    shape: Sequence[sym.IndexExpr],
    indices: Sequence[sym.IndexExpr],
    k: int,
    sizes: Sequence[sym.IndexExpr],
) -> Cut | None:
    """How the points of a sum, which are dim `k`, are cut so that the element of index `indices` of what a nest gives
    is one piece in each part; None where the points do not say which piece it is.
    """
    points = sizes[k]
    count = len(pieces.stores)
    place = sym.simplify(sym.linearize(indices, shape), sizes)
    weight = sym.coefficient(place, k)
    if not isinstance(weight, int) or not isinstance(points, int) or weight <= 0 or pieces.stride % weight:
        return None
    found = Cut(count, pieces.stride // weight)
    if points % (found.count * found.stride):
        return None
    smaller = (*sizes[:k], points // count, *sizes[k + 1 :])
    dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(sizes))]
    for part in range(count):
        dims[k] = found.point(sym.dim(k), part)
        if sym.simplify(sym.substitute(place, dims) // pieces.stride % count, smaller) != part:
            return None
    return found


def axes_at(
    producer: loops.NestOp, indices: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]
) -> dict[SSAValue, sym.IndexExpr]:
    """The point of a producer that stores the element of index `indices`, expressions over dims below `sizes`."""
    pieces, points = pieces_of(producer), points_of(producer)
    if pieces is None:
        assert points is not None
        return dict(zip(points.variables, indices, strict=True))
    address = sym.simplify(sym.linearize(indices, sizes_of(tensor_type_of(producer.results[0]))), sizes)
    return {axis: sym.simplify(address // stride % size, sizes) for axis, (stride, size) in pieces.axes.items()}


def computed(
    producer: loops.NestOp,
    indices: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    place: InsertPoint,
    there: SSAValue | None = None,
    *,
    sizes: Sequence[sym.IndexExpr] = (),
    before: InsertPoint | None = None,
) -> SSAValue:
    """Appends a producer's body at one point; gives what it stores there. Where `there` is false the point is beyond
    the places of an image: what varies along these is not read, and what is given has no meaning. The index values
    `axes` stay below `sizes`. Indices that are made of data, but not of what is defined in the block of `place`, are
    read `before`, where that is given.
    """
    substitution = Substitution(axes)
    points = points_of(producer)
    assert points is not None
    ops: Iterable[Operation] = points.ops
    for variable, index in axes_at(producer, indices, sizes).items():
        substitution.set_index(variable, index)
    if (pieces := pieces_of(producer)) is not None:
        address = sym.linearize(indices, sizes_of(tensor_type_of(producer.results[0])))
        digit = sym.simplify(address // pieces.stride % len(pieces.stores), sizes)
        if not isinstance(digit, int):
            return _chosen(pieces, ops, digit, axes, substitution, place, before)
        store = pieces.stores[digit]
        ops = [*leading_to(store.value, list(ops)), store]
    masked: dict[SSAValue, SSAValue] = {}
    if there is not None:
        masked.update((variable, there) for variable in producer.induction_variables[2:])
    return cloned_value(ops, substitution, place, masked, before)


def _chosen(
    pieces: Pieces,
    ops: Iterable[Operation],
    digit: sym.IndexExpr,
    axes: Sequence[SSAValue],
    substitution: Substitution,
    place: InsertPoint,
    before: InsertPoint | None,
) -> SSAValue:
    """Appends what all stores of a point would store, and chooses the one whose number is `digit`."""
    stored: dict[loops.StoreOp, SSAValue] = {}
    for op in ops:
        if isinstance(op, loops.StoreOp):
            stored[op] = substitution.value(op.value)
            continue
        _clone(op, substitution, place)
    kind = type_of_positions(len(pieces.stores))

    def append(op: Operation) -> SSAValue:
        op.location = pieces.stores[0].location
        Rewriter.insert_op(op, place)
        return op.results[0]

    number = append(loops.IndexOp.build(digit, axes, kind))
    value = stored[pieces.stores[-1]]
    for piece in reversed(range(len(pieces.stores) - 1)):
        test = append(elem.make("eq", number, append(elem.constant(piece, kind))))
        chosen = stored[pieces.stores[piece]]
        value = append(elem.SelectOp.create(operands=(test, chosen, value), result_types=(value.type,)))
    return value


def cloned_value(
    ops: Iterable[Operation],
    substitution: Substitution,
    place: InsertPoint,
    masked: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
    before: InsertPoint | None = None,
) -> SSAValue:
    """Clones what leads to a store to a place; gives what would be stored, the last of several. Loads whose place
    depends on an index in `masked` read only where its value there is true. Indices made of data are cloned to `before`
    where nothing of the place is in them.
    """
    ops = list(ops)
    bounds = [op for op in ops if isinstance(op, loops.BoundOp)] if before is not None else []
    indices = {one for bound in bounds for one in leading_to(bound.results[0], ops)}
    stored: SSAValue | None = None
    for op in ops:
        if isinstance(op, loops.StoreOp):
            stored = substitution.value(op.value)
            continue
        there = next((masked[index] for index in getattr(op, "indices", ()) if index in masked), None)
        copy = _clone(op, substitution, place, before if op in indices and there is None else None)
        if there is not None and isinstance(copy, loops.LoadOp):
            substitution.values[op.results[0]] = load_only_where(there, copy)
    assert stored is not None
    return stored


def _clone(
    op: Operation, substitution: Substitution, place: InsertPoint, before: InsertPoint | None = None
) -> Operation:
    """Clones an op to a place, or `before` it where its operands are defined outside of the place's block."""
    copy = clone_op(op, substitution)
    outside = before is not None and all(not _is_in(operand, place.block) for operand in copy.operands)
    Rewriter.insert_op(copy, before if before is not None and outside else place)
    return copy


def _is_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is defined in a block."""
    return (value.owner if isinstance(value.owner, Block) else value.owner.parent) is block


__all__ = [
    "MOST",
    "WHOLE",
    "Cut",
    "Pieces",
    "Points",
    "axes_at",
    "cloned_value",
    "computed",
    "cut_of",
    "digits_of",
    "pieces_of",
    "points_of",
]
