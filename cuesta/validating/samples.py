"""Parts of a kernel that can be run alone: a few programs of its grid, or a few points of its loop."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.sym.syntax import canonical_operands

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp

_POINTS = 8
"""Of an axis, in a sample; along lanes, so many rounds of them. Source: a definition."""

Sample = tuple["FuncOp", "Sequence[Sequence[int]] | None"]
"""A kernel, and which of its programs are run; None: all of them."""


class Samples:
    """The parts of a kernel. At every call the middle one is another."""

    def __init__(self, func: FuncOp, parts: Sequence[FuncOp]) -> None:
        self.func = func
        self.parts = parts

    def of(self, symbols: Mapping[str, int], draw: random.Random) -> list[Sample]:
        """The first, the last and another program; of a kernel that is one loop, at its lower or its upper end."""
        grid = [int(sym.evaluate(size, (), symbols)) for size in self.func.schedule.grid]
        if math.prod(grid) == 0:
            return []
        last = [size - 1 for size in grid]
        programs = [[0] * len(grid), last, [draw.randrange(size) for size in grid]]
        chosen: list[Sample] = []
        for number, program in enumerate({tuple(one): None for one in programs}):
            chosen.append((self.parts[number % len(self.parts)], [program]))
        if len(chosen) < len(self.parts):
            chosen += [(part, [last]) for part in self.parts[len(chosen) :]]
        return chosen


def samples_of(func: FuncOp) -> Samples | None:
    """The parts of a kernel; None when its programs change memory that others see, so that it runs as a whole only."""
    if func.updates or any(isinstance(op, kernel.MeetOp | kernel.AtomicOp) for op in all_ops(func)):
        return None
    loops = [op for op in ops_of(func.body) if isinstance(op, kernel.LoopOp | kernel.ScanOp)]
    others = any(isinstance(op, kernel.StoreOp | kernel.LocalOp) for op in ops_of(func.body))
    reads_back = any(isinstance(op, kernel.LoadOp) and op.pointer in func.outs for op in all_ops(func))
    if len(loops) != 1 or not isinstance(loops[0], kernel.ForOp) or others or reads_back:
        return Samples(func, [func])
    return Samples(func, [_cut(func, loops[0], upper) for upper in (False, True)])


def _cut(func: FuncOp, loop: kernel.ForOp, upper: bool) -> FuncOp:
    """The kernel with few points along each axis of its loop, at the lower or the upper end: the points of a loop have
    nothing to do with one another.
    """
    position = ops_of(func.body).index(loop)
    part = func.clone()
    copy = ops_of(part.body)[position]
    assert isinstance(copy, kernel.ForOp)
    lowers, uppers = list(copy.lowers.results), list(copy.uppers.results)
    for axis in range(len(lowers)):
        count = _POINTS * (copy.lanes if axis == len(lowers) - 1 else 1)
        if upper:
            lowers[axis] = sym.maximum(lowers[axis], uppers[axis] - count)
        else:
            uppers[axis] = sym.minimum(lowers[axis] + count, uppers[axis])
    used, canonical = canonical_operands(list[SSAValue](copy.operands), (*lowers, *uppers))
    new = kernel.ForOp.build(canonical[: len(lowers)], canonical[len(lowers) :], used, copy.lanes)
    values: dict[SSAValue, SSAValue] = dict(zip(copy.induction_variables, new.induction_variables, strict=True))
    for op in ops_of(copy.body):
        new.body.add_op(op.clone(values))
    part.body.insert_op_before(new, copy)
    copy.detach()
    copy.erase()
    return part


__all__ = ["Sample", "Samples", "samples_of"]
