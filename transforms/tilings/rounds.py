"""How many rounds of a serial loop read before the first of them stores."""

from __future__ import annotations

AT_ONCE = 8
"""The most rounds.

Source: running sums of 26, 50, 64 and 1000 points of columns on an H200, tiles of 64 to 512 columns: with 2, 4 and 8
rounds at once 28.7 us became 20.7, 18.2 and 17.9 (a copy takes 17.7), 36.1 became 23.6, 20.6 and 18.7, 142 became 141,
140 and 138, and 517 became 318, 206 and 150.
"""
HELD = 32
"""The most registers of a thread that hold what all of these rounds have read.

Source: the same; the largest tiles tried have 4 numbers of a thread in each round.
"""
WRITTEN = 160
"""The most ops that are written out for one loop.

Source: a choice: an op costs Triton about a millisecond.
"""


def rounds_at_once(points: int, elements: float, loads: int, ops: int = 1) -> int:
    """How many of `points` rounds read before the first stores, where a thread reads `loads` times so many `elements`
    in each, and each is so many `ops`; 1 where there is nothing to be had.
    """
    if loads == 0:
        return 1
    most = min(AT_ONCE, int(HELD / (max(1.0, elements) * loads)), WRITTEN // max(1, ops))
    return max(1, min(points, most))


__all__ = ["AT_ONCE", "rounds_at_once"]
