"""`kernel.func`: its body, for all programs of the grid at a time.

A lane loop is one axis of all its points; how many of them a vector holds makes no difference to what is computed.
Where the bounds of a loop depend on the program, its axis is as long as the longest, and the points beyond a
program's own are inactive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.targets.reference import scans
from cuesta.targets.reference.body import ELEM_HANDLERS, Body, yield_value
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.memory import Memory
from cuesta.targets.reference.numerics import Numerics, bits, dtype_of
from cuesta.targets.reference.scope import POINTS_PER_CHUNK, Scope, chunks


@struct
class Pointer:
    """`size` elements of memory: a tensor that is only read, or memory that is written.

    Scratch lies in one memory for all programs: that of the current one begins at `base`, which is a value in `scope`.
    So do tensors of which each program has its own; then `sizes` says how many elements that has.
    """

    memory: Tensor | Memory
    size: int
    base: Tensor | None = None
    sizes: Tensor | None = None
    also: Sequence[tuple[Memory, int]] = ()
    """Memory of outs that the tensor lies in, too, and where there its first element is."""


class KernelBody(Body):
    """The body of a kernel."""

    def __init__(self, numerics: Numerics, symbols: Mapping[str, int]) -> None:
        super().__init__(numerics, symbols)
        self.pointers: dict[SSAValue, Pointer] = {}
        self.grid: list[range] = []
        self.positions: dict[Operation, Tensor] = {}
        """The linear index of every point of the scans being run."""
        self.picked: dict[kernel.PickOp, tuple[Tensor | Memory, Tensor, Tensor]] = {}
        """One memory of all that an op picks from, where each begins, and its size."""

    def define(self, op: Operation, *results: Tensor) -> None:
        """Gives an op's results their values, which may vary only over the lane axes that their types name."""
        for name, result in zip(op.results, results, strict=True):
            shape = shape_of(name)
            dim = 0
            for axis, size in zip(self.scope.axes, result.shape, strict=False):
                if axis.lanes:
                    if size > 1 and (dim >= len(shape) or shape[dim] == 1):
                        kind = "scalar type" if not shape else "type"
                        fail(op, f"a value of the {kind} {name.type} varies from lane to lane")
                    dim += 1
            self.values[name] = result

    def alike(self, name: SSAValue, result: Tensor) -> Tensor:
        """What was computed for each lane, once for the lanes that a value's type says are alike."""
        shape, dim = shape_of(name), 0
        for number, axis in enumerate(self.scope.axes):
            if axis.lanes:
                if dim < len(shape) and shape[dim] == 1 and result.shape[number] > 1:
                    result = result.narrow(number, 0, 1)
                dim += 1
        return result

    def address(self, op: kernel.LoadOp | kernel.MemoryWriteOp, mask: Tensor | None) -> tuple[Pointer, Tensor]:
        """The memory that an op accesses, and the checked offsets into it."""
        pointer = self.pointers.get(op.pointer)
        if pointer is None:
            fail(op, "uses a pointer before it is defined")
        (offset,) = self.indices(op, (op.offset,), op.indices)
        if pointer.sizes is not None:
            offset = torch.where(offset < self.scope.align(pointer.sizes), offset, -1)
        offset = self.checked(op, offset, pointer.size, mask, "memory")
        return pointer, offset if pointer.base is None else offset + self.scope.align(pointer.base)


