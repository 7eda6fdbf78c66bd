"""`hint-loads`: what a cache is told about the elements that a kernel reads. On a GPU, whether they are read again:

    a part of a row that a program keeps in registers        evict_first
    a kernel whose schedule says `reread = 0`                evict_first
    one that says `reread = 1`                               evict_last

Only of what each program reads for itself, in order: what many of them read is in the cache as it is. Where several
stages read it, tile by tile, the reads of the last one are meant; those before are evict_last. What is not known is not
said, nor is anything where the cache does better by itself: on an H200, kernels that read rows twice took longer with
`evict_last` and `evict_first` than with neither (docs/decisions/016-programs-that-meet.md).

On a CPU, that memory is read soon which lies further on, where the schedule says `prefetch = 4096`: a load that has
lanes along the rows that are summed side by side and along the sums, which nobody else reads, says `prefetch 4096`, and
so does one that goes down columns, which have the lanes. No value depends on any of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import kernel

FIRST, LAST = "evict_first", "evict_last"


class HintLoadsPass(ModulePass):
    """Loads of kernels for a GPU say `evict_first` or `evict_last`, those for a CPU `prefetch`. Exact.

    Near misses: a kernel that says nothing of it and does not meet; what many programs read; an index made of data;
    what all rows share.
    """

    name = "hint-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if not isinstance(func, kernel.FuncOp):
                continue
            if "warps" in func.schedule.choices:
                hint_loads(func)
            elif isinstance(ahead := func.schedule.choices.get("prefetch"), int):
                prefetch_loads(func, ahead)


def hint_loads(func: kernel.FuncOp) -> None:
    """Sets what the loads of a kernel tell the cache."""
    reread = func.schedule.choices.get("reread")
    if reread is None:
        if kernel.meeting_of(func) is None:
            return
        reread = 0
    own = {axis for axis, size in enumerate(func.schedule.grid) if size != 1}
    for pointer in func.inputs:
        loads = [use.operation for use in pointer.uses]
        if not all(isinstance(load, kernel.LoadOp) and _axes(load) == own for load in loads):
            continue
        stages = {_stage(load, func) for load in loads}
        looped = any(isinstance(stage, kernel.LoopOp) and not _is_tile(stage) for stage in stages)
        last = max(stages, key=_position)
        for load in loads:
            if isinstance(load, kernel.LoadOp):
                again = reread or (looped and _stage(load, func) is not last)
                load.eviction = LAST if again else FIRST


def prefetch_loads(func: kernel.FuncOp, ahead: int) -> None:
    """Lets loads of whole tiles, and of columns that are walked down, ask for memory `ahead` elements further on."""
    for op in func.walk():
        if isinstance(op, kernel.LoadOp) and min(op.shape, default=1) > 1 and (len(op.shape) > 1 or _walks_down(op)):
            op.prefetch = ahead


def _walks_down(load: kernel.LoadOp) -> bool:
    """Whether a vector is read that another one follows at every step of a reduction."""
    around = load.parent_op()
    if not isinstance(around, kernel.ReduceOp) or around.lanes > 1:
        return False
    return any(variable in load.indices for variable in around.induction_variables)


def _stage(op: Operation, func: kernel.FuncOp) -> Operation:
    """The op of the kernel's own body that an op is, or stands in."""
    while (parent := op.parent_op()) is not func:
        assert parent is not None
        op = parent
    return op


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)


def _is_tile(loop: kernel.LoopOp) -> bool:
    """Whether a loop is one tile and no more: what it loads at an address, another tile has in registers."""
    trip = loop.uppers.results[-1] - loop.lowers.results[-1]
    return len(loop.induction_variables) == 1 and isinstance(trip, int) and trip <= loop.lanes


def _axes(load: kernel.LoadOp) -> set[int] | None:
    """The axes of the grid that an address depends on; None for what is read at an index made of data, or at one place
    for all lanes.
    """
    return _axes_of(load.indices) if load.shape else None


def _axes_of(indices: Sequence[SSAValue]) -> set[int] | None:
    found: set[int] = set()
    for index in indices:
        if isinstance(index.owner, kernel.ProgramIdOp):
            found.add(index.owner.axis)
            continue
        loop = index.owner.parent_op() if isinstance(index, BlockArgument) else None
        axes = _axes_of(loop.bound_operands) if isinstance(loop, kernel.LoopOp) else None
        if axes is None:
            return None
        found |= axes
    return found
