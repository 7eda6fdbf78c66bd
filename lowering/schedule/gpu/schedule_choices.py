"""The scheduling choices of a nest for the GPU: how they change a schedule, and which are worth trying.

What each means is in `lowering/schedule/choices.py`; what is not said is as `schedule_gpu` chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.gpu import schedule_gpu
from cuesta.lowering.schedule.gpu.contractions import schedule_contraction
from cuesta.lowering.schedule.gpu.index_width import index_bits
from cuesta.lowering.schedule.gpu.registers import REGISTERS, WARP
from cuesta.lowering.schedule.schedule import Schedule
from cuesta.transforms.products.tiles import LEAST
from cuesta.transforms.reductions import gpu_cost, when
from cuesta.transforms.reductions.members import members_of
from cuesta.transforms.tilings.cost import ranked

CONTRACTION = ("rows", "columns", "depth")
"""What every contraction has to say; `depth` is what tells it from others."""
SAID = ("warps", "registers", "whole", "reread")
"""What a schedule takes over as it is said."""
AHEAD = 256
"""Parts that are reduced before the first is finished, where that is tried.

Source: a choice: 8 to 16 MB of 32 or 64 KB each.
"""
FEWEST_REGISTERS, MOST_REGISTERS = 24, 255
"""Registers that a thread may have: told fewer, NVIDIA's assembler takes so many.

Source: a definition (CUDA); machine code for sm_90, which is the same for 1 to 24.
"""
REGISTERS_TRIED = (64, 128)
"""Bounds of registers that are tried where something is reduced or scanned.

Source: a choice: `registers.py` says which kernels are known to gain.
"""
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
        schedule = schedule_contraction(analysis, choices, index_bits(analysis))
        if "registers" in choices:
            schedule.choices["registers"] = choices["registers"]
        return schedule
    schedule = schedule_gpu.choose(analysis, machine, choices)
    schedule.choices |= {name: choices[name] for name in SAID if name in choices}
    if choices.get("reversed"):
        schedule.choices["reversed"] = 1
    return schedule


def check(analysis: NestAnalysis, choices: Mapping[str, int]) -> None:
    """Errors: CuestaError for choices that do not go together, and for registers that no thread has."""
    registers = choices.get("registers", FEWEST_REGISTERS)
    if not FEWEST_REGISTERS <= registers <= MOST_REGISTERS:
        message = f"its schedule says registers = {registers}, of {FEWEST_REGISTERS} to {MOST_REGISTERS} that there are"
        raise CuestaError(Diagnostic.on(analysis.nest, message))
    if "depth" in choices:
        for key in CONTRACTION:
            if choices.get(key, 0) < LEAST:
                raise CuestaError(Diagnostic.on(analysis.nest, f"a contraction has {key} of at least {LEAST}"))
        if "stream_k" in choices:
            message = f"its schedule says stream_k = {choices['stream_k']}, which split-last-waves should have obeyed"
            raise CuestaError(Diagnostic.on(analysis.nest, message))
    elif choices.get("height", 1) > 1 and not 0 != choices.get("along", 0) != choices.get("across", 0) != 0:
        message = "its schedule says a height, but not along and across two axes, one each"
        raise CuestaError(Diagnostic.on(analysis.nest, message))
    elif "joined" in choices and "along" not in choices:
        raise CuestaError(Diagnostic.on(analysis.nest, "its schedule says joined, but not along which axis"))
    elif "ahead" in choices and not analysis.meeting:
        raise CuestaError(Diagnostic.on(analysis.nest, "its schedule says ahead, but its points do not meet"))
    elif "stream_k" in choices:
        raise CuestaError(
            Diagnostic.on(analysis.nest, "its schedule says stream_k, but no depth: it is no contraction")
        )
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
    if analysis.root.loops:
        own = schedule.choices.get("registers")
        tried += [{"registers": one} for one in REGISTERS_TRIED if one != own and one * WARP * warps <= REGISTERS]
    return [*tried, *parts_to_try(analysis.nest, machine)]


def parts_to_try(nest: loops.NestOp, machine: Machine) -> list[dict[str, int]]:
    """The choices of parts that are worth timing: those of few programs; and, of rows too long for a tile, with loops
    after them, parts whose programs meet.
    """
    found = when.parts_to_time(nest, machine)
    members = members_of(nest)
    if not members or not when.is_static((*nest.sizes, *members[0].reduction.sizes)):
        return found
    points = math.prod(size for size in members[0].reduction.sizes if isinstance(size, int))
    if points < when.LARGE_GPU or not any(isinstance(op, loops.ForOp) for op in nest.body.ops):
        return found
    together = [{"part": part, "cooperative": 1} for part in (when.TILE, when.TILE // 2)]
    turns = {"part": gpu_cost.TURN, "cooperative": 1, "ahead": AHEAD}
    return [*found, *(one for one in (*together, {"part": when.TILE}, turns) if one not in found)]


__all__ = ["candidates", "choose", "parts_to_try"]
