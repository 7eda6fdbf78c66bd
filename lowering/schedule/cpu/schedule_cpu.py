"""How a nest runs on a CPU: which axis has the SIMD lanes, what is one program, and whether to use threads.

`choose` is the whole interface: replace it to try another strategy. It weighs, with one cost model, every axis that
could have the lanes: an axis of the parallel domain (then inner loops are serial and every value in them is a vector),
or, loop by loop, an axis of an inner loop (then a program is one point of the parallel domain, a row). What makes
accesses contiguous is cheap, and wins.

    loops.nest (%i : 4096) { sum (%j : 1024) of %x[%i, %j] }    lanes on %j, a program is a row
    loops.nest (%j : 1024) { sum (%i : 4096) of %x[%i, %j] }    lanes on %j, a program is a strip of columns
"""

from __future__ import annotations

import math

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.reductions import EXTREMES, JOINS
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import split_axes
from cuesta.lowering.schedule.cpu.program_sizes import rows_of_a_program, steps, tile_of
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule

TILE = 4096
"""About how many elements a program handles, where it may choose.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.TILE'`
"""
BLOCK = (128, 16)
"""Rows and columns of a program where one side is read across: what it touches stays in the first-level cache.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.BLOCK'`
"""
SUMMED_ROWS = 16
"""Rows of a program that takes their sums side by side, several at a time.

Source: an assumption, not measured yet: a program is then some 30 KB of a product of one row, 3 µs of the memory's.
"""
MOST_ROWS = 8
"""The most rows whose sums are taken side by side.

Source: a definition: two vectors of each are in the 32 registers (`targets/cpu/emit_kernel.py`).
"""
TILE_ROWS, TILE_COLUMNS = 64, 256
"""Rows and columns of a program that transposes in registers.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.TILE_ROWS schedule_cpu.TILE_COLUMNS'`
"""
SHUFFLED_STRIDE = 4
"""The widest stride of a load that is made of contiguous ones and shuffles.

Source: a definition: what the target does so (`targets/cpu/emit_strided.py`).
"""
WINDOW_POINTS = 16
"""Up to so many points, an inner loop is a window: it is over before a chain of adds is long.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.WINDOW_POINTS'`
"""
MOST_SIDE_BY_SIDE = 16
"""The most vectors of columns that are reduced side by side.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.MOST_SIDE_BY_SIDE'`
"""
SIDE_BY_SIDE_WORK = 40
"""The work and accesses of a body up to which that pays.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.SIDE_BY_SIDE_WORK'`
"""
MOST_UNROLLED = 16
"""The most vectors that a step of a loop does one after the other.

Source: a bound against compile-time growth: what a text may ask for.
"""
FEWEST_STRIPS = 4
"""How many strips of columns are left for the threads at least.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.FEWEST_STRIPS'`
"""
SCATTER_STRIPS = 8
"""About how many strips of columns share the work of a scatter.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.SCATTER_STRIPS'`
"""
UNSURE = 8
"""How much less it may seem where loops have sizes that only the call knows: woken in vain is better than all alone.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.UNSURE'`
"""
PROGRAM = 10.0
"""The cost of a program without its body, in float adds.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.PROGRAM'`
"""
ITERATION = 1.0
"""The cost of a step of a loop without its body.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.ITERATION'`
"""
HORIZONTAL = 4.0
"""The cost of a reduction of a vector to a scalar, and half as much again for every halving.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.HORIZONTAL'`
"""

# Costs of an access of 4 bytes, in float adds: 1 for neighbours, or for one element alone.
INVARIANT = 0.25
"""Of one element for all lanes.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.INVARIANT'`
"""
NEAR_LANE = 1.0
"""Of a lane of a gather, which does its lanes one by one.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.NEAR_LANE'`
"""
FAR_LANE = 2.5
"""Of a lane where each touches another cache line.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.FAR_LANE'`
"""
SHUFFLED = 1.5
"""Of a vector of a load that is made of contiguous ones and shuffles, for every element of its stride.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.SHUFFLED'`
"""
TRANSPOSED = 5.0
"""Of a vector of a tile that is transposed in registers.

Source: measured by `make bench-constants ARGS='--only schedule_cpu.TRANSPOSED'`
"""
_FORBIDDEN = math.inf


