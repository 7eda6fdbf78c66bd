"""`hint-loads`: what a cache is told about the elements that a kernel reads. On a GPU, whether they are read again:

    16 bits, of which little is written, for the last time   evict_first
    32 bits, the same, of a tensor about as large as a cache evict_first
    16 bits of rows that are walked along several times      evict_last, and evict_first the last time
    a part of a row that a program keeps in registers        evict_first
    a kernel whose schedule says `reread = 0`                evict_first
    one that says `reread = 1`                               evict_last

Only of what each program reads for itself, in order, and once in a stage: what many of them read, as windows do, is in
the cache as it is. What was written last then stays in the cache, for who reads it next, and is not moved to memory
meanwhile. Where a later kernel reads the tensor, too, nothing is said of its last reading
(docs/decisions/056-what-is-read-for-the-last-time.md).

On a CPU, that memory is read soon which lies further on, where the schedule says `prefetch = 4096`: a load that has
lanes along the rows that are summed side by side and along the sums, which nobody else reads, says `prefetch 4096`, and
so does one that goes down columns, which have the lanes. No value depends on any of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import kernel, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width

FIRST, LAST = "evict_first", "evict_last"
SHORT, LITTLE = 2, 4
"""The most bytes of an element of which something is said, and how many times what a launch writes it reads there. On
an H200, of 126 kernels (and much the same on an H100): sums, extremes and pools of 16 bits took 0.90 to 0.96 of the
time without; walks along rows 0.79 to 0.84; f32 0.97 to 1.08; what writes as much as it reads 1.00 to 1.07.

Source: `make bench-gpu`, both ways in turns.
"""
CACHES = (0.75, 8.0)
"""Of wider elements the same is said where a tensor is so many times as large as the second-level cache that rows can
count on, and no row is walked along twice: 20 sums, extremes and norms of 34 to 240 MB of f32 took 0.82 to 0.98 of the
time on an H200, one sum of 65 rows 1.13 (0.91, geometric mean); those of 4 to 17 MB 1.02 to 1.13, of 0.5 and 1 GB 1.02
and 1.06.

Source: with and without, in turns, of 28 nests.
"""
TWICE = 1.75
"""So many times its elements are read by what reads each about twice, or oftener; tiles that end behind the end of a
row read fewer.

