"""Tiles of many rows: of a few hundred numbers, and of a few that no vector begins with.

    loops.nest (%i : 2352941) { maximum (%j : 17) of %x[%i, %j]; … }    a program has 128 rows, 4 points of each a step

Numbers below are of nests on an H100 and an H200: the times of what is chosen over the best of the tilings, geometric
means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import step
from cuesta.lowering.schedule.gpu.columns import FULL
from cuesta.transforms.reductions import gpu_cost
from cuesta.transforms.tilings.space import WARP, Tiling

MANY_ROWS_BYTES, MANY_ROWS_LANES, MANY_ROWS = 4096, 256, 32
"""The bytes of a program of rows of at least so many lanes, where a processor has so many programs one after the other.
With half as many bytes those that it has at a time, 32 of one warp, fill half of it. Norms of 200 to 1000 numbers, 240
MB, took up to 1.63 times the best of 16 tilings, 1.188 as the geometric mean; with these 1.012, 1.13 the worst.

Source: from tilings of 19 nests on an H200.
"""
ODD_FEWEST, ODD_MOST, ODD_WASTE = 8, 32, 1.2
"""Points of a row of which there are more than the first and not more than the second, and so many lanes in one tile
for each: then a row is better gone along in steps, if not even two of its points are a vector.

Source: a choice between what was measured: 11 and 17 points gain, 6, 20 and 24 do not.
"""
ODD, ODD_STORING = (128, 4, 4), (32, 8, 4)
"""Rows of a program, points of each a step, and warps; and where something is made of each point. Of six sums and sums
of exponentials 1.06 of the best, 1.12 the worst (1.48 and 2.48 in one tile of 32 rows); of four softmaxes 1.09 and 1.18
(1.60 and 1.89).

Source: from 60 tilings of these nests on an H100, 11 and 17 points of f32 and bf16.
"""
ODD_LONG, ODD_LONGEST = (128, 16, 16), 64
"""The same of sums of more points than `ODD_MOST`, of fewer than the second: of 35, 37, 47 and 51 points 1.02 of the
best, 1.04 the worst (1.31 and 1.60 as the model has it).

Source: from 60 tilings of eight nests on an H100, f32 and bf16.
"""
ODD_STORING_STEPS, ODD_STORING_LONG = 3, (32, 16, 4)
"""Where something is made of each point and there are more such steps than the first, what a program has in their
place: softmaxes of 25 and 29 points took 1.02 of the best (1.15 with steps of 8; of 21 points, 1.00 with these).

Source: from 60 tilings of four nests on an H100, f32 and bf16.
"""
ODD_NARROW = 16
"""Where something is made of each of fewer points than so many, of 16 bits, half of the warps have them: softmaxes of
9, 11 and 13 bf16 took 1.00 of the best (1.19 with four warps; f32 1.00 with four).

Source: from 60 tilings of six nests on an H100.
"""
SHORTEST, SHORTEST_WARP, SHORTEST_HALF_WARP = 1024, 512, 256
"""Elements of a tile of several rows of at most 32 lanes, and of each of its warps, where they are of 32 bits and of
16: of 20 nests of norms, reductions and gradients, 44 tilings each, 1.034 times the best (1.11 the worst); tiles of
4096 took 1.14 (2.5). In 16 bits half as many warps took 1.21 and 1.89 (a layer norm of 14, sums of two). Longer rows
that share a program have one warp, of `ROW_WARP_BYTES` (`schedule_gpu`): of 35 nests 1.027 (1.31); two warps of 512
elements 1.073 (1.48).

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
SHORTEST_STORING, SHORTEST_STORING_LANES, SHORTEST_STORING_WARPS = 512, 16, 4
"""Where something is made of each point, and elements are of 32 bits: elements of such a tile of so many lanes at most,
and warps of any. Of nine softmaxes and norms of 2 to 32 points 1.03 of the best (1.09); as the others are 1.13 (1.46).

Source: from 12 tilings of these nests on an H200.
"""
ALONE_POINTS, ALONE_ROWS, ALONE_WARPS, ALONE_MOST = 3, 256, 4, 1 << 20
"""Rows of so many points of 32 bits of which something is made: so many are a tile, each of which a lane goes through
by itself, unless there are more rows than the last. Of log-softmaxes of 131071 by 3 5.5 us (8.0 in tiles of four lanes
a row; TorchInductor 5.2), of RMS norms of 300000 6.4 and 7.1, of layer norms of a million 12.3 and 12.4, of softmaxes
of 3 million 38 and 28. Two or four points are a vector, five took longer: 20.9 us and 15.8.

Source: from 10 to 13 tilings of six nests on an H200.
"""
FEW_EACH, FEW_WARPS = 4, 8
"""Elements of a thread of rows so few that each has a processor to itself, as far as so many warps go: nothing else
hides what a warp waits for. Of ten norms and softmaxes of 128 rows of 1000 and 1024 numbers, f32 and bf16, 4.4 to 6.2
us and 1.00 of the best (1.02); with one or two warps, as where there are many, 4.7 to 7.3, 1.11 (1.29).

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
PIECES, PIECES_WARPS = 8192, 16
"""Elements of a tile of long rows that are pieces, so many rows that they fill sectors together; and its warps. Means
of 33796 bf16, in pieces of four, took 23 us, and 31 where a program had one row; sums of 16898 f32, in pairs, 27 and
33.

