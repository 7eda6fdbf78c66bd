"""How a nest runs on a GPU: what is one program, and which axes the lanes of its tile run along.

`choose` is the whole interface. A program is a block of threads that works on one tile at a time:

    loops.nest (%i : 1048576) { … }                              a piece of %i                        pointwise
    loops.nest (%i : 512, %j : 512) { %x[%j, %i] … }             a square of both, so that either side is read in order
    loops.nest (%i : 4096) { sum (%j : 1024) of %x[%i, %j] }     rows: lanes along %j, of one row or of several
    loops.nest (%j : 1024) { sum (%i : 4096) of %x[%i, %j] }     columns: lanes along %j, and along %i within
    loops.nest (%i : 65536) { maximum (%w : 9) of %x[…] }        windows: lanes along %i, every lane its own loop

A reduction whose points fit into one tile is *persistent*: what it reads stays in registers, for later stages too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuesta.dialects import sym
from cuesta.lowering.flatten_axes import flatten_axes
from cuesta.lowering.nest_analysis import Access, Loop, NestAnalysis
from cuesta.lowering.schedule import ParallelAxis, Schedule

TILE = 1024
"""Elements of a program of a pointwise kernel."""
SQUARE = 32
"""Rows and columns of a tile where one side is read across."""
PERSISTENT = 16384
"""The most elements of a row that one tile holds."""
LOOPED = 4096
"""Elements of a tile that walks along a row."""
SCANNED = 2048
"""The most elements of a tile whose lanes are scanned."""
UNKNOWN = 512
"""The same for a row whose length is not known."""
ROWS = 2048
"""Elements of a tile of several short rows."""
COLUMNS = 32
"""Columns of a tile that reduces columns: with f32, a whole cache line."""
COLUMN_TILE = 4096
"""Elements of such a tile."""
WINDOW = 32
"""The most points of a reduction that every lane does by itself, where neighbouring lanes read neighbours."""
WINDOW_TILE = 256
"""Lanes of such a tile."""
WAVES = 2
"""Programs per processor that are left at least, before a program takes several rows."""
LARGE = 2**31 - 2**24
"""Addresses up to here are computed with 32 bits; a tile may reach beyond the end of its axis."""


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What the schedule needs to know of the machine."""

    processors: int = 132


def choose(analysis: NestAnalysis, options: GpuOptions) -> Schedule:
    """The schedule of a nest whose axes are merged."""
    return _Chooser(analysis, options).choose()


