"""Fewer, longer axes: the order of memory, no axes of size 1, and neighbours merged where every address allows it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.layout import sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.memory_orders import best_order, moves_of

MANY = 8
"""So many times the bytes that are written, and loads decide about the order of the points.

Source: a definition: a sector is eight elements of four bytes, so that many times as much may be moved where a store
takes a sector for every element.
"""


def merge_axes(analysis: NestAnalysis) -> None:
    """Reorders, drops and merges the axes of every loop; addresses are rewritten to match.

    (i : 4, j : 1, k : 8) with addresses 8·i + k  →  (k : 32) with addresses k

    The order of axes stays where it has a meaning: in scans, and in arg-reductions, whose result counts the points.
    """
    images: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(analysis.sizes))]
    merged_into = list(range(len(analysis.sizes)))
    for loop in analysis.root.walk():
        _drop_unit_axes(loop, analysis, images)
        if len(loop.axes) > 1:
            accesses = [access for inner in loop.walk() for access in inner.accesses]
            if not _counts_points(loop) and not (analysis.meeting and loop is analysis.root):
                loop.axes = memory_order(loop.axes, accesses, analysis)
                if isinstance(loop.op, loops.ReduceOp) and traits_of(analysis.nest.results[0]).blocks:
                    loop.axes = _order_of_all(loop.axes, accesses, analysis)
            _merge(loop, accesses, analysis, images, merged_into)
    _rewrite(analysis, images, merged_into)


def memory_order(axes: Sequence[int], accesses: Sequence[Access], analysis: NestAnalysis) -> list[int]:
    """The axes, the one with the longest stride first; stores decide before loads, wide accesses before narrow ones.
    Before all of these the loads of a reduction do, which read `MANY` times as much as the nest writes: points that
    are neighbours then read what is side by side while it is in the cache.
    """
    moved = [access for access in accesses if access.width]
    touched = [_touched(access, analysis) for access in moved]
    written = max((size for access, size in zip(moved, touched, strict=True) if access.is_store), default=0)
    keys = {
        id(access): (
            size >= MANY * written,
            access.is_store,
            sum(access.varies >> axis & 1 for axis in axes),
            access.width,
        )
        for access, size in zip(moved, touched, strict=True)
    }
    ranked = sorted(moved, key=lambda access: keys[id(access)], reverse=True)
    strides: dict[int, int] = {}
    for axis in axes:
        for access in ranked:
            if access.varies >> axis & 1:
                stride = sym.coefficient(access.address, axis)
                if stride is not None and stride != 0:
                    strides[axis] = abs(analysis.estimate(stride))
                    break
    # An axis without a stride (only behind floordiv or mod, or in gathers) keeps its place: it takes its neighbour's.
    previous = max(strides.values(), default=0)
    places: dict[int, int] = {}
    for axis in axes:
        previous = places[axis] = strides.get(axis, previous)
    return sorted(axes, key=lambda axis: -places[axis])


def _order_of_all(axes: Sequence[int], accesses: Sequence[Access], analysis: NestAnalysis) -> list[int]:
    """The axes of a reduction on a GPU in the order in which all that is read together takes the fewest sectors: of
    images that lie channels last and of others, a loss goes along the channels of a pixel. Who goes along the pixels of
    a channel reads every fourth number of four channels, and others the rest: 275 us, where a copy takes 191.
    """
    sizes = [analysis.sizes[axis] for axis in axes]
    if any(access.is_store for access in accesses) or not all(isinstance(size, int) and size > 0 for size in sizes):
        return list(axes)
    moves = [moves_of(access, axes) for access in accesses if access.width]
    order = best_order([analysis.estimate(size) for size in sizes], moves, tuple(range(len(axes))))
    return [axes[k] for k in order]


def _touched(access: Access, analysis: NestAnalysis) -> int:
    """How many bytes an access touches, at most: no more than there are."""
    points = math.prod(analysis.estimate(size) for axis, size in enumerate(analysis.sizes) if access.varies >> axis & 1)
    op = access.op
    tensor = op.source if isinstance(op, loops.LoadOp) else op.target if isinstance(op, loops.TensorWriteOp) else None
    if tensor is not None:
        points = min(points, math.prod(map(analysis.estimate, sizes_of(tensor_type_of(tensor)))))
    return points * access.width


def _counts_points(loop: Loop) -> bool:
    op = loop.op
    return isinstance(op, loops.ScanOp | loops.FoldOp) or (isinstance(op, loops.ReduceOp) and op.kind in EXTREMES)


def _drop_unit_axes(loop: Loop, analysis: NestAnalysis, images: list[sym.IndexExpr]) -> None:
    kept = [axis for axis in loop.axes if analysis.sizes[axis] != 1]
    op = loop.op
    if not kept and loop.axes and isinstance(op, loops.ReduceOp) and op.kind in (*EXTREMES, "welford"):
        kept = loop.axes[-1:]  # their results are not simply what is yielded
    if not kept and loop.axes and isinstance(op, loops.ScanOp | loops.FoldOp):
        kept = loop.axes[-1:]  # a running value has a loop to run in, and so has what is carried
    for axis in loop.axes:
        if axis not in kept:
            images[axis] = 0
    loop.axes = kept


def _merge(
    loop: Loop, accesses: Sequence[Access], analysis: NestAnalysis, images: list[sym.IndexExpr], merged_into: list[int]
) -> None:
    sizes = analysis.sizes
    addresses = {e for access in accesses for e in (access.address, access.local) if isinstance(e, sym.Expr)}
    kept: list[int] = []
    for axis in loop.axes:
        # Addresses still speak of the unmerged axes. That is no obstacle: a, b and c merge into one when b and c do,
        # and a merges with what they became, whose size is already their product.
        while (
            kept
            and _meet_alike(analysis, kept[-1], axis)
            and all(_is_joint(e, kept[-1], axis, sizes[axis]) for e in addresses)
        ):
            outer = kept.pop()
            images[outer] = 0
            merged_into[outer] = axis
            sizes[axis] = sizes[outer] * sizes[axis]
        kept.append(axis)
    loop.axes = kept


def _meet_alike(analysis: NestAnalysis, outer: int, inner: int) -> bool:
    """Whether both axes, or neither, are such that points which differ along them meet."""
    return (analysis.meeting >> outer & 1) == (analysis.meeting >> inner & 1)


def _is_joint(e: sym.Expr, outer: int, inner: int, size: sym.IndexExpr) -> bool:
    """Whether e depends on the two axes only as outer · size + inner."""
    if outer not in e.dims and inner not in e.dims:
        return True
    outer_stride, inner_stride = sym.coefficient(e, outer), sym.coefficient(e, inner)
    if outer_stride is not None and inner_stride is not None:
        return outer_stride == inner_stride * size
    images: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(max(*e.dims, outer, inner) + 1)]
    images[inner] = images[inner] + images[outer] * size
    images[outer] = 0
    return sym.substitute(e, images) == e


def _rewrite(analysis: NestAnalysis, images: list[sym.IndexExpr], merged_into: list[int]) -> None:
    if all(image != 0 for image in images):
        return
    for access in analysis.accesses.values():
        access.address = sym.substitute(access.address, images)
        if access.local is not None:
            access.local = sym.substitute(access.local, images)
        access.varies = _renumber(access.varies, images, merged_into)
        access.indirect = _renumber(access.indirect, images, merged_into)
    for value, axes in analysis.carried.items():
        analysis.carried[value] = _renumber(axes, images, merged_into)


def _renumber(axes: int, images: list[sym.IndexExpr], merged_into: list[int]) -> int:
    result = axis = 0
    while axes:
        if axes & 1:
            target = axis
            while merged_into[target] != target:
                target = merged_into[target]
            if images[target] != 0:
                result |= 1 << target
        axes >>= 1
        axis += 1
    return result
