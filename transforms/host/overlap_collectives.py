"""`overlap-collectives`: communication between processes starts early and is waited for late, so that kernels hide it.

What a start reads is read, and what it gives is written, until somebody waits. So between the two nobody may write to
the one, nor use the other; the rest may stand there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel
from cuesta.dialects.aten import CallLike, LiteralOp
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.host.collectives import is_start, is_wait, start_behind
from cuesta.dialects.sym import ValueOp
from cuesta.dialects.texts.buffers import changed_by
from cuesta.transforms.host.aliasing import may_alias

AHEAD = 128 << 20
"""Bytes that may be received early at a time, unless it is only one result: all shards of a model would be there at
once, which are sharded because they do not fit.

Source: a bound against memory: more than what links of 100 GB/s bring in a millisecond, which hides most kernels.
"""


class OverlapCollectivesPass(ModulePass):
    """launch a; start b; wait b; launch c; launch d(b)  ->  start b; launch a; launch c; wait b; launch d(b)

    A start rises to where its operands are there. Starts stay in order, whatever group they are of: all ranks must come
    to them in one order, and some may have other kernels around them. A wait sinks to who uses its result first, but
    not behind who writes to what the start reads: in front of that it rises. Neither passes a call of which nobody
    knows what it does, which may communicate, too.
    """

    name = "overlap-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        order = _Order(
            ops_of(block), {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        )
        starts = [inner for inner in order.ops if is_start(inner)]
        waits = [inner for inner in order.ops if is_wait(inner)]
        if not starts and not waits:
            return
        for start in starts:
            order.raise_start(start)
        for wait in reversed(waits):
            order.place_wait(wait)
        if order.moved:
            for inner in order.ops:
                inner.detach()
            block.add_ops(order.ops)


class _Order:
    """The ops of a host program, in the order they are to have."""

    def __init__(self, ops: Sequence[Operation], kernels: Mapping[str, kernel.FuncOp]) -> None:
        self.ops = list(ops)
        self.kernels = kernels
        self.places = {op: place for place, op in enumerate(self.ops)}
        """Where each op stands in `ops`. A move says it anew for those it moves, and costs no more than they are."""
        self.moved = False
        self.roots: dict[SSAValue, frozenset[SSAValue]] = {}
        self.ahead: dict[Operation, int] = {}
        """The bytes that are received early at an op: results of starts that rose above it."""

    # -- moves --------------------------------------------------------------------------------------------------------

    def raise_start(self, start: CallLike) -> None:
        """Puts a start behind the last op that it needs, or must not pass."""
        group: list[Operation]
        passed: list[Operation]
        place = self.places[start]
        read, needed = self.memory(start.operands), set(start.operands)
        group, passed = [start], []
        size = sum(host.buffer_bytes(result.type) or AHEAD for result in start.results)
        while place:
            op = self.ops[place - 1]
            if isinstance(op, host.ReinterpretOp) and op.results[0] in needed:
                needed.add(op.source)
                group.insert(0, op)
            elif is_start(op) or _is_barrier(op) or not needed.isdisjoint(op.results) or self.writes(op) & read:
                break
            elif self.ahead.get(op, 0) and self.ahead[op] + size > AHEAD:
                no_match(start, f"more than {AHEAD} bytes would be there early")
                break
            else:
                passed.append(op)
            place -= 1
        if any(_works(op) for op in passed):
            self.move(place, [*group, *reversed(passed)])
            for op in passed:
                self.ahead[op] = self.ahead.get(op, 0) + size

    def place_wait(self, wait: CallLike) -> None:
        """Puts a wait in front of the first op that needs its result, or writes to what is still read."""
        group: list[Operation]
        passed: list[Operation]
        place = self.places[wait]
        start = start_behind(wait)
        read = frozenset[SSAValue]() if start is None else self.memory(start.operands)
        if start is not None:
            between = self.ops[self.places[start] + 1 : place]
            if (writer := next((op for op in between if self.writes(op) & read), None)) is not None:
                later = between[between.index(writer) :]
                group = [op for op in later if op in _aliases(wait.operands[0])]
                rest = [op for op in later if op not in group]
                self.move(place - len(later), [*group, wait, *rest])
                return
        awaited = self.memory(wait.operands)
        group, passed = [wait], []
        end = place + 1
        while end < len(self.ops):
            op = self.ops[end]
            if isinstance(op, host.ReinterpretOp) and self.memory(op.operands) & awaited:
                group.append(op)
            elif _is_barrier(op) or self.memory(op.operands) & awaited or self.writes(op) & read:
                break
            else:
                passed.append(op)
            end += 1
        if any(_works(op) for op in passed):
            self.move(place, [*passed, *group])

    def move(self, place: int, ops: Sequence[Operation]) -> None:
        """Puts as many ops as stand there, the same in another order, where these begin."""
        self.ops[place : place + len(ops)] = ops
        self.places.update((op, place + number) for number, op in enumerate(ops))
        self.moved = True

    # -- memory -------------------------------------------------------------------------------------------------------

    def memory(self, values: Iterable[SSAValue]) -> frozenset[SSAValue]:
        """The buffers in whose memory some values lie."""
        return frozenset[SSAValue]().union(*map(self.root, values))

    def root(self, value: SSAValue) -> frozenset[SSAValue]:
        """The buffers in whose memory a value may lie: it is one itself, or an alias."""
        found = self.roots.get(value)
        if found is None:
            found = self.roots[value] = self.root_of_result(value, value.owner)
        return found

    def root_of_result(self, value: SSAValue, owner: Operation | Block) -> frozenset[SSAValue]:
        """The same for a value that is met for the first time."""
        if isinstance(owner, host.ReinterpretOp | host.PlaceOp):
            return self.memory(owner.operands)
        if isinstance(owner, host.ExternOp) and not is_start(owner) and may_alias(owner):
            return self.memory(owner.operands)
        return frozenset((value,))

    def writes(self, op: Operation) -> frozenset[SSAValue]:
        """The buffers that an op may write to."""
        if isinstance(op, host.LaunchOp):
            func = self.kernels.get(op.kernel)
            return self.memory(op.operands if func is None else op.operands[len(op.operands) - func.num_outs :])
        if isinstance(op, host.ExternOp):
            return self.memory([*changed_by(op), *op.results])
        return self.memory(op.results)


def _aliases(value: SSAValue) -> list[Operation]:
    """The ops by which a value is an alias of another, if it is one."""
    found: list[Operation] = []
    while isinstance(value.owner, host.ReinterpretOp):
        found.append(value.owner)
        value = value.owner.source
    return found


def _works(op: Operation) -> bool:
    """Whether an op takes time beside which a communication may go on."""
    return isinstance(op, host.LaunchOp | host.ExternOp) and not is_start(op) and not is_wait(op)


def _is_barrier(op: Operation) -> bool:
    """Whether nobody may pass: the end, or what may do anything."""
    if isinstance(op, host.ExternOp):
        return op.schema is None and not op.is_pure and not is_start(op) and not is_wait(op)
    return not isinstance(op, host.AllocOp | host.LaunchOp | host.PlaceOp | host.ReinterpretOp | LiteralOp | ValueOp)


__all__ = ["OverlapCollectivesPass"]
