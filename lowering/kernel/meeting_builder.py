"""Kernels whose programs meet: the memory that they count in, which a nest of its own sets to 0 at every call.

    %n = loops.nest (%i : 9216) outs(…) { store 0 }
    %y = loops.nest (%i : 1024, %p : 8) outs(…) { …; loops.meet last 1; … }
    →
    kernel.func @softmax(%x) outs(%y, %n) updates 1 { …; kernel.meet %n last 1; … }
    %n = kernel.launch @zeros() …
    %y, %m = kernel.launch @softmax(%x, %n) …

So a call has counters of its own, and every replay of a CUDA graph sets them anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import kernel, layout, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.loops.writing import BodyWriter
from cuesta.lowering.kernel.kernel_builder import KernelBuilder


class MeetingBuilder(KernelBuilder):
    """Writes the kernel of a nest whose points meet."""

    _place = 0

    def meet(self, op: loops.MeetOp) -> None:
        """Remembers where programs meet."""
        self._place = len(self.scopes[0].ops)

    def build(self, name: str) -> kernel.FuncOp:
        func = super().build(name)
        meeting = loops.meeting_of(self.analysis.nest)
        assert meeting is not None
        memory = func.body.insert_arg(kernel.PointerType(i32), len(func.body.args))
        memory.name_hint = "count"
        axes = sum(self.analysis.meeting >> parallel.axis & 1 for parallel in self.schedule.parallel)
        new = kernel.MeetOp.build(memory, axes)
        new.location = meeting.location
        func.body.insert_op_before(new, list(func.body.ops)[self._place])
        func.properties["outs"] = IntegerAttr(func.num_outs + 1, i64)
        func.properties["updates"] = IntegerAttr(1, i64)
        return func


def add_counters(nests: Sequence[loops.NestOp]) -> dict[loops.NestOp, SSAValue]:
    """Puts a nest of zeros before every nest whose points meet; gives what these count in."""
    return {nest: _zeros(nest, found) for nest in nests if (found := loops.meeting_of(nest)) is not None}


def _zeros(nest: loops.NestOp, meeting: loops.MeetOp) -> SSAValue:
    sizes = [size for size in nest.sizes if isinstance(size, int)]
    if len(sizes) < len(nest.sizes):
        raise CuestaError(Diagnostic.on(meeting, "how many points meet, and how many groups of them, must be numbers"))
    count = kernel.counters(math.prod(sizes[: -meeting.axes]), math.prod(sizes[-meeting.axes :]))
    device = layout.device_of(layout.tensor_type_of(nest.results[0]))
    zeros = loops.NestOp.build((count,), [layout.tensor_type((count,), i32, device=device)])
    zeros.location = nest.location
    zeros.results[0].name_hint = "count"
    store = loops.StoreOp.build(
        BodyWriter(zeros.body, nest).constant(0, i32), zeros.handles[0], [sym.dim(0)], zeros.induction_variables
    )
    store.location = nest.location
    zeros.body.add_op(store)
    Rewriter.insert_op(zeros, InsertPoint.before(nest))
    return zeros.results[0]


__all__ = ["MeetingBuilder", "add_counters"]
