"""`hoist-invariants`: what does not change from point to point is computed once, outside of the inner domain."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.loops.surgery import has_points


class HoistInvariantsPass(ModulePass):
    """for (j) { v = f(i); … v … } -> v = f(i); for (j) { … v … }. Exact.

    Loads are hoisted too: an outer tensor does not change while a nest runs. Near misses: a load of an out (a store may
    stand between), and a load or a `loops.bound` in a domain that may be empty (where eager reads and raises nothing).
    """

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranges = symbol_ranges(op)
        for nest in entry_block(op).ops:
            if isinstance(nest, loops.NestOp):
                _hoist_from(nest.body, set(nest.handles), ranges)


def _hoist_from(block: Block, handles: set[SSAValue], ranges: sym.SymbolRanges) -> None:
    for op in ops_of(block):
        if not isinstance(op, loops.DomainOp):
            continue
        _hoist_from(op.body, handles, ranges)
        inside: set[SSAValue] = set(op.body.args)
        runs = has_points(op, ranges)
        for inner in ops_of(op.body):
            if _may_move(inner, handles, runs) and inside.isdisjoint(inner.operands):
                inner.detach()
                block.insert_op_before(inner, op)
            else:
                inside.update(inner.results)


def _may_move(op: Operation, handles: set[SSAValue], runs: bool) -> bool:
    """Whether it does not matter where the op stands; `runs`: the domain around it is known to have a point."""
    if isinstance(op, loops.LoadOp):
        return runs and op.source not in handles
    if isinstance(op, loops.BoundOp):
        return runs
    return isinstance(op, elem.ElementwiseOp | loops.IndexOp)
