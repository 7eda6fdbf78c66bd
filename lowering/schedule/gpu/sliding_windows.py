"""Windows on a GPU: which nests slide, along which axis, and how far a program goes.

    loops.nest (%y, %x) { maximum (%i : 3, %j : 3) of %src[%y + %i, %x + %j] }

Windows overlap. A program with one tile of points reads an element as often as windows hold it, from the caches, and
reduces each window anew. One that writes out `slide` neighbours along %y (`sliding_builder`) reads a row for all of
them, and reduces it along %j once. The cost model counts what a point then loads and computes: the loads and partial
reductions are listed as the builder would write them, and those that are equal count once.

    time of a point ~ max(bytes from memory, bytes from the second cache, loads, instructions), each at its own rate

The same goes for neighbours along the lanes' axis, `beside` of which a lane has: what they read is one row of
neighbours, which is loaded in vectors (`targets/triton/emit_neighbours.py`), and masked and converted once. Where
windows overlap along that axis alone, a program has such neighbours and slides nowhere (`beside_alone`).

Large windows side by side (`are_beside`) share nothing. There a lane has a window to itself: neighbouring lanes read
the rest of a cache line a little later, and nothing has to be brought together. A thread has one lane only, or
neighbouring threads would be two windows apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from cuesta.dialects import elem, layout, loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.reductions import EXTREMES, JOINS
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.elem.work import WORK
from cuesta.dialects.loops.analysis import Access, NestAnalysis, tensor_type_of
from cuesta.lowering.schedule.flatten_axes import flatten_axes, split_axis
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule
from cuesta.transforms import thresholds

MOST_POINTS = 64
"""Of a window that is written out.

Source: measured by `make bench-constants ARGS='--only sliding_windows.MOST_POINTS'`
"""
MOST_LOADS = 64
"""That a program writes out, or twice the points of a window; more only make the text longer.

Source: measured by `make bench-constants ARGS='--only sliding_windows.MOST_LOADS'`
"""
FARTHEST = 16
"""How far a program may go, where that divides the axis.

Source: measured by `make bench-constants ARGS='--only sliding_windows.FARTHEST'`
"""
ALWAYS = (4, 8)
"""How far it may go anyway.

Source: measured by `make bench-constants ARGS='--only sliding_windows.ALWAYS'`
"""
APART = 4
"""The most elements from lane to lane: windows lie further apart only where they do not overlap.

Source: measured by `make bench-constants ARGS='--only sliding_windows.APART'`
"""
KEPT = 64
"""How many elements of something small, each of which is of one lane and of all that it writes out, a lane may keep.

Source: from what ptxas spills of depthwise convolutions of 3 by 3 to 7 by 7 (sm_90).
"""
SHARED = 0.95
"""The share of the loads of points alone that is left at most: windows that do not overlap may share a bias, which is
nothing. A maximum over 4 x 4 x 4 of 32x240x24x24x24 f32 with one took 249 us on an H100 when it slid, 157 when not.

Source: a definition: the least that windows share which overlap, 5 x 5 in steps of 4 by two, is 0.9.
"""
BARE, FEWEST_POINTS = 2.0, 5
"""Of a window that slides by itself, where nothing much is computed of its points, in float adds. Maxima over 2 by 2,
whose loads mostly hit the first cache, took 1.06 and 1.33 times as long as points alone where they did. The gradient of
a pooling of 3 by 3 in steps of 2, which compares a place for each of its 2 by 2, takes half as long when it slides.

Source: from tilings of 21 nests with windows on an H200 (`make bench-gpu-schedules`); the sweep of `make bench-gpu`.
"""
SHARED_ALONE = 0.6
"""`SHARED` of programs that slide nowhere, whose lanes have neighbours. Of windows of 8, 0.34 of the loads are left;
windows of 2, and of 4 in steps of 2, took 0.98 to 1.27 times as long as points alone.

Source: the same tilings.
"""
WARPS = 4
"""Of a program. One point for each thread: neighbouring threads then load neighbours, at any alignment. Also of windows
side by side.

Source: measured by `make bench-constants ARGS='--only sliding_windows.WARPS'`
"""
WARP = 32
"""Threads of a warp.

Source: a definition (CUDA).
"""
BESIDE = (4, 2)
"""How many neighbours a lane may have.

Source: measured by `make bench-constants ARGS='--only sliding_windows.BESIDE'`
"""
MOST_WRITTEN = 16
"""How many points a program writes out where lanes have several.

