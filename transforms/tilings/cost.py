"""What a tiling costs: what it does, counted from the accesses of a nest, and the time that takes (`times.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import sizes_of
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis, analyse, byte_width, tensor_type_of
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.dialects.loops.walks import leaders
from cuesta.transforms.tilings.accesses import Axes, Group, Shape, Use, broken, pieces, side_by_side
from cuesta.transforms.tilings.rounds import rounds_at_once
from cuesta.transforms.tilings.space import WARP, Tiling, dimension_of, has_tilings, refinements, tilings
from cuesta.transforms.tilings.times import LAUNCH, RESIDENT, Counts, ideal_of, time_of

Around = tuple[tuple[int, int, int], ...]
"""What a program goes through step by step: axes, how many points a step is, and how many steps."""


NEAR = 192 << 10
"""Bytes of the first-level cache that programs of a processor share.

Source: a definition (sm_90: 256 KB, of which some is shared memory).
"""
BURST, BURST_SHARE = 64, 0.2
"""Bytes that memory gives at a time, and how often, of what a program that goes on from tile to tile has no use for of
these, another comes too late: sums of 16384 columns of 4096 f32 took 111 us with 8 columns a program, 89 with 16 and 72
with 32. With this, what the model alone chooses of 54 sums of columns takes 1.109 times the best, 1.131 without, and of
429 other nests 1.065 both ways; with 128 bytes it expects worse times.

Source: from tilings of these nests on an H200.
"""
SLACK = 1.3
"""A tiling that takes at most so many times what moving its tensors takes, both but for the launch, is not asked about
further.

Source: with measured times of 360 nests: looking at all of them found nothing more. 1.6 of nests without loops: what is
chosen of 410 fresh nests takes 1.0471 times the best (30 beyond 1.15), 1.0449 (27) so; of 1008 others 1.0417 and
1.0412. A maximum of two f32 that lie channels last took 29 us on an H100, 1.32 of moving them, and 20 in the tile that
is chosen. Four vectors added to rows of 1368 f32 took 180 us on an H200 in the tile that this leads to, 174 as usual.
"""
LITTLE = 0.8
"""What is not worth asking about, in µs.

Source: with measured times of 350 fresh nests 0, 0.3 and 0.8 give 1.043 times the best, 1 1.046, 2 1.051.
"""
GAIN = 0.9
"""The share of the usual tiling's time, but for the launch, that another is thought to take at most, to be taken. Of
1179 nests that were measured on an H200 87 are overruled so, 22 wrongly, by 1.65 at most; the worst that is mended took
15 times too long. What is chosen takes 1.048 times the best (17 beyond 1.5); at 0.72 it was 1.057 (28), at 1.0 1.054,
never overruled 1.073 (41). Refitted coefficients, and other forms of the model, gave no less on nests that they were
not fitted to. Of the whole time, launch and all, what is chosen of 350 fresh ones takes 1.048, of what comes after it
1.043.

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""


