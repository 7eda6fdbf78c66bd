"""Gathers, insertions of one tensor into another, padding and concatenation.

They move elements as they are stored: f16 and bf16 are not widened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Nest, Rule, compute_type, decline
from cuesta.lowering.aten.operands import (
    Sizes,
    dim_argument,
    element_of,
    normalize_dim,
    number_argument,
    sizes_of_value,
)
from cuesta.lowering.aten.pointwise import broadcast_indices
from cuesta.lowering.aten.scalar import Scalar
from cuesta.lowering.aten.storages import keeping_storage
from cuesta.lowering.aten.view_maps import position_from_start, slice_start
from cuesta.transforms.loops.concatenations import MOST_SELECTED

IndexList = list[sym.IndexExpr]

PieceOf = Callable[[LoopBuilder, Nest], tuple[Scalar | None, IndexList]]
"""Where an index of the result lies in the piece, and whether it does; None: always."""

_MOST_SIDE_BY_SIDE = 4
"""So many inputs of a single column are written by one point, which `unroll` of fusion can go on from."""


def _one_out(op: AtenCall, builder: LoopBuilder) -> AbstractContextManager[Nest]:
    return builder.nest(sizes_of_value(op.results[0]), [op.results[0].type])


def load_as_stored(builder: LoopBuilder, tensor: SSAValue, index: IndexList, element: Attribute) -> Scalar:
    """An element as it is stored, or converted when the result is of another type."""
    value = builder.load_raw(tensor, index)
    return value if value.type == element else value.convert(compute_type(value.type)).convert(element)


# -- gathers -----------------------------------------------------------------------------------------------------------


def _embedding(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    weight, indices = op.tensor("weight"), op.tensor("indices")
    rows = sizes_of_value(weight)[0]
    with _one_out(op, builder) as nest:
        row = builder.bound(builder.load(indices, nest.indices[:-1]), rows, wrap=False)
        builder.store(builder.load_raw(weight, [row, nest.indices[-1]]), nest.handles[0], nest.indices)
    return nest.results


def _index_select(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, index = op.tensor("self"), op.tensor("index")
    sizes = sizes_of_value(source)
    dim = dim_argument(op, "dim", len(sizes)) if sizes else 0
    with _one_out(op, builder) as nest:
        place = list(nest.indices)
        position = builder.load(index, (place[dim : dim + 1] or [0]) if sizes_of_value(index) else [])
        bound = builder.bound(position, sizes[dim] if sizes else 1, wrap=False)
        if sizes:
            place[dim] = bound
        builder.store(builder.load_raw(source, place), nest.handles[0], nest.indices)
    return nest.results


def _gather(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, index = op.tensor("self"), op.tensor("index")
    sizes = sizes_of_value(source)
    dim = dim_argument(op, "dim", len(sizes)) if sizes else 0
    with _one_out(op, builder) as nest:
        # What has no dims is in the place of what has one, of one element.
        place = list(nest.indices) or [0] if sizes else []
        bound = builder.bound(builder.load(index, nest.indices), sizes[dim] if sizes else 1, wrap=False)
        if sizes:
            place[dim] = bound
        builder.store(builder.load_raw(source, place), nest.handles[0], nest.indices)
    return nest.results


def broadcast_sizes(shapes: Sequence[Sizes]) -> Sizes:
    """The sizes that shapes broadcast to."""
    rank = max(len(shape) for shape in shapes)
    result: IndexList = [1] * rank
    for shape in shapes:
        for k, size in enumerate(shape):
            if size != 1:
                result[rank - len(shape) + k] = size
    return tuple(result)


def _index(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """x[:, i, :, j]: where the index tensors stand together their dims take their place, otherwise they come first."""
    source, given = op.tensor("self"), op.tensors("indices")
    sizes = sizes_of_value(source)
    indices = [*given, *[None] * (len(sizes) - len(given))]
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    tensors = [index for index in indices if index is not None]
    if not tensors or any(kind_of(element_of(index)) != "i" for index in tensors):
        decline("an index is a mask, whose result has a size that only the data knows")
    shapes = [sizes_of_value(index) for index in tensors]
    shared = broadcast_sizes(shapes)
    adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    first = indexed[0] if adjacent else 0
    with _one_out(op, builder) as nest:
        block = nest.indices[first : first + len(shared)]
        rest = iter([*nest.indices[:first], *nest.indices[first + len(shared) :]])
        place: IndexList = []
        for dim, index in enumerate(indices):
            if index is None:
                place.append(next(rest))
            else:
                position = builder.load(index, broadcast_indices(sizes_of_value(index), shared, block))
                place.append(builder.bound(position, sizes[dim], wrap=True))
        builder.store(builder.load_raw(source, place), nest.handles[0], nest.indices)
    return nest.results


# -- one tensor put into another ---------------------------------------------------------------------------------------


def _insert(
    op: AtenCall, builder: LoopBuilder, piece: SSAValue, base: SSAValue | None, place_of_piece: PieceOf
) -> Sequence[SSAValue]:
    """The piece where its mask holds, elsewhere the base (or 0)."""
    element = element_of(op.results[0])
    with _one_out(op, builder) as nest:
        mask, place = place_of_piece(builder, nest)
        if mask is None:
            value = load_as_stored(builder, piece, place, element)
        else:
            around = builder.constant(0, element) if base is None else builder.load_raw(base, nest.indices)
            if element_of(piece) != element:
                decline("the piece is of another type")
            value = builder.load_raw(piece, place, mask, around)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


def _select_insert(op: AtenCall, builder: LoopBuilder, piece: SSAValue, base: SSAValue | None) -> Sequence[SSAValue]:
    sizes = sizes_of_value(op.results[0])
    dim = dim_argument(op, "dim", len(sizes))
    position = position_from_start(op, op.index("index"), sizes[dim])

    def place(builder: LoopBuilder, nest: Nest) -> tuple[Scalar | None, IndexList]:
        mask = builder.index(nest.indices[dim]).eq(builder.index(position))
        return mask, [index for k, index in enumerate(nest.indices) if k != dim]

    return _insert(op, builder, piece, base, place)


def _diagonal_insert(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The piece has the other dims first, and the place on the diagonal last."""
    rank, offset = len(sizes_of_value(op.results[0])), op.index("offset")
    if not isinstance(offset, int):
        decline("a symbolic offset")
    row, column = dim_argument(op, "dim1", rank), dim_argument(op, "dim2", rank)

    def place(builder: LoopBuilder, nest: Nest) -> tuple[Scalar | None, IndexList]:
        mask = builder.index(nest.indices[column] - nest.indices[row]).eq(offset)
        along = nest.indices[row if offset >= 0 else column]
        return mask, [*[index for k, index in enumerate(nest.indices) if k not in (row, column)], along]

    return _insert(op, builder, op.tensor("src"), op.tensor("self"), place)


