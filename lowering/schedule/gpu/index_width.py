"""How wide the addresses of a kernel on a GPU are."""

from __future__ import annotations

import math

from cuesta.dialects import sym
from cuesta.dialects.loops.analysis import NestAnalysis

LARGE = 2**31 - 2**24
"""Addresses up to here are computed with 32 bits; a tile may reach beyond the end of its axis.

Source: a definition: 32 bits with a sign, less the longest reach of a tile.
"""


def index_bits(analysis: NestAnalysis) -> int:
    """The bits that addresses of a nest take: 32 or 64."""
    return 64 if needs_wide_indices(analysis) else 32


def needs_wide_indices(analysis: NestAnalysis) -> bool:
    """Whether an address, or the number of points, may not fit 32 bits."""
    ranges = analysis.symbol_ranges
    every: list[sym.IndexExpr] = [access.address for access in analysis.accesses.values()]
    for loop in analysis.root.walk():
        every.append(math.prod((analysis.sizes[axis] for axis in loop.axes), start=1))
    sizes = analysis.sizes
    for e in every:
        low, high = sym.bounds(e, sizes, ranges)
        if low is None or high is None or low < -LARGE or high > LARGE:
            return True
    return False


__all__ = ["index_bits", "needs_wide_indices"]
