"""How long a GPU takes for what a tiling does: the time of counts.

    time = a launch + the greatest of (the norm of (memory, cache, loads, lines, work, waiting), starting) + spilling

    memory    what every tensor holds that is touched, and again what is read again when no cache has it any more
    cache     what comes from the second-level cache, in whole sectors; what a processor still holds does not come again
    loads     the threads that issue them, one vector each
    lines     of the first-level cache that each warp touches
    work      arithmetic, of lanes without a point too, what reductions exchange, and what warps wait for subroutines
    waiting   rounds of programs, times what a program waits for one thing after the other
    starting  a processor begins one program after the other, however small they are
    spilling  what does not fit into the registers of a thread

Units: µs, bytes, threads, float adds. The coefficients are fitted to measured kernels; the terms are what a device
does.
"""

from __future__ import annotations

import math

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.transforms.tilings.space import WARP

CLOCK = 1980
"""Clocks in a µs.

Source: a definition: the boost clock of an H200.
"""
REGISTERS = 65536
"""Of a processor.

Source: a definition (sm_90).
"""
RESIDENT = 32
"""Programs of a processor at the same time, at most.

Source: a definition (sm_90).
"""
FEWEST_REGISTERS = 20
"""Of a thread that keeps nothing.

Source: a guess; what is fitted is added to it.
"""
FILLING = 8
"""Warps of a processor that compute in turns, at least, where each of its steps waits for the one before it. Of fewer,
as there are where few columns are scanned by a warp each, steps take as long.

Source: a definition: a processor has four schedulers, and a float add takes four clocks; a warp has some steps of two
columns at a time.
"""
UNSURE = (1.0, 1.25, 1.5)
"""So many times the registers that are thought of a program may have: how many programs a processor has at a time is a
mean over these. Programs of 32 warps were thought to have 25 to 29 registers each thread, and two of them a processor;
they had 39 to 53, and took 1.6 to 2.9 times as long as the best. Of 1057 nests the model alone chooses what takes 1.055
times the best, 1.059 without; of 357 of them, to which nothing was fitted, 1.073 and 1.079.

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
INDEPENDENT = 8
"""Elements of a thread that it computes as it would one; of more it does as much more in a clock as their root is:
they do not wait for one another. With 16 elements of a thread 11 warps did more than twice as much as 4.4 adds of
each lane in a clock. With this what is chosen of the nests of `UNSURE` takes 1.053 times the best, of the 357 1.067.

Source: the same measurements.
"""


@struct
class Coefficients:
    """What the terms weigh. Units: rates for each processor and clock; latencies in clocks.

    A digit, in float adds, was found beside the others: with 10, 20 and 40 of them what is chosen among the tilings of
    337 nests on an H100 takes 1.043, 1.040 and 1.040 times the best, and 1.045 when they are not counted; 40 since work
    is that of warps. So were steps
    of scans: the times of 28 nests are 0.28 off in the mean (powers of e), 0.57 when each lane counted alike.

    Bytes for a broken sector are from two nests on an H100 that read rows of channels and store rows of pixels:
    softmaxes of 182,485 by 64 f32 in tiles of 8 to 128 rows (86, 64, 52, 46, 41 us), and running sums of 9 bf16 that
    are 54 bytes apart (56 us, 50 by this); among 898 other nests nothing is chosen otherwise.

    Those from `work` on that have a say in what is waited for (`work`, `step` to `program`), and the five below, are
    from 861 other nests on an H200 (`make bench-gpu-schedules`), where the rest stayed as it was. What the model alone
    chooses takes 1.049 times the best tiling of 694 of them, 1.060 before. `work`: each warp does 4.4 adds of its lanes
    in a clock, since what it computes next waits for what it computed; so a processor does as many more as it has warps
    at work. `start`: the fastest kernels of more than 2000 programs of 1 to 4 warps took 145 to 160 clocks
    of a processor for each, whatever these did; 171 us, where the same elements in fewer programs took 75. `exchanged`:
    a layer norm of 13 channels of each of 4.2 million pixels took 2 clocks for each row of each warp but one (115 us by
    one warp, 335 by 4, 1190 by 16). `call`: norms of 4 f32 with 4, 8 and 16 elements of a thread took 36, 40 and 77 us.
    `again`: of what all programs that run together hold beyond the second-level cache.

    Source: fitted to the tilings of 707 nests on an H200 by `python -m benchmarks.fit_schedules`.
    """

    cache: float = 82.5
    loads: float = 188.0
    lines: float = 0.66
    work: float = 4.4
    digit: float = 40.0
    shuffles: float = 70.0
    scans: float = 50.0
    spilled: float = 81.0
    step: float = 575.0
    single_step: float = 34.0
    meet: float = 400.0
    crossing: float = 3.0
    program: float = 800.0
    launch: float = 9400.0
    elements: float = 1.19
    kept: float = 0.195
    pointers: float = 0.7
    values: float = 0.087
    again: float = 1.35
    broken: float = 64.0
    exchanged: float = 0.5
    call: float = 330.0
    start: float = 158.0
    norm: float = 1.81


REFERENCE = Coefficients()
LAUNCH = REFERENCE.launch / CLOCK
"""What every kernel takes, in µs.

