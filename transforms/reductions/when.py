"""When reductions are computed in parts on a GPU: where whole ones would leave most of it idle, or read memory too
often, by the costs of `gpu_cost.py`. (On a processor: `when_on_cpu.py`. Fusion begins a sum where what it adds up is
made, `transforms/fusion/partial.py`, when that saves bytes, as it asks of every move.)

The answer is a choice in the words of `#loops.schedule`: `part`, the points of a part, `cooperative` and `ahead`.
Nothing is changed here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.analysis import Access, NestAnalysis, analyse
from cuesta.dialects.loops.split_axes import step
from cuesta.dialects.loops.surgery import loads_of
from cuesta.dialects.loops.walks import leaders
from cuesta.transforms import thresholds
from cuesta.transforms.reductions import gpu_cost
from cuesta.transforms.reductions.cooperation import can_cooperate
from cuesta.transforms.reductions.domains import Runs
from cuesta.transforms.reductions.laws import PLACE
from cuesta.transforms.reductions.members import Member, done_again, members_of
from cuesta.transforms.reductions.plan import plan_of
from cuesta.transforms.reductions.scans_in_parts import splittable_scan
from cuesta.transforms.reductions.turned_rows import domain_of, turned_bytes
from cuesta.transforms.tilings.cost import time_whole
from cuesta.transforms.tilings.times import CLOCK, LAUNCH

LARGE_GPU = 16384
"""Points of a reduction from which on a second launch pays.

Source: measured by `make bench-constants ARGS='--only when.LARGE_GPU'`
"""
SCATTERED, SCATTERED_LEAST = 4096, 512
"""The same, and the fewest points of a part, of columns whose rows do not begin where vectors may: loads are of single
elements, and a program has fewer bytes on their way. 8192 rows of 8191 f32 took 145 us on an H200 as 256 programs, 131
in 8 parts, 86 in 16, 88 in 32, and TorchInductor 90; rows of 8192 elements take 75.

Source: from a sweep of parts and tiles on an H200, of four shapes.
"""
NARROW, NARROW_LEAST = 512, 128
"""The same of columns so few that their programs leave processors without one. One processor reads 512 rows of a strip,
64 KB, in about the 2 us that a launch takes.

Source: from a profile on an H200: 8000 rows of 256 bf16 took 11 to 17 us in 4 programs, 5 us of TorchInductor.
"""
KEPT, KEPT_SCATTERED = 4097, 2049
"""The same of columns that several stages read: no tile holds longer ones (`MOST_KEPT` in
`lowering/schedule/gpu/columns.py`), and each stage reads memory again; and where rows do not begin where vectors may,
so that narrow tiles of long columns take sectors twice. 4096 points of 30720 columns took 412 us whole, 595 in parts,
2049 of 6573 columns 97 and 69, 1083 of 25307 bf16 102 and 105. Both models of costs have to agree besides.

Source: a definition; from a sweep of parts on an H100, of 24 nests.
"""
LONG_STRIP = 8192
"""Points of columns from which on programs that go down them several times, fewer than there are processors, are no
faster than all would be: a batch norm of 19866x1024 bf16 took 137 us in 64 programs, TorchInductor 59 in parts, where
108 MB of 4 TB/s were expected. (Norms of 8192x1000 took 26 us so.)

Source: from a search for cliffs on an H200; the time of the parts was not measured.
"""
LEAST = 1024
"""The fewest points of a part.

Source: measured by `make bench-constants ARGS='--only when.LEAST'`
"""
COLUMNS = 64
"""Parallel points that one program takes at most when it reduces columns.

Source: measured by `make bench-constants ARGS='--only when.COLUMNS'`
"""
FEW_PROGRAMS, MANY_PROGRAMS = 2, 8
"""Programs per processor: with fewer than the first a reduction is split, so that there are about the second.

Source: measured by `make bench-constants ARGS='--only when.FEW_PROGRAMS when.MANY_PROGRAMS'`
"""
TILE = 8192
"""Elements of a part that is to stay in registers.

