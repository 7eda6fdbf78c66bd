"""Large reductions with hardly any parallel points around them become two nests, so that all of a machine has work.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 32) { %s = sum (%j : 32768) of f(%p · 32768 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 32) of %t[%p]; store g(%s) }

The same for several reductions over the same columns, which read one large tensor: in short pieces of columns the
second one finds in the cache what the first one read.

Reassociates. NaN and infinities come out the same, and the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.splitting import Splitting, split_nest, splittable_reductions
from cuesta.dialects.loops.surgery import loads_of

LARGE = 65536
"""Points of a reduction from which on it is worth a second kernel."""
FEW = 16
"""Parallel points from which on there is work for all threads anyway."""
PARTS = 32
"""About how many parts a reduction is split into."""
MANY_ROWS = 1024
"""Points of a reduction of columns that do not stay in the cache for the next one."""


def split_reductions(nests: Sequence[loops.NestOp]) -> None:
    """Splits what is worth it."""
    for nest in nests:
        split_reduction(nest)


def split_reduction(nest: loops.NestOp) -> loops.NestOp | None:
    """Puts a new nest before `nest`, which computes its reductions in parts; None when that is not worth it."""
    reductions = splittable_reductions(nest)
    if reductions is None:
        return None
    sizes = reductions[0].sizes
    static = [size for size in (*nest.sizes, *sizes) if isinstance(size, int)]
    if len(static) < len(nest.sizes) + len(sizes):
        return None
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
