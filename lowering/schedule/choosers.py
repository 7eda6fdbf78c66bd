"""Who chooses the schedule of a nest: what extensions bring is asked first, in order, then the device's target.

def mine(analysis: NestAnalysis, machine: Machine) -> Schedule | None: …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuesta.dialects.core.blame import accuse, blame
from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import traits_of
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
    for chooser in active().schedules:
        with blame(chooser, analysis.nest):
            given: Any = chooser(analysis, machine)
        if isinstance(given, Schedule):
            return given
        if given is not None:
            accuse(chooser, f"must give a Schedule or None, not {given!r}", analysis.nest)
    return default_schedule(analysis, machine, traits)


def default_schedule(analysis: NestAnalysis, machine: Machine, traits: DeviceTraits | None = None) -> Schedule:
    """The schedule that a nest has when no extension chooses one: what its text says, else what its device's target
    does; `traits` are those of its device.

    Errors: CuestaError for a choice of the nest that does not exist, or that the nest cannot have.
    """
    if traits is None:
        traits = traits_of(analysis.nest.results[0])
    if traits.chooser is not None:
        with blame(traits.chooser, analysis.nest):
            schedule = traits.chooser(analysis, machine)
        if schedule is not None:
            return schedule
    if analysis.nest.choices:
        check_choices(analysis.nest, traits)
    if traits.blocks:
        from cuesta.lowering.schedule.gpu import schedule_choices

        return schedule_choices.choose(analysis, machine)
    from cuesta.lowering.schedule.cpu import schedule_cpu

    return schedule_cpu.choose(analysis, machine)


__all__ = ["Chooser", "choose_schedule", "default_schedule"]
