"""How else a nest might have run, and what the choosers think that would have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.explain.model import Candidate, Schedule
from cuesta.lowering.schedule.cpu import schedule_cpu
from cuesta.lowering.schedule.gpu import schedule_gpu
from cuesta.transforms.tilings.cost import cheapest, costs_of, ranked

NAMED = 12
"""Of the rejected, so many are named."""

Tiling = Mapping[str, int]


def schedule_of(analysis: NestAnalysis, machine: Machine) -> tuple[Schedule, float | None, str]:
    """What was weighed for a nest, whose axes this merges; the predicted time in µs; by what, or why there is none.

    The chosen one has the words of the chooser: the text of the kernel says it in full.
    """
    nest = analysis.nest
    merge_axes(analysis)
    traits = traits_of(nest.results[0])
    if active().schedules or traits.chooser is not None:
        return _by("an extension, or the device's target", nest), None, "chosen from outside: no model knows it"
    try:
        return _on_gpu(analysis, machine) if traits.blocks else _on_cpu(analysis, machine)
    except CuestaError as error:
        return _by("rules", nest), None, f"the schedule cannot be weighed again: {error}"


def _by(chooser: str, nest: loops.NestOp) -> Schedule:
    return Schedule(Candidate(_said(nest.choices) or "as the text of the kernel says"), (), 1, "", chooser)


def _on_cpu(analysis: NestAnalysis, machine: Machine) -> tuple[Schedule, float | None, str]:
    why = "there is no model of a CPU's times: its costs are float adds, good for comparison only"
    if analysis.nest.choices:
        return _by("written in the program", analysis.nest), None, why
    weighed = schedule_cpu.weighed(analysis, machine)
    every = [
        Candidate(words, None, None if cost == float("inf") else cost, "" if cost < float("inf") else "cannot be")
        for words, cost in weighed
    ]
    return Schedule(every[0], tuple(every[1 : 1 + NAMED]), len(every), "float adds", "cost"), None, why


def _on_gpu(analysis: NestAnalysis, machine: Machine) -> tuple[Schedule, float | None, str]:
    nest = analysis.nest
    by = "transforms/tilings/times.py, fitted on an H200"
    costs = costs_of(analysis, machine)
    if costs is None:
        reason = "the model of costs knows no tilings of such a nest"
        return _by("written in the program" if nest.choices else "rules", nest), None, reason
    usual = schedule_gpu.usual_tiling(analysis, machine)
    if nest.choices:
        chosen, chooser = {**(usual or {}), **nest.choices}, "written in the program"
    elif usual is None:
        return _by("rules (windows that slide)", nest), None, "the model of costs knows no windows that slide"
    else:
        chosen, chooser = cheapest(analysis, machine, usual), "cost"
    others = [one for one in ranked(analysis, machine) if one != chosen]
    try:
        time = costs.time(chosen)
    except (KeyError, IndexError):  # choices that are no tiling: of a contraction, say
        return _by("written in the program", nest), None, "the model of costs knows no such schedule"
    found = Candidate(_said(chosen), time)
    if not nest.choices and chosen == usual:
        found = replace(found, why="the usual one; no other is predicted to be clearly faster")
    rejected = tuple(Candidate(_said(one), costs.time(one)) for one in others[:NAMED])
    return Schedule(found, rejected, 1 + len(others), "", chooser), time, by


def _said(choices: Tiling) -> str:
    return ", ".join(f"{name} = {value}" for name, value in choices.items())
