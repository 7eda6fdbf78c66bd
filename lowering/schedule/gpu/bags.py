"""Tiles of sums whose ends only the data knows: a program has one bag, all lanes along what it holds of each row.

    loops.nest (%r : 16384, %d : 1024) { sum (%k : 65536) of first(%r) ≤ %k < first(%r + 1) ? %v[%order[%k], %d] : 0 }

`narrow-reductions` makes such a loop go from the one end to the other, which are one number each for a program then. So
no two bags share one; and few points are read at a time, since most bags hold few.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.loops.analysis import Loop, NestAnalysis
from cuesta.transforms.tilings.space import Tiling

LANES, POINTS, WARP = 1024, 4, 1024
"""Elements of a row, points that are read at a time, and elements of a warp.

Source: an estimate: with four warps sixteen programs fit a processor, each of which has 8 KB of 16 bits on their way.
"""


def tile_of(analysis: NestAnalysis, leaves: Sequence[Loop]) -> Tiling | None:
    """The tile of a nest all of whose inner loops end where the data says; None for others."""
    axes = analysis.root.axes
    if len(axes) < 2 or not all(_ends_by_data(analysis, leaf, axes[-1]) for leaf in leaves):
        return None
    rows = min(LANES, power_of_two(analysis.estimate(analysis.sizes[axes[-1]])))
    return {"along": 1, "rows": rows, "lanes": POINTS, "warps": max(1, rows * POINTS // WARP)}


def _ends_by_data(analysis: NestAnalysis, leaf: Loop, lane: int) -> bool:
    """Whether a sum counts points before one that the data names, the same for all points along an axis."""
    if not isinstance(leaf.op, loops.ReduceOp) or len(leaf.axes) != 1:
        return False
    (own,) = leaf.axes
    plain = {axis for loop in analysis.root.walk() for axis in loop.axes}
    for op in leaf.op.body.ops:
        if isinstance(op, elem.TableOp) and op.row.name == "lt":
            owners = [operand.owner for operand in op.operands if isinstance(operand.owner, loops.IndexOp)]
            if len(owners) < 2:
                continue
            point, end = (analysis.accesses[owner] for owner in owners)
            if point.address != sym.dim(own):
                continue
            if not sym.dims_of(end.address) <= plain and not end.varies >> own & 1 and not end.varies >> lane & 1:
                return True
    return False


__all__ = ["tile_of"]
