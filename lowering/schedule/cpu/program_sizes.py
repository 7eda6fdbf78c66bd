"""How many points of an axis a program on a CPU runs through, and in how many steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import sym

PRODUCT_ROWS = 64
"""Rows of a program of a product: what it reads of the other factor, columns side by side, comes from a near cache for
all blocks of rows but the first. Where that factor stays in a cache anyway, 8 and 64 rows took the same time.

Source: a guess for larger factors; products of 4 shapes, one thread of an EPYC (Zen 4): 0.99 to 1.02 of the time.
"""
FEWEST_BLOCKS = 32
"""How many programs of a product are left for the threads at least.

Source: a guess: of two threads, none waits for more than a sixteenth.
"""


def rows_of_a_program(points: Sequence[int], rows: int, lanes: int) -> int:
    """About how many rows of a product a program has, where `rows` and `lanes` are summed side by side, and these are
    the points of all parallel axes.
    """
    return min(PRODUCT_ROWS, max(rows, math.prod(points) // lanes // FEWEST_BLOCKS))


def steps(size: int, lanes: int) -> int:
    """The steps of a lane loop: whole vectors, then what is left over by halves."""
    return size // lanes + (size % lanes).bit_count()


def tile_of(size: sym.IndexExpr, wanted: int, step: int) -> int | None:
    """About `wanted` points, a multiple of `step` where that is fewer; None when that is all of them.

    A divisor of the size is preferred when there is a fair one: then no program has a bound to compute.
    """
    wanted = max(step, wanted // step * step)
    if not isinstance(size, int):
        return wanted
    if size <= wanted:
        return None
    for tile in range(min(size, wanted * 3 // 2) // step * step, wanted // 2, -step):
        if size % tile == 0:
            return tile
    return wanted


__all__ = ["rows_of_a_program", "steps", "tile_of"]
