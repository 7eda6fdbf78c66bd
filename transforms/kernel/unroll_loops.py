"""`unroll-loops`: a serial loop on a GPU that stores in every round reads for several rounds at a time.

    kernel.scan (%k = 0 to 26) {                       kernel.scan (%k = 0 to 26) unroll 8 {
      %v = kernel.load %x[%i * 26 + %k]          →       %v = kernel.load %x[%i * 26 + %k]
      %s = kernel.running sum %v                         %s = kernel.running sum %v
      kernel.store %s, %y[%i * 26 + %k]                  kernel.store %s, %y[%i * 26 + %k]
    }                                                  }

What is loaded after a store waits for memory each time, since a compiler does not know that the two do not overlap. Of
a loop that says `unroll 8` eight rounds are written out, their loads first (`targets/triton/emit_unrolled.py`).
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.dialects.kernel.structure import StatementOp
from cuesta.transforms.tilings.rounds import rounds_at_once

WARP = 32


class UnrollLoopsPass(ModulePass):
    """Serial loops of kernels for a GPU say how many rounds read at a time (`rounds_at_once`). Exact.

    Near misses: a loop with lanes, or with a loop in it; one that stores nothing, which LLVM unrolls by itself; one of
    so many points as only the call knows; what is read of memory that the kernel writes; what does not go along with
    the loop, and is read once; addresses that are checked, one after the other.
    """

    name = "unroll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp) and func.is_for_gpu:
                threads = WARP * int(func.schedule.choices.get("warps", 4))
                for loop in func.body.walk():
                    if isinstance(loop, StatementOp) and "unroll" not in loop.properties:
                        loop.unroll = rounds_of(loop, func, threads)


def rounds_of(loop: StatementOp, func: kernel.FuncOp, threads: int) -> int:
    """How many rounds of a loop read at a time."""
    points = loop.uppers.results[-1] - loop.lowers.results[-1]
    body = [op for op in ops_of(loop.body) if not isinstance(op, elem.ConstantOp)]
    if loop.lanes > 1 or not isinstance(points, int) or any(op.regions for op in body):
        return 1
    if any(isinstance(op, kernel.WithinOp) for op in body) or not any(isinstance(op, kernel.MemoryWriteOp) for op in body):
        return 1
    loads = _read_anew(loop, func)
    elements = max((math.prod(shape_of(load.result)) for load in loads), default=1) / threads
    return rounds_at_once(points, elements, len(loads), len(body))


def _read_anew(loop: StatementOp, func: kernel.FuncOp) -> list[kernel.LoadOp]:
    """What a loop reads anew for every point of its last axis; nothing where it reads memory that the kernel writes."""
    loads = [op for op in ops_of(loop.body) if isinstance(op, kernel.LoadOp)]
    written = {op.pointer for op in func.body.walk() if isinstance(op, kernel.MemoryWriteOp)}
    if any(load.pointer in written for load in loads):
        return []
    return [load for load in loads if loop.induction_variables[-1] in load.indices]


__all__ = ["UnrollLoopsPass"]