Source: measured by `make bench-constants ARGS='--only sliding_windows.MOST_WRITTEN'`
"""
WASTE = 0.1
"""The part of a row that may be missing in the last of these groups.

Source: measured by `make bench-constants ARGS='--only sliding_windows.WASTE'`
"""
WAVES = 4
"""Programs per processor that are left at least.

Source: measured by `make bench-constants ARGS='--only sliding_windows.WAVES'`
"""

MOST_OPS = 2048
"""Ops that a lane writes out, in float adds: more only make the text longer, since points share what they load, and not
what they compute of it. 4000 for a maximum over 32 images after an l2 norm and a tanh compile in 24 s, to code that
spills; 1800 for a depthwise convolution of 3 by 3 by 3 and a GELU in 2 s.

Source: `python -m benchmarks.compile_stages`, without a device.
"""
LONG = 800
"""Ops from which on a text is so long that a program had better go less far, where that is as fast. 850 for a maximum
pooling of 3 by 3 with indices compile in 1.3 s.

Source: `python -m benchmarks.compile_stages`, without a device.
"""
AS_FAST = 1.02
"""So many times the least that is expected.

Source: a tolerance, far below what `make bench-gpu-schedules` finds the model to be wrong by.
"""
ARGUMENT = 5
"""Ops for a step of a reduction whose places are asked for.

Source: `SlidingBuilder.together` (maximum, two comparisons, or, select).
"""

WINDOW = 32
"""The most points of a reduction that every lane does by itself, where neighbouring lanes read neighbours.

Source: measured by `make bench-constants ARGS='--only sliding_windows.WINDOW'`
"""
LARGEST_WINDOW = 512
"""The same where windows lie side by side.

Source: measured by `make bench-constants ARGS='--only sliding_windows.LARGEST_WINDOW'`
"""
BESIDE_BYTES = 64
"""From the window of a lane to that of the next, at most.

Source: measured by `make bench-constants ARGS='--only sliding_windows.BESIDE_BYTES'`
"""

ADDRESS = 16
"""Instructions for the place of a thread.

Source: measured by `make bench-constants ARGS='--only sliding_windows.ADDRESS'`
"""
LOAD = 3
"""Instructions for a load, its mask and cast included.

Source: measured by `make bench-constants ARGS='--only sliding_windows.LOAD'`
"""
STEP = 1
"""Instructions for a step of a reduction.

