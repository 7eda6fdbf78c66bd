"""Several rounds of a loop at a time: of what stores they are written out, their loads first.

    kernel.scan (%k = 0 to 26) unroll 8 { … }
    →
    for k in range(0, 24, 8):
        k_1 = k + 1
        …
        v = tl.load(x + k)
        v_1 = tl.load(x + k_1)
        …
        carried = functions.add(carried, v)
        tl.store(y + k, carried)
        carried = functions.add(carried, v_1)
        tl.store(y + k_1, carried)
        …
    and the same of points 24 and 25

So are steps along lanes, each with a mask of its own; a step behind the last of them has no lane that is active. Of
reductions Triton writes out the rounds itself.

Exact: the rounds do what they did, in their order, but for loads of memory that the kernel does not write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.kernel.shapes import Shape
from cuesta.dialects.kernel.structure import StatementOp
from cuesta.targets.triton.emit_neighbours import neighbours_in

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def is_written_in_rounds(emitter: KernelEmitter, op: kernel.LoopOp) -> bool:
    """Whether several rounds of the last axis of a loop are written out: it stores, says `unroll`, has something to be
    read before that, and, without lanes, as many points as the text says. Addresses that are checked are so in order.
    """
    if (
        not isinstance(op, StatementOp)
        or op.unroll == 1
        or any(isinstance(one, kernel.WithinOp) for one in op.body.ops)
    ):
        return False
    lower, upper = op.lowers.results[-1], op.uppers.results[-1]
    known = op.lanes > 1 or (isinstance(lower, int) and isinstance(upper, int))
    return known and bool(_first(emitter, op)) and not neighbours_in(emitter, _body(op))


def write_points(emitter: KernelEmitter, op: kernel.LoopOp) -> None:
    """Emits the last axis of such a loop, if it has no lanes."""
    lower, upper = op.lowers.results[-1], op.uppers.results[-1]
    assert isinstance(lower, int) and isinstance(upper, int)
    variable = op.induction_variables[-1]
    whole = lower + (upper - lower) // op.unroll * op.unroll

    def write(points: Sequence[str]) -> None:
        write_rounds(emitter, op, len(points), lambda number: emitter.names.__setitem__(variable, points[number]))

    emitter.counters[variable] = upper
    emitter.short.append((op, len(emitter.scopes) - 1))
    if whole - lower > op.unroll:
        counter = emitter.fresh(variable.name_hint or "i")
        emitter.enter()
        first = emitter.bind(f"tl.cast({counter}, tl.int64)", counter) if emitter.wide else counter
        write([first, *(emitter.bind(f"{first} + {k}", counter) for k in range(1, op.unroll))])
        emitter.leave(f"for {counter} in range({lower}, {whole}, {op.unroll}):")
    else:
        whole = lower
    for start in range(whole, upper, op.unroll):
        write([str(point) for point in range(start, min(upper, start + op.unroll))])
    emitter.short.pop()
    del emitter.counters[variable]


def write_rounds(emitter: KernelEmitter, op: kernel.LoopOp, count: int, enter: Callable[[int], None]) -> None:
    """Emits so many rounds of the body of such a loop; `enter` sets the names and the masks of one."""
    first = _first(emitter, op)
    rest = [one for one in _body(op) if one not in first]
    values: list[SSAValue] = [op.induction_variables[-1], *(result for one in first for result in one.results)]
    read: list[tuple[dict[int, str], list[tuple[str, Shape]]]] = []
    for number in range(count):
        enter(number)
        emitter.ops(first)
        read.append((dict(emitter.masks), [(emitter.names[value], emitter.real_of(value)) for value in values]))
    for masks, found in read:
        emitter.masks = masks
        for value, (name, real) in zip(values, found, strict=True):
            emitter.names[value], emitter.real[value] = name, real
        emitter.ops(rest)


def _body(op: kernel.LoopOp) -> list[Operation]:
    return [one for one in ops_of(op.body) if not isinstance(one, elem.ConstantOp)]


def _first(emitter: KernelEmitter, op: kernel.LoopOp) -> list[Operation]:
    """What is done for all rounds before the rest of the first of them: loads of memory that the kernel does not write,
    and what these need, but for what is carried from round to round.
    """
    body = _body(op)
    early: set[Operation] = set()
    for one in body:
        inside = [operand.owner for operand in one.operands if isinstance(operand.owner, Operation)]
        within = [owner for owner in inside if owner.parent is op.body and not isinstance(owner, elem.ConstantOp)]
        if isinstance(one, kernel.MemoryWriteOp | kernel.RunningOp) or not early.issuperset(within):
            continue
        if not isinstance(one, kernel.LoadOp) or one.pointer not in emitter.written:
            early.add(one)
    needed: set[Operation] = set()
    for one in reversed(body):
        if one in early and (isinstance(one, kernel.LoadOp) or any(_feeds(one, needed))):
            needed.add(one)
    return [one for one in body if one in needed]


def _feeds(op: Operation, needed: set[Operation]) -> list[bool]:
    return [use.operation in needed for result in op.results for use in result.uses]


__all__ = ["is_written_in_rounds", "write_points", "write_rounds"]
