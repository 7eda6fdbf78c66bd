"""View-like ops: each becomes `loops.view` by the map from an index of the result to one of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import is_contiguous, sizes_of, strides_of
from cuesta.lowering.loops_from_aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.loops_from_aten.operands import (
    Sizes,
    dim_argument,
    normalize_dim,
    sizes_of_value,
    tensor_type_of,
)

IndexList = list[sym.IndexExpr]
MapOf = Callable[[AtenCall, Sizes, Sizes], Sequence[sym.IndexExpr]]
"""From the call, the source's sizes and the result's sizes to the source's index, over the dims of the result."""


def _dims(rank: int) -> IndexList:
    return [sym.dim(k) for k in range(rank)]


def _one_view(map_of: MapOf) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source = op.operands[0]
        result = tensor_type_of(op.results[0])
        return [builder.view(source, map_of(op, sizes_of_value(source), tuple(sizes_of(result))), result)]

    return lower


def _same(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, result = op.operands[0], tensor_type_of(op.results[0])
    if tensor_type_of(source).element_type != result.element_type:
        decline("the bits are read as another type")
    return [builder.view(source, _dims(len(result.get_shape())), result)]


# -- reshapes ----------------------------------------------------------------------------------------------------------


def reshape_map(source: Sizes, result: Sizes) -> IndexList:
    """result[d] = source[delinearize(linearize(d))], by groups of dims with equal products: few floordivs appear."""
    indices: IndexList = []
    start_in = start_out = 0
    while start_in < len(source) or start_out < len(result):
        end_in, end_out = _next_group(source, result, start_in, start_out)
        indices += _reshape_group(source[start_in:end_in], result[start_out:end_out], start_out, result)
        start_in, start_out = end_in, end_out
    return indices


def _next_group(source: Sizes, result: Sizes, start_in: int, start_out: int) -> tuple[int, int]:
    """The ends of the shortest groups of dims from here that have the same number of elements."""
    # Sizes of 1 are groups of their own, so that they end up as the constant 0 and part no others.
    if start_in < len(source) and source[start_in] == 1:
        return start_in + 1, start_out
    if start_out < len(result) and result[start_out] == 1:
        return start_in, start_out + 1
    if start_in == len(source) or start_out == len(result):
        return len(source), len(result)
    products: dict[sym.IndexExpr, int] = {}
    product: sym.IndexExpr = 1
    for end_in in range(start_in, len(source)):
        product = product * source[end_in]
        products.setdefault(product, end_in + 1)
    product = 1
    for end_out in range(start_out, len(result)):
        product = product * result[end_out]
        if product in products:
            return products[product], end_out + 1
    return len(source), len(result)


def _reshape_group(source: Sizes, result: Sizes, first_dim: int, sizes: Sizes) -> IndexList:
    if not source:
        return []
    dims = [sym.dim(first_dim + k) for k in range(len(result))]
    if len(source) == 1 and len(result) == 1:
        return list(dims)
    linear = sym.linearize(dims, result)
    if len(source) == 1:
        return [linear]
    return [sym.simplify(e, sizes) for e in sym.delinearize(linear, source)]


def _reshape(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    if 0 in result:
        return [0] * len(source)
    return reshape_map(source, result)


# -- permutations ------------------------------------------------------------------------------------------------------


def _permuted(order: Sequence[int]) -> IndexList:
    """The map of result dim k = source dim order[k]."""
    indices: IndexList = [0] * len(order)
    for k, source_dim in enumerate(order):
        indices[source_dim] = sym.dim(k)
    return indices


def _permute(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    return _permuted([normalize_dim(dim, len(source)) for dim in op.integers("dims")])


def _transpose(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    order = list(range(len(source)))
    if order:
        a, b = dim_argument(op, "dim0", len(source)), dim_argument(op, "dim1", len(source))
        order[a], order[b] = order[b], order[a]
    return _permuted(order)


def _reverse_dims(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    return _permuted(list(range(len(source)))[::-1])


def _movedim(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    rank = len(source)
    origins = [normalize_dim(dim, rank) for dim in op.integers("source")]
    targets = [normalize_dim(dim, rank) for dim in op.integers("destination")]
    order = dict(zip(targets, origins, strict=True))
    rest = iter([dim for dim in range(rank) if dim not in origins])
    return _permuted([order[k] if k in order else next(rest) for k in range(rank)])


# -- dims of size one, broadcasts -------------------------------------------------------------------------------------


def _expand(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    offset = len(result) - len(source)
    return [0 if size == 1 else sym.dim(offset + k) for k, size in enumerate(source)]


def _unsqueeze(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    new = normalize_dim(op.integer("dim"), len(result))
    return [sym.dim(k if k < new else k + 1) for k in range(len(source))]


def _squeezed(source: Sizes, candidates: set[int]) -> IndexList:
    indices: IndexList = []
    kept = 0
    for k, size in enumerate(source):
        if k in candidates and size == 1:
            indices.append(0)
        else:
            indices.append(sym.dim(kept))
            kept += 1
    return indices


def _squeeze(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    if not op.has_argument("dim"):
        return _squeezed(source, set(range(len(source))))
    return _squeezed(source, {normalize_dim(dim, len(source)) for dim in op.integers("dim")})


# -- parts -------------------------------------------------------------------------------------------------------------


def position_from_start(position: sym.IndexExpr, size: sym.IndexExpr) -> sym.IndexExpr:
    """A position that counts from the end when it is negative, as one from the start."""
    if isinstance(position, int):
        return position if position >= 0 else size + position
    signs = {coefficient > 0 for _, coefficient in position.terms}
    if signs == {True} and position.constant >= 0:
        return position
    if signs == {False} and position.constant <= 0:
        return size + position
    decline(f"{position} may be negative or not")


def slice_start(op: AtenCall, size: sym.IndexExpr) -> sym.IndexExpr:
    """The first position of a slice; beyond the end only when the slice is empty."""
    argument = op.argument("start")
    if argument is None:
        return 0
    start = position_from_start(op.index("start"), size)
    # A start before the beginning is the beginning.
    return max(start, 0) if isinstance(start, int) else start if argument == start else sym.maximum(start, 0)


def _slice(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    dim = dim_argument(op, "dim", len(source))
    indices = _dims(len(source))
    indices[dim] = sym.dim(dim) * op.index("step") + slice_start(op, source[dim])
    return indices


def _narrow(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    dim = dim_argument(op, "dim", len(source))
    indices = _dims(len(source))
    indices[dim] = sym.dim(dim) + position_from_start(op.index("start"), source[dim])
    return indices


def _selected(rank: int, dim: int, position: sym.IndexExpr) -> IndexList:
    return [position if k == dim else sym.dim(k if k < dim else k - 1) for k in range(rank)]


def _select(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    dim = dim_argument(op, "dim", len(source))
    return _selected(len(source), dim, position_from_start(op.index("index"), source[dim]))


def _unbind(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.operands[0]
    rank = len(sizes_of_value(source))
    dim = dim_argument(op, "dim", rank)
    return [builder.view(source, _selected(rank, dim, k), result.type) for k, result in enumerate(op.results)]


def _pieces(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """split, split_with_sizes, chunk: consecutive pieces of one dim, whose sizes the results say."""
    source = op.operands[0]
    rank = len(sizes_of_value(source))
    dim = dim_argument(op, "dim", rank)
    values: list[SSAValue] = []
    start: sym.IndexExpr = 0
    for result in op.results:
        indices = _dims(rank)
        indices[dim] = sym.dim(dim) + start
        values.append(builder.view(source, indices, result.type))
        start = start + sizes_of_value(result)[dim]
    return values


# -- rearrangements ----------------------------------------------------------------------------------------------------


def _flip(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    flipped = {normalize_dim(dim, len(source)) for dim in op.integers("dims")}
    return [size - 1 - sym.dim(k) if k in flipped else sym.dim(k) for k, size in enumerate(source)]


def _roll(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    shifts, dims = op.indices("shifts"), op.integers("dims")
    if 0 in source:
        return [0] * len(source)
    if not dims:
        linear = sym.linearize(_dims(len(source)), source)
        count = sym.product_of(source)
        rolled = (linear - shifts[0]) % count
        return [sym.simplify(e, source) for e in sym.delinearize(rolled, source)]
    indices = _dims(len(source))
    for shift, dim in zip(shifts, dims, strict=True):
        dim = normalize_dim(dim, len(source))
        indices[dim] = (indices[dim] - shift) % source[dim]
    return indices


def _repeat(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    offset = len(result) - len(source)
    if 0 in source:
        return [0] * len(source)
    return [
        0 if size == 1 else sym.dim(offset + k) if size == result[offset + k] else sym.dim(offset + k) % size
        for k, size in enumerate(source)
    ]


def _diagonal(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    rank = len(source)
    a, b = dim_argument(op, "dim1", rank), dim_argument(op, "dim2", rank)
    offset = op.integer("offset")
    rest = iter(range(rank - 2))
    along = sym.dim(rank - 2)
    return [
        along + max(-offset, 0) if k == a else along + max(offset, 0) if k == b else sym.dim(next(rest))
        for k in range(rank)
    ]


def _unfold(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    if not source:
        return []
    dim = dim_argument(op, "dimension", len(source))
    indices = _dims(len(source))
    indices[dim] = sym.dim(dim) * op.index("step") + sym.dim(len(source))
    return indices


def _as_strided(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, result = op.operands[0], tensor_type_of(op.results[0])
    source_type = tensor_type_of(source)
    strides = op.indices("stride")
    offset = 0 if op.argument("storage_offset") is None else op.index("storage_offset")
    sizes, source_sizes = sizes_of(result), sizes_of(source_type)
    if sizes == source_sizes and strides == strides_of(source_type) and offset == 0 and _owns_storage(source):
        return [builder.view(source, _dims(len(sizes)), result)]
    # The offset counts from the start of the storage, which is known only when nothing else can share it.
    if not is_contiguous(source_type) or not _owns_storage(source):
        decline("the source is not known to fill its storage in order")
    if 0 in sizes:
        return [builder.view(source, [0] * len(source_sizes), result)]
    last: sym.IndexExpr = offset
    address: sym.IndexExpr = offset
    for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        address = address + sym.dim(k) * stride
        last = last + (size - 1) * stride
    if not sym.prove_less_equal(last + 1, sym.product_of(source_sizes), sizes):
        decline("it is not known to stay within the source")
    indices = [sym.simplify(e, sizes) for e in sym.delinearize(address, source_sizes)]
    return [builder.view(source, indices, result)]


def _owns_storage(value: SSAValue) -> bool:
    return isinstance(value, OpResult) and isinstance(value.owner, loops.NestOp) and isinstance(value.type, TensorType)


def _rules(rules: dict[str, MapOf]) -> dict[str, Rule]:
    return {f"aten.{name}": _one_view(map_of) for name, map_of in rules.items()}


RULES: dict[str, Rule] = {
    **_rules(
        {
            "view.default": _reshape,
            "_unsafe_view.default": _reshape,
            "reshape.default": _reshape,
            "_reshape_alias.default": _reshape,
            "view_as.default": _reshape,
            "flatten.using_ints": _reshape,
            "unflatten.int": _reshape,
            "permute.default": _permute,
            "transpose.int": _transpose,
            "swapaxes.default": _transpose,
            "t.default": _reverse_dims,
            "numpy_T.default": _reverse_dims,
            "movedim.intlist": _movedim,
            "movedim.int": _movedim,
            "expand.default": _expand,
            "expand_as.default": _expand,
            "broadcast_to.default": _expand,
            "unsqueeze.default": _unsqueeze,
            "squeeze.default": _squeeze,
            "squeeze.dim": _squeeze,
            "squeeze.dims": _squeeze,
            "slice.Tensor": _slice,
            "narrow.default": _narrow,
            "select.int": _select,
            "flip.default": _flip,
            "roll.default": _roll,
            "repeat.default": _repeat,
            "diagonal.default": _diagonal,
            "unfold.default": _unfold,
        }
    ),
    **{
        f"aten.{name}": _pieces
        for name in ("split.Tensor", "split_with_sizes.default", "chunk.default", "unsafe_split.Tensor")
    },
    "aten.unsafe_split_with_sizes.default": _pieces,
    "aten.unsafe_chunk.default": _pieces,
    "aten.unbind.int": _unbind,
    "aten.as_strided.default": _as_strided,
    **{
        f"aten.{name}": _same
        for name in ("detach.default", "alias.default", "lift_fresh.default", "lift_fresh_copy.default", "view.dtype")
    },
}
"""Every view-like overload. What reads the bits as another type (`view_as_real`) has no row."""
