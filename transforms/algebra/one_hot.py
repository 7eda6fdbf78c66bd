"""Sums of which at most one term is not 0, and it is known which: `sum[j](select(j == v, x, 0))`.

The gradient of what is read at one index is such a vector, and what comes before it adds it up: cross entropy's
backward pass goes through every row for a number that one comparison tells.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.rewriting import no_match


class SumOfOneHot(RewritePattern):
    """sum[j](select(j == v, x, 0)) = select(v >= 0 & v < n, x + 0, 0), where neither x nor v changes with j; also
    select(j != v, 0, x). Exact: all other terms are 0, and a sum of −0 and of zeros is 0.

    Near misses: two axes; j + 1, or 2·j; another number than 0, and −0 in the place of 0, of which a sum may be −0; a
    condition or a value that changes with j.
    """

    label = "sum-of-one-hot"
    reduced = elem.SelectOp
    """The op whose results it is about: other reductions are not looked at."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loops.ReduceOp, rewriter: PatternRewriter, /) -> None:
        """Replaces the reduction."""
        chosen = op.yielded.owner
        if op.kind != "sum" or len(op.sizes) != 1 or not isinstance(chosen, elem.SelectOp):
            return
        condition = chosen.operands[0].owner
        if not isinstance(condition, elem.TableOp) or condition.row.name not in ("eq", "ne"):
            return
        value, rest = chosen.operands[1:] if condition.row.name == "eq" else reversed(chosen.operands[1:])
        if not _is_zero(rest):
            return
        index, place = condition.operands
        if not _is_point(index, op):
            index, place = place, index
        if not _is_point(index, op) or _is_inside(value, op) or _is_inside(place, op):
            return
        if any(isinstance(inner, loops.BoundOp | loops.TensorWriteOp) for inner in all_ops(op)):
            no_match(op, "it does more than reduce: it stores, or may fail")
            return
        ops: list[Operation] = []
        size = _number_of_points(op.sizes[0], place.type)
        zero, of_none = elem.constant(0, place.type), elem.constant(0, value.type)
        begins = elem.make("ge", place, zero.results[0])
        ends = elem.make("lt", place, size.results[0])
        inside = elem.make("and", begins.results[0], ends.results[0])
        found = elem.make("add", value, of_none.results[0])
        picked = elem.SelectOp.build(inside.results[0], found.results[0], of_none.results[0])
        ops += [size, zero, of_none, begins, ends, inside, found, picked]
        rewriter.replace(op, ops, [picked.results[0]])


def _is_zero(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, elem.ConstantOp) and repr(owner.value) in ("0", "0.0")


def _is_point(value: SSAValue, reduction: loops.ReduceOp) -> bool:
    """Whether a value is the number of the point of a reduction."""
    owner = value.owner
    return (
        isinstance(owner, loops.IndexOp)
        and owner.map.results == (sym.dim(0),)
        and tuple(owner.operands) == reduction.induction_variables
    )


def _is_inside(value: SSAValue, reduction: loops.ReduceOp) -> bool:
    """Whether a value is computed at every point of a reduction."""
    block = value.owner.parent if isinstance(value.owner, Operation) else value.owner
    while block is not None and block is not reduction.body:
        block = block.parent_block()
    return block is not None


def _number_of_points(size: sym.IndexExpr, kind: Attribute) -> Operation:
    return elem.constant(size, kind) if isinstance(size, int) else loops.IndexOp.build(size, (), kind)
