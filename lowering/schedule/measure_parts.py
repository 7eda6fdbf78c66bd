"""`measure-parts`: a reduction is timed on the device as it would be and in other parts, where either may be better.

    loops.nest (%i : 16) outs(…) { %s = sum (%j : 442368) of f(%i, %j); store g(%s) }
    →
    loops.nest (%i : 16) outs(…) schedule #loops.schedule<part = 8192> { %s = sum (%j : 442368) of …; store g(%s) }

Whole rows, parts whose programs meet, and parts in kernels of their own differ in what no cost counts well: how many
loads a program has on their way, what waits where programs meet. `choose-parts` takes over what is written, and decides
of all others. Without a device to ask nothing changes. Answers are kept on disk.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.gpu.schedule_gpu import chosen_tiling
from cuesta.lowering.schedule.measure_unsure import doubted
from cuesta.lowering.schedule.tune_kernels import tune_nests
from cuesta.transforms.reductions.when import choose_part_on_gpu, parts_to_time
from cuesta.transforms.tilings.cost import time_whole
from cuesta.transforms.tilings.times import LAUNCH

HOPELESS = 3.0
"""So many times what moving its tensors takes, for the launch and more, a nest is not tried whole.

Source: a choice: of 50 nests in parts that were timed whole, too, three were better whole, by 0.80, 0.96 and 0.97.
"""


class MeasurePartsPass(ModulePass):
    """Gives nests for a GPU that reduce the fastest of what they have, of a few other parts, and of none.

    Near misses: a nest that has a schedule; one of so many rows that each processor has some; one that is soon done;
    sizes that are known at run time only.
    """

    name = "measure-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tune_nests(op, parts_or_none)


def parts_or_none(analysis: NestAnalysis, machine: Machine) -> list[dict[str, int]]:
    """The choices of a nest that are worth timing beside those of `choose-parts`: parts, and a tiling of the whole, or
    those that `measure-unsure` would ask about, which would come too late.
    """
    nest = analysis.nest
    found = parts_to_time(nest, machine)
    if not found:
        return []
    if not choose_part_on_gpu(nest, machine):
        return [*found, *doubted(analysis, machine)]
    whole, ideal = time_whole(nest, machine)
    tiling = chosen_tiling(analysis, machine)
    if tiling is not None and 0 < whole - LAUNCH < HOPELESS * (ideal - LAUNCH):
        found.append(tiling)
    return found


__all__ = ["MeasurePartsPass", "parts_or_none"]
