"""`join-launches`: on a GPU, launches of one kernel that need nothing of each other are one, of all their programs.

A launch costs the host more than a small kernel costs the device, and an optimizer's step has one for every parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel
from cuesta.dialects.aten import LiteralOp
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.kernel import ScheduleAttr
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.surgery import remove
from cuesta.dialects.sym import ValueOp
from cuesta.transforms.host.aliasing import memory_of
from cuesta.transforms.host.in_place import may_fail

LEAST = 4
"""So many launches are worth a kernel of their own.

Source: a bound against compile-time growth: a kernel takes a process about as long to compile as a hundred thousand
launches; an optimizer's has a launch for every parameter.
"""

MOST = 32
"""The most launches that become one: each program chooses its pointers one after the other.

Source: a bound against compile-time growth: the text has a choice for each pointer of each launch.
"""

MOST_POINTERS = 480
"""The most pointers that a kernel is given.

Source: a definition: CUDA's kernels take 4096 bytes of parameters, of which symbols and Triton need a few.
"""

SMALL = 16 << 20
"""Bytes: a launch that touches more keeps a GPU busy for longer than the next launch takes the host.

Source: a definition: 4 µs of the reference machine's memory.
"""


class JoinLaunchesPass(ModulePass):
    """launch @k(a, b); launch @k(c, d)  ->  launch @k_of_2(a, c, b, d), whose programs pick their pointers

    The launches stand between the same two calls, and none needs what another gives, or changes what another reads. So
    that they come together, launches between two calls are put in order of what they need: first those that need
    nothing, then those that need only these, …; this, too, only where some can be joined. Only small launches are: the
    buffers of all of them are there at once.
    """

    name = "join-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        joinable = {name for name, func in kernels.items() if _is_joinable(func)}
        if not joinable:
            return
        made: dict[tuple[str, int], kernel.FuncOp] = {}
        for segment in _segments(ops_of(entry_block(op))):
            levels = _levels(segment, kernels)
            groups: dict[tuple[int, str, str, bool], list[host.LaunchOp]] = {}
            for launch, level in levels.items():
                device = device_of(tensor_type_of(launch.operands[-1]))
                key = level, launch.kernel, device, launch.kernel in joinable and _is_small(launch)
                groups.setdefault(key, []).append(launch)
            if not any(small and len(group) >= LEAST for (*_, small), group in groups.items()):
                continue
            ordered: list[host.LaunchOp] = []
            for (_, name, _, small), group in sorted(groups.items(), key=lambda item: item[0][0]):
                if small and len(group) >= LEAST:
                    ordered += [_joined(part, kernels[name], made) for part in _parts(group)]
                else:
                    ordered += group
            _put_in_order(segment, ordered)
        for (name, _), func in made.items():
            op.body.block.insert_op_after(func, kernels[name])
        launched = {inner.kernel for inner in op.walk() if isinstance(inner, host.LaunchOp)}
        for name, func in kernels.items():
            if name not in launched and any(name == known for known, _ in made):
                remove(func)


def _is_joinable(func: kernel.FuncOp) -> bool:
    """Whether programs of several launches may be those of one: they wait for nobody, stop nobody, and start afresh."""
    if not func.is_for_gpu or func.updates or func.schedule.choices.get("descriptors"):
        return False
    apart = any(isinstance(op, kernel.MeetOp | kernel.AtomicOp | kernel.PickOp | kernel.LocalOp) for op in func.walk())
    return not apart and not may_fail(func)


def _segments(ops: Sequence[Operation]) -> list[list[Operation]]:
    """Launches between two calls, with the buffers and aliases that are made there."""
    found: list[list[Operation]] = [[]]
    for op in ops:
        if isinstance(op, host.LaunchOp | host.AllocOp | host.ReinterpretOp | LiteralOp | ValueOp):
            found[-1].append(op)
        elif found[-1]:
            found.append([])
    return found


def _levels(segment: Iterable[Operation], kernels: dict[str, kernel.FuncOp]) -> dict[host.LaunchOp, int]:
    """For every launch, how many others must come before it, one after the other."""
    levels: dict[host.LaunchOp, int] = {}
    read: dict[SSAValue, int] = {}
    written: dict[SSAValue, int] = {}
    for op in segment:
        if not isinstance(op, host.LaunchOp):
            continue
        outs = len(op.operands) - kernels[op.kernel].num_outs
        sources = [buffer for operand in op.operands[:outs] for buffer in memory_of(operand)]
        targets = [buffer for operand in op.operands[outs:] for buffer in memory_of(operand)]
        level = max([0, *(written.get(buffer, -1) + 1 for buffer in (*sources, *targets))])
        level = max([level, *(read.get(buffer, -1) + 1 for buffer in targets)])
        levels[op] = level
        for buffer in sources:
            read[buffer] = max(level, read.get(buffer, 0))
        for buffer in targets:
            written[buffer] = max(level, written.get(buffer, 0))
    return levels


def _is_small(launch: host.LaunchOp) -> bool:
    sizes = [host.buffer_bytes(operand.type) for operand in launch.operands]
    return sum(SMALL + 1 if size is None else size for size in sizes) <= SMALL


def _parts(group: Sequence[host.LaunchOp]) -> list[Sequence[host.LaunchOp]]:
    """As few parts as may be, of about one length, so that they are few kernels."""
    most = max(1, min(MOST, MOST_POINTERS // len(group[0].operands)))
    count = -(-len(group) // most)
    ends = [len(group) * number // count for number in range(count + 1)]
    return [group[start:end] for start, end in pairwise(ends)]


def _joined(
    launches: Sequence[host.LaunchOp], func: kernel.FuncOp, made: dict[tuple[str, int], kernel.FuncOp]
) -> host.LaunchOp:
    """One launch for several, operand by operand."""
    if len(launches) == 1:
        return launches[0]
    key = func.sym_name, len(launches)
    if key not in made:
        made[key] = _kernel_of(func, len(launches))
    operands = [operand for column in zip(*(one.operands for one in launches), strict=True) for operand in column]
    joined = host.LaunchOp.build(made[key].sym_name, operands)
    joined.location = launches[0].location
    return joined


def _kernel_of(func: kernel.FuncOp, count: int) -> kernel.FuncOp:
    """The kernel of `count` launches of another, whose grid has one axis more, the first."""
    schedule = ScheduleAttr(((count, *func.schedule.grid), func.schedule.data[1]))
    inputs = [one.type for one in func.inputs for _ in range(count)]
    outs = [one.type for one in func.outs for _ in range(count)]
    made = kernel.FuncOp.build(f"{func.sym_name}_of_{count}", inputs, outs, func.symbols, schedule)
    made.location = func.location
    block, arguments = made.body, list(made.body.args)
    values: dict[SSAValue, SSAValue] = {}
    for argument in func.body.args:
        own = arguments[argument.index * count : (argument.index + 1) * count]
        for pointer in own:
            pointer.name_hint = argument.name_hint
        pick = kernel.PickOp.build(0, own)
        pick.location = func.location
        pick.result.name_hint = argument.name_hint
        block.add_op(pick)
        values[argument] = pick.result
    for op in func.body.ops:
        copy = op.clone(values)
        for new, old in zip(copy.walk(), op.walk(), strict=True):
            new.location = old.location
        if isinstance(op, kernel.ProgramIdOp):
            copy.properties["axis"] = kernel.ProgramIdOp.build(op.axis + 1).properties["axis"]
        block.add_op(copy)
    return made


def _put_in_order(segment: Sequence[Operation], launches: Sequence[host.LaunchOp]) -> None:
    """Puts launches in the place of those of a segment; every buffer is made right before it is needed."""
    last = segment[-1]
    block = last.parent
    assert isinstance(block, Block)
    end = last.next_op
    assert end is not None
    waiting: dict[SSAValue, Operation] = {
        result: op for op in segment if not isinstance(op, host.LaunchOp) for result in op.results
    }
    ordered: list[Operation] = []

    def make(value: SSAValue) -> None:
        op = waiting.pop(value, None)
        if op is not None:
            for operand in op.operands:
                make(operand)
            ordered.append(op)

    for launch in launches:
        for operand in launch.operands:
            make(operand)
        ordered.append(launch)
    for value in list(waiting):
        make(value)
    kept = set(ordered)
    for op in segment:
        if op in kept:
            op.detach()
        else:
            remove(op)
    block.insert_ops_before(ordered, end)


__all__ = ["JoinLaunchesPass"]
