"""`add-counters`: nests whose points meet get the memory that they count in; a nest of its own sets it to 0.

    %y = loops.nest (%i : 1024, %p : 8) outs(%o) { …; loops.meet last 1; … }
    →
    %n = loops.nest (%i : 9216) outs(%c) { store 0, %c[%i] }
    %y, %m = loops.nest (%i : 1024, %p : 8) outs(%o, %count) updates(%n) { …; loops.meet %count last 1; … }

So a call has counters of its own, and every replay of a CUDA graph sets them anew.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import layout, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.loops.surgery import remove
from cuesta.dialects.loops.writing import BodyWriter


class AddCountersPass(ModulePass):
    """Every meeting counts in an out of its nest, which the nest updates for this alone.

    Near misses: a nest whose points do not meet; one that has its counters.
    """

    name = "add-counters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp):
                meeting = loops.meeting_of(nest)
                if meeting is not None and meeting.counter is None:
                    _add_counter(nest, meeting)


def _add_counter(nest: loops.NestOp, meeting: loops.MeetOp) -> None:
    count = loops.counters_of(meeting, nest)
    if count is None:
        raise CuestaError(Diagnostic.on(meeting, "how many points meet, and how many groups of them, must be numbers"))
    if nest.operands:
        raise CuestaError(Diagnostic.on(meeting, "points of a nest that updates others' memory cannot meet"))
    zeros = _zeros(nest, count)
    handle = nest.body.insert_arg(zeros.type, len(nest.body.args))
    handle.name_hint = "count"
    new = loops.NestOp.create(
        operands=[zeros],
        result_types=[*(result.type for result in nest.results), zeros.type],
        properties=nest.properties.copy(),
        attributes=nest.attributes.copy(),
        regions=[nest.detach_region(0)],
    )
    new.location = nest.location
    Rewriter.insert_op(new, InsertPoint.before(nest))
    for old, result in zip(nest.results, new.results, strict=False):
        result.name_hint = old.name_hint
        replace_all_uses(old, result)
    remove(nest)
    counted = loops.MeetOp.build(meeting.axes, handle)
    counted.location = meeting.location
    Rewriter.insert_op(counted, InsertPoint.before(meeting))
    remove(meeting)


def _zeros(nest: loops.NestOp, count: int) -> SSAValue:
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
