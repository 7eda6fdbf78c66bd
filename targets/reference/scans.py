"""What the kinds of running values and of combinations compute.

Sums and products of floats are accumulated in float64 and rounded where they are given out, as in `reductions`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from xdsl.ir import Operation

from cuesta.dialects.core.scans import ASSIGNMENTS, RunningOp
from cuesta.targets.reference.body import Body
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.memory import Memory
from cuesta.targets.reference.numerics import bits
from cuesta.targets.reference.reductions import padding
from cuesta.targets.reference.scope import Scope


def define_running(body: Body, op: RunningOp, axes: int, position: Tensor, *, backwards: bool = False) -> None:
    """Defines the results of a running value, in the scope of its scan, whose axes are the last `axes` of the scope.
    With `backwards` the last point comes first.

    Requires: `position` is the row-major linear index of a point in the scan's domain, aligned.
    """
    scope = body.scope
    shape = (*scope.shape[: scope.depth - axes], -1)
    empty = scope.is_empty

    def flatten(value: Tensor) -> Tensor:
        return scope.expand(value).reshape((*shape[:-1], 0) if empty else shape)

    def in_turn(value: Tensor) -> Tensor:
        return value.flip(-1) if backwards else value

    active = None if scope.active is None else in_turn(flatten(scope.active))
    results = running(op.kind, in_turn(flatten(body.value(op, op.value))), active, flatten(position))
    shaped = (in_turn(result).reshape(scope.shape) for result in results)
    body.define(op, *(body.alike(name, result) for name, result in zip(op.results, shaped, strict=True)))


def running(kind: str, values: Tensor, active: Tensor | None, position: Tensor) -> tuple[Tensor, ...]:
    """The running values along the last axis; what stands at points that are not active has no meaning."""
    if kind in ("last_argmax", "last_argmin"):
        return _running_extreme(kind == "last_argmax", values, active, position)
    wide = torch.float64 if values.dtype.is_floating_point else values.dtype
    if active is not None:
        values = torch.where(active, values, padding(kind, values.dtype))
    if kind == "sum":
        return (values.cumsum(-1, dtype=wide).to(values.dtype),)
    if kind == "prod":
        return (values.cumprod(-1, dtype=wide).to(values.dtype),)
    return (values.to(wide).logcumsumexp(-1).to(values.dtype),)


def _running_extreme(greatest: bool, values: Tensor, active: Tensor | None, position: Tensor) -> tuple[Tensor, Tensor]:
    if values.shape[-1] == 0:
        return values, position
    bests, places = [values[..., 0]], [position[..., 0]]
    seen = torch.ones_like(places[0], dtype=torch.bool) if active is None else active[..., 0]
    for point in range(1, values.shape[-1]):
        best, value = bests[-1], values[..., point]
        beyond = value >= best if greatest else value <= best
        take = (value != value) | (beyond & (best == best)) | ~seen
        if active is not None:
            take = take & active[..., point]
            seen = seen | active[..., point]
        bests.append(torch.where(take, value, best))
        places.append(torch.where(take, position[..., point], places[-1]))
    return torch.stack(bests, -1), torch.stack(places, -1)


def combine(
    memory: Memory, op: Operation, kind: str, scope: Scope, offsets: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Combines `value` into the elements at `offsets`, at every point of the scope where the mask is true, in order.

    Errors: InterpreterError when an element was not stored before by the same point of the parallel domain.
    """
    memory.load(op, scope, offsets, mask)  # checks who stored what
    chosen = None if mask is None else mask.expand(scope.shape)
    places = scope.expand(offsets)
    values = scope.expand(value)
    places = places.reshape(-1) if chosen is None else places[chosen]
    values = values.reshape(-1) if chosen is None else values[chosen]
    if values.numel() == 0:
        return
    data = memory.data
    if kind in ASSIGNMENTS:
        # The points stand in row-major order, in which the last one wins.
        order = torch.arange(places.numel())
        last = torch.full(data.shape, -1, dtype=torch.int64).scatter_reduce(0, places, order, "amax")
        touched = last >= 0
        bits(data)[touched] = bits(values)[last[touched]]
        return
    if data.dtype in (torch.uint16, torch.uint32, torch.uint64):
        fail(op, f"the interpreter does not combine {data.dtype}")
    reduction = {"sum": "sum", "prod": "prod", "maximum": "amax", "minimum": "amin"}[kind]
    wide = torch.float64 if data.dtype.is_floating_point else data.dtype
    touched = torch.zeros(data.shape, dtype=torch.bool).index_fill(0, places, True)
    new = data.to(wide).scatter_reduce(0, places, values.to(wide), reduction).to(data.dtype)
    data[touched] = new[touched]


__all__ = ["combine", "define_running", "running"]