def run_kernel(
    func: kernel.FuncOp,
    numerics: Numerics,
    symbols: Mapping[str, int],
    inputs: Sequence[Tensor],
    outs: Sequence[Memory],
    programs: Sequence[Sequence[int]] | None = None,
    shared: Mapping[int, Sequence[tuple[Memory, int]]] | None = None,
) -> None:
    """Runs every program of a kernel, or else these `programs`, by their coordinates in the grid. `inputs` are the flat
    memory of tensors (see `numerics.flat`), as are `outs`. `shared` says which inputs lie in memory of outs, and where.

    Errors: InterpreterError when the kernel breaks a rule of docs/levels.md; IndexError from `kernel.bound`.
    """
    body = KernelBody(numerics, {name: symbols[name] for name in func.symbols if name in symbols})
    for position, (argument, tensor) in enumerate(zip(func.inputs, inputs, strict=True)):
        body.pointers[argument] = Pointer(
            tensor, tensor.numel(), also=() if shared is None else shared.get(position, ())
        )
    for argument, memory in zip(func.outs, outs, strict=True):
        body.pointers[argument] = Pointer(memory, memory.data.numel())
    for argument, pointer in body.pointers.items():
        data = pointer.memory.data if isinstance(pointer.memory, Memory) else pointer.memory
        if data.dtype is not numerics.dtype(argument.type):
            fail(func, f"an argument of type {argument.type} is given memory of {data.dtype}")
    grid = [body.size(func, size) for size in func.schedule.grid]
    budget = max(1, POINTS_PER_CHUNK // _inner_points(func.body, body.symbols, _ends_of_grid(func, grid)))
    meeting = kernel.meeting_of(func)
    pieces = chunks(grid, budget, 0 if meeting is None else meeting.axes)
    if programs is not None:
        pieces = (tuple(range(at, at + 1) for at in program) for program in programs)
    for piece in pieces:
        for memory in (*outs, *(one for one, _, _ in body.picked.values() if isinstance(one, Memory))):
            memory.begin_chunk()
        body.values.clear()
        body.grid = list(piece)
        body.scope = Scope().inner([len(part) for part in piece])
        body.run_block(func.body)
    for memory, _, _ in body.picked.values():
        if isinstance(memory, Memory):
            memory.hand_back()


# -- how many points there are ----------------------------------------------------------------------------------------

Ends = dict[SSAValue, tuple[int, int]]


def _ends_of_grid(func: kernel.FuncOp, grid: Sequence[int]) -> Ends:
    return {op.result: (0, max(grid[op.axis] - 1, 0)) for op in func.body.ops if isinstance(op, kernel.ProgramIdOp)}


def _inner_points(block: Block, symbols: Mapping[str, int], ends: Ends) -> int:
    """About how many points inner loops have for one point around them, judged by its first and its last."""
    most = 1
    for op in block.ops:
        if not isinstance(op, kernel.LoopOp):
            continue
        points = 1
        for variable, low, high in zip(op.induction_variables, op.lowers.results, op.uppers.results, strict=True):
            sizes: list[int] = []
            for end in (0, 1):
                dims = [ends.get(operand, (0, 0))[end] for operand in op.bound_operands]
                first, last = (int(sym.evaluate(bound, dims, symbols)) for bound in (low, high))
                sizes.append(last - first)
                ends[variable] = (first, last - 1) if end == 0 else (ends[variable][0], last - 1)
            points *= 1 if isinstance(op, kernel.FoldOp) else max(1, *sizes)  # whose points come one at a time
        most = max(most, points * _inner_points(op.body, symbols, ends))
    return most


# -- the ops ----------------------------------------------------------------------------------------------------------


def _program_id(body: KernelBody, op: kernel.ProgramIdOp) -> None:
    part = body.grid[op.axis]
    body.define(op, body.scope.along(op.axis, torch.arange(part.start, part.stop)))


def _pick(body: KernelBody, op: kernel.PickOp) -> None:
    if op not in body.picked:
        memories = [body.pointers[pointer].memory for pointer in op.operands]
        written = [one for one in memories if isinstance(one, Memory)]
        sizes = torch.tensor([body.pointers[pointer].size for pointer in op.operands])
        read = [one for one in memories if isinstance(one, Tensor)]
        joined = Memory.of_parts(written) if written else torch.cat(read)
        body.picked[op] = joined, sizes.cumsum(0) - sizes, sizes
    memory, starts, sizes = body.picked[op]
    part = body.grid[op.axis]
    own = slice(part.start, part.stop)
    base, size = (body.scope.along(op.axis, numbers[own]) for numbers in (starts, sizes))
    body.pointers[op.result] = Pointer(memory, int(sizes.max()), base, size)


def _load(body: KernelBody, op: kernel.LoadOp) -> None:
    condition = None if op.mask is None else body.value(op, op.mask)
    mask = body.scope.mask(condition)
    pointer, offsets = body.address(op, mask)
    if isinstance(pointer.memory, Memory):
        value = pointer.memory.load(op, body.scope, offsets, mask)
    elif pointer.size == 0:
        value = torch.zeros((), dtype=pointer.memory.dtype)
    else:
        for memory, start in pointer.also:
            memory.read_elsewhere(op, body.scope, offsets + start, mask)
        value = bits(pointer.memory)[offsets].view(pointer.memory.dtype)
    if condition is not None and op.other is not None:
        value = torch.where(condition, body.scope.align(value), body.value(op, op.other))
    body.define(op, value)


def _written(body: KernelBody, op: kernel.MemoryWriteOp) -> tuple[Memory, Tensor, Tensor, Tensor | None]:
    """The memory that an op writes, the offsets, the value and the mask."""
    mask = body.scope.mask(None if op.mask is None else body.value(op, op.mask))
    pointer, offsets = body.address(op, mask)
    if not isinstance(pointer.memory, Memory):
        fail(op, "stores to an input of the kernel")
    return pointer.memory, offsets, body.value(op, op.value), mask


def _store(body: KernelBody, op: kernel.StoreOp) -> None:
    """Lanes along which neither the address nor the value varies make one store, which is that of the first of them."""
    memory, offsets, value, mask = _written(body, op)
    shape = shape_of(op.value)
    lanes = [position for position, axis in enumerate(body.scope.axes) if axis.lanes]
    for dim, position in enumerate(lanes):
        size = body.scope.axes[position].size
        if size > 1 and len(lanes) > 1 and (dim >= len(shape) or shape[dim] == 1):
            first = body.scope.along(position, torch.arange(size) == 0)
            mask = first if mask is None else first & mask
    memory.store(op, body.scope, offsets, value, mask)


def _combine(body: KernelBody, op: kernel.CombineOp) -> None:
    memory, offsets, value, mask = _written(body, op)
    memory.change(op, body.scope, len(body.grid), offsets, mask)
    scans.combine(memory, op, op.kind, body.scope, offsets, value, mask)


def _atomic(body: KernelBody, op: kernel.AtomicOp) -> None:
    memory, offsets, value, mask = _written(body, op)
    scans.combine(memory, op, op.kind, body.scope, offsets, value, mask)


def _index(body: KernelBody, op: kernel.IndexOp) -> None:
    (value,) = body.indices(op, (op.offset,), op.indices)
    body.define(op, value.to(dtype_of(op.result.type)))


def _bound(body: KernelBody, op: kernel.BoundOp) -> None:
    body.define(op, body.bound(op, body.value(op, op.operands[0]), body.size(op, op.size), wrap=op.wrap))


def _within(body: KernelBody, op: kernel.WithinOp) -> None:
    """Nothing: every access is held to its memory here."""


def _broadcast(body: KernelBody, op: kernel.BroadcastOp) -> None:
    body.define(op, body.value(op, op.operands[0]))


def _local(body: KernelBody, op: kernel.LocalOp) -> None:
    data = torch.empty(math.prod(body.scope.shape) * op.size, dtype=body.numerics.dtype(op.result.type))
    body.pointers[op.result] = Pointer(Memory(data, rewritable=True), op.size, body.scope.point_ids() * op.size)


def _enter(body: KernelBody, op: kernel.LoopOp) -> tuple[Scope, list[Tensor], list[Tensor]]:
    """The scope within a loop; of each of its axes, the points counted from 0, and how many there are."""
    outer = body.scope
    lowers = body.indices(op, op.lowers.results, op.operands)
    uppers = body.indices(op, op.uppers.results, op.operands)
    counts = [(upper - lower).clamp(min=0) for lower, upper in zip(lowers, uppers, strict=True)]
    if (active := outer.mask(None)) is not None:
        counts = [torch.where(active, count, 0) for count in counts]
    sizes = [0 if count.numel() == 0 else int(count.max()) for count in counts]
    inner = outer.inner(sizes, outer.active, lanes=op.lanes > 1)
    points: list[Tensor] = []
    for axis, (variable, lower, count) in enumerate(
        zip(op.induction_variables, lowers, counts, strict=True), start=outer.depth
    ):
        steps = inner.along(axis, torch.arange(inner.shape[axis]))
        body.values[variable] = inner.align(lower) + steps
        points.append(steps)
        if count.numel() > 1 and bool((count != count.max()).any()):
            inner.active = inner.mask(steps < inner.align(count))
    return inner, points, [inner.align(count) for count in counts]


def _for(body: KernelBody, op: kernel.ForOp) -> None:
    inner, _, _ = _enter(body, op)
    body.run_inner(inner, op.body)


def _carry(body: KernelBody, op: kernel.CarryOp) -> None:
    for value in op.operands:
        body.value(op, value)


def _fold(body: KernelBody, op: kernel.FoldOp) -> None:
    """Point by point, for all programs that have so many; the others keep what they have."""
    outer = body.scope
    (lower,) = body.indices(op, op.lowers.results, op.bound_operands)
    (upper,) = body.indices(op, op.uppers.results, op.bound_operands)
    count = (upper - lower).clamp(min=0)
    active = outer.mask(None)
    counted = count if active is None else torch.where(active, count, 0)
    values = [body.value(op, initial) for initial in op.initials]
    for step in range(0 if counted.numel() == 0 else int(counted.max())):
        inner = outer.inner([1], outer.active)
        live = count > step
        if not bool(live.all()):
            inner.active = inner.mask(inner.align(live))
        body.values[op.induction_variables[0]] = inner.align(lower) + step
        body.values.update(zip(op.carried, map(inner.align, values), strict=True))
        body.run_inner(inner, op.body)
        new = [inner.align(body.values[value]).squeeze(-1) for value in op.handed_on]
        values = [torch.where(live, one, before) for one, before in zip(new, values, strict=True)]
    body.define(op, *values)


def _position(points: Sequence[Tensor], counts: Sequence[Tensor]) -> Tensor:
    """The linear index of every point of a loop."""
    position = torch.zeros((), dtype=torch.int64)
    for point, count in zip(points, counts, strict=True):
        position = position * count + point
    return position


def _reduce(body: KernelBody, op: kernel.ReduceOp) -> None:
    inner, points, counts = _enter(body, op)
    body.run_inner(inner, op.body)
    body.reduce(op, op.kind, inner, body.values[op.yielded], _position(points, counts))


def _factors(body: KernelBody, op: kernel.FactorsOp) -> None:
    for factor in op.operands:
        body.value(op, factor)


def _contract(body: KernelBody, op: kernel.ContractOp) -> None:
    """As a sum of products, which are taken of the factors as they are: nothing is rounded to TF32."""
    inner, points, counts = _enter(body, op)
    body.run_inner(inner, op.body)
    left, right = (inner.align(body.values[factor]) for factor in op.factors)
    dtype = body.numerics.dtype(op.result.type)
    body.reduce(op, "sum", inner, left.to(dtype) * right.to(dtype), _position(points, counts))


def _meet(body: KernelBody, op: kernel.MeetOp) -> None:
    counters = body.pointers[op.memory].memory
    assert isinstance(counters, Memory)
    if counters.data.numel() != op.counters:
        fail(op, f"counts in memory of {counters.data.numel()} elements; it takes {op.counters}")
    group = torch.zeros((), dtype=torch.int64)
    for part, size in zip(body.grid[: -op.axes], op.func.schedule.grid, strict=False):
        group = (group * body.size(op, size)).unsqueeze(-1) + torch.arange(part.start, part.stop)
    if bool((counters.data[group] != 0).any()):
        fail(op, "counts in memory that is not 0 at the start")
    counters.data[group] = op.members
    for pointer in body.pointers.values():
        if isinstance(pointer.memory, Memory):
            pointer.memory.meet(body.scope.depth - op.axes)


def _scan(body: KernelBody, op: kernel.ScanOp) -> None:
    inner, points, counts = _enter(body, op)
    body.positions[op] = _position(points, counts)
    body.run_inner(inner, op.body)


def _running(body: KernelBody, op: kernel.RunningOp) -> None:
    scan = op.parent_op()
    assert isinstance(scan, kernel.ScanOp)
    scans.define_running(body, op, len(scan.induction_variables), body.positions[scan], backwards=op.backwards)


KernelBody.handlers = {
    **ELEM_HANDLERS,
    kernel.AtomicOp: _atomic,
    kernel.BoundOp: _bound,
    kernel.BroadcastOp: _broadcast,
    kernel.CarryOp: _carry,
    kernel.CombineOp: _combine,
    kernel.ContractOp: _contract,
    kernel.FactorsOp: _factors,
    kernel.FoldOp: _fold,
    kernel.ForOp: _for,
    kernel.IndexOp: _index,
    kernel.LoadOp: _load,
    kernel.LocalOp: _local,
    kernel.MeetOp: _meet,
    kernel.PickOp: _pick,
    kernel.ProgramIdOp: _program_id,
    kernel.ReduceOp: _reduce,
    kernel.RunningOp: _running,
    kernel.ScanOp: _scan,
    kernel.StoreOp: _store,
    kernel.WithinOp: _within,
    kernel.YieldOp: yield_value,
}