Source: measured by `make bench-constants ARGS='--only when.TILE'`
"""
HEAVY, LIGHTER = 12, 0.93
"""Where so much is computed for a point (float adds), programs that meet have parts of half as many, of which more are
at work at a time; and what that leaves of their cost. Softmax of rows of 65535 and 400000 f32 took 182 and 178 us, 200
and 198 with whole ones, log-softmax 165 and 162 instead of 171; norms, which compute less, 175 to 238, not 162 to 215.

Source: from a sweep of parts on an H200, of 18 nests.
"""
WORTH = 0.9
"""The share of the cost below which parts are taken.

Source: measured by `make bench-constants ARGS='--only when.WORTH'`
"""
APART, PUT_TOGETHER = 1.25, 4.0
"""What a reduction takes in parts: so many times what moving its tensors takes, and so many µs more. Of 19 nests
shorter than 100 µs that were measured both ways one is chosen wrongly.

Source: from 37 nests on an H200 (`make bench-gpu-schedules`).
"""
TOGETHER, TOGETHER_PARTS = 2048, 8
"""The fewest points of a part of columns for each of which several things are read, where that leaves so many parts.
Gradients of a layer norm's weights took 38.8 us in parts of 256 points, 23.9 of 1024 and 19.5 of 2048 (65536 rows of
256 bf16), of f32 42.6, 28.6 and 28.6, of 16384 rows of 1000 bf16 31.9, 32.2 and 23.8, of f32 40.3, 29.9 and 29.7.

Source: from five parts of twelve nests on an H200.
"""
TRIED, TRIED_LEAST = (4, 32), 256
"""Programs of a processor whose parts are worth timing, and the fewest points of such a part. Of 103 nests what is
chosen took 1.071 of the best of six to nine, 8.5 at most; the best of that and of these two 1.011, 1.13 at most.

Source: from parts of these nests on an H200.
"""
TRIED_PROGRAMS, TRIED_FROM = 4, 3.0
"""Programs of a processor from which on parts are not tried; and what the nest is thought to cost at least, in
launches: less is no gain to wait for.

Source: a choice.
"""
SCAN_LEAST, SCAN_TILE = 2048, 2048
"""The fewest points of a part of a scan, and those that are scanned at once.

Source: a definition: the tile of `schedule_gpu` for what comes in order.
"""
SCAN_STEP = 0.5
"""What a round of a scan takes, in launches: the next one waits for it.

Source: from a profile on an H200: 43 million points by one program took 22 ms, a microsecond for a tile of 2048.
"""
SURELY_MEET = 0.915
"""The share of the cost of parts in turns below which programs meet that keep theirs: log-softmax of rows of 65535 and
400000 f32 took 166 and 160 us so, and 181 and 166 in turns, a group norm 161 and 164, a batch norm 197 and 174.

Source: from a sweep of parts and distances on an H200, of 14 nests.
"""
MEET = True
"""Whether programs that share a row may meet where no schedule says so.

Source: a choice, `docs/decisions/016-programs-that-meet.md`.
"""
ALONE = 0.8
"""The share of the time that rows take, fewer than there are processors, below which parts do: 68 rows of 32772 f32,
which two stages read, took 24 us after the launch, and 13 in parts; 20 of 50176 bf16 15.8 and 7.5. Near misses: 31 of
24576 f32 took 4.3 and 7.1, 128 of 65536 21.7 and 30.

Source: from tilings and parts of 45 nests on an H200.
"""
SURE = 0.93
"""The share of the cost of parts below which they do.

