"""From a tiling (`transforms/tilings/space.py`) to the schedule that it says."""

from __future__ import annotations

from collections.abc import Mapping

from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.loops.analysis import Loop, NestAnalysis
from cuesta.lowering.schedule.flatten_axes import flatten_axes
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule


def schedule_of(analysis: NestAnalysis, choices: Mapping[str, int]) -> Schedule:
    """The schedule that a tiling says, without its warps.

    Errors: CuestaError for an axis that the nest does not have.
    """
    root = analysis.root
    joined = choices.get("joined", 1)
    if joined > len(root.axes) > 0:
        message = f"its schedule says joined = {joined}, but it has {len(root.axes)} parallel axes when merged"
        raise CuestaError(Diagnostic.on(analysis.nest, message))
    if joined > 1 and root.axes:
        flatten_axes(analysis, root, root.axes[-joined:])
    axes = list(root.axes)
    for name in ("along", "across"):
        if choices.get(name, 0) > len(axes) > 0:
            message = f"its schedule says {name} = {choices[name]}, but it has {len(axes)} parallel axes when merged"
            raise CuestaError(Diagnostic.on(analysis.nest, message))
    inner, rows = (choices.get("lanes", 1), choices.get("rows", 1)) if root.loops else (1, choices.get("lanes", 1))
    for leaf in root.walk():
        if leaf is not root and not leaf.loops and leaf.axes and (inner > 1 or isinstance(leaf.op, loops.ScanOp)):
            flatten_axes(analysis, leaf, leaf.axes)
    tiles: dict[int, int] = {}
    around: list[tuple[int, int]] = []
    order: list[int] = []
    if axes and choices.get("height", 1) > 1:
        axis = axes[-choices["across"]]
        tiles[axis] = choices["height"]
        around.append((axis, choices["height"]))
    if axes and rows > 1:
        along = choices["along"]
        axis = flatten_axes(analysis, root, axes) if along == 0 else axes[-along]
        tiles[axis] = rows
        order.append(axis)
    parallel = [ParallelAxis(axis, loop=axis in tiles, tile=tiles.get(axis)) for axis in root.axes]
    schedule = Schedule(parallel, order=order, lanes=rows if order else 1, around=around)
    fill_loops(analysis, root, schedule, inner)
    return schedule


def fill_loops(analysis: NestAnalysis, loop: Loop, schedule: Schedule, lanes: int) -> None:
    """Fills `schedule.loops` for the loops inside `loop`: innermost loops have `lanes`, or as many as they fill."""
    for inner in loop.loops:
        own = 1
        if inner.axes and not inner.loops:
            size = analysis.sizes[inner.axes[-1]]
            own = min(lanes, power_of_two(size)) if isinstance(size, int) else lanes
        schedule.loops[inner.op] = (inner.axes, own)
        fill_loops(analysis, inner, schedule, lanes)


__all__ = ["schedule_of"]
