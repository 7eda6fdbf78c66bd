"""In which order the axes of what is reduced find the fewest sectors of memory, where tensors lie in different ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import sym
from cuesta.dialects.loops.analysis import Access

Strides = Sequence[int]
"""By how many bytes an access moves along each axis; 0 where it stays, or where that is no number."""

TILE = 4096
"""Points that follow one another, of which sectors of memory are counted.

Source: a choice: those of one or two programs of a reduction.
"""
WORTH = 0.75
"""The share of the sectors, at most, that another order leaves.

Source: a choice: a few channels more or less change nothing.
"""
SECTOR = 32
"""Bytes that memory moves at least.

Source: a definition (CUDA).
"""


def best_order(sizes: Sequence[int], accesses: Sequence[Strides], usual: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes of these sizes, outermost first, that is best for all accesses together: `usual`, unless the
    one of some access is clearly better.
    """
    orders = {usual, *(_order_of(strides, sizes) for strides in accesses if any(strides))}
    if len(orders) < 2:
        return usual
    sectors = {order: sum(sectors_of(order, sizes, strides) for strides in accesses) for order in orders}
    best = min(sorted(orders), key=lambda order: sectors[order])
    return best if sectors[best] <= WORTH * sectors[usual] else usual


def moves_of(access: Access, axes: Sequence[int]) -> list[int]:
    """By how many bytes an access moves along axes; 0 where it stays, or where that is no number."""
    steps = (sym.coefficient(access.address, axis) for axis in axes)
    return [abs(step) * access.width if isinstance(step, int) else 0 for step in steps]


def sectors_of(order: Sequence[int], sizes: Sequence[int], strides: Strides) -> int:
    """The sectors of memory that an access finds the points of a tile in, which follow one another in this order."""
    left, extents = TILE, dict[int, int]()
    for axis in reversed(order):
        extents[axis] = min(sizes[axis], left)
        left = math.ceil(left / sizes[axis])
    found = sorted((strides[axis], extent) for axis, extent in extents.items() if strides[axis] and extent > 1)
    pieces, span = 1, 1
    for stride, extent in found:
        if stride <= max(span, SECTOR) and pieces == 1:
            span += stride * (extent - 1)
        else:
            pieces *= extent
    return pieces * math.ceil(span / SECTOR)


def _order_of(strides: Strides, sizes: Sequence[int]) -> tuple[int, ...]:
    """The axes in the order in which an access has them in memory; those of one element, and those that it does not
    move along, where they were, in front.
    """
    moves = {axis: stride for axis, stride in enumerate(strides) if stride and sizes[axis] > 1}
    others = [axis for axis in range(len(strides)) if axis not in moves]
    return (*others, *sorted(moves, key=lambda axis: -moves[axis]))


__all__ = ["best_order", "moves_of", "sectors_of"]
