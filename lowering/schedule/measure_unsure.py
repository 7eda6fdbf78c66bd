"""`measure-unsure`: a few tilings of a nest are timed on the device where the model of costs may well be wrong.

    loops.nest (%i : 4096, %j : 513) outs(…) { … }
    →
    loops.nest (%i : 4096, %j : 513) outs(…) schedule #loops.schedule<along = 2, rows = 32, lanes = 16, warps = 1> { … }

Most nests are thought to take little more than moving their tensors takes, and these do: nothing is asked about them.
Of the others the model is 1.5 times off at times, and more (docs/decisions/080). `tune-kernels` asks about all nests,
under max-autotune, which has no need of this. Without a device to ask nothing changes. Answers are kept on disk.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.gpu.schedule_gpu import chosen_tiling, usual_tiling
from cuesta.lowering.schedule.tune_kernels import tune_nests
from cuesta.transforms.tilings.cost import SLACK, costs_of, ranked
from cuesta.transforms.tilings.space import Tiling
from cuesta.transforms.tilings.times import LAUNCH, ideal_of, time_of

DOUBTED = 3.0
"""A nest is asked about that is thought to take so many µs more than `SLACK` times what moving its tensors takes.

Source: a choice: less is no gain to wait for. Of the nests of bert, gpt2, llama, vit and resnet 5 of 58 are.
"""
ASKED = 4
"""Tilings that are timed beside the one that is chosen.

Of 24 nests with known faults those within 1.25 of the best of 70 tilings: 13, then 20 with the first of the model's own
order, 21 with 2, 22 with 3 and 23 with 4, no two of which have as many elements for a warp.

Source: tilings of these nests on an H200 (`make bench-gpu-schedules`).
"""


class MeasureUnsurePass(ModulePass):
    """Gives nests for a GPU, of which the model of costs is not sure, the fastest of a few tilings.

    Near misses: a nest that is thought to be about as fast as memory; one that has a schedule; windows that slide;
    sizes that are known at run time only.
    """

    name = "measure-unsure"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tune_nests(op, doubted)


def doubted(analysis: NestAnalysis, machine: Machine) -> list[Tiling]:
    """The tilings of a nest that are worth timing beside the one that it has; none where the model is sure."""
    own, usual, costs = chosen_tiling(analysis, machine), usual_tiling(analysis, machine), costs_of(analysis, machine)
    if own is None or usual is None or costs is None or analysis.meeting:
        return []
    counts = costs.counts(own)
    time, ideal = time_of(counts, machine) - LAUNCH, ideal_of(counts, machine) - LAUNCH
    if time < SLACK * ideal + DOUBTED:
        return []
    found: dict[tuple[int, bool], Tiling] = {}
    for one in ranked(analysis, machine):
        elements = one.get("rows", 1) * one["lanes"] * one.get("height", 1)
        if one != own:
            found.setdefault((elements // one["warps"], one["lanes"] == 1), one)
    first = [usual] if usual != own else []
    return [*first, *(one for one in found.values() if one != usual)][:ASKED]


__all__ = ["MeasureUnsurePass", "doubted"]
