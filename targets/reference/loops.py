"""`loops.nest`: its body, for all points of its domain at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import loops
from cuesta.targets.reference import scans
from cuesta.targets.reference.body import ELEM_HANDLERS, Body, yield_value
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.memory import Memory
from cuesta.targets.reference.numerics import Numerics, bits, dtype_of
from cuesta.targets.reference.scope import POINTS_PER_CHUNK, Scope, chunks


class LoopsBody(Body):
    """The body of a nest. `tensors` are the values of the function around it; `handles` the nest's own outs."""

    def __init__(self, numerics: Numerics, symbols: Mapping[str, int], tensors: Mapping[SSAValue, object]) -> None:
        super().__init__(numerics, symbols)
        self.tensors = tensors
        self.handles: dict[SSAValue, tuple[Memory, tuple[int, ...]]] = {}
        self.parallel = 0
        """How many axes of the scope are the parallel domain."""
        self.positions: dict[Operation, Tensor] = {}
        """The linear index of every point of the scans being run."""

    def tensor(self, op: Operation, name: SSAValue) -> Tensor:
        """A tensor of the function around the nest."""
        found = self.tensors.get(name)
        if not isinstance(found, Tensor):
            fail(op, f"reads %{name.name_hint or '?'}, which is no tensor computed before")
        return found

    def element(
        self, op: loops.LoadOp | loops.TensorWriteOp, sizes: tuple[int, ...], mask: Tensor | None
    ) -> list[Tensor]:
        """The indices of the element that an op reads or writes, checked, one per axis."""
        indices = self.indices(op, op.map.results, op.indices)
        return [
            self.checked(op, index, size, mask, f"axis {axis}")
            for axis, (index, size) in enumerate(zip(indices, sizes, strict=True))
        ]