Source: measured by `make bench-constants ARGS='--only sliding_windows.STEP'`
"""


@struct
class Slide:
    """How far along which axis."""

    axis: int
    points: int


def choose(analysis: NestAnalysis, machine: Machine) -> Schedule | None:
    """The schedule of a nest that slides; None when it does not, or when that is not worth it. With `slide = 1` none
    does.
    """
    root, axes = analysis.root, analysis.root.axes
    if not has_windows(analysis):
        return None
    root.axes = lane_last(analysis)
    beside, slide = 1, None
    if reads_together(analysis):
        beside = neighbours(analysis, machine)
        slide = best_slide(analysis, machine, analysis.nest.choices.get("slide"), beside)
    if slide is None:
        root.axes = axes
        return None
    slid = [slide.axis] if slide.points > 1 else []
    rest = [axis for axis in root.axes if axis not in slid]
    written = [ParallelAxis(axis, tile=slide.points) for axis in slid]
    beside = next((fewer for fewer in BESIDE if fewer <= min(beside, MOST_WRITTEN // slide.points)), 1)
    within = None
    if beside > 1:
        last, size = rest[-1], static(analysis, rest[-1])
        written.append(ParallelAxis(split_axis(analysis, last, beside), tile=beside))
        if size % beside:
            group = sym.dim(last) % analysis.sizes[last] if len(rest) > 1 else sym.dim(last)
            within = group * beside + sym.dim(written[-1].axis), size
    root.axes = [*slid, *rest]
    lane = flatten_axes(analysis, root, rest)
    return Schedule(
        [ParallelAxis(lane, loop=True, tile=WARPS * WARP), *written],
        order=[lane],
        lanes=WARPS * WARP,
        loops={loop.op: (loop.axes, 1) for loop in root.loops},
        within=within,
        slides=True,
        choices={"warps": WARPS},
    )


def lane_last(analysis: NestAnalysis) -> list[int]:
    """The parallel axes in order, but that one the last along which the most bytes lie together: that of the channels,
    where images are channels last.
    """
    axes = analysis.root.axes
    together = dict.fromkeys(axes, 0.0)
    for access in analysis.accesses.values():
        for axis in axes:
            if access.width and not access.indirect >> axis & 1 and sym.coefficient(access.address, axis) == 1:
                together[axis] += access.width * elements_of_a_point(analysis, access)
    best = max(reversed(axes), key=together.__getitem__, default=None)
    return axes if best is None else [*(axis for axis in axes if axis != best), best]


def are_beside(analysis: NestAnalysis, machine: Machine) -> bool:
    """Whether there are large windows of several rows, whose rows lie side by side, and one for every thread.

    Not of rows that are whole vectors, one right after the other: what lanes along them load they load at once.
    """
    root = analysis.root
    points = math.prod(analysis.estimate(analysis.sizes[axis]) for axis in root.axes)
    if len(root.loops) != 1 or not root.axes or analysis.atomic or points < 2 * WARPS * WARP * machine.processors:
        return False
    (window,) = root.loops
    sizes = [size for axis in window.axes if isinstance(size := analysis.sizes[axis], int)]
    if window.loops or len(sizes) < max(2, len(window.axes)) or not isinstance(window.op, loops.ReduceOp):
        return False
    if not WINDOW < math.prod(sizes) <= LARGEST_WINDOW:
        return False
    dense = True
    accesses = [access for access in window.accesses if access.width]
    for access in accesses:
        apart = sym.coefficient(access.address, root.axes[-1])
        along = sym.coefficient(access.address, window.axes[-1])
        if access.ordered or access.indirect or not isinstance(apart, int) or along != 1:
            return False
        if not 1 < apart <= min(2 * sizes[-1], BESIDE_BYTES // access.width):
            return False
        dense = dense and apart == sizes[-1] and apart * access.width % machine.vector == 0
    return bool(accesses) and not dense


def has_windows(analysis: NestAnalysis) -> bool:
    """Whether the loops of a nest are reductions of a few points, right in it, that can be written out."""
    root = analysis.root
    if len(root.axes) < 2 or not root.loops or analysis.atomic:
        return False
    for loop in root.loops:
        op = loop.op
        if loop.loops or not isinstance(op, loops.ReduceOp) or op.kind not in (*JOINS, *EXTREMES):
            return False
        sizes = [analysis.sizes[axis] for axis in loop.axes]
        points = math.prod(size for size in sizes if isinstance(size, int))
        if not all(isinstance(size, int) for size in sizes) or not 0 < points <= MOST_POINTS:
            return False
    return True


def is_small(analysis: NestAnalysis, access: Access) -> bool:
    """Whether a tensor has so few elements, next to the points, that it stays in the caches however it is read."""
    return elements_of_a_point(analysis, access) * thresholds.SMALL < 1


def reads_together(analysis: NestAnalysis) -> bool:
    """Whether lanes along the last axis read what lies together, and nothing stands in the way of writing it out."""
    root = analysis.root
    handles = set(analysis.nest.handles)
    for access in analysis.accesses.values():
        stride = sym.coefficient(access.address, root.axes[-1])
        far = isinstance(stride, int) and abs(stride) > APART and access.width
        if access.indirect or access.ordered or (far and not is_small(analysis, access)):
            return False
        if isinstance(access.op, loops.LoadOp) and access.op.source in handles:
            return False
    return not any(isinstance(op, loops.BoundOp) for op in analysis.nest.walk())


def neighbours(analysis: NestAnalysis, machine: Machine) -> int:
    """How many neighbours a lane has, so that their loads come together in vectors; 1 where they do not."""
    lane = analysis.root.axes[-1]
    size = analysis.sizes[lane]
    alone = cost(analysis, analysis.root.axes[0], 1)
    for beside in BESIDE:
        if not isinstance(size, int) or size <= beside or -size % beside > WASTE * size:
            continue
        if (alone.loads - alone.written) * beside > KEPT:
            continue
        images: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(analysis.sizes))]
        images[lane] = sym.dim(lane) * beside
        for loop in analysis.root.loops:
            for axis in loop.axes:
                images[axis] = 0
        for access in analysis.accesses.values():
            if access.is_store or not access.width or not access.varies >> lane & 1:
                continue
            address = sym.simplify(sym.substitute(access.address, images), analysis.sizes, analysis.symbol_ranges)
            if isinstance(address, int) or any(factor % 2 for _, factor in address.terms):
                continue
            apart = sym.coefficient(address, lane)
            # Then a warp reads what lies together.
            if isinstance(apart, int) and abs(apart) * access.width <= machine.vector:
                return beside
    return 1


def best_slide(analysis: NestAnalysis, machine: Machine, wanted: int | None, beside: int = 1) -> Slide | None:
    """The axis and the distance that take the least time, where sharing saves loads at all; `wanted` is a distance."""
    axes = analysis.root.axes
    points = math.prod(analysis.estimate(analysis.sizes[axis]) for axis in axes)
    window = max(math.prod(static(analysis, each) for each in loop.axes) for loop in analysis.root.loops)
    if wanted is None and window < FEWEST_POINTS and max(loop.work for loop in analysis.root.loops) <= BARE:
        return None
    found: list[tuple[float, float, Slide]] = []
    for axis in axes[:-1]:
        size = analysis.sizes[axis]
        # The lanes of a program go along the other axes.
        if not isinstance(size, int) or (wanted is None and points < size * WARPS * WARP):
            continue
        if wanted is None and not overlap(analysis, axis):
            continue
        alone = cost(analysis, axis, 1)
        for distance in range(2, FARTHEST + 1) if wanted is None else (wanted,):
            if not 1 < distance <= size:
                continue
            if wanted is None and (
                (size % distance and distance not in ALWAYS)
                or points < WARPS * WARP * distance * beside * machine.processors * WAVES
                or distance * beside > MOST_WRITTEN
            ):
                continue
            slid = cost(analysis, axis, distance)
            ops = beside * written_ops(analysis, slid, axis)
            if wanted is None and (slid.written > max(MOST_LOADS, 2 * window) or ops > MOST_OPS):
                break
            if slid.loads < SHARED * alone.loads * distance:
                waste = -(-size // distance) * distance / size
                found.append((slid.time(waste, machine), ops, Slide(axis, distance)))
    if not found:
        return beside_alone(analysis, machine, beside) if wanted is None else None
    least, ops, slide = min(found, key=lambda one: (one[0], one[2].points))
    if ops < LONG:
        return slide
    as_fast = [one for one in found if one[0] <= AS_FAST * least]
    return min(as_fast, key=lambda one: (one[1], one[0]))[2]


def overlap(analysis: NestAnalysis, axis: int) -> bool:
    """Whether neighbours along an axis have windows with a common place: steps of 2 places, and windows of 3. Steps of
    4 and windows of 4 have none, though the place after the last of a row is the first of the next: it is masked, and
    4 by 4 of 1025 by 12 took 122 us on an H200, 92 when they did not slide.
    """
    for loop in analysis.root.loops:
        for access in loop.accesses:
            apart = sym.coefficient(access.address, axis)
            if not access.width or access.is_store or not access.varies >> analysis.root.axes[-1] & 1:
                continue
            if not isinstance(apart, int):
                return True
            for each in loop.axes:
                step = sym.coefficient(access.address, each)
                if not isinstance(step, int) or (step and apart % step == 0 and apart < step * static(analysis, each)):
                    return True
    return False


def beside_alone(analysis: NestAnalysis, machine: Machine, beside: int) -> Slide | None:
    """No distance at all along the first axis, where `beside` neighbours along the lanes' axis share loads still: rows
    of windows that overlap in one dimension only. Each of four windows of 8 loads 8 elements, in instructions whose
    lanes lie four apart; together they load 11, in vectors.
    """
    axes = analysis.root.axes
    points = math.prod(analysis.estimate(analysis.sizes[axis]) for axis in axes)
    if beside == 1 or points < WARPS * WARP * beside * machine.processors * WAVES:
        return None
    apart = together = 0
    for loop in analysis.root.walk():
        inner = [] if loop is analysis.root else loop.axes
        for access in loop.accesses:
            if access.width and not access.is_store and access.varies >> axes[-1] & 1:
                apart += beside * len(set(addresses(analysis, access, inner, axes[-1], 1)))
                together += len(set(addresses(analysis, access, inner, axes[-1], beside)))
    slide = Slide(axes[0], 1)
    ops = beside * written_ops(analysis, cost(analysis, slide.axis, 1), slide.axis)
    return slide if together < SHARED_ALONE * apart and ops <= MOST_OPS else None


def written_ops(analysis: NestAnalysis, slid: Cost, axis: int) -> float:
    """The ops that a program writes out for each of the neighbours of a lane, in float adds: those of its points, of
    windows those that are computed anew wherever something else is loaded, and the steps of reductions.
    """
    ops = analysis.root.work * slid.points
    asked = 1
    for loop in analysis.root.loops:
        floats = [op for op in loop.op.body.ops if isinstance(op, elem.ElementwiseOp) and is_of_floats(op)]
        work = sum(WORK.get(type(op), 1.0) for op in floats)
        if work:
            every = [access for access in loop.accesses if access.width]
            places = zip(*(addresses(analysis, access, loop.axes, axis, slid.points) for access in every), strict=True)
            ops += work * len(set(places))
        if isinstance(loop.op, loops.ReduceOp) and loop.op.kind in EXTREMES and loop.op.results[1].first_use:
            asked = ARGUMENT
    return ops + asked * slid.steps


def is_of_floats(op: elem.ElementwiseOp) -> bool:
    """Whether an op gives floats of floats: not a condition, which neighbours mostly share."""
    return bool(op.operands) and all(kind_of(value.type) == "f" for value in (op.operands[0], op.results[0]))


@struct
class Cost:
    """What a lane of a program does for `points` points. Units: bytes."""

    points: int
    loads: int
    written: int
    """Those of them that are not of something small."""
    sectors: float
    """Loads and stores, counted so many times as they take turns in the first cache, where lanes are apart."""
    steps: int
    from_memory: float
    from_cache: float

    def time(self, waste: float, machine: Machine) -> float:
        """Of a point, in clocks of a processor, when `waste` times the points are computed."""
        limits = (
            self.from_memory / machine.memory_rate,
            self.from_cache * waste / machine.cache_rate,
            self.sectors * waste / machine.load_rate,
            (ADDRESS + self.loads * LOAD + self.steps) * waste / machine.instruction_rate,
        )
        # What is not the limit takes a share of the time, too: nothing overlaps perfectly.
        return (max(limits) + 0.1 * sum(limits)) / self.points


def cost(analysis: NestAnalysis, axis: int, points: int) -> Cost:
    """What a program does that goes `points` along an axis."""
    loads = written = steps = 0
    sectors = from_memory = from_cache = 0.0
    lane = analysis.root.axes[-1]
    for loop in analysis.root.walk():
        inner = [] if loop is analysis.root else loop.axes
        rows = 1
        for access in loop.accesses:
            if not access.width or not access.varies >> lane & 1:
                continue  # one load for all lanes
            stride = sym.coefficient(access.address, lane)
            apart = max(1, abs(stride)) if isinstance(stride, int) else 1
            places = len(set(addresses(analysis, access, inner, axis, points)))
            # Along the other axes of a window, neighbouring lanes load the rest of a row.
            rows = len(set(addresses(analysis, access, inner[:1], axis, points)))
            sectors += places * apart
            from_cache += rows * access.width * apart
            from_memory += points * access.width * elements_of_a_point(analysis, access)
            loads += 0 if access.is_store else places
            written += 0 if access.is_store or is_small(analysis, access) else places
        if inner:
            first, *others = (static(analysis, each) for each in inner)
            steps += STEP * (rows * (math.prod(others) - 1) + points * (first - 1))
    return Cost(points, loads, written, sectors, steps, from_memory, from_cache)


def static(analysis: NestAnalysis, axis: int) -> int:
    """The size of an axis of a window."""
    size = analysis.sizes[axis]
    assert isinstance(size, int)
    return size


def addresses(
    analysis: NestAnalysis, access: Access, inner: list[int], axis: int, points: int
) -> Iterator[sym.IndexExpr]:
    """The addresses of an access at the points that are written out, and at all of the axes `inner`."""
    ranges = [range(points), *(range(static(analysis, each)) for each in inner)]
    strides = [sym.coefficient(access.address, each) for each in (axis, *inner)]
    whole = [stride for stride in strides if isinstance(stride, int)]
    if len(whole) == len(strides):
        for place in product(*ranges):
            yield sum(number * stride for number, stride in zip(place, whole, strict=True))
        return
    images: list[sym.IndexExpr] = [sym.dim(each) for each in range(len(analysis.sizes))]
    for point, *place in product(*ranges):
        images[axis] = sym.dim(axis) * points + point
        for each, number in zip(inner, place, strict=True):
            images[each] = number
        yield sym.simplify(sym.substitute(access.address, images), analysis.sizes, analysis.symbol_ranges)


def elements_of_a_point(analysis: NestAnalysis, access: Access) -> float:
    """How many elements of a tensor there are for each point of the nest: each comes from memory once."""
    op = access.op
    assert isinstance(op, loops.LoadOp | loops.TensorWriteOp)
    tensor = op.source if isinstance(op, loops.LoadOp) else op.target
    elements = math.prod(analysis.estimate(size) for size in layout.sizes_of(tensor_type_of(tensor)))
    points = math.prod(analysis.estimate(analysis.sizes[each]) for each in analysis.root.axes)
    return elements / max(1, points)


__all__ = ["Slide", "are_beside", "best_slide", "choose"]
