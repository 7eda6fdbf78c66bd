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
from cuesta.lowering.schedule.gpu import schedule_gpu
from cuesta.lowering.schedule.gpu.contractions import schedule_contraction
from cuesta.lowering.schedule.schedule import Schedule
from cuesta.transforms.products.tiles import LEAST
from cuesta.transforms.reductions import when
from cuesta.transforms.tilings.cost import ranked

LARGE_TILE = 8192
"""Elements of a tile from which on a processor has few programs.

Source: a bound against the time that tuning takes.
"""
LARGEST_ROW = 1 << 17
"""Bytes of a row that may be on its way while another is computed.

Source: a definition: most of the 227 KiB of shared memory of sm_90, as a power of two.
"""
MOST_WARPS = 64
"""Of a processor.

Source: a definition (CUDA).
"""
CONTRACTION = ("rows", "columns", "depth")
"""What every contraction has to say; `depth` is what tells it from others."""
TRIED, TRIED_BESIDE = 8, 3
"""Tilings that are tried, those that are thought the fastest; beside windows that slide.

Source: a bound against the time that tuning takes.
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
    schedule = schedule_gpu.choose(analysis, machine, choices)
    schedule.choices |= {
        name: choices[name] for name in ("warps", "whole", "reread", "resident", "stages") if name in choices
    }
    if "resident" in choices and "registers" in schedule.choices:  # it has the next part when it waits for the others
        schedule.choices["registers"] = min(machine.registers, 2 * int(schedule.choices["registers"]))
    if choices.get("reversed"):
        schedule.choices["reversed"] = 1
    return schedule


def check(analysis: NestAnalysis, choices: Mapping[str, int]) -> None:
    """Errors: CuestaError for choices that do not go together."""
    if "depth" in choices:
        for key in CONTRACTION:
            if choices.get(key, 0) < LEAST:
                raise CuestaError(Diagnostic.on(analysis.nest, f"a contraction has {key} of at least {LEAST}"))
    elif choices.get("height", 1) > 1 and not 0 != choices.get("along", 0) != choices.get("across", 0) != 0:
        message = "its schedule says a height, but not along and across two axes, one each"
        raise CuestaError(Diagnostic.on(analysis.nest, message))
    elif "columns" in choices:
        raise CuestaError(Diagnostic.on(analysis.nest, "its schedule says columns, but no depth: it is no contraction"))


def candidates(analysis: NestAnalysis, machine: Machine) -> list[dict[str, int]]:
    """Choices for a nest that are worth timing, beside the schedule it has by default."""
    found = ranked(analysis, machine)
    schedule = schedule_gpu.choose(analysis, machine)
    if schedule.slides:
        distances = {parallel.tile for parallel in schedule.parallel if not parallel.loop}
        return [{"slide": slide} for slide in (1, 4, 8, 16) if slide not in distances] + found[:TRIED_BESIDE]
    warps = int(schedule.choices.get("warps", 4))
    tried = [*found[:TRIED], *({"warps": one} for one in (warps * 2, warps // 2) if 1 <= one <= machine.warps)]
    return [*tried, *in_turns(analysis, schedule, machine), *when.candidates(analysis.nest, machine)]


def in_turns(analysis: NestAnalysis, schedule: Schedule, machine: Machine) -> list[dict[str, int]]:
    """Programs that do several rows, one after the other, where few of them fill a processor. One tile must hold a row:
    of loops in a loop nothing is brought beforehand. So a row that is walked through gets one, if it is not too long.
    """
    root, warps = analysis.root, int(schedule.choices["warps"])
    sizes = [analysis.sizes[axis] for loop in root.loops for axis in loop.axes[-1:]]
    rows = math.prod(analysis.estimate(analysis.sizes[axis]) for axis in root.axes)
    known = [size for size in sizes if isinstance(size, int)]
    if schedule.slides or not known or len(known) < len(sizes) or any(loop.loops for loop in root.loops):
        return []
    lanes, longest = max(lanes for _, lanes in schedule.loops.values()), power_of_two(max(known))
    if lanes >= longest and lanes * schedule.lanes >= LARGE_TILE:
        programs = [machine.processors * number for number in (1, 2) if number * warps <= MOST_WARPS]
        return [{"resident": number} for number in programs if number * schedule.lanes < rows]
    width = max((access.width for access in analysis.accesses.values()), default=0)
    if lanes >= longest or longest * width > LARGEST_ROW or rows <= machine.processors:
        return []
    return [{"along": 1, "rows": 1, "lanes": longest, "warps": machine.warps, "resident": machine.processors}]


__all__ = ["candidates", "choose"]
