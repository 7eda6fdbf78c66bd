"""What a nest that reduces costs on a GPU, by bytes and parallelism: whole rows, a program each, or rows in parts.

Units: a cost is bytes moved at the full speed of the memory.

    a row in one tile      reads once
    a row in a loop        reads once for every stage; what fits into the second-level cache is cheaper the second time
    a row in parts         reads once for the parts, and once more for what comes after; and costs two more launches
    a row that is shared   reads once; programs wait at their meeting, and do not load while they compute
    rows in turns          reads once, and once more from the cache, in one kernel: nobody waits long

Reads that are not aligned cost what a word for each element costs: they are limited by their number, not their bytes.
"""

from __future__ import annotations

import math

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct

PERSISTENT = 32768
"""The most elements that a tile holds of a row, or of the rows of all tensors that several stages read.

Source: measured by `make bench-constants ARGS='--only gpu_cost.PERSISTENT'`
"""
WORD = 4
"""Bytes that an element costs at least where it is read by itself.

Source: measured by `make bench-constants ARGS='--only gpu_cost.WORD'`
"""
AT_ONCE = 4
"""Programs that keep parts in registers and that a processor has at a time.

Source: measured by `make bench-constants ARGS='--only gpu_cost.AT_ONCE'`
"""
AGAIN = 0.75
"""What reading a part again from the cache costs, for what reading it costs, where other programs finish what some have
reduced: softmax of rows of 400000 f32 took 171 us, where moving them once takes 129, and a batch norm 174; in bf16 95
and 93, of 67.

Source: from a sweep of parts and distances on an H200, of 14 nests.
"""
LAG = 12 << 20
"""Bytes that are read between a part's first reading and its second: 6 MB took as long or longer, 18 MB longer.

Source: the same sweep.
"""
LONG_TURN, TURN = 16384, 8192
"""Points of such a part; of one that is not read in vectors, or of several tensors.

Source: the same sweep.
"""

WALKED_FROM, WALKED, WALKED_WARPS = 16385, 4096, 32
"""Points of a row that is reduced in one walk, from which on a program takes it in tiles of so many, and its warps.
Each thread then has few numbers, so that two programs are at work on a processor; with 16384 there is one. Rows that
begin anywhere are the worst: argmin of 4 by 15655537 f32 takes 78 us (148 in tiles of 16384), of 8192 by 32767 bf16 170
(266), sums of 4000 by 70001 f32 260 (302). Of 32 nests 0.91 of the time of tiles of 16384 or 32768, 1.05 the worst.

Source: from six tilings of each, on an H200.
"""
BEGUN, FULLER = 0.5, 1.05
"""What a program takes that has such a part beside its steps, in steps; and how much fuller processors have to be for a
part to be no power of two, twice as much over 1 where that leaves a last part that is not full.

Source: a choice.
"""


@struct
class Rows:
    """What a nest does. Units: `read` and `written` in bytes, of all rows together."""

    programs: int
    """How many programs there are when a row (or a strip of columns) is one."""
    points: int
    """Elements of a row."""
    elements: int
    """Of all rows, for every tensor read."""
    read: int
    """By one stage that reads everything."""
    written: int
    """By the stages after the reductions."""
    stages: int
    """How many read it all."""
    after: int
    """How many of them come after the reductions."""
    kept: int = 1
    """How many tensors several of them read."""
    strips: bool = False
    """Whether a program's row is a strip of columns, which no tile holds."""
    aligned: bool = True
    across: int = 0
    """Of what is written, what row by row takes a sector for each element: bytes of these sectors."""
    work: float = 0.0
    """What is computed for a point, in float adds, by all stages together."""
    touched: int = 1
    """How often a sector is touched that programs of whole rows share: strips of one sector that begin anywhere."""
    later: int = 0
    """Reductions of what others gave, each of which is taken apart after them."""
    beside: int = 0
    """Tensors of a row's size that what comes after reads at each point, and which rows share: weights."""
    turned: int = 0
    """What one kernel moves that goes along rows of which some tensors lie otherwise than others; 0 of others. A norm
    in one group of channels that lie last, whose results lie first, of 32x240x28x28 f32 in training took 563 us where
    programs met, and 41 in parts, whose nests each go as they like (H200).
    """

    @property
    def fits_registers(self) -> bool:
        """Whether programs that share rows have registers for what they do to a part. Elements that are read one by one
        have an address each, for each tensor that is read and stored: a norm with weights of 31 rows of 1048577 f32,
        which took 360 bytes of a thread's stack, took 308 us where programs took turns, 303 where they met, and 120 in
        parts; of 64 rows of 1000003, 477, 293 and 218. Softmax of such rows is better shared (184 us, 199).

        Source: from parts and meetings of 20 nests on an H200, six of them with weights.
        """
        return self.aligned or not self.beside