Source: a definition: that coefficient.
"""


@struct
class Counts:
    """What a tiling does: all programs together, but for what is said to be of a program or a thread."""

    memory: float
    again: float
    cache: float
    loads: float
    lines: float
    work: float
    calls: float
    """Subroutines."""
    digits: float
    """Places of windows that lanes make of one number, one for each axis but the first, in tiles of several rows."""
    shuffles: float
    scans: float
    broken: float
    """Sectors of which a tile stores a part: what a cache is not given soon memory reads, to store the whole."""
    programs: int
    warps: int
    steps: float
    """Tiles that a program loads one after the other."""
    single_steps: float
    """Points that each lane goes through by itself."""
    meets: float
    """Reductions, and steps of scans, of a program."""
    crossing: float
    """Reductions that its warps do together."""
    exchanged: float
    """Words that warps tell each other: of each row that they share, where they have many side by side, what each of
    them but one came to.
    """
    elements: float
    """Of a thread, of one value."""
    kept: float
    """Of a thread, of what later stages have again."""
    values: float
    """Loaded by a thread in one step."""
    pointers: float
    """Places that a thread loads or stores in one step."""


def time_of(counts: Counts, machine: Machine, facts: Coefficients | None = None) -> float:
    """How long something takes that does so much, in µs."""
    c, f = counts, REFERENCE if facts is None else facts
    threads = c.warps * WARP
    most = min(machine.registers, REGISTERS / threads)
    wanted = (
        FEWEST_REGISTERS + f.elements * c.elements + f.kept * c.kept + f.pointers * c.pointers + f.values * c.values
    )
    resident = sum(
        max(1.0, min(float(RESIDENT), 64 / c.warps, REGISTERS // (threads * min(wanted * unsure, most))))
        for unsure in UNSURE
    ) / len(UNSURE)
    processors = machine.processors
    # A processor that has one program more than others is the last to end.
    each = max(1, math.ceil(c.programs / processors))
    own = c.programs / each
    at_work = max(1.0, min(resident, each)) * c.warps
    issued = min(1.0, at_work / FILLING) if c.scans else 1.0
    rate = f.work * max(1.0, c.elements / INDEPENDENT) ** 0.5
    terms = (
        (c.memory + c.again * f.again + c.broken * f.broken) / (machine.memory_rate * processors),
        c.cache / (f.cache * own),
        c.loads / (f.loads * own),
        c.lines / (f.lines * own),
        (c.work + f.digit * c.digits) / (rate * own * at_work)
        + (c.shuffles / f.shuffles + c.scans / f.scans) / (min(c.programs, processors) * issued)
        + c.calls * f.call / (WARP * own * at_work)
        + c.exchanged / (f.exchanged * own),
        max(1.0, c.programs / (processors * resident))
        * (c.steps * f.step + c.single_steps * f.single_step + c.meets * f.meet + c.crossing * f.crossing + f.program),
    )
    together = sum(term**f.norm for term in terms) ** (1 / f.norm)
    together = max(together, c.programs * f.start / processors)
    spilled = max(0.0, wanted - most) * threads * c.programs * (c.steps + c.single_steps)
    return (f.launch + together + spilled / (f.spilled * own)) / CLOCK


def ideal_of(counts: Counts, machine: Machine) -> float:
    """The time that moving what is touched takes at least, in µs."""
    return (REFERENCE.launch + counts.memory / (machine.memory_rate * machine.processors)) / CLOCK


__all__ = ["CLOCK", "LAUNCH", "REFERENCE", "REGISTERS", "RESIDENT", "Coefficients", "Counts", "ideal_of", "time_of"]
