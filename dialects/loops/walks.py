"""Which reductions of a nest go over their points together, where a target writes them so."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem
from cuesta.dialects.core.walks import together_with
from cuesta.dialects.loops.access import IndexOp, LoadOp, TensorWriteOp
from cuesta.dialects.loops.structure import DomainOp, ReduceOp, enclosing_nest


def walked_together(first: ReduceOp) -> list[ReduceOp]:
    """The reductions behind one in its block that a target for a GPU does in the same loop: they have the same points,
    read a tensor that it reads, and need nothing of it.
    """
    handles = set[SSAValue](enclosing_nest(first).handles)
    read = {load.source for load in first.body.ops if isinstance(load, LoadOp)}

    def is_alike(op: Operation) -> bool:
        if not isinstance(op, ReduceOp) or op.sizes != first.sizes or not _is_flat(op):
            return False
        return any(isinstance(load, LoadOp) and load.source in read for load in op.body.ops)

    def is_free(op: Operation) -> bool:
        return isinstance(op, elem.ElementwiseOp | IndexOp) or (isinstance(op, LoadOp) and op.source not in handles)

    if not _is_flat(first):
        return []
    return [op for op in together_with(first, is_alike, is_free, TensorWriteOp).others if isinstance(op, ReduceOp)]


def leaders(ops: Iterable[DomainOp]) -> dict[ReduceOp, ReduceOp]:
    """Of the reductions among some ops that go along with another one: which that is, the first of them."""
    found: dict[ReduceOp, ReduceOp] = {}
    for op in ops:
        if isinstance(op, ReduceOp) and op not in found:
            found.update((other, op) for other in walked_together(op) if other not in found)
    return found


def _is_flat(op: ReduceOp) -> bool:
    return not any(isinstance(inner, DomainOp) for inner in op.body.ops)


__all__ = ["leaders", "walked_together"]