class TileCosts:
    """The costs of the tilings of one nest, whose axes are merged."""

    def __init__(self, analysis: NestAnalysis, machine: Machine) -> None:
        self.machine = machine
        self.analysis = analysis
        self.sizes = [analysis.estimate(size) for size in analysis.sizes]
        self.root = analysis.root
        self.axes = list(analysis.root.axes)
        self.middle = [size // 2 for size in self.sizes]
        self._held: dict[SSAValue, int] = {}
        self.uses: dict[Loop, list[Use]] = {
            loop: [Use(access, loop, self) for access in loop.accesses if access.width] for loop in self.root.walk()
        }
        self.beside = {loop: side_by_side(uses) for loop, uses in self.uses.items()}
        """Parts of one tensor that a point touches, by what touches them."""
        self.far = self._far()
        self.along: dict[Loop, Loop] = {}
        """Of reductions that go over their points with one before them, that one."""
        for loop in self.root.walk():
            number = {inner.op: inner for inner in loop.loops}
            for other, first in leaders(number).items():
                self.along[number[other]] = number[first]

    def held(self, tensor: SSAValue) -> int:
        """The bytes of a tensor."""
        known = self._held.get(tensor)
        if known is None:
            sizes = sizes_of(tensor_type_of(tensor))
            known = math.prod(self.analysis.estimate(size) for size in sizes) * byte_width(tensor)
            self._held[tensor] = known
        return known

    def _far(self) -> dict[Use, list[tuple[int, float]]]:
        """Of what is read for every index of an axis, in turn: those axes, and how much of it no cache has any more
        when its turn comes again. Programs go through the parallel axes in order: what the axes within that one touch
        lies between.
        """
        every = [use for uses in self.uses.values() for use in uses]
        if sum({use.source: use.touched for use in every}.values()) <= self.machine.cache // 2:
            return {}
        inner = [axis for axis in range(len(self.sizes)) if axis not in self.axes]
        within = {
            use: use.width * math.prod(self.sizes[axis] for axis in inner if use.moves[axis] or axis in use.data)
            for use in every
        }
        far: dict[Use, list[tuple[int, float]]] = {}
        for axis in reversed(self.axes):
            between: dict[SSAValue, int] = {}
            for use in every:
                between[use.source] = max(between.get(use.source, 0), min(within[use], use.touched))
            share = min(1.0, 2.0 * sum(between.values()) / self.machine.cache - 1.0)
            for use in every:
                if use.moves[axis] or axis in use.data:
                    within[use] *= self.sizes[axis]
                elif share > 0.0 and not use.stored:
                    far.setdefault(use, []).append((axis, share))
        return far

    def stride(self, access: Access, axis: int) -> int | None:
        """By how many elements an access moves along an axis, in the middle of the nest; None where data say."""
        if not access.varies >> axis & 1:
            return 0
        if access.indirect >> axis & 1:
            return None
        stride = sym.coefficient(access.address, axis)
        if isinstance(stride, int):
            return stride
        here = list(self.middle)
        here[axis] = max(0, min(here[axis], self.sizes[axis] - 2))
        there = list(here)
        there[axis] += 1
        symbols = {name: self.analysis.estimate(sym.symbol(name)) for name in getattr(access.address, "symbols", ())}
        return int(sym.evaluate(access.address, there, symbols)) - int(sym.evaluate(access.address, here, symbols))

    def spread(self, axes: Sequence[int], lanes: int) -> Group:
        """So many lanes along axes that are one."""
        found: list[tuple[int, int]] = []
        for axis in reversed(axes):
            if lanes <= 1:
                break
            size = self.sizes[axis]
            if axis == axes[0] or lanes <= size:
                found.append((axis, lanes))
                break
            found.append((axis, size))
            lanes = -(-lanes // max(1, size))
        return tuple(found)

    def counts(self, choices: Mapping[str, int]) -> Counts:
        """What a tiling does."""
        return _Counting(self, choices).counts()

    def best(self) -> Tiling:
        """The tiling that costs least: the best of each form, and what is like it. One lane where there is no other."""
        one = {"along": 1, "rows": 1, "lanes": 1, "warps": 1}
        found = min(tilings(self.analysis, self.machine), key=self.time, default=one)
        return min([found, *refinements(self.analysis, self.machine, found)], key=self.time)

    def time(self, choices: Mapping[str, int]) -> float:
        """How long a tiling takes, in µs."""
        return time_of(self.counts(choices), self.machine)


_NOTHING: frozenset[Any] = frozenset()


class _Counting:
    """The counts of one tiling."""

    def __init__(self, costs: TileCosts, choices: Mapping[str, int]) -> None:
        self.costs = costs
        self.machine = costs.machine
        sizes, axes = costs.sizes, costs.axes
        reduces = bool(costs.root.loops)
        self.plain = not reduces
        """Whether there are no loops. In those, what is no vector weighs less than is said here: counted there, too,
        what is chosen of 668 measured nests took 1.063 of the best, and 1.061 so.
        """
        self.inner = choices.get("lanes", 1) if reduces else 1
        rows = choices.get("rows" if reduces else "lanes", 1)
        height = choices.get("height", 1)
        self.warps = choices["warps"]
        self.threads = self.warps * WARP
        self.outer = rows * height
        tiles: list[Group] = []
        self.axes: dict[Group, Axes] = {}
        """Of the dimensions of tiles, the axes that they go along as one."""
        programs = math.prod(sizes[axis] for axis in axes)
        for name, lanes in (("across", height), ("along", rows)):
            if lanes > 1:
                dimension = dimension_of(axes, choices, name)
                tiles.append(self.spread(dimension, lanes))
                points = math.prod(sizes[axis] for axis in dimension)
                programs = programs // max(1, points) * -(-points // lanes)
        self.programs = programs
        self.tiles = tiles
        self.again = self.cache = self.loads = self.lines = self.broken = 0.0
        self.work = self.calls = self.digits = self.shuffles = self.scans = 0.0
        self.steps = self.single_steps = self.meets = self.crossing = 0.0
        self.exchanged = self.kept = self.values = self.pointers = 0.0
        self.most = self.outer
        self.touched: dict[SSAValue, int] = {}
        self.seen: set[Any] = set()
        self.read: dict[Loop, frozenset[Any]] = {}
        """What is read in a walk over the points of a loop, and of those that go along with it."""
        of_processor = max(1, min(RESIDENT, 64 // self.warps, -(-programs // self.machine.processors)))
        self.near = NEAR / of_processor
        self.at_once = min(1.0, self.machine.processors * of_processor / max(1, programs))
        """The share of the programs that may run at the same time."""

    def spread(self, axes: Sequence[int], lanes: int) -> Group:
        """A dimension of so many lanes, along axes that are one."""
        group = self.costs.spread(axes, lanes)
        self.axes[group] = tuple(axes)
        return group

    def counts(self) -> Counts:
        self.walk(self.costs.root, self.tiles, (), 1, self.outer, True)
        threads = self.threads
        return Counts(
            float(sum(self.touched.values())), self.again, self.cache, self.loads, self.lines, self.work, self.calls,
            self.digits, self.shuffles, self.scans, self.broken, self.programs, self.warps, self.steps,
            self.single_steps, self.meets, self.crossing, self.exchanged, self.most / threads, self.kept, self.values,
            self.pointers,
        )  # fmt: skip

    def walk(
        self, loop: Loop, tiles: list[Group], around: Around, times: int, lanes: int, persistent: bool, rounds: int = 1
    ) -> None:
        """Counts a loop that a program goes through `times` times, the last `rounds` in a row, with so many lanes;
        `around` are the points that it goes through one after the other.
        """
        threads, programs, costs = self.threads, self.programs, self.costs
        self.work += programs * times * max(lanes, threads) * loop.work
        self.calls += programs * times * max(lanes, threads) * loop.subroutines
        self.most = max(self.most, lanes * loop.values)
        pointers = values = 0.0
        waits = False
        first = costs.along.get(loop, loop)
        read = self.read.get(first, _NOTHING)
        self.read[first] = read | {use.key for use in costs.uses[loop]}
        counted = [use for use in costs.uses[loop] if use.stored or use.key not in (self.seen if persistent else read)]
        shapes = [self.shape(use, tiles) for use in counted]
        widest: dict[int, int] = {}
        for use, shape in zip(counted, shapes, strict=True):
            widest[shape.nearest] = max(widest.get(shape.nearest, 1), shape.vector // use.width)
        beside, known = costs.beside[loop], {use.key for use in counted if use.key in self.seen}
        for use, shape in zip(counted, shapes, strict=True):
            waits = first is loop
            padded, single = self.count(use, shape, widest[shape.nearest], around, times, beside.get(use))
            values += padded / threads
            pointers += single / threads
            if use in beside and use.key not in known:
                self.seen.add(use.key)
                self.touched[use.source] = min(self.touched.get(use.source, 0) + use.touched, costs.held(use.source))
            elif use.key in self.seen:
                self.again += use.touched * min(1.0, use.touched * self.at_once / self.machine.cache)
            else:
                self.seen.add(use.key)
                self.touched[use.source] = max(self.touched.get(use.source, 0), use.touched)
                if around and use.touched > self.machine.cache and not use.stored:
                    self.again += use.touched * BURST_SHARE * self.not_used(use, shape)
                if far := costs.far.get(use):
                    self.again += use.touched * (self.turns(far) - 1.0)
            if persistent and not use.stored:
                self.kept += padded / threads
        self.pointers, self.values = max(self.pointers, pointers), max(self.values, values)
        if waits:
            # What a lane loads after it has stored waits for memory each time: nobody knows that they do not overlap.
            turns = times * self.turns_of(loop, lanes, rounds)
            serial = loop is not costs.root and lanes == self.outer and times > 1
            if serial and not any(use.stored for use in costs.uses[loop]):
                turns = 0.0
            self.steps += turns
            self.single_steps += times - turns
        sizes = costs.sizes
        for inner in loop.loops:
            axes = inner.axes
            count = math.prod(sizes[axis] for axis in axes)
            own = min(self.inner, power_of_two(max(1, count)))
            if inner.loops or not axes or own == 1:
                within = (*around, *((axis, 1, sizes[axis]) for axis in axes))
                self.walk(inner, tiles, within, times * count, lanes, False, sizes[axes[-1]] if axes else 1)
                continue
            rounds = -(-count // own)
            group = self.spread(axes, own)
            if lanes > 1:
                self.digits += programs * times * rounds * max(lanes * own, threads) * (len(axes) - 1)
            within = (*around, (axes[0], dict(group).get(axes[0], 1), rounds)) if rounds > 1 else around
            self.walk(inner, [*tiles, group], within, times * rounds, lanes * own, rounds == 1, rounds)
            self.exchange(inner, [*tiles, group], times, rounds, lanes, own)

    def not_used(self, use: Use, shape: Shape) -> float:
        """What memory gives of a tensor beside the sectors that a tile reads, for each byte of these."""
        given, read = (
            size * pieces(use, True, shape.steps, shape.scattered, size) for size in (BURST, self.machine.sector)
        )
        return given / read - 1.0

    def turns_of(self, loop: Loop, lanes: int, rounds: int) -> float:
        """The share of so many rounds of a loop that wait for what they read, as some read at a time."""
        if loop.loops or not loop.axes:
            return 1.0
        axis = loop.axes[-1]
        reads = sum(not use.stored and bool(use.moves[axis] or axis in use.data) for use in self.costs.uses[loop])
        if lanes > self.outer and isinstance(loop.op, loops.ReduceOp) and len(loop.op.results) > 1:
            return 1.0  # a place is looked for
        by_itself = lanes == self.outer or isinstance(loop.op, loops.ScanOp)
        warps = 0.0 if by_itself else max(1.0, self.programs / self.machine.processors) * self.warps
        return -(-rounds // rounds_at_once(rounds, lanes / self.threads, reads, warps=warps)) / max(1, rounds)

    def turns(self, far: Sequence[tuple[int, float]]) -> float:
        """How often memory is asked for what is read for every index of some axes in turn."""
        lanes = {axis: lanes for group in self.tiles for axis, lanes in group}
        return math.prod(1.0 + share * (-(-self.costs.sizes[axis] // lanes.get(axis, 1)) - 1) for axis, share in far)

    def shape(self, use: Use, tiles: list[Group]) -> Shape:
        """What the lanes of a tile find."""
        moves, width = use.moves, use.width
        scattered, padded, contiguous = 1, 1, width
        steps: list[tuple[int, int]] = []
        groups: list[tuple[float, Group]] = []
        common = use.common(tuple(self.axes.get(group) or (group[0][0],) for group in tiles))
        loose = self.plain and common % self.machine.vector != 0
        for group in tiles:
            nearest = math.inf
            varies = loose and any(moves[axis] or axis in use.data for axis, _ in group)
            for axis, lanes in group:
                if varies or moves[axis] or axis in use.data:
                    padded *= lanes
                if axis in use.data:
                    scattered *= lanes
                elif move := moves[axis]:
                    steps.append((move, lanes))
                    nearest = min(nearest, move)
                    if move == width:
                        contiguous = max(contiguous, lanes * width)
            groups.append((nearest, group))
        vector = min(math.gcd(self.machine.vector, common), contiguous) if scattered == 1 else width
        steps.sort()
        groups.sort()
        aligned = common % self.machine.sector == 0
        return Shape(max(width, vector), padded, scattered, tuple(steps), tuple(groups), aligned)

    def count(
        self, use: Use, shape: Shape, together: int, around: Around, times: int, beside: tuple[int, int] | None
    ) -> tuple[int, float]:
        """Counts an access of which a thread has so many neighbours; gives its lanes, and how many threads access them.
        A thread has as many neighbours of everything as the widest vector has, wherever these lie. Of parts that lie
        `beside` each other and are accessed together each counts its share of all their sectors.
        """
        moves, width, machine = use.moves, use.width, self.machine
        vector, scattered, aligned = shape.vector, shape.scattered, shape.aligned
        steps = list(shape.steps)
        single = shape.padded * width / vector
        total = self.programs * times
        self.loads += total * max(self.threads, single)
        # A warp goes along what is nearest, as far as that goes.
        mine = vector // width
        if not self.plain:
            together = min(together, max(1, shape.padded // self.threads))
        left = float(WARP * mine)
        of_warp: list[tuple[int, float]] = []
        loose = 1.0
        for _, group in shape.groups:
            for axis, lanes in group:
                if left <= 1:
                    break
                if axis in use.data:
                    loose *= min(lanes, left)
                elif not (move := moves[axis]):
                    continue
                elif together > mine and axis == shape.nearest:
                    threads = max(1, min(lanes // together, WARP))
                    of_warp += [(move, mine), (move * together, threads)]
                    lanes = mine * threads
                else:
                    of_warp.append((move, min(lanes, left)))
                left = left / lanes
        of_warp.sort()
        self.lines += total * max(1.0, single / WARP) * pieces(use, aligned, of_warp, loose, machine.segment)
        together_with, several = (steps, 1) if beside is None else (sorted([*steps, beside]), beside[1])
        if use.stored:
            self.broken += total * broken(use, aligned, together_with, scattered, machine.sector) / several
        once = pieces(use, aligned, together_with, scattered, machine.sector) / several
        every = times * once
        if around and every > once:
            # What the innermost steps touch is held until they are done, and then what those around them touch.
            again = times
            for axis, each, points in reversed(around):
                if axis in use.data:
                    break
                again //= points
                if move := moves[axis]:
                    steps = sorted([*steps, (move * each, points)])
                held = pieces(use, aligned, steps, scattered, machine.sector)
                if held * machine.sector > self.near:
                    break
                every = min(every, again * held)
        self.cache += self.programs * every * machine.sector
        return shape.padded, single

    def scanned(self, loop: Loop, tiles: list[Group], lanes: int, own: int) -> tuple[int, float]:
        """How many threads go along what is scanned, and the steps of each: through its own points, twice; then what
        those before it in its warp came to, for each piece of its points that lies side by side; then what every piece
        of every warp came to, which each reads. Threads go along what is nearest first, and then along the rest.
        """
        found = [(use, self.shape(use, tiles)) for use in self.costs.uses[loop]]
        vector = max((shape.vector // use.width for use, shape in found), default=1)
        inner = any(shape.groups[0][1] is tiles[-1] for _, shape in found)
        if inner:
            piece, beside = min(vector, own), 1
            along = min(self.threads, max(1, own // piece))
        else:
            piece, beside = 1, min(self.threads, max(1, lanes // vector))
            along = min(own, max(1, self.threads // beside))
        within = min(along, max(1, WARP // beside))
        warps = along // within
        points = max(1.0, lanes * own / self.threads)
        pieces = max(1.0, own / (along * piece))
        columns = max(1.0, points / (pieces * piece))
        steps = 2.0 * points + columns * pieces * (3.0 * math.log2(within) + (3.0 * warps if warps > 1 else 0.0))
        return along, steps

    def exchange(self, loop: Loop, tiles: list[Group], times: int, rounds: int, lanes: int, own: int) -> None:
        """Counts what the lanes of a reduction or a scan tell each other."""
        threads, total = self.threads, self.programs * times
        if loop.running:
            along, steps = self.scanned(loop, tiles, lanes, own)
            again = 2.0 if rounds > 1 else 0.0  # what is carried is reduced beside, and joined
            self.scans += total * rounds * threads * loop.running * (steps + again * max(1.0, lanes * own / threads))
            self.meets += times * rounds if along > 1 else 0
        elif isinstance(loop.op, loops.ReduceOp):
            per = max(1.0, lanes / threads)
            along = max(1.0, min(threads, own / per))
            mine = max(1.0, lanes * along / threads)
            self.shuffles += total * threads * mine * math.log2(min(float(WARP), along))
            self.meets += times
            if along > WARP:
                self.crossing += times
            if self.warps > 1 and lanes > 1:
                self.exchanged += total * lanes * (self.warps_of_a_row(loop, tiles, lanes, own) - 1)

    def warps_of_a_row(self, loop: Loop, tiles: list[Group], lanes: int, own: int) -> int:
        """How many warps have a share of what a row reduces. Where rows lie side by side, a thread has as many of them
        as the widest vector of all that goes along the same points has; then come the threads of a warp, and then the
        warps.
        """
        widest = 1
        for other in self.costs.root.walk():
            if len(other.axes) != len(loop.axes) or other.loops:
                continue
            group = self.spread(other.axes, own) if other is not loop else tiles[-1]
            for use in self.costs.uses[other]:
                shape = self.shape(use, [*tiles[:-1], group])
                if shape.groups[0][1] is group:  # what is stored so is brought into another order before
                    if other is loop and not use.stored:
                        return 1
                    continue
                widest = max(widest, shape.vector // use.width)
        widest = min(widest, max(1, lanes * own // self.threads))
        beside = -(-lanes // widest)
        return 1 if beside * own <= WARP else max(1, self.threads // max(WARP, beside))


def cheapest(analysis: NestAnalysis, machine: Machine, usual: Tiling) -> Tiling:
    """A tiling that costs clearly less than `usual`, if there is one; else that."""
    costs = costs_of(analysis, machine)
    if costs is None:
        return usual
    before = costs.counts(usual)
    time, ideal = time_of(before, machine) - LAUNCH, ideal_of(before, machine) - LAUNCH
    if time < SLACK * ideal + LITTLE:
        return usual
    best = costs.best()
    return best if costs.time(best) - LAUNCH < GAIN * time else usual


def time_whole(nest: loops.NestOp, machine: Machine) -> tuple[float, float]:
    """The time that a nest takes with the best of its tilings, and that of moving what it touches, in µs; no time at
    all where its tilings are not known.
    """
    analysis = analyse(nest, {}, [True] * len(nest.results))
    merge_axes(analysis)
    costs = costs_of(analysis, machine)
    if costs is None:
        return 0.0, 0.0
    counts = costs.counts(costs.best())
    return time_of(counts, machine), ideal_of(counts, machine)


def ranked(analysis: NestAnalysis, machine: Machine) -> list[Tiling]:
    """Tilings of a nest, those that are thought the fastest first."""
    costs = costs_of(analysis, machine)
    if costs is None:
        return []
    every = list(tilings(analysis, machine))
    every += [one for best in sorted(every, key=costs.time)[:2] for one in refinements(analysis, machine, best)]
    distinct = {tuple(sorted(one.items())): one for one in every}
    return sorted(distinct.values(), key=costs.time)


def costs_of(analysis: NestAnalysis, machine: Machine) -> TileCosts | None:
    """What tilings of a nest cost; None where no other than the usual one is asked for."""
    return TileCosts(analysis, machine) if has_tilings(analysis) else None


__all__ = ["TileCosts", "cheapest", "costs_of", "ranked", "time_whole"]
