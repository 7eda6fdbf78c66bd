"""The scheduling choices of a nest for the GPU: how they change a schedule, and which are worth trying.

What each means is in `lowering/schedule/choices.py`; what is not said is as `schedule_gpu` chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.flatten_axes import flatten_axes
from cuesta.lowering.schedule.gpu import schedule_gpu
from cuesta.lowering.schedule.gpu.contractions import schedule_contraction
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule
from cuesta.transforms.products.tiles import LEAST
from cuesta.transforms.reductions import when

CONTRACTION = ("rows", "columns", "depth")
"""What every contraction has to say; `depth` is what tells it from others."""
LARGEST_TILE = 65536
"""Elements of a tile that are tried at most.

Source: a bound against the time that tuning takes: a multiprocessor has no more registers of 32 bits.
"""


def choose(analysis: NestAnalysis, machine: Machine) -> Schedule:
    """The schedule of a nest for the GPU, as its choices say, and as `schedule_gpu` does where they say nothing.

    Requires: the choices exist, and have values that make sense.
    Errors: CuestaError for one that the nest cannot have.
    """
    choices = analysis.nest.choices
    check(analysis, choices)
    if "depth" in choices:
        return schedule_contraction(analysis, choices, schedule_gpu.index_bits(analysis))
    schedule = schedule_gpu.choose(analysis, machine)
    if choices:
        apply_choices(analysis, schedule, choices)
    return schedule


def check(analysis: NestAnalysis, choices: Mapping[str, int]) -> None:
    """Errors: CuestaError for choices that do not go together."""
    if "depth" in choices:
        for key in CONTRACTION:
            if choices.get(key, 0) < LEAST:
                raise CuestaError(Diagnostic.on(analysis.nest, f"a contraction has {key} of at least {LEAST}"))
    elif "columns" in choices:
        raise CuestaError(Diagnostic.on(analysis.nest, "its schedule says columns, but no depth: it is no contraction"))


def apply_choices(analysis: NestAnalysis, schedule: Schedule, choices: Mapping[str, int]) -> None:
    """Changes a schedule as choices say; one that has no meaning for its kind changes nothing."""
    if "rows" in choices and has_rows(schedule):
        set_rows(analysis, schedule, choices["rows"])
    if "lanes" in choices and is_plain(schedule):
        set_lanes(analysis, schedule, choices["lanes"])
    if "warps" in choices:
        schedule.choices["warps"] = choices["warps"]
    if choices.get("reversed"):
        schedule.choices["reversed"] = 1
    if "whole" in choices:
        schedule.choices["whole"] = choices["whole"]
    if "reread" in choices:
        schedule.choices["reread"] = choices["reread"]


def is_plain(schedule: Schedule) -> bool:
    """Whether nothing but tiles and warps was chosen: where programs work together, tiles depend on one another."""
    return schedule.choices.keys() <= {"target", "warps", "index", "whole"}


def is_pointwise(schedule: Schedule) -> bool:
    """Whether a program is one tile along one axis, without loops in it."""
    return not schedule.loops and len(schedule.order) == 1 and not schedule.around


def has_rows(schedule: Schedule) -> bool:
    """Whether a tile has lanes along what is reduced, and may have some along the parallel axes around it."""
    inner = max((lanes for _, lanes in schedule.loops.values()), default=1)
    return is_plain(schedule) and inner > 1 and not schedule.around


def set_lanes(analysis: NestAnalysis, schedule: Schedule, lanes: int) -> None:
    """Gives the innermost loops, or the tile of a pointwise kernel, so many lanes."""
    if is_pointwise(schedule):
        (axis,) = schedule.order
        schedule.lanes = fitting(analysis, axis, lanes)
        schedule.parallel = [retiled(one, axis, schedule.lanes) for one in schedule.parallel]
        return
    for op, (axes, own) in schedule.loops.items():
        if axes and own > 1:
            schedule.loops[op] = (axes, fitting(analysis, axes[-1], lanes))


def set_rows(analysis: NestAnalysis, schedule: Schedule, rows: int) -> None:
    """Gives a tile so many rows."""
    root = analysis.root
    if not root.axes:
        return
    if rows == 1:
        schedule.parallel = [ParallelAxis(axis) for axis in root.axes]
        schedule.order, schedule.lanes = [], 1
        return
    if schedule.order:
        (axis,) = schedule.order
    else:
        axis = flatten_axes(analysis, root, root.axes)
        schedule.parallel = [ParallelAxis(axis)]
    schedule.order, schedule.lanes = [axis], fitting(analysis, axis, rows)
    schedule.parallel = [retiled(one, axis, schedule.lanes) for one in schedule.parallel]


def retiled(parallel: ParallelAxis, axis: int, tile: int) -> ParallelAxis:
    """The same with another tile, if it is that of `axis`."""
    return ParallelAxis(axis, loop=True, tile=tile) if parallel.axis == axis else parallel


def fitting(analysis: NestAnalysis, axis: int, lanes: int) -> int:
    """So many lanes, but not more than the axis fills; at least 2, because a single one would be none."""
    size = analysis.sizes[axis]
    return max(2, min(lanes, power_of_two(size))) if isinstance(size, int) else lanes


def candidates(analysis: NestAnalysis, machine: Machine) -> list[dict[str, int]]:
    """Choices for a nest that are worth timing, beside the schedule it has by default."""
    schedule = schedule_gpu.choose(analysis, machine)
    warps = int(schedule.choices.get("warps", 4))
    found: list[dict[str, int]] = []
    if is_pointwise(schedule):
        found += [{"lanes": lanes, "warps": max(1, min(8, lanes // 256))} for lanes in (512, 1024, 2048, 4096)]
        found.append({"lanes": schedule.lanes, "warps": warps * 2})
    elif schedule.slides:
        distances = {parallel.tile for parallel in schedule.parallel if not parallel.loop}
        return [{"slide": slide} for slide in (1, 4, 8, 16) if slide not in distances]
    elif not schedule.loops or not is_plain(schedule):
        found += [{"warps": warps * 2}, {"warps": max(1, warps // 2)}]
    else:
        lanes = max(lanes for _, lanes in schedule.loops.values())
        rows = schedule.lanes if has_rows(schedule) else 1
        found += [{"warps": warps * 2}, {"warps": max(1, warps // 2)}]
        if lanes > 1:
            found += [{"lanes": lanes // 4, "warps": max(1, warps // 2)}, {"lanes": lanes // 2}, {"lanes": lanes * 2}]
        if has_rows(schedule) and analysis.root.axes:
            found += [{"rows": rows * 2}, {"rows": max(1, rows // 2)}]
    sensible = [one for one in found if is_sensible(schedule, one, warps, machine)]
    return [*sensible, *when.candidates(analysis.nest)]


def is_sensible(schedule: Schedule, choices: Mapping[str, int], warps: int, machine: Machine) -> bool:
    """Whether choices say another thing than the schedule, and a thing that a device can do."""
    lanes = max((lanes for _, lanes in schedule.loops.values()), default=schedule.lanes)
    rows = schedule.lanes if schedule.loops else 1
    around = math.prod(lanes for _, lanes in schedule.around)
    wanted = choices.get("lanes", lanes), choices.get("rows", rows), choices.get("warps", warps)
    return (
        wanted != (lanes, rows, warps)
        and wanted[0] > 1
        and wanted[0] * wanted[1] * around <= LARGEST_TILE
        and 1 <= wanted[2] <= machine.warps
    )


__all__ = ["apply_choices", "candidates", "choose"]