def choose(analysis: NestAnalysis, machine: Machine) -> Schedule:
    """The schedule of a nest whose axes are merged.

    Errors: CuestaError for what a processor cannot do, or a choice of the nest that it cannot have.
    """
    if analysis.meeting:
        raise CuestaError(Diagnostic.on(analysis.nest, "points of a nest meet on a GPU only"))
    if analysis.atomic:
        raise CuestaError(
            Diagnostic.on(analysis.nest, "changes elements in any order, for which a processor has no way")
        )
    most_of = {"lanes": MOST_SIDE_BY_SIDE * machine.lanes, "unroll": MOST_UNROLLED, "rows": MOST_ROWS}
    for name, most in most_of.items():
        if analysis.nest.choices.get(name, 1) > most:
            problem = f"its schedule says {name} = {analysis.nest.choices[name]}; here there are {most} at most"
            raise CuestaError(Diagnostic.on(analysis.nest, problem))
    split_axes(analysis)
    return _Chooser(analysis, machine).choose()


def weighed(analysis: NestAnalysis, machine: Machine) -> list[tuple[str, float]]:
    """What `choose` weighs for a nest whose axes are merged: in words, with its cost in float adds, the cheapest first.

    Errors: as `choose`.
    """
    split_axes(analysis)
    chooser = _Chooser(analysis, machine)
    chooser.choose()
    return sorted(
        ((chooser.described(*lanes), cost) for lanes, cost in chooser.weighed.items()), key=lambda one: one[1]
    )


