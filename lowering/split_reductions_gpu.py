"""Reductions that would leave most of a GPU idle become two nests: parts, a program each, and their combination.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 512) { %s = sum (%j : 2048) of f(%p · 2048 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 512) of %t[%p]; store g(%s) }

Reassociates. NaN and infinities come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.loops.splitting import Splitting, split_nest, splittable_reductions
from cuesta.dialects.loops.surgery import loads_of

LARGE = 16384
"""Points of a reduction from which on a second launch pays."""
LEAST = 1024
"""The fewest points of a part."""
COLUMNS = 64
"""Parallel points that one program takes at most when it reduces columns."""
FEW, MANY = 2, 8
"""Programs per processor: with fewer than the first a reduction is split, so that there are about the second."""


def split_reductions(nests: Sequence[loops.NestOp], processors: int) -> None:
    """Splits what is worth it."""
    for nest in nests:
        split_reduction(nest, processors)


def split_reduction(nest: loops.NestOp, processors: int) -> loops.NestOp | None:
    """Puts a new nest before `nest`, which computes its reductions in parts; None when that is not worth it."""
    reductions = splittable_reductions(nest)
    if reductions is None:
        return None
    around = [size for size in nest.sizes if isinstance(size, int)]
    sizes = [size for size in reductions[0].sizes if isinstance(size, int)]
    if len(around) < len(nest.sizes) or len(sizes) < len(reductions[0].sizes):
        return None
    programs = math.prod(around)
    if _reads_columns(reductions):
        programs = math.ceil(programs / COLUMNS)
    points = math.prod(sizes)
    if points < LARGE or not 0 < programs < FEW * processors:
        return None
    wanted = min(max(2, MANY * processors // programs), points // LEAST)
    cut = _axis_and_parts(sizes, wanted)
    if cut is None:
        return None
    axis, parts = cut
    inner = [size // parts if k == axis else size for k, size in enumerate(sizes)]
    indices: list[sym.IndexExpr] = [sym.dim(k + 1) for k in range(len(sizes))]
    indices[axis] = sym.dim(0) * inner[axis] + indices[axis]
    return split_nest(nest, reductions, Splitting((parts,), tuple(inner), tuple(indices)))


def _reads_columns(reductions: Sequence[loops.ReduceOp]) -> bool:
    """Whether no read has an axis of the reduction as its last."""
    for reduction in reductions:
        variables = set(reduction.induction_variables)
        for load in loads_of(reduction):
            if load.map.results and any(load.indices[k] in variables for k in sym.dims_of(load.map.results[-1])):
                return False
    return True


def _axis_and_parts(sizes: Sequence[int], wanted: int) -> tuple[int, int] | None:
    """The outermost axis that can be cut into about `wanted` equal parts, and their number."""
    for axis, size in enumerate(sizes):
        divisors = [parts for parts in range(max(2, wanted // 4), wanted * 2 + 1) if size % parts == 0]
        if divisors:
            return axis, min(divisors, key=lambda parts: abs(parts - wanted))
    return None
