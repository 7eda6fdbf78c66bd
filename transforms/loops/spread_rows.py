"""`spread-rows`: on a GPU the points of a row of which nothing is reduced are points of the parallel domain.

loops.nest (%i : 64) outs(%o) { %a = loops.load %x[%i]; loops.for (%j : 512) { …; store %v, %o[%i, %j] } }
→
loops.nest (%i : 64, %j : 512) outs(%o) { %a = loops.load %x[%i]; …; store %v, %o[%i, %j] }
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import elem, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.elem.work import WORK
from cuesta.dialects.loops.surgery import join_nest
from cuesta.transforms.devices import DevicePass, traits_for

_MOST_WORK = 16.0
"""The most that is computed for a row, in float adds, and then for every point. A program of a tile in a row computes
it once.

Source: a definition: less than an exponential and a division, and what no program of a nest of points would miss.
"""


class SpreadRowsPass(DevicePass):
    """Of a nest for a GPU that is one loop over rows, and what they share. Exact. A program then takes a piece of a
    row, and not the whole of it, which would be there for what a reduction reads again.

    Near misses: a reduction, or another loop; a store outside of the loop; a check of an index, which an empty loop
    would not make; much that is computed once a row.
    """

    name = "spread-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        nests = [one for one in ops_of(entry_block(op)) if isinstance(one, loops.NestOp)]
        for nest in nests:
            if (loop := only_loop(nest)) is not None and traits_for(nest, self.target).blocks:
                join_nest(nest, loop)


def only_loop(nest: loops.NestOp) -> loops.ForOp | None:
    """The loop that is all a nest does, when its points may be the nest's."""
    loop = nest.body.last_op
    if not isinstance(loop, loops.ForOp):
        return None
    *shared, _ = nest.body.ops
    if any(isinstance(op, loops.DomainOp) for op in (*shared, *loop.body.ops)):
        return None
    if not all(isinstance(op, loops.LoadOp | loops.IndexOp | elem.ElementwiseOp) for op in shared):
        no_match(nest, "a row does more than its points: it stores, or may fail")
        return None
    if sum(WORK.get(type(op), 0.0) for op in shared) > _MOST_WORK:
        no_match(nest, "much is computed once a row")
        return None
    return loop


__all__ = ["SpreadRowsPass", "only_loop"]
