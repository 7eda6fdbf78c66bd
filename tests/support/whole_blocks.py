"""Reductions and scans of Triton's interpreter, over whole blocks.

Triton's own take one point after the other, each through Python's arithmetic of a number: minutes for a long row.
These give the combining function blocks, and pair neighbours up, as a device does: the earlier ones come first.
"""

from __future__ import annotations

from typing import Any

import numpy
from triton.runtime.interpreter import ReduceOps, ScanOps


def reduce_blocks(self: ReduceOps, input: Any) -> list[Any]:
    """The result of every operand's reduction, in log2(points) calls; the points are a power of two."""
    operands, axis = self.unravel(input, self.axis)
    rank = operands[0].handle.data.ndim
    now = [numpy.moveaxis(operand.handle.data, axis, -1) for operand in operands]
    while now[0].shape[-1] > 1:
        now = _combined(self, operands, [one[..., 0::2] for one in now], [one[..., 1::2] for one in now])
    if not self.keep_dims:
        now = [one[..., 0] for one in now]
    elif self.axis is not None:
        now = [numpy.moveaxis(one, -1, axis) for one in now]
    else:
        now = [one.reshape((1,) * rank) for one in now]
    return [_tensor(self, one, operand) for one, operand in zip(now, operands, strict=True)]


def scan_blocks(self: ScanOps, input: Any) -> list[Any]:
    """The running values of every operand, in log2(points) calls."""
    operands = input
    now = [numpy.moveaxis(operand.handle.data, self.axis, -1) for operand in operands]
    points = now[0].shape[-1]
    distance = 1
    while distance < points:
        # What comes round from the end has nothing before it, and stays as it is.
        before = _combined(self, operands, [numpy.roll(one, distance, -1) for one in now], now)
        now = [numpy.where(numpy.arange(points) < distance, *pair) for pair in zip(now, before, strict=True)]
        distance *= 2
    return [
        _tensor(self, numpy.moveaxis(one, -1, self.axis), operand) for one, operand in zip(now, operands, strict=True)
    ]


def _combined(self: Any, operands: Any, first: list[Any], second: list[Any]) -> list[Any]:
    given = [
        _tensor(self, one, operand) for half in (first, second) for one, operand in zip(half, operands, strict=True)
    ]
    found = self.combine_fn.fn(*given)
    found = found if isinstance(found, tuple) else (found,)
    return [
        # What the function returns may be wider, or the number that it always is.
        numpy.broadcast_to(one.handle.data if hasattr(one, "handle") else one, half.shape).astype(half.dtype)
        for one, half in zip(found, first, strict=True)
    ]


def _tensor(self: Any, values: Any, like: Any) -> Any:
    return self.to_tensor(numpy.ascontiguousarray(values) if values.ndim else values.item(), like.dtype)


def install() -> None:
    """From here on the interpreter reduces and scans whole blocks."""
    ReduceOps.generic_reduce = reduce_blocks
    ScanOps.generic_scan = scan_blocks
