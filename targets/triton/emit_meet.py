"""Programs that meet: `kernel.meet` as Triton text.

    … a part; tl.store(t + …)
    tl.debug_barrier()
    met = functions.meet(count, program // 8, program % 8, 1024, 8, PATIENCE)
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

With `ahead = 256` in the schedule programs do not keep their part, and do not wait: they take turns.

    reads, program = functions.turn(count + 1024, 8192, 256)
    if reads:
        … a part; tl.store(t + …)
        tl.debug_barrier()
        functions.arrive(count, program // 8)
    else:
        functions.wait(count, program // 8, 8)
        … the rest of the kernel, for this part, from memory

There are two programs for each part, one that reduces it and, 256 parts later, one that finishes it. Who does what they
find out by drawing a number: so whoever waits waits for programs that have begun, none of which waits for anybody, and
in whatever order programs begin, all end. What a part reads again is still in the cache by then.

The memory that a meeting counts in: for each group, how many have come, and 65536 times how many have left; then for
each program 1 when it has left its part, 2 when somebody has taken it. Who takes turns draws from the first of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.diagnostics import fail

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
    if "ahead" in func.schedule.choices:
        _take_turns(emitter, meeting, before, after)
        return
    emitter.ops(before)
    emitter.barrier()
    number = emitter.program
    group, part = f"{number} // {members}", f"{number} % {members}"
    count = emitter.names[meeting.memory]
    met = emitter.fresh("met")
    emitter.line(f"{met} = functions.meet({count}, {group}, {part}, {meeting.groups}, {members}, {PATIENCE})")
    emitter.enter()
    emitter.ops(after)
    emitter.leave(f"if {met} != 2:")

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


def draw_turn(emitter: KernelEmitter, meeting: kernel.MeetOp) -> str:
    """Where programs take turns: the text of the number of a program's part. Whether it is to be reduced, or finished,
    is `emitter.reads`.
    """
    ahead, parts = int(emitter.func.schedule.choices["ahead"]), meeting.groups * meeting.members
    ahead = min(max(ahead, meeting.members), parts)  # a group is whole before it is finished
    emitter.reads, number = emitter.fresh("reads"), emitter.fresh("number")
    drawn = f"{emitter.names[meeting.memory]} + {meeting.groups}"
    emitter.line(f"{emitter.reads}, {number} = functions.turn({drawn}, {parts}, {ahead})")
    return number


def _take_turns(
    emitter: KernelEmitter, meeting: kernel.MeetOp, before: Sequence[Operation], after: Sequence[Operation]
) -> None:
    """The body of a kernel some of whose programs reduce parts, and others finish them."""
    count, group = emitter.names[meeting.memory], f"{emitter.program} // {meeting.members}"
    emitter.enter()
    emitter.ops(before)
    emitter.barrier()
    emitter.line(f"functions.arrive({count}, {group})")
    emitter.leave(f"if {emitter.reads}:")
    emitter.enter()
    emitter.line(f"functions.wait({count}, {group}, {meeting.members})")
    emitter.stores = False
    emitter.ops(_needed(before, after))
    emitter.stores = True
    emitter.ops(after)
    emitter.leave("else:")


def _needed(before: Sequence[Operation], after: Sequence[Operation]) -> list[Operation]:
    """Those ops whose results others use, directly or not."""
    wanted: set[SSAValue] = {operand for op in after for each in op.walk() for operand in each.operands}
    found: list[Operation] = []
    for op in reversed(before):
        if not wanted.isdisjoint(op.results):
            wanted |= {operand for each in op.walk() for operand in each.operands}
            found.append(op)
    return found[::-1]


__all__ = ["draw_turn", "emit_meeting"]