Source: a choice, between once and twice.
"""


class HintLoadsPass(ModulePass):
    """Loads of kernels for a GPU say `evict_first` or `evict_last`, those for a CPU `prefetch`. Exact.

    Near misses: what a later op reads, too; rows that are gone along in steps of less than a sector of memory, of which
    the rest is read next (means of 3 million rows of 25 bf16 took 184 us on an H100, 67 without); f32 that the cache
    holds, or is far too small for; as much written as read; what many programs read; windows; an index made of data;
    what all rows share; sizes that only the call knows.
    """

    name = "hint-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        funcs = [func for func in op.body.ops if isinstance(func, kernel.FuncOp)]
        on_gpu = [func for func in funcs if "warps" in func.schedule.choices]
        launches = launches_in(op) if on_gpu else {}
        for func in on_gpu:
            hint_loads(func, machine_of(op), launches.get(func.sym_name, ()))
        for func in funcs:
            if func not in on_gpu and isinstance(ahead := func.schedule.choices.get("prefetch"), int):
                prefetch_loads(func, ahead)


@struct
class Read:
    """A tensor that a launch reads."""

    elements: int | None
    """How many it has; None where only the call knows."""
    width: int
    """Bytes of each."""
    for_the_last_time: bool
    """Whether nobody reads it after the launch."""
    mostly: bool
    """Whether the launch writes little beside it."""


def launches_in(module: ModuleOp) -> dict[str, list[list[Read]]]:
    """By kernel, what each of its launches reads, in the order of its inputs. Who calls the program may read what it
    returns; that is later than all that the program does.
    """
    block = entry_block(module)
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        if not isinstance(op, loops.ViewOp | loops.WordsOp) and op is not block.last_op:
            last.update((_viewed(value), op) for value in op.operands)
    found: dict[str, list[list[Read]]] = {}
    for op in block.ops:
        if isinstance(op, kernel.LaunchOp):
            written = sum((_elements(value) or 0) * byte_width(value) for value in op.results)
            found.setdefault(op.kernel, []).append(
                [_read(value, last[_viewed(value)] is op, written) for value in op.operands]
            )
    return found


def _read(tensor: SSAValue, for_the_last_time: bool, written: int) -> Read:
    elements, width = _elements(tensor), byte_width(tensor)
    return Read(elements, width, for_the_last_time, LITTLE * written <= (elements or 0) * width)


def _viewed(tensor: SSAValue) -> SSAValue:
    """What has the memory."""
    while isinstance(view := tensor.owner, loops.ViewOp | loops.WordsOp):
        tensor = view.source
    return tensor


def _elements(tensor: SSAValue) -> int | None:
    elements = sym.product_of(sizes_of(tensor_type_of(tensor)))
    return elements if isinstance(elements, int) else None


def hint_loads(func: kernel.FuncOp, machine: Machine, launches: Sequence[Sequence[Read]] = ()) -> None:
    """Sets what the loads of a kernel tell the cache. Its launches decide where the schedule says nothing."""
    reread = func.schedule.choices.get("reread")
    if reread is None and kernel.meeting_of(func) is not None:
        reread = 0
    own = {axis for axis, size in enumerate(func.schedule.grid) if size != 1}
    for place, pointer in enumerate(func.inputs):
        loads = [use.operation for use in pointer.uses if isinstance(use.operation, kernel.LoadOp)]
        if len(loads) < len(list(pointer.uses)) or not all(_axes(load) == own for load in loads):
            continue
        stages = {_stage(load, func) for load in loads}
        looped = any(isinstance(stage, kernel.LoopOp) and not _is_tile(stage) for stage in stages)
        last = max(stages, key=_position)
        again = bool(reread)
        if reread is None:
            reads = [launch[place] for launch in launches]
            walked = looped and len(stages) > 1
            if not reads or not all(_may_say(read, walked, machine) for read in reads):
                continue
            if any(_goes_on_in_a_sector(load, read.width, machine.sector) for load in loads for read in reads):
                continue
            if not all(_once(loads, stage, func, read.elements) for stage in stages for read in reads):
                continue
            if not all(read.for_the_last_time for read in reads):
                if not walked:
                    continue
                loads = [load for load in loads if _stage(load, func) is not last]
        turns = "ahead" in func.schedule.choices and len(stages) > 1
        for load in loads:
            load.eviction = LAST if again or ((looped or turns) and _stage(load, func) is not last) else FIRST


def _may_say(read: Read, walked: bool, machine: Machine) -> bool:
    """Whether something may be said of a tensor, whose rows are `walked` along several times or not."""
    if read.width <= SHORT:
        return walked or read.mostly
    least, most = CACHES
    caches = (read.elements or 0) * read.width / machine.cache
    return read.mostly and not walked and least <= caches <= most


def _goes_on_in_a_sector(load: kernel.LoadOp, width: int, sector: int) -> bool:
    """Whether the next step of a loop reads on in the sectors of memory that this one reads of: these must stay."""
    loop = load.parent_op()
    while isinstance(loop, kernel.LoopOp):
        variable = loop.induction_variables[-1]
        if variable in load.indices and not _is_tile(loop):
            moves = sym.coefficient(load.offset, load.indices.index(variable))
            if isinstance(moves, int) and 0 < abs(moves) * loop.lanes * width < sector:
                return True
        loop = loop.parent_op()
    return False


def _once(loads: Sequence[kernel.LoadOp], stage: Operation, func: kernel.FuncOp, elements: int | None) -> bool:
    """Whether a stage reads every element about once: not what windows share."""
    grid = math.prod(size for size in func.schedule.grid if isinstance(size, int))
    if elements is None or not all(isinstance(size, int) for size in func.schedule.grid):
        return False
    return sum(grid * _points(load, func) for load in loads if _stage(load, func) is stage) < TWICE * elements


def _points(load: kernel.LoadOp, func: kernel.FuncOp) -> int:
    """How many elements a program reads by a load; of a loop whose ends only the program knows, one tile."""
    points, op = 1, load.parent_op()
    while op is not None and op is not func:
        if isinstance(op, kernel.LoopOp):
            for low, high in zip(op.lowers.results, op.uppers.results, strict=True):
                trip = high - low
                points *= trip if isinstance(trip, int) else op.lanes
        op = op.parent_op()
    return points


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
