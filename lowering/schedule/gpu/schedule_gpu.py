"""How a nest runs on a GPU: what is one program, and which axes the lanes of its tile run along.

`choose` is the whole interface. A program is a block of threads that works on one tile at a time:

    loops.nest (%i : 1048576) { … }                              a piece of %i                        pointwise
    loops.nest (%i : 512, %j : 512) { %x[%j, %i] … }             a square of both, so that either side is read in order
    loops.nest (%i : 4096) { sum (%j : 1024) of %x[%i, %j] }     rows: lanes along %j, of one row or of several
    loops.nest (%j : 1024) { sum (%i : 4096) of %x[%i, %j] }     columns: lanes along %j, and along %i within
    loops.nest (%i : 65536) { maximum (%w : 9) of %x[…] }        windows: lanes along %i, every lane its own loop;
                                                                 overlapping ones: `sliding_windows`

A reduction whose points fit into one tile is *persistent*: what it reads stays in registers, for later stages too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import usual_step
from cuesta.lowering.schedule.gpu import bags, columns, meetings, registers, scans, sliding_windows
from cuesta.lowering.schedule.gpu.index_width import needs_wide_indices
from cuesta.lowering.schedule.gpu.order import Order, large, of_points
from cuesta.lowering.schedule.gpu.rows import (
    alone,
    few_warps,
    many_rows,
    odd_rows,
    piece_of,
    shortest_elements,
    shortest_warps,
    walked_once,
)
from cuesta.lowering.schedule.gpu.tiles import schedule_of
from cuesta.lowering.schedule.schedule import Schedule
from cuesta.transforms.reductions import gpu_cost
from cuesta.transforms.tilings.cost import cheapest
from cuesta.transforms.tilings.space import Tiling

TILE = 1024
"""Elements of a program of a pointwise kernel.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.TILE'`
"""
ROW, FILLED = 256, 0.6
"""Rows of so many elements may have tiles of their own, if these have points in so many of their lanes.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.ROW schedule_gpu.FILLED'`
"""
LOOPED = 16384
"""Elements of a tile that walks along a row.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.LOOPED'`
"""
CACHED, CACHED_WARPS = 4096, 16
"""The same, and its warps, where the row comes from memory once and then from the cache. Of rows of 32768 bf16 softmax
took 85 us, in one tile 90, log-softmax 89 and 98, a cross entropy 54, and 59 in tiles of 8192 with 8 warps. Of several
tensors as many times that: the gradient of an instance norm, rows of 16384 bf16 of two tensors, took 135 us on an H100
in tiles of 8192, 140 of 4096, and 168 in one.

Source: from tilings of the rows of the sweep on an H200 (`make bench-gpu-schedules`); from a profile.
"""
LONG, LONGEST = 4096, 16384
"""Rows of so many elements have up to 16 warps, and all that there can be.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.LONG schedule_gpu.LONGEST'`
"""
SCANNED = 2048
"""The most elements of a tile whose lanes are scanned.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.SCANNED'`
"""
UNKNOWN = 512
"""The same for a row whose length is not known.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.UNKNOWN'`
"""
WINDOW_TILE = 512
"""Lanes of such a tile.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.WINDOW_TILE'`
"""
WINDOW_WARP = 64
"""How many of them a warp has: neighbouring threads read neighbours, at no alignment.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.WINDOW_WARP'`
"""
LOOSE_HEIGHT, LOOSE_LANES, LOOSE_WARPS = 32, 128, 8
"""Of a tile that transposes where rows do not begin at sectors: longer pieces of them share fewer. Six nests took 0.68
to 1.0 of the time of squares (0.81, geometric mean); rows of 87 0.78. Where rows do begin there, squares are as good.

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
FEW_TILES = 4
"""Tiles of a processor, up to which those of a pointwise kernel are half as large, of as many warps: 300,001 gelu of
f32 took 0.95 of the time, 333,333 mish of bf16 and 199,900 tanh 0.93; 699,300 gelu took as long.

Source: from 16 tilings of five nests on an H200.
"""
POINTWISE_WARP = 256
"""Elements of a warp where there are no loops.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.POINTWISE_WARP'`
"""
ROW_WARP_BYTES = 2048
"""Of the elements of a warp of a tile that is reduced, as they lie in memory.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.ROW_WARP_BYTES'`
"""
WAVES = 2
"""Programs per processor that are left at least, before a program takes several rows.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.WAVES'`
"""
UNKNOWN_LANES = 1 << 30
"""What a loop whose size is not known may have.

Source: a definition: no limit.
"""


