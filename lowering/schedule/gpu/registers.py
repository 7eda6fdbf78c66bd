"""How many registers a thread may have at most: what NVIDIA's assembler is told, so that it does not save them.

Told nothing, `ptxas` aims at a number of registers of its own. A loop whose loads, all begun before the first is used,
need a few more than that is put into another order: each load is waited for before the next one begins.
See docs/decisions/087-registers-are-for-loads.md.
"""

from __future__ import annotations

import math

from cuesta.dialects import loops
from cuesta.dialects.core.machine import Machine
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
LEAST = 65
"""Where a bound is less, and there are more programs than processors, nothing is said: programs of 32 warps have 32
registers then, and a processor two of them. With 64 sums of 9000 rows of 1201 f32 took 25.1 us, and 21.4 without;
places of maxima of 5240 columns 29.5 and 34.8, but norms of 3 rows, which leave processors alone, 7.3 and 8.4.

Source: from 23 tilings of eight nests on an H200.
"""


def bound_of(analysis: NestAnalysis, schedule: Schedule, warps: int, machine: Machine) -> int | None:
    """The registers of a thread of programs of so many warps; None where the assembler knows best."""
    if not _reduces_in_rounds(analysis, schedule):
        return None
    bound = min(OF_ROUNDS, REGISTERS // (warps * WARP))
    programs = math.prod(
        -(-analysis.estimate(analysis.sizes[parallel.axis]) // (parallel.tile or 1)) for parallel in schedule.parallel
    )
    return None if bound < LEAST and programs > machine.processors else bound


def _reduces_in_rounds(analysis: NestAnalysis, schedule: Schedule) -> bool:
    """Whether all loops of a nest reduce, and one goes over its points in rounds of several lanes."""
    leaves = [loop for loop in analysis.root.walk() if loop is not analysis.root and not loop.loops]
    if not all(isinstance(leaf.op, loops.ReduceOp) for leaf in leaves):
        return False
    for leaf in leaves:
        axes, lanes = schedule.loops.get(leaf.op, ((), 1))
        if 1 < lanes < math.prod(analysis.estimate(analysis.sizes[axis]) for axis in axes):
            return True
    return False


__all__ = ["REGISTERS", "WARP", "bound_of"]