Source: measured by `make bench-constants ARGS='--only when.SURE'`
"""


def choose_part_on_gpu(nest: loops.NestOp, machine: Machine) -> dict[str, int]:
    """What to choose for a nest on a GPU; nothing where its reductions, or its scan, are better left whole."""
    if (scan := splittable_scan(nest)) is not None:
        points = points_of_scan(nest, scan, machine)
        return {"part": points} if points else {}
    members = members_of(nest)
    if not members or not is_static((*nest.sizes, *members[0].reduction.sizes)):
        return {}
    facts = _Facts(nest, members)
    points = facts.choose(machine)
    runs = Runs(facts.analysis, members) if points.meeting or points.apart else None
    if runs is None:
        return {}
    if points.meeting and can_cooperate(nest, members, runs.parts(points.meeting)):
        turns = {"ahead": points.ahead} if points.ahead else {}
        return {"part": points.meeting, "cooperative": 1, **turns}
    if points.apart and plan_of(nest, members, runs.parts(points.apart)) is not None:
        return {"part": points.apart}
    return {}


def parts_to_time(nest: loops.NestOp, machine: Machine) -> list[dict[str, int]]:
    """Parts of a nest on a GPU that are worth timing beside what `choose_part_on_gpu` says, where its reductions may be
    taken apart, programs of whole rows are few, and it takes long enough.
    """
    members = members_of(nest)
    if not members or not is_static((*nest.sizes, *members[0].reduction.sizes)):
        return []
    facts = _Facts(nest, members)
    programs = facts.programs()
    if programs >= TRIED_PROGRAMS * machine.processors or facts.points < 2 * TRIED_LEAST:
        return []
    chosen = choose_part_on_gpu(nest, machine)
    cost = gpu_cost.of_parts if chosen else gpu_cost.of_whole_rows
    if cost(facts.seen(machine), machine) < TRIED_FROM * machine.launch_bytes:
        return []
    found: list[dict[str, int]] = []
    runs = Runs(facts.analysis, members)
    for many in TRIED:
        points = max(TRIED_LEAST, power_of_two(math.ceil(facts.points * programs / (many * machine.processors))))
        one = {"part": points}
        if 2 * points > facts.points or one == chosen or one in found:
            continue
        if plan_of(nest, members, runs.parts(points)) is not None:
            found.append(one)
    return found


def reads_strips(nest: loops.NestOp, members: Sequence[Member]) -> bool:
    """Whether the reductions of a nest read more in order along its points than along their own: strips of columns."""
    return _Facts(nest, members).reads_strips()


def points_of_scan(nest: loops.NestOp, scan: loops.ScanOp, machine: Machine) -> int:
    """The points of a part of a scan; 0 where it is better left whole: programs are rows, or strips of columns, and
    each of them has one tile at a time.
    """
    size = math.prod(size for size in scan.sizes if isinstance(size, int))
    around = math.prod(size for size in nest.sizes if isinstance(size, int))
    if size < 2 * SCAN_LEAST or not around:
        return 0
    analysis = analyse(nest, {}, [True] * len(nest.results))
    accesses = [access for loop in analysis.root.loops for access in loop.accesses if access.width]
    axis = analysis.number[scan.induction_variables[0]]
    moved = sum(access.width for access in accesses if access.varies >> axis & 1)
    strips = not any(sym.coefficient(access.address, axis) in (1, -1) for access in accesses)
    programs = math.ceil(around / COLUMNS) if strips else around
    tile = max(1, SCAN_TILE // min(around, COLUMNS)) if strips else SCAN_TILE
    rounds = math.ceil(programs / (gpu_cost.AT_ONCE * machine.processors))
    whole = max(size * around * moved, size / tile * rounds * SCAN_STEP * machine.launch_bytes)
    # A scan reads and writes; the totals read once more, which is about half of that.
    if 1.5 * size * around * moved + 2 * machine.launch_bytes > WORTH * whole:
        return 0
    wanted = max(2, math.ceil(MANY_PROGRAMS * machine.processors / programs))
    return min(max(power_of_two(math.ceil(size / wanted)), SCAN_LEAST), TILE)


def points_of_meeting(rows: gpu_cost.Rows, most: float, machine: Machine) -> tuple[int, int]:
    """The points of a part where programs that share a row meet, 0 where that would cost more than `most`; and how many
    parts are reduced before the first is finished, 0 where programs keep theirs.
    """
    if not MEET or not rows.after or not rows.fits_registers:
        return 0, 0
    points, cost = TILE, gpu_cost.of_meeting(rows, math.ceil(rows.points / TILE), machine)
    if rows.work >= HEAVY and math.ceil(rows.points / (TILE // 2)) <= machine.processors:
        points, cost = TILE // 2, LIGHTER * cost
    turn = gpu_cost.LONG_TURN if rows.aligned and rows.kept == 1 else gpu_cost.TURN
    in_turns = gpu_cost.of_turns(rows, turn, machine)
    if in_turns <= most and in_turns * SURELY_MEET < cost:
        return turn, gpu_cost.ahead(rows, turn)
    return (points if cost <= most else 0), 0


@struct
class _Points:
    """The points that a part should have, where those who share a row meet, and where the nest is taken apart; 0 where
    that is not better than whole rows. Who cannot meet is taken apart.
    """

    meeting: int = 0
    apart: int = 0
    ahead: int = 0
    """Of those that meet, how many are reduced before the first is finished."""


def is_static(sizes: Sequence[sym.IndexExpr]) -> bool:
    """Whether sizes are numbers, and none of them is 0."""
    return all(isinstance(size, int) for size in sizes) and 0 not in sizes


class _Facts:
    """What decides about a nest whose `members` could be split."""

    def __init__(self, nest: loops.NestOp, members: Sequence[Member]) -> None:
        self.nest = nest
        self.members = members
        self.sizes = [int(size) for size in members[0].reduction.sizes if isinstance(size, int)]
        self.points = math.prod(self.sizes)
        self.around = math.prod(size for size in nest.sizes if isinstance(size, int))
        self._analysis: NestAnalysis | None = None
        self._scattered: bool | None = None
        self._time: tuple[float, float] | None = None

    @property
    def analysis(self) -> NestAnalysis:
        """The addresses of all accesses."""
        if self._analysis is None:
            self._analysis = analyse(self.nest, {}, [True] * len(self.nest.results))
        return self._analysis

    def programs(self) -> int:
        """How many programs whole rows are, or strips of columns."""
        return math.ceil(self.around / COLUMNS) if self.reads_strips() else self.around

    def stages(self) -> list[loops.DomainOp]:
        """What comes one after the other, but for what every part does again."""
        again = done_again(self.nest)
        return [op for op in self.nest.body.ops if isinstance(op, loops.DomainOp) and op not in again]

    def seen(self, machine: Machine) -> gpu_cost.Rows:
        """The nest, as the cost model sees it."""
        strips = self.reads_strips()
        programs = math.ceil(self.around / self.columns_of_program(machine)) if strips else self.around
        return self.rows(self.stages(), programs, machine, strips=strips)

    def choose(self, machine: Machine) -> _Points:
        """What is best by the cost model."""
        processors = machine.processors
        bare = not any(isinstance(op, loops.ForOp) for op in self.nest.body.ops)
        places = any(member.law is PLACE for member in self.members)
        strips = self.reads_strips() and not (bare and not places and self.are_pieces(machine))
        scattered = self.is_scattered(machine)
        large, least, many = LARGE_GPU, LEAST, MANY_PROGRAMS
        # Pairs of an extreme and its place take so many registers that narrow strips are better than parts.
        strip = self.strip(machine) * machine.sector // machine.segment if places else self.strip(machine)
        if strips and self.around < strip * processors:
            large, least = min(large, NARROW), min(least, NARROW_LEAST)
        elif scattered:
            large, least, many = min(large, SCATTERED), min(least, SCATTERED_LEAST), 2 * MANY_PROGRAMS
        stages = self.stages()
        if strips and not places and len(self.walks(stages)) > 1:
            large = min(large, KEPT_SCATTERED if scattered else KEPT)
        if self.points < large:
            return _Points()
        programs = math.ceil(self.around / COLUMNS) if strips else self.around
        if len(stages) == len(self.members) and all(member.is_independent for member in self.members):
            if programs >= FEW_PROGRAMS * processors or self.is_better_whole(machine):
                return _Points()
            wanted = min(max(2, many * processors // programs), self.points // least)
            points = power_of_two(math.ceil(self.points / wanted))
            if not strips:
                points = gpu_cost.filled(points, self.points, programs, machine)
            elif self.reads_together() and self.points >= TOGETHER_PARTS * TOGETHER:
                points = max(points, TOGETHER)
            # What several of them read is in registers when a tile holds the part.
            return _Points(
                apart=min(points, self.rows_of_strip(machine)) if strips and len(self.members) > 1 else points
            )
        whole = math.ceil(self.around / self.columns_of_program(machine)) if strips else programs
        rows = self.rows(stages, whole, machine, strips=strips)
        points = self.rows_of_strip(machine) if strips else max(LEAST, TILE // self.beside)
        most = WORTH * gpu_cost.of_whole_rows(rows, machine)
        if strips and whole < machine.processors and self.points > LONG_STRIP:
            most *= machine.share  # each step waits for memory: a processor alone has no more of it than its share
        apart = gpu_cost.of_parts(rows, machine)
        together = not strips and self.is_in_order(machine.segment)
        meet, ahead = points_of_meeting(rows, min(most, SURE * apart), machine) if together else (0, 0)
        while points > LEAST and programs * self.points // points < FEW_PROGRAMS * processors:
            points //= 2
        # Columns so few and long that no tile keeps them, and that processors have none: statistics of 16 images of 16
        # channels, last, and 127 x 127 f32 took 37 us whole on an H100, where the model of tilings expects 13.
        starved = strips and self.points >= KEPT and self.around < self.strip(machine) * processors
        takes_apart = apart <= most and (meet or starved or not self.is_better_whole(machine))
        takes_apart = takes_apart or (not strips and self.waits_alone(programs, apart, machine))
        return _Points(meeting=meet, apart=points if takes_apart else 0, ahead=ahead)

    @property
    def beside(self) -> int:
        """How many rows lie side by side, element by element, so that a program takes them all: a power of two."""
        if not self.reads_strips():
            return 1
        reads = [access for member in self.members for _, access in self.large(member.reduction)]
        return power_of_two(max(self.run(access, self.nest) // access.width for access in reads))

    def time(self, machine: Machine) -> tuple[float, float]:
        """What the model of tilings says of the whole nest, in µs, and of moving its tensors."""
        if self._time is None:
            self._time = time_whole(self.nest, machine)
        return self._time

    def waits_alone(self, programs: int, apart: float, machine: Machine) -> bool:
        """Whether rows are fewer than processors, and what waits for memory alone costs more than parts, `apart`."""
        rate = CLOCK * machine.memory_rate * machine.processors
        return programs < machine.processors and apart <= ALONE * (self.time(machine)[0] - LAUNCH) * rate

    def is_better_whole(self, machine: Machine) -> bool:
        """Whether the whole nest is thought to take less than its parts, and what puts them together. Near miss: rows
        of columns that do not begin where vectors may, of which the model expects too much.
        """
        if self.is_scattered(machine):
            return False
        whole, ideal = self.time(machine)
        return 0 < whole < ideal * APART + PUT_TOGETHER

    def are_pieces(self, machine: Machine) -> bool:
        """Whether columns lie side by side that are so few that they fill no sector, and are one piece of memory with
        all their points: it is read like a row. Means of 300 by 4000 by 2 f32 took 13 us in parts, 8 whole.
        """
        number = self.analysis.number
        for member in self.members:
            inner = [number[one] for one in member.reduction.induction_variables]
            for _, access in self.large(member.reduction):
                run = self.run(access, self.nest)
                if run >= machine.sector or len(inner) != 1:
                    return False
                if step(access.address, inner[0], self.analysis) != run // access.width:
                    return False
        return True

    def is_scattered(self, machine: Machine) -> bool:
        """Whether strips of columns are read whose rows do not begin where vectors may."""
        if self._scattered is None:
            self._scattered = self.reads_strips() and not self.is_aligned(machine.vector, columns=True)
        return self._scattered

    def rows_of_strip(self, machine: Machine) -> int:
        """How many rows of a strip of columns one tile holds."""
        return max(2, TILE // self.strip(machine))

    def touched(self, machine: Machine) -> int:
        """How many programs touch a sector of what is read by strips: two of strips so narrow that begin anywhere."""
        narrow = self.points < KEPT or self.columns_of_program(machine) < self.strip(machine)
        return 2 if narrow and self.is_scattered(machine) else 1

    def columns_of_program(self, machine: Machine) -> int:
        """The columns that a program of whole columns has: fewer where processors would have no program, as long as
        they fill sectors.
        """
        columns, least = COLUMNS, self.strip(machine) * machine.sector // machine.segment
        while columns > least and self.around < columns * machine.processors:
            columns //= 2
        return columns

    def strip(self, machine: Machine) -> int:
        """The columns of a strip: as many as lie in a segment of memory."""
        width = max((access.width for member in self.members for _, access in self.large(member.reduction)), default=4)
        return machine.segment // width

    def rows(self, stages: Sequence[loops.DomainOp], programs: int, machine: Machine, *, strips: bool) -> gpu_cost.Rows:
        """The same of so many programs."""
        elements = self.around * self.points
        reading = self.walks(stages)
        after = [stage for stage in stages if not isinstance(stage, loops.ReduceOp)]
        members = {member.reduction for member in self.members}
        tensors = {load.source: access for stage in stages for load, access in self.large(stage)}
        read = {source: max(elements, self.values(access)) for source, access in tensors.items()}
        readers = Counter(tensor for stage in reading for tensor in {load.source for load, _ in self.large(stage)})
        every = self.analysis.accesses.items()
        stored = [(op, access) for op, access in every if isinstance(op, loops.StoreOp) and op.parent_op() in after]
        written = sum(access.width for _, access in stored)
        apart = [] if strips else [at for op, at in stored if not self.moves_by_one(at, domain_of(op))]
        return gpu_cost.Rows(
            programs,
            self.points,
            sum(read.values()),
            sum(read[source] * access.width for source, access in tensors.items()),
            elements * written,
            max(1, len(reading)),
            sum(stage in after for stage in reading),
            max(1, sum(count > 1 for count in readers.values())),
            strips,
            strips or self.is_aligned(machine.vector),
            elements * machine.sector * len(apart),
            sum(loop.work for loop in self.analysis.root.loops),
            self.touched(machine) if strips else self.sharing(machine),
            sum(isinstance(stage, loops.ReduceOp) and stage not in members for stage in stages),
            len({source for stage in after for source in self.shared_by_rows(stage)} - set(tensors)),
            0 if strips else elements * turned_bytes([*map(self.large, reading), stored], self.analysis, machine),
        )

    def shared_by_rows(self, stage: loops.DomainOp) -> list[SSAValue]:
        """What a stage reads of the size of a row."""
        sources = dict.fromkeys(load.source for load in loads_of(stage))
        return [one for one in sources if sym.product_of(sizes_of(tensor_type_of(one))) == self.points]

    def walks(self, stages: Sequence[loops.DomainOp]) -> list[loops.DomainOp]:
        """The stages that read a large tensor, without those that are done in the loop of one before them."""
        along = leaders(stages)
        return [stage for stage in stages if self.large(stage) and stage not in along]

    def sharing(self, machine: Machine) -> int:
        """How many rows share a sector of what is read: groups of a few channels that lie side by side. Each of them
        touches it, and those of a batch are at work at different places. Group norm of 64x16x128x128 f32, channels
        last, in groups of four took 187 us in 256 programs.
        """
        least = machine.sector
        for member in self.members:
            for _, access in self.large(member.reduction):
                if self.moves_by_one(access, member.reduction):
                    least = min(least, self.run(access, member.reduction))
        return machine.sector // max(1, least)

    def large(self, stage: loops.DomainOp) -> list[tuple[loops.LoadOp, Access]]:
        """The loads of a stage that read a large tensor: about an element for every point of every row."""
        found: list[tuple[loops.LoadOp, Access]] = []
        inner = self.axes(stage)
        for op in stage.body.ops:
            if isinstance(op, loops.LoadOp):
                access = self.analysis.accesses[op]
                if access.varies & inner and self.values(access) * thresholds.SMALL >= self.around * self.points:
                    found.append((op, access))
        return found

    def reads_together(self) -> bool:
        """Whether some reduction reads several things for each of its points."""
        for op in (member.reduction for member in self.members):
            axes, accesses = self.axes(op), (self.analysis.accesses[load] for load in loads_of(op))
            if sum(bool(access.varies & axes) for access in accesses) > 1:
                return True
        return False

    def values(self, access: Access) -> int:
        """At how many points an access may be at different places."""
        sizes = enumerate(self.analysis.sizes)
        return math.prod(size for axis, size in sizes if access.varies >> axis & 1 and isinstance(size, int))

    def axes(self, op: loops.DomainOp) -> int:
        """The axes of a domain, as a set of bits."""
        return sum(1 << self.analysis.number[variable] for variable in op.induction_variables)

    def is_aligned(self, vector: int, *, columns: bool = False) -> bool:
        """Whether all rows of what is read in order begin where vectors may; or the rows that columns are read of."""
        for member in self.members:
            around = member.reduction if columns else self.nest
            axes = [self.analysis.number[variable] for variable in around.induction_variables]
            if not all(access.moves_by(vector, axes) for _, access in self.large(member.reduction)):
                return False
        return True

    def reads_strips(self) -> bool:
        """Whether more is read in order along the parallel axes than along the points of the reductions."""
        along = across = 0
        for member in self.members:
            for _, access in self.large(member.reduction):
                if self.moves_by_one(access, member.reduction):
                    along += access.width
                elif self.moves_by_one(access, self.nest):
                    across += access.width
        return across > along

    def is_in_order(self, segment: int) -> bool:
        """Whether no reduction finds short pieces of memory, which those of other rows lie between: programs that meet
        each have some of them, and read a sector for every element where a group has few channels that lie side by
        side. Group norm of 2x96x224x224 f32, channels last, in groups of three took 456 us so, 68 in parts; batch norm
        of 98304x24x26 f32, whose pieces are 104 bytes, 481.
        """
        return not any(
            self.moves_by_one(access, member.reduction) and self.run(access, member.reduction) < segment
            for member in self.members
            for _, access in self.large(member.reduction)
        )

    def run(self, access: Access, domain: loops.DomainOp) -> int:
        """The bytes of what an access reads in order along a domain that has an axis where it moves by one."""
        reached = 1
        number = self.analysis.number
        strides = {
            number[one]: stride
            for one in domain.induction_variables
            if isinstance(stride := step(access.address, number[one], self.analysis), int)
        }
        for axis, stride in sorted(strides.items(), key=lambda item: abs(item[1])):
            size = self.analysis.sizes[axis]
            if abs(stride) == reached and isinstance(size, int):
                reached *= size
        return reached * access.width

    def moves_by_one(self, access: Access, domain: loops.DomainOp) -> bool:
        """Whether an access reads neighbours along an axis of a domain, in one order or the other."""
        number = self.analysis.number
        return any(step(access.address, number[one], self.analysis) in (1, -1) for one in domain.induction_variables)


__all__ = ["choose_part_on_gpu", "is_static", "parts_to_time", "points_of_meeting", "reads_strips"]
