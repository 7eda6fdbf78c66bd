"""How many registers a thread may have at most: what NVIDIA's assembler is told, so that it does not save them.

Told nothing, `ptxas` aims at a number of registers of its own. A loop whose loads, all begun before the first is used,
need a few more than that is put into another order: each load is waited for before the next one begins.
See docs/decisions/087-registers-are-for-loads.md.
"""

from __future__ import annotations

import math

from cuesta.dialects import loops
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.schedule import Schedule

REGISTERS, WARP = 65536, 32
"""Registers of a processor, threads of a warp.

Source: a definition (CUDA).
"""
OF_ROUNDS = 128
"""Of a thread that reduces in rounds. Of 126 tilings of 12 nests with 16 warps 0.83 of the time, 0.11 at least (sums of
the squares of 7 columns of 2097152: 3114 us, 356) and 1.21 at most; with 8 warps 0.88, with 32 0.95. With 255 the same.
Rounds that store as well took 1.0 to 1.38; what one tile holds, 1.0 in reductions, and up to 1.6 with stages after it.

Source: from tilings of 28 nests, timed without a bound and with both, on an H200.
"""


def waits_for_rounds(analysis: NestAnalysis, schedule: Schedule) -> bool:
    """Whether all loops of a nest reduce, and one goes over its points in rounds of several lanes."""
    leaves = [loop for loop in analysis.root.walk() if loop is not analysis.root and not loop.loops]
    if not leaves or not all(isinstance(leaf.op, loops.ReduceOp) for leaf in leaves):
        return False
    rounds = False
    for leaf in leaves:
        axes, lanes = schedule.loops.get(leaf.op, ((), 1))
        points = math.prod(analysis.estimate(analysis.sizes[axis]) for axis in axes)
        rounds = rounds or 1 < lanes < points
    return rounds


def of_rounds(warps: int) -> int:
    """The bound of a thread of a program of so many warps that reduces in rounds."""
    return min(OF_ROUNDS, REGISTERS // (warps * WARP))


__all__ = ["REGISTERS", "WARP", "of_rounds", "waits_for_rounds"]
