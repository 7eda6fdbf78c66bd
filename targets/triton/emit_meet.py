"""Programs that meet: `kernel.meet` as Triton text.

    … a part; tl.store(t + …)
    tl.debug_barrier()
    seen = functions.arrive(count, program // 8)
    met = functions.wait(count, program // 8, program % 8, seen, 1024, 8, PATIENCE)
    if met != 2:
        … the rest of the kernel, for this part
    if met == 1:
        for q in range(8):
            if functions.take(count, program // 8, q, 1024, 8):
                … the same for part q, from memory

A program waits for the others of its group, but not for ever. One that has waited long enough leaves its part for the
last one to come, and ends. So a program that waits never stands in the way of one that has not begun, whatever else
runs on the device: who shares it, on which streams, and in what order programs begin, decides only how fast it goes. As
a rule all of a group run at the same time, and each goes on with what it has in registers.

The memory that a meeting counts in: for each group, how many have come, and 65536 times how many have left; then for
each program 1 when it has left its part, 2 when somebody has taken it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.diagnostics import fail
from cuesta.targets.triton.emit_resident import emit_in_turns

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

PATIENCE = 1 << 14
"""How often a program looks whether all have come: about 4 ms on an H200, where a meeting takes a few µs."""
MOST = 16384
"""Programs of a group, at most: they are counted in 16 bits."""


def emit_meeting(emitter: KernelEmitter, meeting: kernel.MeetOp) -> None:
    """The whole body of a kernel whose programs meet."""
    func = emitter.func
    members = meeting.members
    if members > MOST:
        fail(meeting, f"{members} programs meet; there can be {MOST}")
    every = [op for op in func.body.ops if not isinstance(op, elem.ConstantOp | kernel.YieldOp)]
    place = every.index(meeting)
    before, after = every[:place], every[place + 1 :]
    for op in func.walk():
        if isinstance(op, kernel.CombineOp | kernel.AtomicOp):
            fail(op, "stands in a kernel whose programs meet: a part that is left is done again")
    resident = bool(func.schedule.choices.get("resident"))
    number = emitter.fresh("piece") if resident else "tl.program_id(0)"
    emitter.enter()
    emitter.programs(number)
    emitter.ops(before)
    emitter.barrier()
    group, part = f"{emitter.program} // {members}", f"{emitter.program} % {members}"
    count = emitter.names[meeting.memory]
    seen, met = emitter.fresh("seen"), emitter.fresh("met")
    emitter.line(f"{seen} = functions.arrive({count}, {group})")
    early = emitter.cut()
    patience = emitter.fresh("patience") if resident else str(PATIENCE)
    sizes = f"{meeting.groups}, {members}, {patience}"
    emitter.line(f"{met} = functions.wait({count}, {group}, {part}, {seen}, {sizes})")
    if resident:  # who has waited in vain once does not wait again
        emitter.line(f"{patience} = tl.where({met} == 2, 0, {patience})")
    emitter.enter()
    emitter.ops(after)
    emitter.leave(f"if {met} != 2:")
    rest_of_group(emitter, meeting, met, before, after)
    late = emitter.cut()
    emitter.scopes.pop()
    if resident:
        emitter.line(f"{patience} = tl.full([], {PATIENCE}, tl.int32)")
        emit_in_turns(emitter, number, early, late)
    else:
        emitter.lines([*early, *late])


def rest_of_group(
    emitter: KernelEmitter, meeting: kernel.MeetOp, met: str, before: list[Operation], after: list[Operation]
) -> None:
    """The parts of those who have left, done by the last to come."""
    count, members, group = emitter.names[meeting.memory], meeting.members, f"{emitter.program} // {meeting.members}"
    left = emitter.fresh("q")
    emitter.enter()
    emitter.enter()
    emitter.enter()
    emitter.stand_in_for(left, meeting.axes)
    emitter.stores = False
    emitter.ops(before)
    emitter.stores = True
    emitter.ops(after)
    emitter.leave(f"if functions.take({count}, {group}, {left}, {meeting.groups}, {members}):")
    emitter.leave(f"for {left} in range({members}):")
    emitter.leave(f"if {met} == 1:")


__all__ = ["emit_meeting"]