class _Chooser:
    def __init__(self, analysis: NestAnalysis, options: GpuOptions) -> None:
        self.analysis = analysis
        self.programs = options.processors * WAVES

    def choose(self) -> Schedule:
        wide = self.needs_wide_indices()
        root = self.analysis.root
        schedule = self.reducing(root) if root.loops else self.pointwise(root)
        schedule.choices = {"target": "cuda", "warps": self.warps(schedule), "index": 64 if wide else 32}
        return schedule

    def points(self, axis: int) -> int:
        return self.analysis.estimate(self.analysis.sizes[axis])

    def stride(self, access: Access, axis: int) -> int | None:
        """By how many elements an access moves along an axis; None when that is not one number."""
        stride = None if access.indirect >> axis & 1 else sym.coefficient(access.address, axis)
        return stride if isinstance(stride, int) else None

    def needs_wide_indices(self) -> bool:
        """Whether an address, or the number of points, may not fit 32 bits."""
        analysis = self.analysis
        ranges = analysis.symbol_ranges
        every: list[sym.IndexExpr] = [access.address for access in analysis.accesses.values()]
        for loop in analysis.root.walk():
            every.append(math.prod((analysis.sizes[axis] for axis in loop.axes), start=1))
        sizes = analysis.sizes
        for e in every:
            low, high = sym.bounds(e, sizes, ranges)
            if low is None or high is None or low < -LARGE or high > LARGE:
                return True
        return False

    def lanes(self, axis: int, most: int) -> int:
        """So many lanes as an axis fills, at most `most`."""
        size = self.analysis.sizes[axis]
        return min(most, power_of_two(size)) if isinstance(size, int) else most

    # Pointwise

    def pointwise(self, root: Loop) -> Schedule:
        axes = root.axes
        if not axes:
            return Schedule([])
        lane = axes[-1]
        across = self.axis_read_across(root, lane)
        if across is not None and min(self.points(across), self.points(lane)) > SQUARE // 2:
            return self.square(root, across, lane)
        if self.points(lane) < 2 * TILE:
            lane = flatten_axes(self.analysis, root, root.axes)
        return self.pieces(root, lane, self.lanes(lane, TILE))

    def pieces(self, root: Loop, lane: int, lanes: int) -> Schedule:
        """Programs of `lanes` points of the last axis."""
        parallel = [ParallelAxis(axis) for axis in root.axes]
        if lanes == 1:
            return Schedule(parallel)
        parallel[-1] = ParallelAxis(lane, loop=True, tile=lanes)
        return Schedule(parallel, order=[lane], lanes=lanes)

    def square(self, root: Loop, across: int, lane: int) -> Schedule:
        parallel: list[ParallelAxis] = []
        for axis in root.axes:
            tiled = axis in (across, lane)
            parallel.append(ParallelAxis(axis, loop=tiled, tile=SQUARE if tiled else None))
        return Schedule(parallel, around=[(across, SQUARE)], order=[lane], lanes=SQUARE)

    def axis_read_across(self, root: Loop, lane: int) -> int | None:
        """A parallel axis, not the lane axis, along which an access that is strided in the lanes is contiguous."""
        for access in root.accesses:
            if access.width and access.varies >> lane & 1 and self.stride(access, lane) != 1:
                for axis in root.axes:
                    if axis != lane and self.stride(access, axis) == 1:
                        return axis
        return None

    # Nests with loops in them

    def reducing(self, root: Loop) -> Schedule:
        leaves = [loop for loop in root.walk() if loop is not root and not loop.loops]
        for leaf in leaves:
            if leaf.axes:
                flatten_axes(self.analysis, leaf, leaf.axes)
        if any(access.ordered for access in self.analysis.accesses.values()):
            # Every lane does what comes in order by itself.
            return self.columns(root, WINDOW_TILE, 1) if root.axes else self.serial(root)
        along, across = self.contiguity(root, leaves)
        points = max((self.points(leaf.axes[0]) for leaf in leaves if leaf.axes), default=1)
        static = all(isinstance(self.analysis.sizes[axis], int) for leaf in leaves for axis in leaf.axes)
        rows = math.prod(self.points(axis) for axis in root.axes)
        if root.axes and across > 0 and static and points <= WINDOW:
            return self.columns(root, WINDOW_TILE, 1)
        if root.axes and across > along:
            lanes = min(COLUMNS, power_of_two(self.points(self.contiguous_axis(root, leaves))))
            return self.columns(root, lanes, min(power_of_two(points), max(1, COLUMN_TILE // lanes)))
        lanes = power_of_two(points) if static else UNKNOWN
        if lanes > PERSISTENT:
            lanes = LOOPED
        if any(leaf.running for leaf in leaves):
            lanes = min(lanes, SCANNED)
        height = 1
        while static and root.axes and lanes * height * 2 <= ROWS and rows >= height * 2 * self.programs:
            height *= 2
        if height == 1:
            schedule = Schedule([ParallelAxis(axis) for axis in root.axes])
        else:
            lane = flatten_axes(self.analysis, root, root.axes)
            schedule = self.pieces(root, lane, height)
        self.inner_lanes(root, schedule, lanes)
        return schedule

    def serial(self, root: Loop) -> Schedule:
        """One program, one thing after the other."""
        schedule = Schedule([])
        self.inner_lanes(root, schedule, 1)
        return schedule

    def contiguity(self, root: Loop, leaves: list[Loop]) -> tuple[int, int]:
        """The bytes that are read in order along the inner loops, and along the parallel axes."""
        along = across = 0
        for leaf in leaves:
            for access in leaf.accesses:
                if not access.width:
                    continue
                if any(self.stride(access, axis) == 1 for axis in leaf.axes):
                    along += access.width
                if any(self.stride(access, axis) == 1 for axis in root.axes):
                    across += access.width
        return along, across

    def contiguous_axis(self, root: Loop, leaves: list[Loop]) -> int:
        """The parallel axis along which accesses are contiguous; the last when there is none."""
        for leaf in leaves:
            for access in leaf.accesses:
                for axis in root.axes:
                    if access.width and self.stride(access, axis) == 1:
                        return axis
        return root.axes[-1]

    def columns(self, root: Loop, lanes: int, inner: int) -> Schedule:
        """Lanes along the parallel axes, and `inner` of them along every inner loop."""
        lane = root.axes[-1]
        if self.points(lane) < lanes * 4:
            lane = flatten_axes(self.analysis, root, root.axes)
        schedule = self.pieces(root, lane, lanes)
        self.inner_lanes(root, schedule, inner)
        return schedule

    def inner_lanes(self, loop: Loop, schedule: Schedule, lanes: int) -> None:
        """Fills `schedule.loops` for the loops inside `loop`: innermost loops have `lanes`, or as many as they fill."""
        for inner in loop.loops:
            own = self.lanes(inner.axes[0], lanes) if inner.axes and not inner.loops else 1
            schedule.loops[inner.op] = (inner.axes, own)
            self.inner_lanes(inner, schedule, lanes)

    def warps(self, schedule: Schedule) -> int:
        """Warps of a program: about eight elements a thread in a long tile."""
        outer = math.prod(lanes for _, lanes in schedule.around) * schedule.lanes
        inner = max((lanes for _, lanes in schedule.loops.values()), default=1)
        return max(1, min(16 if inner >= 4096 else 8 if schedule.loops else 4, outer * inner // 256))


def power_of_two(size: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, size - 1).bit_length()


__all__ = ["GpuOptions", "choose"]
