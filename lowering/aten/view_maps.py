"""Where each element of a view lies in its source: index maps of the view-like ops.

A map function takes the call, the source's sizes and the result's sizes, and gives the index into the source as
expressions over the dims of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block

from cuesta.dialects import sym
from cuesta.lowering.aten.builder import AtenCall, decline
from cuesta.lowering.aten.operands import Sizes, dim_argument, normalize_dim

IndexList = list[sym.IndexExpr]


def dims(rank: int) -> IndexList:
    """d0, d1, …"""
    return [sym.dim(k) for k in range(rank)]


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


def view_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """view, reshape and their like."""
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


def permute_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """permute"""
    return _permuted([normalize_dim(dim, len(source)) for dim in op.integers("dims")])


def transpose_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """transpose"""
    order = list(range(len(source)))
    if order:
        a, b = dim_argument(op, "dim0", len(source)), dim_argument(op, "dim1", len(source))
        order[a], order[b] = order[b], order[a]
    return _permuted(order)


def reverse_dims_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """t: all dims in reverse order."""
    return _permuted(list(range(len(source)))[::-1])


def movedim_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """movedim"""
    rank = len(source)
    origins = [normalize_dim(dim, rank) for dim in op.integers("source")]
    targets = [normalize_dim(dim, rank) for dim in op.integers("destination")]
    order = dict(zip(targets, origins, strict=True))
    rest = iter([dim for dim in range(rank) if dim not in origins])
    return _permuted([order[k] if k in order else next(rest) for k in range(rank)])


# -- dims of size one, broadcasts -------------------------------------------------------------------------------------


def expand_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """expand"""
    offset = len(result) - len(source)
    return [0 if size == 1 else sym.dim(offset + k) for k, size in enumerate(source)]


def unsqueeze_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """unsqueeze"""
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


def squeeze_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """squeeze, of all dims, one or some."""
    if not op.has_argument("dim"):
        return _squeezed(source, set(range(len(source))))
    return _squeezed(source, {normalize_dim(dim, len(source)) for dim in op.integers("dim")})


# -- parts -------------------------------------------------------------------------------------------------------------


def position_from_start(op: AtenCall, position: sym.IndexExpr, size: sym.IndexExpr) -> sym.IndexExpr:
    """A position that counts from the end when it is negative, as one from the start."""
    low, high = sym.bounds(position, (), _symbol_ranges(op))
    if low is not None and low >= 0:
        return position
    if high is not None and high < 0:
        return size + position
    decline(f"{position} may be negative or not")


def _symbol_ranges(op: AtenCall) -> sym.SymbolRanges:
    """What the function that the op stands in, or stood in, says of its symbols."""
    owner = op.operands[0].owner
    block = owner if isinstance(owner, Block) else owner.parent
    function = None if block is None else block.parent_op()
    declared = None if function is None else function.attributes.get("sym.symbols")
    return declared.ranges if isinstance(declared, sym.SymbolsAttr) else {}


def slice_start(op: AtenCall, size: sym.IndexExpr) -> sym.IndexExpr:
    """The first position of a slice; beyond the end only when the slice is empty."""
    argument = op.argument("start")
    if argument is None:
        return 0
    start = position_from_start(op, op.index("start"), size)
    # A start before the beginning is the beginning.
    return max(start, 0) if isinstance(start, int) else start if argument == start else sym.maximum(start, 0)


def slice_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """slice"""
    dim = dim_argument(op, "dim", len(source))
    indices = dims(len(source))
    indices[dim] = sym.dim(dim) * op.index("step") + slice_start(op, source[dim])
    return indices


def narrow_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """narrow"""
    dim = dim_argument(op, "dim", len(source))
    indices = dims(len(source))
    indices[dim] = sym.dim(dim) + position_from_start(op, op.index("start"), source[dim])
    return indices


def selected(rank: int, dim: int, position: sym.IndexExpr) -> IndexList:
    """The index of the source at `position` along `dim`, the dims of the result elsewhere."""
    return [position if k == dim else sym.dim(k if k < dim else k - 1) for k in range(rank)]


def select_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """select"""
    dim = dim_argument(op, "dim", len(source))
    return selected(len(source), dim, position_from_start(op, op.index("index"), source[dim]))


# -- rearrangements ----------------------------------------------------------------------------------------------------


def flip_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """flip"""
    flipped = {normalize_dim(dim, len(source)) for dim in op.integers("dims")}
    return [size - 1 - sym.dim(k) if k in flipped else sym.dim(k) for k, size in enumerate(source)]


def roll_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """roll"""
    shifts, rolled_dims = op.indices("shifts"), op.integers("dims")
    if 0 in source:
        return [0] * len(source)
    if not rolled_dims:
        linear = sym.linearize(dims(len(source)), source)
        count = sym.product_of(source)
        rolled = (linear - shifts[0]) % count
        return [sym.simplify(e, source) for e in sym.delinearize(rolled, source)]
    indices = dims(len(source))
    for shift, dim in zip(shifts, rolled_dims, strict=True):
        dim = normalize_dim(dim, len(source))
        indices[dim] = (indices[dim] - shift) % source[dim]
    return indices


def repeat_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """repeat"""
    offset = len(result) - len(source)
    if 0 in source:
        return [0] * len(source)
    return [
        0 if size == 1 else sym.dim(offset + k) if size == result[offset + k] else sym.dim(offset + k) % size
        for k, size in enumerate(source)
    ]


def diagonal_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """diagonal: its dim comes last."""
    rank = len(source)
    a, b = dim_argument(op, "dim1", rank), dim_argument(op, "dim2", rank)
    offset = op.integer("offset")
    rest = iter(range(rank - 2))
    along = sym.dim(rank - 2)
    return [
        along + max(-offset, 0) if k == a else along + max(offset, 0) if k == b else sym.dim(next(rest))
        for k in range(rank)
    ]


def unfold_map(op: AtenCall, source: Sizes, result: Sizes) -> IndexList:
    """unfold: the place in the window comes last."""
    if not source:
        return []
    dim = dim_argument(op, "dimension", len(source))
    indices = dims(len(source))
    indices[dim] = sym.dim(dim) * op.index("step") + sym.dim(len(source))
    return indices