def choose(analysis: NestAnalysis, machine: Machine, choices: Mapping[str, int] = MappingProxyType({})) -> Schedule:
    """The schedule of a nest whose axes are merged, with the tiling that `choices` say, as far as they say one."""
    return _Chooser(analysis, machine).choose(choices)


def usual_tiling(analysis: NestAnalysis, machine: Machine) -> Tiling | None:
    """The tiling that a nest has unless another is clearly cheaper; None for windows that slide."""
    found = _Chooser(analysis, machine).usual()
    return None if isinstance(found, Schedule) else found


def chosen_tiling(analysis: NestAnalysis, machine: Machine) -> Tiling | None:
    """The tiling that a nest has, of which no schedule says anything; None for windows that slide."""
    chooser = _Chooser(analysis, machine)
    found = chooser.usual()
    return None if isinstance(found, Schedule) else chooser.better(found)


class _Chooser:
    def __init__(self, analysis: NestAnalysis, machine: Machine) -> None:
        self.analysis = analysis
        self.machine = machine
        self.processors = machine.processors
        self.programs = machine.processors * WAVES
        self.order = Order(analysis, machine)
        self.wide = needs_wide_indices(analysis)
        self.settled = False
        """Whether no other tiling is to be asked about."""

    def choose(self, choices: Mapping[str, int]) -> Schedule:
        if "along" in choices and self.may_be_tiled():
            tiling = dict(choices)
            tiling.setdefault("warps", self.warps(tiling))
        else:
            found = self.usual()
            if isinstance(found, Schedule):
                return self.finished(found, int(found.choices["warps"]))
            tiling = self.better(found)
            self.obey(tiling, choices)
        return self.finished(schedule_of(self.analysis, tiling), tiling["warps"])

    def better(self, usual: Tiling) -> Tiling:
        """The usual tiling, or one that is thought clearly cheaper, where the model is asked."""
        return dict(usual if self.settled else cheapest(self.analysis, self.machine, usual))

    def usual(self) -> Tiling | Schedule:
        """The tiling that a nest has unless another is clearly cheaper; of windows that slide, their schedule."""
        root = self.analysis.root
        tiling = None
        if root.axes and root.loops and not self.analysis.meeting:
            tiling = self.windows_across(root)
            if tiling is None and (schedule := sliding_windows.choose(self.analysis, self.machine)) is not None:
                return schedule
            if tiling is None and sliding_windows.are_beside(self.analysis, self.machine):
                self.settled = True  # the model takes what a processor still holds for less than it is
                lanes = sliding_windows.WARPS * sliding_windows.WARP
                return {"along": 0, "rows": lanes, "lanes": 1, "warps": sliding_windows.WARPS}
        if tiling is None:
            tiling = self.reducing(root) if root.loops else self.pointwise(root)
        return {"warps": self.warps(tiling), **tiling}

    def obey(self, tiling: Tiling, choices: Mapping[str, int]) -> None:
        """Changes a tiling as choices say; one that has no meaning for its kind changes nothing."""
        if not self.may_be_tiled():
            tiling["warps"] = choices.get("warps", tiling["warps"])
            return
        reduces, flat = bool(self.analysis.root.loops), "height" not in tiling
        if "rows" in choices and reduces and flat and tiling["lanes"] > 1 and self.analysis.root.axes:
            if tiling["rows"] == 1:
                tiling["along"] = 0
            tiling["rows"] = self.fitting(tiling["along"], choices["rows"])
        if "lanes" in choices and flat and (not reduces or tiling["lanes"] > 1):
            tiling["lanes"] = max(2, choices["lanes"]) if reduces else self.fitting(tiling["along"], choices["lanes"])
        tiling["warps"] = choices.get("warps", tiling["warps"])

    def may_be_tiled(self) -> bool:
        """Whether any tiling means the same: no point waits for another, and nothing is changed in order."""
        return not self.analysis.meeting and not any(one.ordered for one in self.analysis.accesses.values())

    def fitting(self, along: int, lanes: int) -> int:
        """So many lanes, but not more than the axes fill; more than one unless one is wanted."""
        if lanes == 1:
            return 1
        sizes = [self.analysis.sizes[axis] for axis in self.analysis.root.axes]
        size: sym.IndexExpr = 1
        for one in sizes if along == 0 else [sizes[-along]]:
            size = size * one
        return max(2, min(lanes, power_of_two(size))) if isinstance(size, int) else lanes

    def finished(self, schedule: Schedule, warps: int) -> Schedule:
        """The schedule with what depends on its tiles: masks, addresses."""
        root = self.analysis.root
        schedule.choices = {"target": "cuda", "warps": warps, "index": 64 if self.wide else 32}
        if not self.analysis.meeting and self.order.masks_split_vectors(root, schedule):
            schedule.choices["whole"] = 1
        if self.analysis.meeting:
            schedule.choices |= meetings.choices_of(self.analysis, self.machine, warps, self.width(), self.kept)
        elif (bound := registers.bound_of(self.analysis, schedule, warps, self.machine)) is not None:
            schedule.choices["registers"] = bound
        return schedule

    def points(self, axis: int) -> int:
        return self.analysis.estimate(self.analysis.sizes[axis])

    def width(self) -> int:
        """The bytes of an element of the large tensors, the widest of them."""
        return max((access.width for access in large(self.analysis.accesses.values())), default=4)

    def lanes(self, axis: int, most: int) -> int:
        """So many lanes as an axis fills, at most `most`."""
        size = self.analysis.sizes[axis]
        return min(most, power_of_two(size)) if isinstance(size, int) else most

    # Pointwise

    def pointwise(self, root: Loop) -> Tiling:
        axes = root.axes
        if not axes:
            return {"along": 1, "lanes": 1}
        lane = axes[-1]
        if (square := self.square(root, root.accesses, 1)) is not None:
            height, lanes, across = square
            if not self.order.begins_at_sectors() and height >= LOOSE_HEIGHT and self.points(lane) > LOOSE_LANES // 2:
                height, lanes = LOOSE_HEIGHT, LOOSE_LANES
                return {"along": 1, "lanes": lanes, "across": across, "height": height, "warps": LOOSE_WARPS}
            return {"along": 1, "lanes": lanes, "across": across, "height": height}
        aligned = self.order.rows_are_aligned(root, lane)
        short = self.points(lane) < 2 * TILE or not aligned
        # What is stored in one piece is in vectors then, and no lane is without a point: 1 to 11 % less on an H200.
        flat = not aligned and all(self.order.is_one_piece(one, root) for one in root.accesses if one.is_store)
        if len(axes) > 1 and short and (flat or not self.fills_tiles(lane) or self.any_load_in_vectors(root, lane)):
            tiling = {"along": 0, "lanes": self.fitting(0, TILE) if self.volume(axes) != 1 else 1}
        else:
            tiling = {"along": 1, "lanes": self.lanes(lane, TILE)}
        if tiling["lanes"] == TILE and 1 <= self.volume(axes) / (TILE * self.processors) < FEW_TILES:
            return {**tiling, "lanes": TILE // 2, "warps": TILE // POINTWISE_WARP}
        return tiling

    def volume(self, axes: Iterable[int]) -> int:
        """The points of axes together."""
        return math.prod(self.points(axis) for axis in axes)

    def fills_tiles(self, lane: int) -> bool:
        """Whether tiles of their own leave few lanes of a row without a point."""
        size, lanes = self.analysis.sizes[lane], self.lanes(lane, TILE)
        return isinstance(size, int) and size >= ROW and size >= FILLED * (-(-size // lanes) * lanes)

    def any_load_in_vectors(self, root: Loop, lane: int) -> bool:
        """Whether a load is of vectors, row by row or when the axes are one. Where none is, one element for each thread
        is best: neighbouring threads read and write neighbours, and no place is divided into its row and column.
        """
        return any(
            self.order.is_in_vectors(access, root, lane) or self.order.is_one_piece(access, root)
            for access in root.accesses
            if not access.is_store and access.width and access.varies >> lane & 1
        )

    def square(self, root: Loop, accesses: Iterable[Access], apart: int) -> tuple[int, int, int] | None:
        """Programs of squares, either side of which is accessed in whole lines of the cache, or every so manyth element
        of them; of rectangles as large where an axis is short: height, width, and the axis that lies across, counted
        from the last. None where nothing lies across to the last axis.
        """
        lane, side = root.axes[-1], self.machine.segment // max(2, self.width())
        across = self.axis_read_across(root, lane, accesses, apart)
        if across is None or min(self.points(across), self.points(lane)) < 2:
            return None
        height, width = (self.lanes(axis, side) for axis in (across, lane))
        height, width = self.lanes(across, side * side // width), self.lanes(lane, side * side // height)
        return height, width, len(root.axes) - root.axes.index(across)

    def axis_read_across(self, root: Loop, lane: int, accesses: Iterable[Access], apart: int) -> int | None:
        """A parallel axis, not the lane axis, along which an access that is strided in the lanes is contiguous."""
        near = range(1, apart + 1)
        for access in accesses:
            steps = {axis: usual_step(access, axis, self.analysis) for axis in root.axes if access.width}
            if steps and access.varies >> lane & 1 and steps[lane] not in near:
                for axis in root.axes:
                    if axis != lane and steps[axis] in near:
                        return axis
        return None

    # Nests with loops in them

    def windows_across(self, root: Loop) -> Tiling | None:
        """Squares of points, each of which goes through a small window by itself. Windows of one point, as reductions
        of axes of one element have, leave a nest that is pointwise, whatever lies across.
        """
        inner = [loop for loop in root.walk() if loop is not root]
        points = max(self.volume(loop.axes) for loop in inner)
        known = all(isinstance(self.analysis.sizes[axis], int) for loop in inner for axis in loop.axes)
        every = self.analysis.accesses.values()
        if not known or points > sliding_windows.WINDOW or any(access.ordered or access.indirect for access in every):
            return None
        stores = [access for access in root.accesses if access.is_store]
        square = self.square(root, [*large(every), *stores], sliding_windows.APART)
        if square is not None:
            height, rows, across = square
            return {"along": 1, "rows": rows, "lanes": 1, "across": across, "height": height}
        if points == 1:
            plain = self.pointwise(root)
            return {"along": plain["along"], "rows": plain["lanes"], "lanes": 1}
        return None

    def reducing(self, root: Loop) -> Tiling:
        leaves = [loop for loop in root.walk() if loop is not root and not loop.loops]
        if any(access.ordered for access in self.analysis.accesses.values()) and not self.accumulates(leaves):
            return self.columns(root, WINDOW_TILE, 1)  # every lane does what comes in order by itself
        if self.analysis.meeting:  # a program for every part, which one tile holds
            return {"along": 1, "rows": 1, "lanes": gpu_cost.PERSISTENT}
        if (found := bags.tile_of(self.analysis, leaves)) is not None:
            self.settled = True
            return found
        along, across = self.contiguity(root, leaves)
        points = max((self.volume(leaf.axes) for leaf in leaves if leaf.axes), default=1)
        static = all(isinstance(self.analysis.sizes[axis], int) for leaf in leaves for axis in leaf.axes)
        rows = self.volume(root.axes)
        running = any(leaf.running for leaf in leaves)
        if running and root.axes and across > along and static and points <= columns.SCANNED:
            axis, width = self.contiguous_axis(root, leaves)
            tile = columns.scanned_tile(points, rows, self.points(axis), width, leaves[0].values, self.machine)
            self.settled = True  # of 16 such nests the model overruled 15: ten took 1.0 to 1.7 of the best
            return {**self.columns(root, tile.columns, tile.points), "warps": tile.warps or 1}
        if root.axes and (across > 0 or not along) and static and points <= sliding_windows.WINDOW:
            tile, aligned = None, True
            if self.reads_again(leaves):
                aligned = self.order.begin_at(self.machine.sector, root, leaves, root.axes[-1])
                reductions = sum(isinstance(leaf.op, loops.ReduceOp) for leaf in leaves)
                tile = columns.short_tile(points, self.width(), aligned, reductions)
            if tile is not None:
                # The model takes narrow loads, and those of rows that begin anywhere, for other than they are.
                self.settled = self.width() < 4 or not aligned
                return {**self.columns(root, tile.columns, tile.points), "warps": tile.warps or 1}
            return self.columns(root, WINDOW_TILE, 1)
        if root.axes and across > along:
            return self.down_columns(root, leaves, points, static)
        pieces = [piece_of(self.analysis, leaf, large(leaf.accesses), self.machine) for leaf in leaves]
        in_order, once = not any(pieces), static and not self.reads_again(leaves)
        if once and (found := walked_once(leaves, points, max(pieces), rows, self.machine)) is not None:
            self.settled = True  # the model takes few elements of a thread for worse than they are
            return found
        lanes = power_of_two(points) if static else UNKNOWN
        if lanes * self.kept(leaves) > gpu_cost.PERSISTENT:
            lanes = min(lanes, LOOPED)
        elif lanes * self.kept(leaves) > LOOPED and not running and self.is_read_again_from_cache(leaves):
            self.settled = True  # the model takes a whole row in one tile for better than it is
            return {"along": 1, "rows": 1, "lanes": CACHED * self.kept(leaves), "warps": CACHED_WARPS}
        if running:
            lanes = min(lanes, SCANNED)
        if running and len(leaves) == 1 and root.axes and static:
            there = large(leaves[0].accesses)
            if (found := scans.tile_of(self.analysis, leaves[0], rows, lanes, there, self.machine)) is not None:
                self.settled = True  # the model takes scans in steps for up to 7 times better than they are
                return found
        height = 1
        flat = static and not any(inner.loops for inner in root.loops)
        if running and any(self.order.is_limited(root, leaf) for leaf in leaves):
            flat = False  # masks, which split vectors, are left out only of programs of one part: 57 us, not 95
        shortest = lanes <= self.machine.segment // 4
        storing = any(access.is_store for leaf in leaves for access in leaf.accesses)
        # Scans that other stages follow: rows of 64 f32 took 20 us on an H100 in tiles of 32 rows, 12 in tiles of 8.
        most = ROW_WARP_BYTES // self.width()
        if running and len(leaves) == 1:
            most = 2 * SCANNED
        elif shortest:
            most = shortest_elements(lanes, self.width(), storing)
        while flat and root.axes and lanes * height * 2 <= most and rows >= height * 2 * self.programs:
            height *= 2
        # The model takes long rows in one tile for worse than they are: eleven of eleven that it overruled took longer.
        self.settled = flat and not running and in_order and not across and lanes >= max(points, LONG // 4)
        if flat and root.axes and not running and in_order and lanes >= points:
            found = many_rows(rows, height, lanes, self.width(), self.machine)
            found = found or odd_rows(root, leaves, lanes, points, rows, self.machine)
            found = found or (alone(points, rows, self.width(), self.machine) if storing else None)
            if found is not None:
                self.settled = True
                return {"along": int(len(root.axes) < 2), **found}
        tiling = {"along": 0 if height > 1 and len(root.axes) > 1 else 1, "rows": height, "lanes": lanes}
        if flat and height == 1 and in_order and not running and lanes >= points:
            tiling["warps"] = max(self.warps(tiling), few_warps(rows, lanes, self.machine))
        if height > 1 and shortest and not running:
            tiling["warps"] = shortest_warps(self.width(), storing)
            self.settled = self.settled or (storing and self.width() >= 4)  # tiles of fewer warps took up to 1.45
        return tiling

    def down_columns(self, root: Loop, leaves: list[Loop], points: int, static: bool) -> Tiling:
        """Lanes along the axis where columns lie side by side, and down them."""
        (axis, width), running = self.contiguous_axis(root, leaves), any(leaf.running for leaf in leaves)
        kept = self.kept(leaves) if self.reads_again(leaves) else 0
        indexed = any(isinstance(leaf.op, loops.ReduceOp) and leaf.op.kind in EXTREMES for leaf in leaves)
        every, beside = self.volume(root.axes), self.points(axis)
        # Columns that do not fill a sector alone lie beside those of other axes, if any lie beside them.
        flat = len(root.axes) > 1 and beside * width < self.machine.sector
        beside = every if flat else beside
        given = columns.Columns(
            every, beside, points, width, kept, static, running, indexed, self.wide,
            aligned=self.order.begin_at(self.machine.sector, root, leaves, axis),
            in_vectors=self.order.are_vectors(root, leaves, axis),
            stores=any(access.is_store for leaf in leaves for access in leaf.accesses),
            reads=max(len(of_points(leaf)) for leaf in leaves),
        )  # fmt: skip
        # Places of extremes of 8192 by 8192 bf16 took 44 us in these tiles, 47 as the model has it.
        self.settled = (indexed and not flat and not running) or columns.are_stepped(given, self.machine)
        self.settled = self.settled or columns.few_tile(given, self.machine) is not None
        reading = [(leaf, one) for leaf in leaves for one in large(leaf.accesses) if not one.is_store]
        if flat and not running and not indexed and columns.are_one_piece(self.analysis, axis, reading):
            tiling = columns.of_piece(self.points(axis), points, every // self.points(axis), self.machine)
            return {"along": len(root.axes) - root.axes.index(axis), **tiling}
        tile = columns.tile_of(given, self.machine)
        if kept and static and not running and width < 4 and tile.points >= points:
            self.settled = True  # as for short columns; of 20 such nests 1.02 of the best
        tiling = self.columns(root, tile.columns, tile.points, axis)
        wasted = columns.wasted(beside, tile.columns) >= columns.WASTE
        if flat or (len(root.axes) > 1 and axis == root.axes[-1] and wasted):
            tiling["along"] = 0
        return tiling if tile.warps is None else {**tiling, "warps": tile.warps}

    def contiguity(self, root: Loop, leaves: list[Loop]) -> tuple[int, int]:
        """The bytes that are read in order, or backwards, along the inner loops, and along the parallel axes."""
        along = across = 0
        for leaf, access in [(one, access) for one in leaves for access in large(one.accesses)]:
            if len(leaf.axes) == 1 and self.order.stride(access, leaf.axes[0]) in (1, -1):
                along += access.width
            if any(self.order.stride(access, axis) in (1, -1) for axis in root.axes):
                across += access.width
        return along, across

    def contiguous_axis(self, root: Loop, leaves: list[Loop]) -> tuple[int, int]:
        """The parallel axis along which the widest accesses are contiguous (or the last), and their bytes."""
        found = [
            (access.width, axis)
            for leaf in leaves
            for access in large(leaf.accesses)
            for axis in root.axes
            if self.order.stride(access, axis) in (1, -1)
        ]
        width, axis = max(found, default=(4, root.axes[-1]))
        return axis, width

    def columns(self, root: Loop, lanes: int, inner: int, axis: int | None = None) -> Tiling:
        """Lanes along a parallel axis (the last, unless it is named), and `inner` of them along every inner loop.

        If the last axis is short, it is one with those around it; another has lanes without points.
        """
        if not root.axes:
            return {"along": 1, "rows": 1, "lanes": inner}
        lane = root.axes[-1] if axis is None else axis
        short = self.points(lane) < lanes * 4 and lane == root.axes[-1]
        along = 0 if short and len(root.axes) > 1 else len(root.axes) - root.axes.index(lane)
        return {"along": along, "rows": lanes, "lanes": inner}

    def kept(self, leaves: list[Loop]) -> int:
        """How many tensors several stages read: a tile that holds the whole row keeps all of them in registers."""
        return max(1, sum(count > 1 for count in self.stages_by_tensor(leaves).values()))

    def reads_again(self, leaves: list[Loop]) -> bool:
        """Whether several stages read one tensor."""
        return max(self.stages_by_tensor(leaves).values(), default=0) > 1

    def stages_by_tensor(self, leaves: list[Loop]) -> dict[SSAValue, int]:
        """How many stages read each large tensor."""
        stages: dict[SSAValue, int] = {}
        for leaf in leaves:
            reading = [access.op for access in large(leaf.accesses) if isinstance(access.op, loops.LoadOp)]
            for tensor in {op.source for op in reading}:
                stages[tensor] = stages.get(tensor, 0) + 1
        return stages

    def is_read_again_from_cache(self, leaves: list[Loop]) -> bool:
        """Whether long rows of 16-bit numbers that vectors may read are read, and read again. A tile for a whole row
        fills the processor, which then loads and computes in turns; small tiles of several programs do both at once.
        """
        reading = sum(any(not access.is_store for access in large(leaf.accesses)) for leaf in leaves)
        return self.width() <= 2 and reading > 1 and self.order.begins_at_sectors()

    def accumulates(self, leaves: list[Loop]) -> bool:
        """Whether what is combined is, in every round of a scan, one and the same row of neighbours."""
        combined = [(one, leaf) for leaf in leaves for one in leaf.accesses if one.ordered]
        every = sum(bool(access.ordered) for access in self.analysis.accesses.values())
        return len(combined) == every and all(
            not one.varies & one.ordered and len(leaf.axes) == 1 and self.order.stride(one, leaf.axes[0]) == 1
            for one, leaf in combined
        )

    def warps(self, tiling: Tiling) -> int:
        """Warps of a program: so many that every thread has a few vectors, and that long rows have many threads."""
        root = self.analysis.root
        if not root.loops:
            return max(1, min(4, tiling.get("lanes", 1) * tiling.get("height", 1) // POINTWISE_WARP))
        outer = tiling.get("rows", 1) * tiling.get("height", 1)
        leaves = [loop for loop in root.walk() if loop is not root and not loop.loops]
        own = [min(tiling.get("lanes", 1), self.most_lanes(loop)) for loop in leaves]
        inner = max(own, default=1)
        if inner == 1:
            return max(1, min(8, outer // WINDOW_WARP))
        if self.analysis.meeting:
            return meetings.warps_of(self.analysis, self.machine, inner, self.width())
        if inner >= LONGEST:
            return self.machine.warps
        # What is carried is as wide as it is computed.
        carried = any(isinstance(loop.op, loops.ScanOp) for loop in root.walk() if loop.loops) or any(
            isinstance(loop.op, loops.ScanOp) and lanes == 1 for loop, lanes in zip(leaves, own, strict=True)
        )
        width = max(self.width(), 4 if carried else 0)
        return max(1, min(16 if inner >= LONG else 8, outer * inner * width // ROW_WARP_BYTES))

    def most_lanes(self, loop: Loop) -> int:
        """The lanes that an innermost loop fills."""
        sizes = [self.analysis.sizes[axis] for axis in loop.axes]
        known = [size for size in sizes if isinstance(size, int)]
        return power_of_two(math.prod(known)) if len(known) == len(sizes) else UNKNOWN_LANES


__all__ = ["choose", "chosen_tiling", "usual_tiling"]