class _Chooser:
    def __init__(self, analysis: NestAnalysis, machine: Machine) -> None:
        self.analysis = analysis
        self.machine = machine
        self.choices = analysis.nest.choices
        self.stated = self.choices.get("lanes")
        self.max_lanes = self.stated or machine.lanes
        self.points = [size if isinstance(size, int) else max(1, analysis.estimate(size)) for size in analysis.sizes]
        self.lane_choice: dict[Loop, tuple[int | None, float]] = {}
        self.tiled = not analysis.root.loops and self.suits_tiles(analysis.root)
        self.beside: int | None = None
        """The parallel axis of which several points are reduced side by side, what lies along it being transposed."""
        self.weighed: dict[tuple[int | None, int | None], float] = {}
        """The costs that were compared, by the axis side by side and the one with the lanes."""

    def choose(self) -> Schedule:
        root = self.analysis.root
        best_axis, best_cost = None, self.cost(root, None)
        if self.must_have_lanes and all(axis is None for axis, _ in self.lane_choice.values()):
            best_cost = _FORBIDDEN
        self.weighed[None, None] = best_cost
        for axis in reversed(root.axes):  # the innermost wins when costs are equal
            cost = self.weighed[None, axis] = self.cost_with_lanes(root, axis)
            if cost < best_cost:
                best_axis, best_cost = axis, cost
        if best_cost == _FORBIDDEN:
            problem = f"its schedule says lanes = {self.stated}, but none of its axes can have lanes"
            raise CuestaError(Diagnostic.on(self.analysis.nest, problem))
        if (rows := self.choices.get("rows", 1)) > 1:
            beside = None if best_axis is None or self.stated is None else self.axis_of_rows(root, best_axis)
            if beside is None or best_axis is None:
                schedule = self.rows_together(root, root.axes[-1:], rows)
            else:
                wanted = rows_of_a_program([self.points[axis] for axis in root.axes], rows, self.lanes(best_axis))
                schedule = self.blocks(root, (beside, rows), best_axis, wanted)
        elif (found := self.cheapest_beside(root, best_cost)) is not None:
            beside, lane = found
            rows = self.rows_of(beside)
            if lane is None:
                schedule = self.rows_together(root, [beside], rows)
            else:
                schedule = self.blocks(root, (beside, rows), lane, SUMMED_ROWS)
        else:
            schedule = self.rows(root) if best_axis is None else self.lanes_on(root, best_axis)
        self.share_among_threads(root, schedule)
        if "prefetch" in self.choices:
            schedule.choices["prefetch"] = self.choices["prefetch"]
        schedule.choices["unroll"] = self.choices.get("unroll") or self.unroll(root, schedule)
        return schedule

    def described(self, beside: int | None, lane: int | None) -> str:
        """A choice that was weighed, in words."""
        axes = list(self.analysis.root.axes)

        def named(axis: int) -> str:
            size = sym.format_expr(self.analysis.sizes[axis])
            return f"axis {axes.index(axis)} (of {size})"

        rows = "" if beside is None else f"{self.rows_of(beside)} points of {named(beside)} side by side, "
        lanes = "lanes inside, or none" if lane is None else f"{self.lanes(lane)} lanes on {named(lane)}"
        return rows + lanes

    @property
    def must_have_lanes(self) -> bool:
        """Whether the nest's own schedule says that there are vectors."""
        return self.stated is not None and self.stated > 1 and 0 not in self.points

    def share_among_threads(self, root: Loop, schedule: Schedule) -> None:
        """Whether to wake the other threads. Where only the call knows how many programs there are, it decides: not for
        up to `grain` of them.
        """
        if "parallel" in self.choices:
            schedule.choices["parallel"] = self.choices["parallel"]
            return
        programs, total = self.programs(schedule), self.total(root)
        if all(isinstance(self.analysis.sizes[axis], int) for axis in root.axes):
            known = all(isinstance(size, int) for size in self.analysis.sizes)
            least = self.machine.waking if known else self.machine.waking // UNSURE
            schedule.choices["parallel"] = int(programs > 1 and total >= least)
            return
        schedule.choices["parallel"] = 1
        schedule.choices["grain"] = max(1, round(self.machine.waking * programs / max(1.0, total)))

    def programs(self, schedule: Schedule) -> int:
        """The number of programs."""
        count = 1
        for parallel in schedule.parallel:
            points = self.points[parallel.axis]
            tile = (parallel.tile or points or 1) if parallel.loop else 1
            count *= math.ceil(points / tile)
        return count

    # Costs, in float adds. A vector instruction costs what a scalar one does.

    def cost(self, loop: Loop, lane: int | None) -> float:
        """The cost of all points of a loop, when the lanes are on `lane`, an axis further out, or not chosen (None)."""
        count = math.prod(self.points[axis] for axis in loop.axes)
        if lane is not None:
            return count * (self.body(loop, lane) + ITERATION)
        best: float = count * (self.body(loop, None) + (PROGRAM if loop is self.analysis.root else ITERATION))
        best_axis: int | None = None
        serial = best
        if self.must_have_lanes and loop is not self.analysis.root and not loop.loops:
            best = _FORBIDDEN  # vectors if it can have some
        if loop is not self.analysis.root:
            for axis in reversed(self.lane_axes(loop)):
                cost = self.cost_with_lanes(loop, axis)
                if cost < best:
                    best, best_axis = cost, axis
        best = serial if best_axis is None else best
        self.lane_choice[loop] = (best_axis, best)
        return best

    def cost_with_lanes(self, loop: Loop, lane: int) -> float:
        """The cost of all points of a loop when `lane`, one of its own axes, has the lanes."""
        lanes = self.lanes(lane)
        count = math.prod([steps(self.points[lane], lanes), *(self.points[axis] for axis in loop.axes if axis != lane)])
        horizontal = HORIZONTAL * (1 + math.log2(lanes) / 2) if isinstance(loop.op, loops.ReduceOp) else 0.0
        steps_across = loop.running * math.log2(lanes)  # a scan of the lanes of a vector
        return count * (self.body(loop, lane) + steps_across + ITERATION) + horizontal

    def body(self, loop: Loop, lane: int | None) -> float:
        """The cost of one point of a loop, or of one vector of points."""
        cost = loop.work
        for access in loop.accesses:
            cost += self.access_cost(access, lane)
        for inner in loop.loops:
            cost += self.cost(inner, lane)
        return cost

    def access_cost(self, access: Access, lane: int | None) -> float:
        """The cost of one access, or of one vector of it."""
        width = max(0.5, access.width / 4) if access.width else 0.5
        weight = width * (2.0 if access.is_store else 1.0)
        if lane is None:
            return weight
        if access.ordered >> lane & 1:
            return _FORBIDDEN
        if not access.varies >> lane & 1:
            # All lanes would write to one place: only a scalar loop does that right.
            return _FORBIDDEN if access.is_store else INVARIANT
        stride = 1 if not access.width else self.stride(access, lane)
        if stride == 1:
            return weight
        if not access.is_store and stride is not None and (stride == -1 or 2 <= stride <= SHUFFLED_STRIDE):
            return SHUFFLED * abs(stride) * weight
        if self.tiled and self.is_read_across(access, lane):
            return TRANSPOSED * weight
        if self.beside is not None and self.runs_along(access, lane, self.beside):
            return TRANSPOSED * weight
        near = stride is not None and abs(stride) * access.width <= self.machine.line // 2
        return (NEAR_LANE if near else FAR_LANE) * self.lanes(lane) * (2.0 if access.is_store else 1.0)

    def is_spread(self, access: Access, lane: int) -> bool:
        """Whether lanes are loaded or stored one by one: there are no stretches to read, and all must be kept."""
        if not access.width or not access.varies >> lane & 1:
            return False
        stride = self.stride(access, lane)
        return stride is None or abs(stride) > SHUFFLED_STRIDE

    @staticmethod
    def stride(access: Access, lane: int) -> int | None:
        """By how many elements an access moves from lane to lane; None when that is not one number."""
        stride = None if access.indirect >> lane & 1 else sym.coefficient(access.address, lane)
        return stride if isinstance(stride, int) else None

    def total(self, root: Loop) -> float:
        """The number of ops and accesses of the whole nest, one by one."""

        def visit(loop: Loop) -> float:
            inner = sum(visit(child) for child in loop.loops)
            return math.prod(self.points[axis] for axis in loop.axes) * (loop.work + len(loop.accesses) + inner)

        return visit(root)

    def lanes(self, axis: int) -> int:
        """The lanes that suit the size of an axis: those of the machine, or so many as it fills. (Fewer never take
        fewer steps: what is left over is done by halves.) Those that the nest's own schedule says are taken as they
        are.
        """
        if self.stated is not None:
            return self.stated
        size, lanes = self.analysis.sizes[axis], self.max_lanes
        while isinstance(size, int) and lanes > max(1, size):
            lanes //= 2
        return lanes

    def column_lanes(self, root: Loop, lane: int) -> int:
        """Lanes for an axis around serial reductions.

        Several vectors side by side are as many independent chains of adds, and read whole stretches of a row. Their
        number is the one with the least time: a step takes as long as an add, or as its vectors one after the other.
        """
        lanes, size = self.lanes(lane), self.points[lane]
        if self.stated is not None:
            return lanes
        heaviest = max(loop.work + len(loop.accesses) for loop in root.walk())
        if lanes < self.max_lanes or heaviest > SIDE_BY_SIDE_WORK:
            return lanes
        if all(self.iterations(inner) <= WINDOW_POINTS for inner in root.loops):
            return lanes
        if any(self.is_spread(access, lane) for loop in root.walk() for access in loop.accesses):
            return lanes
        best, best_time = lanes, math.inf
        width = lanes
        while width <= MOST_SIDE_BY_SIDE * lanes and width * FEWEST_STRIPS <= max(size, lanes * FEWEST_STRIPS):
            time = (
                size // width * max(self.machine.latency, width // lanes)
                + (size % width).bit_count() * self.machine.latency
            )
            if time <= best_time:
                best, best_time = width, time
            width *= 2
        return best

    @staticmethod
    def lane_axes(loop: Loop) -> list[int]:
        """The axes of an inner loop that may have the lanes: where the order of points counts, only the last.

        None where it counts for more than rounding: 0 · (a · b) is 0 to eager, though a · b may overflow.
        """
        if any(isinstance(op, loops.RunningOp) and op.kind == "prod" for op in loop.op.body.ops):
            return []
        if isinstance(loop.op, loops.ScanOp) or (isinstance(loop.op, loops.ReduceOp) and loop.op.kind in EXTREMES):
            return loop.axes[-1:]
        return loop.axes

    # Schedules

    def rows(self, root: Loop) -> Schedule:
        """A program is one point of the parallel domain; inner loops have the lanes."""
        schedule = Schedule([ParallelAxis(axis) for axis in root.axes], locals=self.analysis.local_sizes)
        self.inner_lanes(root, schedule, free=True)
        if not root.loops and root.axes:
            # Nothing to vectorise: still let a program do a whole row.
            self.run_through(schedule, root.axes[-1:], {root.axes[-1]: TILE})
        return schedule

    def rows_together(self, root: Loop, axes: list[int], rows: int) -> Schedule:
        """As `rows`, but a program runs through a tile of one axis, of which `rows` points are done together, and for
        them through axes of a few points that all read the same of what they reduce: the other rows of a product.
        """
        schedule = self.rows(root)
        if not axes or schedule.locals or all(lanes == 1 for _, lanes in schedule.loops.values()):
            problem = f"its schedule says rows = {rows}, but it has no rows whose points are reduced in lanes"
            raise CuestaError(Diagnostic.on(self.analysis.nest, problem))
        parallel = next(one for one in schedule.parallel if one.axis == (axis := axes[0]))
        parallel.loop, parallel.tile = True, tile_of(self.analysis.sizes[axis], SUMMED_ROWS, rows)
        schedule.around = [(axis, rows)]
        own = [access for loop in root.loops for access in loop.accesses if access.varies >> axis & 1]
        for other in schedule.parallel:
            if other.axis != axis and 1 < self.points[other.axis] <= MOST_ROWS and own:
                other.loop = not any(access.is_store or access.varies >> other.axis & 1 for access in own)
        schedule.order = [other.axis for other in schedule.parallel if other.loop and other.axis != axis]
        return schedule

    def cheapest_beside(self, root: Loop, best_cost: float) -> tuple[int, int | None] | None:
        """The parallel axis of which several points are best reduced side by side, and the one with the lanes (None:
        inner loops have them), if that costs less: what lies along the first is transposed in registers.
        Afterwards the lanes of inner loops are chosen for it.
        """
        if self.stated is not None or "unroll" in self.choices or not self.suits_rows(root):
            return None
        found: tuple[int, int | None] | None = None
        before = dict(self.lane_choice)
        reduced = [access for loop in root.loops if isinstance(loop.op, loops.ReduceOp) for access in loop.accesses]
        for axis in root.axes:
            if self.rows_of(axis) == 1 or all(sym.coefficient(access.address, axis) != 1 for access in reduced):
                continue
            self.beside = axis
            cost = self.weighed[axis, None] = self.cost(root, None)
            if cost < best_cost and all(self.lane_choice[loop][0] is not None for loop in root.loops):
                found, best_cost, before = (axis, None), cost, dict(self.lane_choice)
            for lane in root.axes:
                if lane != axis and self.lanes(lane) > 1 and (cost := self.cost_with_lanes(root, lane)) < best_cost:
                    found, best_cost = (axis, lane), cost
        self.beside, self.lane_choice = None if found is None else found[0], before
        return found

    def axis_of_rows(self, root: Loop, lane: int) -> int | None:
        """The parallel axis of which points are summed side by side, where `lane` has the lanes: the last along which
        something varies that all lanes read. None where there is none, or they cannot stand side by side.
        """
        shared = [
            access for loop in root.loops for access in loop.accesses if access.width and not access.varies >> lane & 1
        ]
        axes = [axis for axis in root.axes if axis != lane and any(access.varies >> axis & 1 for access in shared)]
        return axes[-1] if axes and self.suits_rows(root) else None

    def blocks(self, root: Loop, beside: tuple[int, int], lane: int, wanted: int) -> Schedule:
        """Two parallel axes have lanes around serial loops: of the one, `beside` says how many points stand side by
        side. A program runs through blocks of them, about `wanted` points of that axis.
        """
        schedule = Schedule([ParallelAxis(axis) for axis in root.axes], lanes=self.lanes(lane))
        self.inner_lanes(root, schedule, free=False)
        schedule.around, schedule.order = [beside], [lane]
        for parallel in schedule.parallel:
            if parallel.axis in (beside[0], lane):
                parallel.loop = True
                step = beside[1] if parallel.axis == beside[0] else schedule.lanes
                points = wanted if parallel.axis == beside[0] else self.machine.line
                parallel.tile = tile_of(self.analysis.sizes[parallel.axis], points, step)
        return schedule

    def rows_of(self, axis: int) -> int:
        """The points of an axis that are reduced side by side."""
        size = self.analysis.sizes[axis]
        return min(MOST_ROWS, 1 << size.bit_length() - 1) if isinstance(size, int) and size > 1 else 1

    def suits_rows(self, root: Loop) -> bool:
        """Whether points can be reduced side by side: each has one value for a reduction, nothing branches, nothing is
        kept in memory of its own.
        """
        if self.analysis.local_sizes or not root.loops or any(loop.loops for loop in root.loops):
            return False
        reductions = [loop.op for loop in root.loops if isinstance(loop.op, loops.ReduceOp)]
        kinds = {op.kind for op in reductions}
        return (
            bool(kinds)
            and kinds <= JOINS.keys() - EXTREMES.keys()
            and all(isinstance(loop.op, loops.ReduceOp | loops.ForOp) for loop in root.loops)
            and not any(isinstance(op, loops.BoundOp | loops.MeetOp) for op in root.op.walk())
            and not any(access.ordered for loop in root.walk() for access in loop.accesses)
        )

    def inner_lanes(self, loop: Loop, schedule: Schedule, *, free: bool) -> None:
        """Fills `schedule.loops` for the loops inside `loop`; `free` says that no axis further out has the lanes."""
        for inner in loop.loops:
            lane = self.lane_choice[inner][0] if free else None
            if lane is None:
                schedule.loops[inner.op] = (inner.axes, 1)
            else:
                schedule.loops[inner.op] = ([*(axis for axis in inner.axes if axis != lane), lane], self.lanes(lane))
            self.inner_lanes(inner, schedule, free=free and lane is None)

    def lanes_on(self, root: Loop, lane: int) -> Schedule:
        """The lanes are on an axis of the parallel domain; a program runs through a tile of it."""
        lanes = self.column_lanes(root, lane) if root.loops else self.lanes(lane)
        schedule = Schedule([ParallelAxis(axis) for axis in root.axes], lanes=lanes)
        self.inner_lanes(root, schedule, free=False)
        inner_points = max(1, sum(self.iterations(inner) for inner in root.loops))
        # Columns that are reduced are whole cache lines, also of elements of one byte.
        target = max(TILE // inner_points, self.machine.line if root.loops else 1)
        if any(access.ordered for loop in root.walk() for access in loop.accesses):
            # Every program walks the whole index: strips as wide as leaves work for the threads.
            target = max(lanes, self.points[lane] // SCATTER_STRIPS)
        others = [axis for axis in root.axes if axis != lane]
        across = self.axis_read_across(root, lane) if not root.loops else None
        length = self.points[lane]
        if across is not None and length > 1 and self.tiled:
            self.tiles(schedule, across, lane)
        elif across is not None and length > 1:
            self.run_through(schedule, [across, lane], {across: BLOCK[0], lane: BLOCK[1]})
        elif length >= 2 * target or not others:
            self.run_through(schedule, [lane], {lane: target})
        elif length * 2 > target:
            self.run_through(schedule, [lane], {})
        else:
            self.run_through(schedule, [others[-1], lane], {others[-1]: max(1, target // max(1, length))})
        return schedule

    @staticmethod
    def suits_tiles(root: Loop) -> bool:
        """Whether rows of a tile can stand side by side: nothing branches."""
        return not any(isinstance(op, loops.BoundOp) for op in root.op.body.ops)

    def tiles(self, schedule: Schedule, across: int, lane: int) -> None:
        """Lets a program run through tiles with lanes along both axes: what is read across is transposed."""
        rows = self.lanes(across)
        schedule.around, schedule.order = [(across, rows)], [lane]
        for parallel in schedule.parallel:
            wanted = {across: TILE_ROWS, lane: TILE_COLUMNS}.get(parallel.axis)
            if wanted is not None:
                parallel.loop = True
                step = rows if parallel.axis == across else schedule.lanes
                parallel.tile = tile_of(self.analysis.sizes[parallel.axis], wanted, step)

    def iterations(self, loop: Loop) -> int:
        """How often the innermost bodies of a loop run."""
        return math.prod(self.points[axis] for axis in loop.axes) * max(1, sum(map(self.iterations, loop.loops)))

    def axis_read_across(self, root: Loop, lane: int) -> int | None:
        """A parallel axis, not the lane axis, along which an access that is strided in the lanes is contiguous."""
        for access in root.accesses:
            for axis in root.axes:
                if self.runs_along(access, lane, axis):
                    return axis
        return None

    def is_read_across(self, access: Access, lane: int) -> bool:
        """Whether an access is contiguous along another parallel axis than that of the lanes."""
        return any(self.runs_along(access, lane, axis) for axis in self.analysis.root.axes)

    def runs_along(self, access: Access, lane: int, axis: int) -> bool:
        """Whether an access that the lanes `lane` would spread is contiguous along `axis`. What is looked up along
        another axis is one place in memory for all points of a tile.
        """
        if axis == lane or not access.width or not access.varies >> lane & 1:
            return False
        if (access.indirect >> lane | access.indirect >> axis) & 1:
            return False
        return self.stride(access, lane) != 1 and sym.coefficient(access.address, axis) == 1

    def run_through(self, schedule: Schedule, order: list[int], tiles: dict[int, int]) -> None:
        """Lets a program run through the axes in `order`, at most `tiles[axis]` points of each."""
        schedule.order = order
        for parallel in schedule.parallel:
            if parallel.axis in order:
                parallel.loop = True
                wanted = tiles.get(parallel.axis)
                step = 1 if parallel.axis != order[-1] else schedule.lanes
                if wanted is not None and wanted >= step * 16:
                    step *= 4  # long enough to be worth several vectors a step
                parallel.tile = None if wanted is None else tile_of(self.analysis.sizes[parallel.axis], wanted, step)

    def unroll(self, root: Loop, schedule: Schedule) -> int:
        """Vectors a step: more for light bodies, to hide latencies; no more than the shortest lane loop fills."""
        bodies: list[tuple[Loop, int]] = []
        if schedule.lanes > 1 and not root.loops:
            tile = next(parallel.tile for parallel in schedule.parallel if parallel.axis == schedule.order[-1])
            bodies.append((root, (tile or self.points[schedule.order[-1]]) // schedule.lanes))
        for loop in root.walk():
            axes, lanes = schedule.loops.get(loop.op, ([], 1))
            if lanes > 1 and not loop.loops:
                bodies.append((loop, self.points[axes[-1]] // lanes))
        if not bodies:
            return 1
        heaviest = max(loop.work + len(loop.accesses) for loop, _ in bodies)
        wanted = 4 if heaviest <= 6 else 2 if heaviest <= 16 else 1
        longest = max(vectors for _, vectors in bodies)
        while wanted > 1 and wanted > longest:
            wanted //= 2
        return wanted
