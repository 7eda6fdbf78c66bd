"""The nests around a library product that may be computed with it: who reads its result, and who gives its factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, is_pointwise, loads_of
from cuesta.transforms.products.pieces import pieces_of, points_of


def static(sizes: Sequence[sym.IndexExpr]) -> tuple[int, ...]:
    """Sizes that are known to be numbers."""
    return tuple(size for size in sizes if isinstance(size, int))


def consumer_of(
    result: SSAValue, positions: dict[Operation, int], taken: set[loops.NestOp]
) -> tuple[loops.NestOp | None, bool]:
    """The first user, if it is a pointwise nest that reads every element once, or each of a part when nobody reads the
    rest; and whether there are other users.
    """
    users: dict[Operation, None] = {}
    for use in result.uses:
        top: Operation = use.operation
        while top not in positions:
            parent = top.parent_op()
            assert parent is not None
            top = parent
        users[top] = None
    first = min(users, key=positions.__getitem__)
    if not isinstance(first, loops.NestOp) or first in taken or first.operands or not is_pointwise(first):
        return None, False
    loads = [load for load in loads_of(first) if load.source is result]
    if any(load.mask is not None or load.map != loads[0].map or load.indices != loads[0].indices for load in loads):
        return None, False
    if len(users) == 1 and reads_a_part(first, loads[0]):
        return first, False
    once = reads_each_once(first.induction_variables, first.sizes, loads[0])
    return (first, len(users) > 1) if once else (None, False)


def mixes_axes(consumer: loops.NestOp, product: SSAValue) -> bool:
    """Whether no axis of a nest that reads a product of matrices is of its rows only, or none of its columns only:
    heads and their columns may be one axis. A tile has rows and columns.
    """
    load = next(load for load in loads_of(consumer) if load.source is product)
    *others, rows, columns = (sym.dims_of(one) for one in load.map.results)
    around = frozenset[int]().union(*others)
    return not rows - columns - around or not columns - rows - around


def producer_of(factor: SSAValue, *, contracts: bool = False) -> loops.NestOp | None:
    """The pointwise nest that computes a factor, perhaps viewed, for this use alone. Where there are contractions, it
    may read by indices that are data, and may store several elements at a point.
    """
    while factor.has_one_use() and isinstance(view := factor.owner, loops.ViewOp):
        factor = view.source
    nest = factor.owner
    if not isinstance(nest, loops.NestOp) or not factor.has_one_use():
        return None
    if stores_in_order(nest, by_data=contracts):
        return nest
    return nest if contracts and pieces_of(nest) is not None else None


def stores_in_order(nest: loops.NestOp, *, by_data: bool = False) -> bool:
    """Whether a nest is pointwise and gives one tensor, each point the element of its own indices. It may read
    `by_data`, and compute what its rows share before their points, only if that is said.
    """
    points = points_of(nest)
    if points is None or len(nest.results) != 1 or nest.operands or not (by_data or is_pointwise(nest)):
        return False
    if not by_data and any(isinstance(op, loops.BoundOp) for op in nest.body.ops):
        return False
    users = [use.operation for use in nest.handles[0].uses]
    if len(users) != 1 or not isinstance(store := users[0], loops.StoreOp) or store.mask is not None:
        return False
    substitution = Substitution(points.variables)
    stored = substitution.expressions(store.map.results, store.indices)
    in_order = all(
        e == sym.dim(axis) or (size == 1 and e == 0)
        for axis, (e, size) in enumerate(zip(stored, points.sizes, strict=False))
    )
    return in_order and len(stored) == len(points.sizes)


def varies_along_all(nest: loops.NestOp) -> bool:
    """Whether what a nest of points stores depends on each of its axes: a factor that is the same along one is no
    factor of a contraction. It may still be by its numbers, as the sum of a row of zeros and a column is.
    """
    axes: dict[SSAValue, frozenset[int]] = {}
    points = points_of(nest)
    assert points is not None
    for op in points.ops:
        every = op.rest if isinstance(op, loops.LoadOp) else op.operands
        found = frozenset[int]().union(*(axes.get(operand, ()) for operand in every))
        if isinstance(op, loops.LoadOp | loops.IndexOp):
            kind = tensor_type_of(op.source) if isinstance(op, loops.LoadOp) else None
            strides = (1,) if kind is None else strides_of(kind)
            sizes = (None,) if kind is None else sizes_of(kind)
            substitution = Substitution(points.variables)
            expressions = substitution.expressions(op.map.results, op.indices)
            for index, stride, size in zip(expressions, strides, sizes, strict=True):
                if stride != 0 and size != 1:
                    for dim in sym.dims_of(index):
                        value = substitution.axes[dim]  # an axis of the nest, or data
                        found |= axes.get(value, frozenset([dim]))
        if isinstance(op, loops.StoreOp):
            wanted = {axis for axis, size in enumerate(points.sizes) if size != 1}
            if not wanted <= axes.get(op.value, frozenset()):
                return False
        axes.update(dict.fromkeys(op.results, found))
    return True


def reads_each_once(variables: Sequence[SSAValue], ranges: Sequence[sym.IndexExpr], load: loops.LoadOp) -> bool:
    """Whether the points of a domain read the elements of a tensor, each one once."""
    return weights_of(variables, ranges, load) is not None


def weights_of(variables: Sequence[SSAValue], ranges: Sequence[sym.IndexExpr], load: loops.LoadOp) -> list[int] | None:
    """Of a domain whose points read the elements of a tensor, each one once, by how many elements, in their order, each
    axis goes on: the number of an element has the induction variables for digits. None for another domain.
    """
    sizes = static(ranges)
    tensor = static(sizes_of(tensor_type_of(load.source)))
    if len(sizes) < len(ranges) or math.prod(sizes) != math.prod(tensor):
        return None
    substitution = Substitution(variables)
    address: sym.IndexExpr = 0
    for index, size in zip(substitution.expressions(load.map.results, load.indices), tensor, strict=True):
        address = address * size + index
    if len(substitution.axes) > len(sizes):
        return None  # an index made of data
    address = sym.simplify(address, sizes)
    weights: list[int] = []
    for axis, size in enumerate(sizes):
        stride = sym.coefficient(address, axis) if size > 1 else 1
        if not isinstance(stride, int):
            return None
        weights.append(stride)
    weight = 1
    for stride, size in sorted(zip(weights, sizes, strict=True)):
        if size > 1:
            if stride != weight:
                return None
            weight *= size
    return weights


def reads_a_part(nest: loops.NestOp, load: loops.LoadOp) -> bool:
    """Whether each point of a nest reads the element of its own indices: none twice, but perhaps not every one."""
    if len(nest.sizes) != len(load.map.results):
        return False
    substitution = Substitution(nest.induction_variables)
    read = substitution.expressions(load.map.results, load.indices)
    return all(
        e == sym.dim(axis) or (size == 1 and e == 0)
        for axis, (e, size) in enumerate(zip(read, nest.sizes, strict=True))
    )


__all__ = [
    "consumer_of",
    "mixes_axes",
    "producer_of",
    "reads_a_part",
    "reads_each_once",
    "static",
    "stores_in_order",
    "varies_along_all",
    "weights_of",
]
