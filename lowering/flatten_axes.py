"""Several axes of a loop as one: the lanes of a tile then run through all of them, however short each is."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import sym
from cuesta.lowering.nest_analysis import Loop, NestAnalysis


def flatten_axes(analysis: NestAnalysis, loop: Loop, axes: Sequence[int]) -> int:
    """Makes one axis of `axes`, outermost first, which must be neighbours in `loop`; gives that axis.

    (i : 4, j : 7) with addresses 9·i + j  →  (f : 28) with addresses 9·(f floordiv 7) + f mod 7

    The number of a point stays its row-major number, so it also suits `argmax` and `argmin`.
    """
    last = axes[-1]
    if len(axes) == 1:
        return last
    images: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(analysis.sizes))]
    points: sym.IndexExpr = 1
    inner: sym.IndexExpr = 1
    for axis in reversed(axes):
        size = analysis.sizes[axis]
        points = points * size
        if size == 0:  # there are no points: any index will do, but not a division by 0
            size = 1
        quotient = sym.dim(last) // inner
        images[axis] = quotient if axis == axes[0] else quotient % size
        inner = inner * size
    analysis.sizes[last] = points
    gone = sum(1 << axis for axis in axes[:-1])
    for access in analysis.accesses.values():
        if access.varies & (gone | 1 << last) or not isinstance(access.address, int):
            access.address = sym.simplify(
                sym.substitute(access.address, images), analysis.sizes, analysis.symbol_ranges
            )
        access.local = None
        access.varies = _moved(access.varies, gone, last)
        access.indirect = _moved(access.indirect, gone, last)
        access.ordered = _moved(access.ordered, gone, last)
    position = loop.axes.index(axes[0])
    loop.axes = [*loop.axes[:position], last, *loop.axes[position + len(axes) :]]
    return last


def _moved(axes: int, gone: int, last: int) -> int:
    return (axes & ~gone) | (1 << last) if axes & gone else axes
