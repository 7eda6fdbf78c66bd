"""Several axes of a loop as one: the lanes of a tile then run through all of them, however short each is. And back."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import sym
from cuesta.dialects.loops.analysis import Loop, NestAnalysis


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


def split_axis(analysis: NestAnalysis, axis: int, points: int) -> int:
    """Makes two axes of one: one of groups, which it is from then on, and one of the `points` of a group, which is new,
    and in no loop yet; gives that. The last group may have points that were none before.

    (i : 127) with addresses 9·i  →  (i : 32), (j : 4) with addresses 36·i + 9·j
    """
    new = len(analysis.sizes)
    images: list[sym.IndexExpr] = [sym.dim(each) for each in range(new)]
    images[axis] = sym.dim(axis) * points + sym.dim(new)
    analysis.sizes[axis] = sym.ceildiv(analysis.sizes[axis], points)
    analysis.sizes.append(points)
    for access in analysis.accesses.values():
        if not access.varies >> axis & 1:
            continue
        access.address = sym.simplify(sym.substitute(access.address, images), analysis.sizes, analysis.symbol_ranges)
        access.local = None
        access.varies |= 1 << new
        access.indirect |= (access.indirect >> axis & 1) << new
        access.ordered |= (access.ordered >> axis & 1) << new
    return new


def _moved(axes: int, gone: int, last: int) -> int:
    return (axes & ~gone) | (1 << last) if axes & gone else axes
