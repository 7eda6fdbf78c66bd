"""How many rounds of a loop read at a time: before the first of them stores, or is reduced."""

from __future__ import annotations

AT_ONCE = 8
"""The most rounds. Running sums of 26, 50, 64 and 1000 points of columns, tiles of 64 to 512 columns, with 1, 2, 4, 8
rounds at once: 28.7, 20.7, 18.2, 17.9 us (a copy takes 17.7); 36.1, 23.6, 20.6, 18.7; 142, 141, 140, 138; 517, 318,
206, 150. Sums of 64 rows of 262144 bf16, tiles of 4096: 34.1, 23.5, 18.6, 15.4, and then scaled and stored: 64.5, 45.0,
34.5, 30.8.

Source: kernels written by hand on an H200 (`docs/decisions/083-rounds-that-read-at-a-time.md`).
"""
HELD, FEWEST = 32, 4
"""The most registers of a thread that hold what all of these rounds have read; and the fewest rounds, of tiles: two, of
16 numbers of a thread each, took 0.82 to 1.15 of the time, the same in most shapes.

Source: the same.
"""
AT_WORK = 64
"""Warps of a processor that hide from one another that they wait, where what is read at a time is a tile: as many as
there can be. Then it is the registers that count: log-softmaxes of 32768 bf16 took 1.15 times as long. Scans wait for
what was scanned before: those of 8192 bf16 took 0.90 of the time.

Source: the same, and `make bench-gpu` in both ways.
"""
WRITTEN = 160
"""The most ops that are written out for one loop.

Source: a choice: an op costs Triton about a millisecond.
"""


def rounds_at_once(rounds: int, elements: float, loads: int, ops: int = 1, warps: float = 0.0) -> int:
    """How many of `rounds` read at a time, where a thread reads `loads` times so many `elements` in each, and each is
    so many `ops`: groups of about the same size. 1 where there is nothing to be had. Of rounds that are tiles it is
    told how many `warps` of a processor are at work.
    """
    if loads == 0 or rounds < 2 or warps >= AT_WORK:
        return 1
    most = max(1, min(AT_ONCE, int(HELD / (max(1.0, elements) * loads)), WRITTEN // max(1, ops)))
    if warps and most < FEWEST:
        return 1
    return -(-rounds // -(-rounds // most))


__all__ = ["rounds_at_once"]
