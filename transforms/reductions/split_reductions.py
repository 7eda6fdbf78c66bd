"""Large reductions with hardly any parallel points around them become two nests, so that all of a machine has work.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 32) { %s = sum (%j : 32768) of f(%p · 32768 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 32) of %t[%p]; store g(%s) }

Sizes that are known at run time only make parts of one size, as many as there are, and a rest:

    loops.nest () { sum (%j : s0) of f(%j) }
    →
    loops.nest (%p : s0 floordiv 4096) { sum (%j : 4096) of f(%p · 4096 + %j) }
    loops.nest () { sum (%p : s0 floordiv 4096) of %t[%p] + sum (%j : s0 mod 4096) of f(s0 floordiv 4096 · 4096 + %j) }

The same for several reductions over the same columns, which read one large tensor: in short pieces of columns the
second one finds in the cache what the first one read.

Reassociates. NaN and infinities come out the same, and the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.analysis import UNKNOWN_SIZE
from cuesta.dialects.loops.splitting import Splitting, split_nest, splittable_reductions
from cuesta.dialects.loops.surgery import loads_of

LARGE = 65536
"""Points of a reduction from which on it is worth a second kernel."""
FEW = 16
"""Parallel points from which on there is work for all threads anyway."""
PARTS = 32
"""About how many parts a reduction is split into."""
PART = 4096
"""About how many points a part has where only the call knows how many parts there are."""
ROWS = 8
"""The most rows of such a part where a row's length is not known, either."""
MANY_ROWS = 1024
"""Points of a reduction of columns that do not stay in the cache for the next one."""


def split_reductions(nests: Sequence[loops.NestOp], ranges: sym.SymbolRanges) -> None:
    """Splits what is worth it."""
    for nest in nests:
        split_reduction(nest, ranges)


def split_reduction(nest: loops.NestOp, ranges: sym.SymbolRanges) -> loops.NestOp | None:
    """Puts a new nest before `nest`, which computes its reductions in parts; None when that is not worth it."""
    reductions = splittable_reductions(nest)
    if reductions is None:
        return None
    sizes = reductions[0].sizes
    static = [size for size in (*nest.sizes, *sizes) if isinstance(size, int)]
    if len(static) < len(nest.sizes) + len(sizes):
        if not _may_be_large(nest.sizes, sizes, ranges):
            return None
        return split_nest(nest, reductions, _in_parts_of_some_size(sizes))
    points, around = math.prod(static[len(nest.sizes) :]), math.prod(static[: len(nest.sizes)])
    alone = points >= LARGE and around < FEW
    much = points >= MANY_ROWS and points * around >= LARGE
    if not alone and not (much and _share_columns(nest, reductions)):
        return None
    split = _axis_and_parts(static[len(nest.sizes) :])
    return None if split is None else split_nest(nest, reductions, _in_parts(static[len(nest.sizes) :], *split))


def _axis_and_parts(sizes: Sequence[int]) -> tuple[int, int] | None:
    """The outermost axis that can be cut into a fair number of equal parts, and that number."""
    for axis, size in enumerate(sizes):
        divisors = [parts for parts in range(PARTS // 4, PARTS * 2 + 1) if size % parts == 0]
        if divisors:
            return axis, min(divisors, key=lambda parts: abs(parts - PARTS))
    return None


def _in_parts(sizes: Sequence[int], axis: int, parts: int) -> Splitting:
    """The points of a domain, with `axis` cut into equal parts."""
    inner = [size // parts if k == axis else size for k, size in enumerate(sizes)]
    indices: list[sym.IndexExpr] = [sym.dim(k + 1) for k in range(len(sizes))]
    indices[axis] = sym.dim(0) * inner[axis] + indices[axis]
    return Splitting((parts,), tuple(inner), tuple(indices))


def _may_be_large(around: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr], ranges: sym.SymbolRanges) -> bool:
    """Whether few parallel points, known as such, may reduce a large domain of a size that is not known."""
    if any(not isinstance(size, int) for size in around) or all(isinstance(size, int) for size in sizes):
        return False
    most = sym.bounds(sym.product_of(sizes), (), ranges)[1]
    return sym.product_of(around) in range(1, FEW) and (most is None or most >= LARGE)


def _in_parts_of_some_size(sizes: Sequence[sym.IndexExpr]) -> Splitting:
    """The points of a domain, the first symbolic axis of which is cut into parts of one size, and a rest."""
    axis = next(k for k, size in enumerate(sizes) if not isinstance(size, int))
    others = [size for k, size in enumerate(sizes) if k != axis]
    length = max(1, PART // math.prod(size if isinstance(size, int) else UNKNOWN_SIZE for size in others))
    if not all(isinstance(size, int) for size in others):
        length = min(length, ROWS)
    size = sizes[axis]
    parts, left = size // length, size % length
    inner = [length if k == axis else size for k, size in enumerate(sizes)]
    indices: list[sym.IndexExpr] = [sym.dim(k + 1) for k in range(len(sizes))]
    indices[axis] = sym.dim(0) * length + indices[axis]
    if left == 0:
        return Splitting((parts,), tuple(inner), tuple(indices))
    rest = [left if k == axis else size for k, size in enumerate(sizes)]
    start = [parts * length if k == axis else 0 for k in range(len(sizes))]
    return Splitting((parts,), tuple(inner), tuple(indices), tuple(rest), tuple(start))


def _share_columns(nest: loops.NestOp, reductions: Sequence[loops.ReduceOp]) -> bool:
    """Whether two of the reductions read one tensor whose last axis is the nest's: column by column."""
    if len(reductions) < 2:
        return False
    seen: set[object] = set()
    for reduction in reductions:
        tensors = {load.source for load in loads_of(reduction) if _goes_by_columns(load, nest)}
        if not seen.isdisjoint(tensors):
            return True
        seen |= tensors
    return False


def _goes_by_columns(load: loops.LoadOp, nest: loops.NestOp) -> bool:
    if not load.map.results or len(sizes_of(tensor_type_of(load.source))) < 2:
        return False
    walked = [load.indices[dim] for dim in sym.dims_of(load.map.results[-1])]
    inside = any(isinstance(index.owner, type(nest.body)) and index.owner is not nest.body for index in load.indices)
    return bool(walked) and inside and all(index.owner is nest.body for index in walked)
