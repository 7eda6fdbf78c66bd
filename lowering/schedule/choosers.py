"""Who chooses the schedule of a nest: what extensions bring is asked first, in order, then the device's target.

def mine(analysis: NestAnalysis, machine: Machine) -> Schedule | None: …
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.choices import check_choices
from cuesta.lowering.schedule.schedule import Schedule

Chooser = Callable[[NestAnalysis, Machine], Schedule | None]
"""Gives the schedule of a nest whose axes are merged, on a machine; None, with the analysis as it was, to leave it to
the next.
"""


def choose_schedule(analysis: NestAnalysis, machine: Machine, traits: DeviceTraits) -> Schedule:
    """The schedule of a nest, whose axes are merged, for a device.

    Errors: CuestaError for a choice of the nest that does not exist, or that the nest cannot have.
    """
    choosers: list[Chooser] = [*active().schedules]
    if traits.chooser is not None:
        choosers.append(traits.chooser)
    for chooser in choosers:
        schedule = chooser(analysis, machine)
        if schedule is not None:
            return schedule
    if analysis.nest.choices:
        check_choices(analysis.nest, traits)
    if traits.blocks:
        from cuesta.lowering.schedule.gpu import schedule_choices

        return schedule_choices.choose(analysis, machine)
    from cuesta.lowering.schedule.cpu import schedule_cpu

    return schedule_cpu.choose(analysis, machine)


__all__ = ["Chooser", "choose_schedule"]