Source: from 60 tilings of three nests on an H200.
"""


def shortest_elements(lanes: int, width: int, storing: bool) -> int:
    """The elements, of so many bytes each, of a tile of several short rows of so many lanes; `storing`, something is
    made of each.
    """
    return SHORTEST_STORING if storing and width >= 4 and lanes <= SHORTEST_STORING_LANES else SHORTEST


def shortest_warps(width: int, storing: bool) -> int:
    """The warps of such a tile."""
    if storing and width >= 4:
        return SHORTEST_STORING_WARPS
    return SHORTEST // (SHORTEST_WARP if width >= 4 else SHORTEST_HALF_WARP)


def alone(points: int, rows: int, width: int, machine: Machine) -> Tiling | None:
    """The tile of rows that lanes go through by themselves; None of others. `along` is left to the caller."""
    if points != ALONE_POINTS or width < 4 or not ALONE_ROWS * machine.processors <= rows <= ALONE_MOST:
        return None
    return {"rows": ALONE_ROWS, "lanes": 1, "warps": ALONE_WARPS}


def few_warps(rows: int, lanes: int, machine: Machine) -> int:
    """The warps of a program of one row, at least, of so many rows of so many lanes; 1 where there are many rows."""
    return max(1, min(FEW_WARPS, lanes // (WARP * FEW_EACH))) if rows <= machine.processors else 1


def walked_once(leaves: Sequence[Loop], points: int, piece: int, rows: int, machine: Machine) -> Tiling | None:
    """The tile of so many long rows of which all that is asked for is reduced in one walk. They are pieces of so many
    bytes, which fill no sector; 0 where they are not. Requires: no stage reads again what another has read.
    """
    if points < gpu_cost.WALKED_FROM or not all(isinstance(leaf.op, loops.ReduceOp) for leaf in leaves):
        return None
    height = machine.sector // piece if piece else 1
    if height > 1 and rows >= FULL * height * machine.processors:
        return {"along": 1, "rows": power_of_two(height), "lanes": PIECES // height, "warps": PIECES_WARPS}
    return {"along": 1, "rows": 1, "lanes": gpu_cost.WALKED, "warps": gpu_cost.WALKED_WARPS}


def piece_of(analysis: NestAnalysis, leaf: Loop, accesses: Iterable[Access], machine: Machine) -> int:
    """The bytes of the pieces that a row is, as one of these accesses of a loop finds it, where they fill no sector of
    memory, and those of other rows lie between them; 0 where it is none. Minima of 256 by 2 f32, 2 and 917504 bytes
    apart, took 2.8 ms on an H200 with their gradient where a program had two rows (eager 1.7).
    """
    sizes = [analysis.estimate(analysis.sizes[axis]) for axis in leaf.axes]
    for access in accesses:
        run = 1
        for axis, size in zip(reversed(leaf.axes), reversed(sizes), strict=True):
            run *= size if not access.indirect >> axis & 1 and step(access.address, axis, analysis) == run else 1
        if 1 < run < math.prod(sizes) and run * access.width < machine.sector:
            return run * access.width
    return 0


def many_rows(rows: int, height: int, lanes: int, width: int, machine: Machine) -> Tiling | None:
    """The tile of rows of a few hundred numbers in one tile, `height` of which a program would have otherwise; None
    where they are too few, or too long. `along` is left to the caller.
    """
    many = rows >= 2 * height * MANY_ROWS * machine.processors
    if lanes < MANY_ROWS_LANES or not many or 2 * height * lanes * width > MANY_ROWS_BYTES:
        return None
    return {"rows": 2 * height, "lanes": lanes, "warps": max(1, 2 * height * lanes * 4 // MANY_ROWS_BYTES)}


def _moves(access: Access, axes: Sequence[int]) -> list[int]:
    """By how many elements an access moves along axes, where that is a number."""
    return [move for axis in axes if isinstance(move := sym.coefficient(access.address, axis), int)]


def odd_rows(root: Loop, leaves: Sequence[Loop], lanes: int, points: int, rows: int, machine: Machine) -> Tiling | None:
    """The tile of rows of which every second one begins where no pair of elements does; None of others. `along` is left
    to the caller.
    """
    if not ODD_FEWEST < points < ODD_LONGEST or lanes < ODD_WASTE * points:
        return None
    every = [(access, leaf) for leaf in leaves for access in leaf.accesses if access.width]
    if not any(
        not access.is_store
        and len(leaf.axes) == 1
        and sym.coefficient(access.address, leaf.axes[0]) == 1
        and not access.moves_by(2 * access.width, root.axes)
        and not any(0 < abs(move) < points for move in _moves(access, root.axes))  # windows that share elements
        for access, leaf in every
    ):
        return None
    storing = any(access.is_store for access, _ in every)
    if storing and points > ODD_MOST:
        return None
    height, along, warps = ODD_STORING if storing else ODD if points <= ODD_MOST else ODD_LONG
    if storing and points > ODD_STORING_STEPS * along:
        height, along, warps = ODD_STORING_LONG
    elif storing and points < ODD_NARROW and max(access.width for access, _ in every) <= 2:
        warps //= 2
    if rows < 2 * height * machine.processors:
        return None
    return {"rows": height, "lanes": along, "warps": warps}