def run_nest(
    op: loops.NestOp,
    numerics: Numerics,
    symbols: Mapping[str, int],
    tensors: Mapping[SSAValue, object],
    out_sizes: list[tuple[int, ...]],
) -> list[Tensor]:
    """The outs of a nest, contiguous.

    Errors: InterpreterError when the nest breaks a rule of docs/levels.md; IndexError from `loops.bound`.
    """
    body = LoopsBody(numerics, symbols, tensors)
    loaded = {inner.source for inner in op.walk() if isinstance(inner, loops.LoadOp)}
    loaded |= {inner.target for inner in op.walk() if isinstance(inner, loops.CombineOp)}
    start = dict(zip(op.updated, op.operands, strict=True))
    for handle, sizes in zip(op.handles, out_sizes, strict=True):
        if handle in start:
            data = body.tensor(op, start[handle]).reshape(-1).clone()
        else:
            data = torch.empty(math.prod(sizes), dtype=numerics.dtype(handle.type))
        body.handles[handle] = Memory(data, read_back=handle in loaded, given=handle in start), sizes
    domain = [body.size(op, size) for size in op.sizes]
    body.parallel = len(domain)
    budget = max(1, POINTS_PER_CHUNK // max(1, _inner_points(body, op.body)))
    meeting = loops.meeting_of(op)
    for piece in chunks(domain, budget, 0 if meeting is None else meeting.axes):
        for memory, _ in body.handles.values():
            memory.begin_chunk()
        body.values.clear()
        body.scope = Scope().inner([len(part) for part in piece])
        for axis, (variable, part) in enumerate(zip(op.induction_variables, piece, strict=True)):
            body.values[variable] = body.scope.along(axis, torch.arange(part.start, part.stop))
        body.run_block(op.body)
    for position, (memory, _) in enumerate(body.handles.values()):
        memory.check_complete(op, f"out {position}")
    return [memory.data.reshape(sizes) for memory, sizes in body.handles.values()]


def _inner_points(body: LoopsBody, block: Block) -> int:
    """The most points that an inner domain has for one point of the domain around it."""
    most = 1
    for op in block.ops:
        if isinstance(op, loops.DomainOp):
            points = 1 if isinstance(op, loops.FoldOp) else math.prod(body.size(op, size) for size in op.sizes)
            most = max(most, points * _inner_points(body, op.body))
    return most


def gather(tensor: Tensor, indices: list[Tensor]) -> Tensor:
    """`tensor[indices]`, for indices that are in range; 0 where the tensor has no elements."""
    if tensor.numel() == 0:
        return torch.zeros((), dtype=tensor.dtype)
    return bits(tensor)[tuple(indices)].view(tensor.dtype) if indices else tensor


def _linear(indices: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    result = torch.zeros((), dtype=torch.int64)
    for index, size in zip(indices, sizes, strict=True):
        result = result * size + index
    return result


def _load(body: LoopsBody, op: loops.LoadOp) -> None:
    condition = None if op.mask is None else body.value(op, op.mask)
    mask = body.scope.mask(condition)
    handle = body.handles.get(op.source)
    if handle is not None:
        memory, sizes = handle
        offsets = body.scope.align(_linear(body.element(op, sizes, mask), sizes))
        value = memory.load(op, body.scope, offsets, mask)
    else:
        tensor = body.tensor(op, op.source)
        value = gather(tensor, body.element(op, tuple(tensor.shape), mask))
    if condition is not None and op.other is not None:
        value = torch.where(condition, body.scope.align(value), body.value(op, op.other))
    body.define(op, value)


def _written(body: LoopsBody, op: loops.TensorWriteOp) -> tuple[Memory, Tensor, Tensor, Tensor | None]:
    """The memory that an op writes, the offsets, the value and the mask."""
    handle = body.handles.get(op.target)
    if handle is None:
        fail(op, "stores to a tensor that is not an out of this nest")
    memory, sizes = handle
    mask = body.scope.mask(None if op.mask is None else body.value(op, op.mask))
    return memory, _linear(body.element(op, sizes, mask), sizes), body.value(op, op.value), mask


def _store(body: LoopsBody, op: loops.StoreOp) -> None:
    memory, offsets, value, mask = _written(body, op)
    memory.store(op, body.scope, offsets, value, mask)


def _combine(body: LoopsBody, op: loops.CombineOp | loops.AtomicOp) -> None:
    memory, offsets, value, mask = _written(body, op)
    if isinstance(op, loops.CombineOp):
        memory.change(op, body.scope, body.parallel, body.scope.align(offsets), mask)
    scans.combine(memory, op, op.kind, body.scope, body.scope.align(offsets), value, mask)


def _index(body: LoopsBody, op: loops.IndexOp) -> None:
    (value,) = body.indices(op, op.map.results, op.indices)
    body.define(op, value.to(dtype_of(op.result.type)))


def _bound(body: LoopsBody, op: loops.BoundOp) -> None:
    body.define(op, body.bound(op, body.value(op, op.operands[0]), body.size(op, op.size), wrap=op.wrap))


def _enter(body: LoopsBody, op: loops.DomainOp) -> Scope:
    inner = body.scope.inner([body.size(op, size) for size in op.sizes], body.scope.active)
    for axis, variable in enumerate(op.induction_variables, start=body.scope.depth):
        body.values[variable] = inner.along(axis, torch.arange(inner.shape[axis]))
    return inner


def _for(body: LoopsBody, op: loops.ForOp) -> None:
    body.run_inner(_enter(body, op), op.body)


def _position(body: LoopsBody, op: loops.DomainOp, inner: Scope) -> Tensor:
    """The linear index of every point of an inner domain."""
    variables = [inner.align(body.values[variable]) for variable in op.induction_variables]
    return inner.align(_linear(variables, inner.shape[body.scope.depth :]))


def _reduce(body: LoopsBody, op: loops.ReduceOp) -> None:
    inner = _enter(body, op)
    body.run_inner(inner, op.body)
    body.reduce(op, op.kind, inner, body.values[op.yielded], _position(body, op, inner))


def _fold(body: LoopsBody, op: loops.FoldOp) -> None:
    """Point by point: the axes of a fold have one point each at a time."""
    carried = [body.value(op, operand) for operand in op.operands]
    sizes = [body.size(op, size) for size in op.sizes]
    for point in itertools.product(*map(range, sizes)):
        for variable, index in zip(op.induction_variables, point, strict=True):
            body.values[variable] = torch.tensor(index)
        for argument, value in zip(op.carried, carried, strict=True):
            body.values[argument] = value
        body.run_block(op.body)
        carried = [body.value(op, value) for value in op.handed_on]
    body.define(op, *carried)


def _carry(body: LoopsBody, op: loops.CarryOp) -> None:
    """What is carried must be defined; the fold takes it from there."""
    for operand in op.operands:
        body.value(op, operand)


def _meet(body: LoopsBody, op: loops.MeetOp) -> None:
    for memory, _ in body.handles.values():
        memory.meet(body.scope.depth - op.axes)


def _scan(body: LoopsBody, op: loops.ScanOp) -> None:
    inner = _enter(body, op)
    body.positions[op] = _position(body, op, inner)
    body.run_inner(inner, op.body)


def _running(body: LoopsBody, op: loops.RunningOp) -> None:
    scan = op.parent_op()
    assert isinstance(scan, loops.ScanOp)
    scans.define_running(body, op, len(scan.sizes), body.positions[scan])


LoopsBody.handlers = {
    **ELEM_HANDLERS,
    loops.AtomicOp: _combine,
    loops.BoundOp: _bound,
    loops.CarryOp: _carry,
    loops.CombineOp: _combine,
    loops.FoldOp: _fold,
    loops.ForOp: _for,
    loops.IndexOp: _index,
    loops.LoadOp: _load,
    loops.MeetOp: _meet,
    loops.ReduceOp: _reduce,
    loops.RunningOp: _running,
    loops.ScanOp: _scan,
    loops.StoreOp: _store,
    loops.YieldOp: yield_value,
}
