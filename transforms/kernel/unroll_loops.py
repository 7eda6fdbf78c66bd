"""`unroll-loops`: a loop of a kernel on a GPU reads for several rounds at a time.

    kernel.scan (%k = 0 to 26) {                       kernel.scan (%k = 0 to 26) unroll 7 {
      %v = kernel.load %x[%i * 26 + %k]          →       %v = kernel.load %x[%i * 26 + %k]
      %s = kernel.running sum %v                         %s = kernel.running sum %v
      kernel.store %s, %y[%i * 26 + %k]                  kernel.store %s, %y[%i * 26 + %k]
    }                                                  }

What is loaded after a store waits for memory each time, since a compiler does not know that the two do not overlap; and
what a reduction loads, as long as its rounds are not written out. Of a loop that says `unroll 7` seven rounds are,
their loads first (`targets/triton/emit_rounds.py`).
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.transforms.tilings.rounds import rounds_at_once
from cuesta.transforms.tilings.space import WARP

MANY = 8
"""Steps of a loop of which only the call knows the number.

Source: a guess; as many as are ever written out.
"""
SERIAL = 8
"""Rounds of a serial reduction that read at a time, if they are not all written out. LLVM writes out those of sums by
itself, while a thread has few elements; not what has a comparison and two selections in each: then each waited for
memory: places of minima of 26 f32 took 17.1 us, and 12 so. Of 343 tilings of 70 other nests, with 17 to 64 points, 9
take 0.41 to 0.9 of the time, 3 1.1 to 1.3, the mean 0.990; of 4 rounds 0.995, of 16 0.989.

Source: an H200; and machine code: of 8 rounds all loads come first.
"""


class UnrollLoopsPass(ModulePass):
    """Loops of kernels for a GPU say how many rounds read at a time (`rounds_at_once`). Exact.

    Near misses: a loop with a loop in it; one tile, and tiles of which processors have many at a time; a thread that
    reads many numbers in each round; a serial loop that neither stores nor reduces, or has as many points as only the
    call knows; what is read of memory that the kernel writes; what does not go along with the loop, and is read once;
    addresses that are checked, one after the other; tiles in which a place is looked for (argmax over columns of bf16,
    45 us on an H200, 52 with eight at once).
    """

    name = "unroll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp) and func.is_for_gpu:
                programs = sym.product_of(func.schedule.grid)
                each = programs / machine_of(op).processors if isinstance(programs, int) else math.inf
                every = list(func.body.walk())
                written = {one.pointer for one in every if isinstance(one, kernel.MemoryWriteOp)}
                for loop in every:
                    if isinstance(loop, kernel.LoopOp) and loop.may_unroll and "unroll" not in loop.properties:
                        loop.unroll = rounds_of(loop, int(func.schedule.choices.get("warps", 4)), each, written)


def rounds_of(loop: kernel.LoopOp, warps: int, programs: float, written: set[SSAValue]) -> int:
    """How many rounds of a loop read at a time, where each processor has so many programs of so many warps, which write
    to these pointers.
    """
    body = [op for op in ops_of(loop.body) if not isinstance(op, elem.ConstantOp)]
    rounds = _rounds(loop)
    if rounds is None or any(op.regions or isinstance(op, kernel.WithinOp) for op in body):
        return 1
    if isinstance(loop, kernel.ReduceOp):
        if loop.lanes == 1:
            return max(1, min(SERIAL, rounds))
        if len(loop.results) > 1:
            return 1
        body += [op for other in _beside(loop) for op in ops_of(other.body)]
    elif not any(isinstance(op, kernel.MemoryWriteOp) for op in body):
        return 1
    loads = _read_anew(loop, written)
    elements = max((math.prod(shape_of(load.result)) for load in loads), default=1) / (WARP * warps)
    by_itself = loop.lanes == 1 or isinstance(loop, kernel.ScanOp)
    at_work = 0.0 if by_itself else max(1.0, programs) * warps
    return rounds_at_once(rounds, elements, len(loads), len(body), at_work)


def _rounds(loop: kernel.LoopOp) -> int | None:
    """Of a loop without lanes, the points of its last axis, and of one with, its steps; many where only the call knows
    the number, and None where that is nothing to go by.
    """
    lower, upper = loop.lowers.results[-1], loop.uppers.results[-1]
    every = [trips for each in sym.alternatives(upper) if isinstance(trips := each - lower, int)]
    if loop.lanes > 1:
        return -(-min(every) // loop.lanes) if every else MANY
    if isinstance(points := upper - lower, int):
        return points
    return SERIAL if isinstance(loop, kernel.ReduceOp) and loop.kind in EXTREMES else None


def _beside(loop: kernel.ReduceOp) -> list[kernel.ReduceOp]:
    """Other reductions over the same points in the same block, which may be written in one loop with it."""
    bounds = (loop.lowers, loop.uppers, loop.lanes, loop.dim, *loop.bound_operands)
    block = loop.parent
    assert block is not None
    others = [op for op in block.ops if isinstance(op, kernel.ReduceOp) and op is not loop]
    return [one for one in others if (one.lowers, one.uppers, one.lanes, one.dim, *one.bound_operands) == bounds]


def _read_anew(loop: kernel.LoopOp, written: set[SSAValue]) -> list[kernel.LoadOp]:
    """What a loop, and who goes over its points with it, read anew in every round; nothing where it reads memory that
    is written.
    """
    together = [loop, *(_beside(loop) if isinstance(loop, kernel.ReduceOp) else ())]
    loads = {one: [op for op in ops_of(one.body) if isinstance(op, kernel.LoadOp)] for one in together}
    if any(load.pointer in written for load in loads[loop]):
        return []
    return [load for one, found in loads.items() for load in found if one.induction_variables[-1] in load.indices]


__all__ = ["UnrollLoopsPass"]