def of_reading(rows: Rows, times: float) -> float:
    """The cost of reading everything."""
    return max(rows.read * times, 0 if rows.aligned else rows.elements * WORD)


def of_whole_rows(rows: Rows, machine: Machine) -> float:
    """The cost of one kernel, whose programs are whole rows."""
    cost = (of_reading(rows, 1) + of_writing(rows)) * rows.touched
    if rows.strips or rows.points * rows.kept > PERSISTENT:
        at_once = rows.read / max(1, rows.programs) * min(rows.programs, machine.processors)
        again = machine.cache_cost if at_once <= machine.cache else 1.0
        cost += (rows.stages - 1) * of_reading(rows, again)
    return cost / parallelism(rows.programs, machine)


def of_parts(rows: Rows, machine: Machine) -> float:
    """The cost of kernels for the parts, for their combination, and for what comes after, which finds in the cache what
    fits there; and of two for each of the reductions that come later.
    """
    again = machine.cache_cost if rows.read + rows.written <= machine.cache else 1.0
    after = rows.after * rows.read * again + rows.written  # point by point, at any alignment
    return of_reading(rows, 1) + after + (1 + (rows.after > 0) + 2 * rows.later) * machine.launch_bytes


def of_meeting(rows: Rows, members: int, machine: Machine) -> float:
    """The cost of one kernel whose programs share rows, so many each, and meet. Infinite where there might not be room
    for all of them at once, and where they are too few to fill the device: smaller parts of a kernel more do that.
    """
    points = rows.programs * rows.points
    rounds = rows.programs * members / (AT_ONCE * machine.processors)
    if members > machine.processors or rounds < 1:
        return math.inf
    waiting = machine.waiting * math.log2(members) * rounds + 1
    computing = machine.work * rows.work * points
    return max(of_reading(rows, 1) + of_writing(rows), rows.turned) + computing + waiting * machine.launch_bytes


def of_turns(rows: Rows, part: int, machine: Machine) -> float:
    """The cost of one kernel whose programs reduce parts, of so many points, or finish those that others have reduced.
    Infinite where the cache does not hold a row until it is finished, and where it holds most of what there is.
    """
    row = rows.read / max(1, rows.programs)
    if row > LAG or machine.cache < LAG or rows.read < 4 * LAG or rows.points < 2 * part:
        return math.inf
    return max(of_reading(rows, 1) + of_writing(rows), rows.turned) + AGAIN * rows.read + machine.launch_bytes


def ahead(rows: Rows, part: int) -> int:
    """How many parts are reduced before the first is finished."""
    return max(1, LAG * rows.programs * rows.points // (rows.read * part))


def of_writing(rows: Rows) -> float:
    """The cost of what is stored row by row."""
    return max(rows.written, rows.across, 0 if rows.aligned or not rows.written else rows.elements * WORD)


def filled(points: int, size: int, rows: int, machine: Machine) -> int:
    """The points of a part that is walked along, of so many rows of this size: `points`, or about as many, at which all
    processors are at work most of the time. A processor has two such programs: 18 rows of 2100225 f32 in parts of 65536
    are 594 programs, two for each and 66 more that the others wait for, and in parts of 73728 522.
    """
    if points < WALKED_FROM:
        return points
    at_once = machine.processors * max(1, 64 // WALKED_WARPS)

    def full(part: int) -> float:
        """The share of the time that processors are at work."""
        rounds = math.ceil(rows * math.ceil(size / part) / at_once)
        return rows * size / (WALKED * at_once * rounds * (part / WALKED + BEGUN))

    best = max(range(2 * points, points // 2, -WALKED), key=lambda part: round(full(part), 2))
    spoils = size % points == 0 and size % best
    return best if full(best) > full(points) * (2 * FULLER - 1 if spoils else FULLER) else points


def parallelism(programs: int, machine: Machine) -> float:
    """The share of the memory's speed that so many programs of equal size reach, at most."""
    processors = machine.processors
    if programs < processors:
        return min(1.0, programs * machine.share / processors)
    rounds = programs / processors
    # Several programs run on a processor at a time, and the last ones can take more than their share.
    return 1.0 if rounds >= 8 else rounds / (math.floor(rounds) + min(1.0, (rounds % 1) * machine.share))


__all__ = ["Rows", "ahead", "filled", "of_meeting", "of_parts", "of_turns", "of_whole_rows"]
