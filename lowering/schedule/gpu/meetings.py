"""Programs that share a row and meet: their warps and registers, or how many parts they are ahead of one another."""

from __future__ import annotations

from collections.abc import Callable

from cuesta.dialects import loops
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import Loop, NestAnalysis
from cuesta.lowering.schedule.gpu.registers import REGISTERS, WARP

MEETING_WARP = 1024
"""Elements of a warp where programs meet: few threads keep many, so that a processor has several programs.

Source: measured by `make bench-constants ARGS='--only meetings.MEETING_WARP'`
"""
MEETING_REGISTERS = 64
"""Of a thread there, for every tensor that it keeps.

Source: measured by `make bench-constants ARGS='--only meetings.MEETING_REGISTERS'`
"""
AHEAD_WARP_BYTES = 4096
"""Of what is read of a part by a warp where programs take turns: parts of 16384 f32 have 16 warps, of bf16 8.

Source: from a sweep of parts and distances on an H200, of 14 nests.
"""


TURN_REGISTERS, SHORT_TURN_REGISTERS = 64, 80
"""Of a thread where programs take turns, whose 4096 bytes a warp are 32 elements of a thread; of 16 bits 64. With what
else they would take, one program fewer fits a processor: a log-softmax of rows of 400000 bf16 took 116 us with 93 and
two programs of 8 warps, 95 with 80.

Source: from a sweep of parts and distances on an H200, of 14 nests.
"""


def choices_of(
    analysis: NestAnalysis, machine: Machine, warps: int, width: int, kept: Callable[[list[Loop]], int]
) -> dict[str, int]:
    """What the schedule of a kernel whose programs meet says beside its tile: of a thread's registers, so few that a
    processor has several programs; what a program needs more for doing again what others left has to find room
    elsewhere. Who takes turns keeps nothing.
    """
    if "ahead" in analysis.nest.choices:
        each = TURN_REGISTERS if width >= 4 else SHORT_TURN_REGISTERS
        return {"registers": min(each, REGISTERS // (warps * WARP)), "ahead": analysis.nest.choices["ahead"]}
    inputs = set(analysis.inputs)
    reads_rows = [
        loop
        for loop in analysis.root.walk()
        if loop is not analysis.root
        and any(isinstance(access.op, loops.LoadOp) and access.op.source in inputs for access in loop.accesses)
    ]
    return {"registers": min(machine.registers, MEETING_REGISTERS * kept(reads_rows))}


def warps_of(analysis: NestAnalysis, machine: Machine, points: int, width: int) -> int:
    """The warps of a program whose part has so many points, of elements of so many bytes."""
    each = AHEAD_WARP_BYTES // width if "ahead" in analysis.nest.choices else MEETING_WARP
    return max(1, min(machine.warps, points // each))


__all__ = ["choices_of", "warps_of"]
