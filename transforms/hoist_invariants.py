"""`hoist-invariants`: what does not change from point to point is computed once, outside of the inner domain."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import elem, loops
from cuesta.dialects.core.entry import entry_block


class HoistInvariantsPass(ModulePass):
    """for (j) { v = f(i); … v … } -> v = f(i); for (j) { … v … }. Exact.

    Loads are hoisted too: an outer tensor does not change while a nest runs. Near misses: a load of an out (a store
    may stand between), and a `loops.bound` in a domain that may be empty (it could raise where eager does not).
    """

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in entry_block(op).ops:
            if isinstance(nest, loops.NestOp):
                _hoist_from(nest.body, set(nest.handles))


def _hoist_from(block: Block, handles: set[SSAValue]) -> None:
    for op in list(block.ops):
        if not isinstance(op, loops.DomainOp):
            continue
        _hoist_from(op.body, handles)
        inside: set[SSAValue] = set(op.induction_variables)
        for inner in list(op.body.ops):
            if _may_move(inner, op, handles) and inside.isdisjoint(inner.operands):
                inner.detach()
                block.insert_op_before(inner, op)
            else:
                inside.update(inner.results)


def _may_move(op: Operation, domain: loops.DomainOp, handles: set[SSAValue]) -> bool:
    if isinstance(op, loops.LoadOp):
        return op.source not in handles and _is_not_empty(domain)
    if isinstance(op, loops.BoundOp):
        return _is_not_empty(domain)
    return isinstance(op, elem.ElementwiseOp | loops.IndexOp)


def _is_not_empty(domain: loops.DomainOp) -> bool:
    return all(isinstance(size, int) and size > 0 for size in domain.sizes)
