"""`pool-buffers`: the short-lived buffers of a run of launches lie in one arena, at offsets computed here.

A run of launches is one native call, before which all its buffers are there and after which they go: what lives only
within it can neither be freed earlier nor be had later. In an arena, buffers of any size and type share memory as soon
as their lives do not overlap, one allocation does for all, and they are addresses, for which nobody makes a tensor.

Buffers that live across a library call stay as they are. Freed at their last use, they take no more memory than in an
arena, and an arena that lives across such a call is there while the call takes memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.surgery import remove


class PoolBuffersPass(ModulePass):
    """alloc a; alloc b; launches; free a, b  ->  alloc arena; place a at 0; place b at n; launches; free arena

    Fires for two buffers or more on one device that launches alone use, all between the same two library calls. Sizes
    that are not known before run time stay allocations, and so does what is kept for later calls.
    """

    name = "pool-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = ops_of(entry_block(op))
        for lives in _runs(ops):
            by_device: dict[str, list[_Life]] = {}
            for life in lives:
                by_device.setdefault(life.device, []).append(life)
            for device, there in by_device.items():
                if len(there) > 1:
                    _pool(there, ops, device)


@struct
class _Life:
    """A buffer, its bytes, and the positions of the launches that use it first and last."""

    alloc: host.AllocOp
    size: int
    first: int
    last: int

    @property
    def device(self) -> str:
        """Where it lies."""
        return device_of(tensor_type_of(self.alloc.result))


def _runs(ops: Sequence[Operation]) -> list[list[_Life]]:
    """The buffers that live within one run of launches, run by run."""
    run_of: dict[Operation, int] = {}
    position: dict[Operation, int] = {}
    runs: list[list[_Life]] = [[]]
    for place, op in enumerate(ops):
        position[op] = place
        if isinstance(op, host.ExternOp):
            runs.append([])
        run_of[op] = len(runs) - 1
    for op in ops:
        if not isinstance(op, host.AllocOp) or not host.only_launched(op.result) or host.is_kept(op.result):
            continue
        size = host.buffer_bytes(op.result.type)
        users = [use.operation for use in op.result.uses if isinstance(use.operation, host.LaunchOp)]
        if size is None or not users:
            continue
        places = [position[user] for user in users]
        first, last = ops[min(places)], ops[max(places)]
        if run_of[first] == run_of[last]:
            runs[run_of[first]].append(_Life(op, _aligned(size), min(places), max(places)))
    return runs


def _pool(lives: Sequence[_Life], ops: Sequence[Operation], device: str) -> None:
    """Puts buffers into an arena."""
    offsets, total = _offsets(lives)
    first = ops[min(life.first for life in lives)]
    last = ops[max(life.last for life in lives)]
    block = first.parent
    assert block is not None
    arena = host.AllocOp.build(host.arena_type(total, device))
    arena.result.name_hint = "arena"
    arena.location = first.location
    block.insert_op_before(arena, first)
    pooled: set[SSAValue] = set()
    for life in lives:
        old = life.alloc.result
        placed = host.PlaceOp.build(arena.result, offsets[life], old.type)
        placed.location = life.alloc.location
        placed.results[0].name_hint = old.name_hint
        block.insert_op_before(placed, ops[life.first])
        replace_all_uses(old, placed.results[0])
        pooled.add(placed.results[0])
        remove(life.alloc)
    for free in {use.operation for value in pooled for use in value.uses if isinstance(use.operation, host.FreeOp)}:
        if rest := [operand for operand in free.operands if operand not in pooled]:
            kept = host.FreeOp.build(rest)
            kept.location = free.location
            block.insert_op_before(kept, free)
        remove(free)
    free = host.FreeOp.build([arena.result])
    free.location = last.location
    block.insert_op_after(free, last)


def _offsets(lives: Sequence[_Life]) -> tuple[Mapping[_Life, int], int]:
    """A place for each buffer, such that those alive at the same launch do not overlap; and the size of it all.

    In order of time, each takes the smallest gap that is large enough, or else the end.
    """
    offsets: dict[_Life, int] = {}
    gaps: dict[int, int] = {}
    """Free memory: where it begins, and how much."""
    total = 0
    ends = sorted(lives, key=lambda life: life.last)
    ended = 0
    for life in sorted(lives, key=lambda life: life.first):
        while ended < len(ends) and ends[ended].last < life.first:
            _release(gaps, offsets[ends[ended]], ends[ended].size)
            ended += 1
        fitting = [(size, start) for start, size in gaps.items() if size >= life.size]
        if fitting:
            size, start = min(fitting)
            del gaps[start]
        else:
            # What is free at the end is the beginning of the place.
            start = next((start for start, size in gaps.items() if start + size == total), total)
            gaps.pop(start, None)
            total, size = start + life.size, life.size
        offsets[life] = start
        if size > life.size:
            gaps[start + life.size] = size - life.size
    return offsets, total


def _release(gaps: dict[int, int], start: int, size: int) -> None:
    """Adds free memory, joined with the gaps next to it."""
    if size == 0:
        return
    if (after := gaps.pop(start + size, None)) is not None:
        size += after
    before = next((place for place, length in gaps.items() if place + length == start), None)
    if before is not None:
        start, size = before, gaps.pop(before) + size
    gaps[start] = size


def _aligned(size: int) -> int:
    return -(-size // host.ARENA_ALIGNMENT) * host.ARENA_ALIGNMENT
