"""When reductions are computed in parts on a processor: large ones with hardly any parallel points around them, so
that all threads have work; and several over the same columns of one large tensor, since in short pieces of columns the
second finds in the cache what the first one read.

The answer is a choice in the words of `#loops.schedule`: `part`, the points of a part. Nothing is changed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import loads_of
from cuesta.transforms import thresholds
from cuesta.transforms.reductions.domains import split_domain
from cuesta.transforms.reductions.members import plain_members, splittable_reductions
from cuesta.transforms.reductions.plan import plan_of

PARTS = 32
"""About how many parts a reduction is split into.

Source: measured by `make bench-constants ARGS='--only when_on_cpu.PARTS'`
"""
PART = 4096
"""About how many points a part has where only the call knows how many parts there are.

Source: measured by `make bench-constants ARGS='--only when_on_cpu.PART'`
"""
MANY_ROWS = 1024
"""Points of a reduction of columns that do not stay in the cache for the next one.

Source: measured by `make bench-constants ARGS='--only when_on_cpu.MANY_ROWS'`
"""


def choose_part(nest: loops.NestOp, ranges: sym.SymbolRanges, machine: Machine) -> dict[str, int]:
    """What to choose for a nest on a processor; nothing where its reductions are better left whole."""
    reductions = splittable_reductions(nest)
    part = None if reductions is None else _part(nest, reductions, ranges, machine)
    if part is None or reductions is None:
        return {}
    parts, members = split_domain(reductions[0].sizes, part), plain_members(nest)
    if parts is None or members is None or plan_of(nest, members, parts) is None:
        return {}
    return {"part": part}


def _part(
    nest: loops.NestOp, reductions: Sequence[loops.ReduceOp], ranges: sym.SymbolRanges, machine: Machine
) -> int | None:
    """The points of a part; None where they do not pay: a second kernel is for what other threads are woken for."""
    sizes = reductions[0].sizes
    static = [size for size in (*nest.sizes, *sizes) if isinstance(size, int)]
    if len(static) < len(nest.sizes) + len(sizes):
        return PART if _may_be_large(nest.sizes, sizes, ranges, machine) else None
    points, around = math.prod(static[len(nest.sizes) :]), math.prod(static[: len(nest.sizes)])
    alone = points >= machine.waking and around < thresholds.FEW
    much = points >= MANY_ROWS and points * around >= machine.waking
    if not alone and not (much and _share_columns(nest, reductions)):
        return None
    parts = _number_of_parts(static[len(nest.sizes) :])
    return None if parts is None else points // parts


def _number_of_parts(sizes: Sequence[int]) -> int | None:
    """A fair number of equal parts that the outermost axis which can be cut so has."""
    for size in sizes:
        divisors = [parts for parts in range(PARTS // 4, PARTS * 2 + 1) if size % parts == 0]
        if divisors:
            return min(divisors, key=lambda parts: abs(parts - PARTS))
    return None


def _may_be_large(
    around: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr], ranges: sym.SymbolRanges, machine: Machine
) -> bool:
    """Whether few parallel points, known as such, may reduce a large domain of a size that is not known."""
    if any(not isinstance(size, int) for size in around) or all(isinstance(size, int) for size in sizes):
        return False
    most = sym.bounds(sym.product_of(sizes), (), ranges)[1]
    return sym.product_of(around) in range(1, thresholds.FEW) and (most is None or most >= machine.waking)


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


__all__ = ["choose_part"]