def _slice_insert(op: AtenCall, builder: LoopBuilder, piece: SSAValue, base: SSAValue | None) -> Sequence[SSAValue]:
    sizes, step = sizes_of_value(op.results[0]), op.index("step")
    dim = dim_argument(op, "dim", len(sizes))
    start, length = slice_start(op, sizes[dim]), sizes_of_value(piece)[dim]

    def place(builder: LoopBuilder, nest: Nest) -> tuple[Scalar | None, IndexList]:
        offset = nest.indices[dim] - start
        inside = list(nest.indices)
        inside[dim] = offset // step if step != 1 else offset
        mask = in_range(builder, nest.indices[dim], start, start + length * step, sizes[dim])
        if step != 1:
            mask = intersect(mask, builder.index(offset % step).eq(0))
        return mask, inside

    return _insert(op, builder, piece, base, place)


def intersect(a: Scalar | None, b: Scalar | None) -> Scalar | None:
    """Both conditions; None is the one that always holds."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def in_range(
    builder: LoopBuilder,
    index: sym.IndexExpr,
    start: sym.IndexExpr,
    end: sym.IndexExpr,
    size: sym.IndexExpr | None = None,
) -> Scalar | None:
    """start ≤ index < end; with `size`, the index is known to be in [0, size), and None means that it always holds."""
    after = before = None
    if size is None or not isinstance(start, int) or start > 0:
        after = builder.index(index) >= builder.index(start)
    distance = None if size is None else end - size
    if not isinstance(distance, int) or distance < 0:
        before = builder.index(index) < builder.index(end)
    return intersect(after, before)


def _pad(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, pad, value = op.tensor("self"), op.indices("pad"), number_argument(op, "value")
    sizes = sizes_of_value(source)
    rank = len(sizes)
    with _one_out(op, builder) as nest:
        place = list(nest.indices)
        mask: Scalar | None = None
        for k in range(len(pad) // 2):
            dim, before, after = rank - 1 - k, pad[2 * k], pad[2 * k + 1]
            end = before + sizes[dim]
            mask = intersect(mask, in_range(builder, place[dim], before, end, end + after))
            place[dim] = place[dim] - before
        other = builder.constant(value, element_of(source))
        builder.store(builder.load_raw(source, place, mask, other), nest.handles[0], nest.indices)
    return nest.results


# -- concatenation -----------------------------------------------------------------------------------------------------


def _concatenate(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    sizes, element = sizes_of_value(op.results[0]), element_of(op.results[0])
    # Eager lets 1-d tensors without elements join anything.
    tensors = [tensor for tensor in op.tensors("tensors") if tensor is not None and sizes_of_value(tensor) != (0,)]
    dim = dim_argument(op, "dim", len(sizes))
    starts: IndexList = [0]
    for tensor in tensors:
        starts.append(starts[-1] + sizes_of_value(tensor)[dim])
    thin = all(sizes_of_value(tensor)[dim] == 1 for tensor in tensors)
    if thin and 1 < len(tensors) <= _MOST_SIDE_BY_SIDE and dim == len(sizes) - 1:
        return _write_side_by_side(op, builder, tensors)
    if not tensors or len(tensors) > MOST_SELECTED or any(element_of(tensor) != element for tensor in tensors):
        return _write_one_after_the_other(op, builder, tensors, starts, dim)
    with _one_out(op, builder) as nest:
        value: Scalar = builder.constant(0, element)
        for tensor, start, end in reversed(list(zip(tensors, starts, starts[1:], strict=False))):
            place = list(nest.indices)
            place[dim] = place[dim] - start
            mask = in_range(builder, nest.indices[dim], start, end, sizes[dim])
            value = builder.load_raw(tensor, place, mask, value)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


def _write_side_by_side(op: AtenCall, builder: LoopBuilder, tensors: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """One element of each at every point: fusion goes on with each of them by itself."""
    sizes, element = sizes_of_value(op.results[0]), element_of(op.results[0])
    with builder.nest(sizes[:-1], [op.results[0].type]) as nest:
        for position, tensor in enumerate(tensors):
            value = load_as_stored(builder, tensor, [*nest.indices, 0], element)
            builder.store(value, nest.handles[0], [*nest.indices, position])
    return nest.results


def _write_one_after_the_other(
    op: AtenCall, builder: LoopBuilder, tensors: Sequence[SSAValue], starts: IndexList, dim: int
) -> Sequence[SSAValue]:
    sizes, element = sizes_of_value(op.results[0]), element_of(op.results[0])
    with builder.nest((*sizes[:dim], *sizes[dim + 1 :]), [op.results[0].type]) as nest:
        for tensor, start in zip(tensors, starts, strict=False):
            with builder.loop([sizes_of_value(tensor)[dim]]) as (along,):
                place = [*nest.indices[:dim], along, *nest.indices[dim:]]
                target = [*nest.indices[:dim], along + start, *nest.indices[dim:]]
                builder.store(load_as_stored(builder, tensor, place, element), nest.handles[0], target)
    return nest.results


def _stack(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    sizes, element = sizes_of_value(op.results[0]), element_of(op.results[0])
    dim = normalize_dim(op.integer("dim"), len(sizes))
    with builder.nest((*sizes[:dim], *sizes[dim + 1 :]), [op.results[0].type]) as nest:
        for position, tensor in enumerate(op.tensors("tensors")):
            assert tensor is not None, "stack takes no None"
            target = [*nest.indices[:dim], position, *nest.indices[dim:]]
            builder.store(load_as_stored(builder, tensor, list(nest.indices), element), nest.handles[0], target)
    return nest.results


RULES: dict[str, Rule] = {
    "aten.embedding.default": _embedding,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.select_scatter.default": keeping_storage(
        lambda op, b: _select_insert(op, b, op.tensor("src"), op.tensor("self"))
    ),
    "aten.slice_scatter.default": keeping_storage(
        lambda op, b: _slice_insert(op, b, op.tensor("src"), op.tensor("self"))
    ),
    "aten.diagonal_scatter.default": keeping_storage(_diagonal_insert),
    "aten.select_backward.default": lambda op, b: _select_insert(op, b, op.tensor("grad_output"), None),
    "aten.slice_backward.default": lambda op, b: _slice_insert(op, b, op.tensor("grad_output"), None),
    "aten.constant_pad_nd.default": _pad,
    "aten.cat.default": _concatenate,
    "aten.stack.default": _stack,
}
"""Gathers, insertions, padding and concatenation. Scatters are left to the library."""
