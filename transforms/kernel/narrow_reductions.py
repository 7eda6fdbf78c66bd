"""`narrow-reductions`: a reduction in which only the points between two indices count goes from the one to the other.

    kernel.reduce sum (%i = 0 to 320) { … kernel.yield (%a ≤ %i < %b ? %v : 0) }
    →
    kernel.reduce sum (%i = %a to min(%b, 320)) { … kernel.yield %v }

    Σ [a ≤ i < b] v(i) over 0 ≤ i < n  =  Σ v(i) over max(0, a) ≤ i < min(b, n)

The same of every kind that an elementwise op joins, with its identity for 0. It is exact, but that a sum of nothing
but −0 may keep its sign. So a bag of embeddings, whose ends only the data knows, costs what it holds. The ends are
those of one point, or of one tile: where each row of a tile would end elsewhere, nothing is narrowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.entry import symbol_ranges
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.reductions import JOINS, identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import shape_of_type
from cuesta.transforms.kernel.masks import fold_masks, replace_value


class NarrowReductionsPass(ModulePass):
    """Narrows the reductions of kernels to the points that count."""

    name = "narrow-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranges = symbol_ranges(op)
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp):
                for found in all_ops(func):
                    if isinstance(found, kernel.ReduceOp) and found.kind in JOINS:
                        _narrow(found, ranges)


@struct
class _Limit:
    """A comparison that all points which count fulfil: the variable of an axis is ≥ an index, or < it."""

    op: Operation
    axis: int
    is_lower: bool
    bound: sym.IndexExpr
    indices: Sequence[SSAValue]


def _narrow(loop: kernel.ReduceOp, ranges: sym.SymbolRanges) -> None:
    limits = list(_limits_of(loop))
    if not limits:
        return
    if (obstacle := _missed(loop, limits, ranges)) is not None:
        no_match(obstacle, "a point that does not count may raise, or change something")
        return
    operands = [*loop.operands]
    lowers, uppers = [*loop.lowers.results], [*loop.uppers.results]
    for limit in limits:
        bound = sym.substitute(limit.bound, [sym.dim(len(operands) + k) for k in range(len(limit.indices))])
        operands += limit.indices
        if limit.is_lower:
            from_zero = lowers[limit.axis] == 0 and _is_non_negative(limit, ranges)
            lowers[limit.axis] = bound if from_zero else sym.maximum(lowers[limit.axis], bound)
        else:
            uppers[limit.axis] = sym.minimum(uppers[limit.axis], bound)
    _with_bounds(loop, lowers, uppers, operands, [limit.op for limit in limits])


def _is_non_negative(limit: _Limit, ranges: sym.SymbolRanges) -> bool:
    """Whether a bound is, as data are that became an index."""
    if not all(isinstance(index.owner, kernel.BoundOp) for index in limit.indices):
        return False
    beyond = [1 << 62] * len(limit.indices)
    return sym.prove_less_equal(0, limit.bound, beyond, ranges)


def _with_bounds(
    loop: kernel.ReduceOp,
    lowers: Sequence[sym.IndexExpr],
    uppers: Sequence[sym.IndexExpr],
    operands: Sequence[SSAValue],
    held: Sequence[Operation],
) -> None:
    """Puts the loop with other bounds into its place, between which these comparisons hold."""
    for op in held:
        replace_value(op, elem.constant(True, op.results[0].type))
    new = kernel.ReduceOp.build(loop.kind, loop.yielded.type, lowers, uppers, operands, loop.lanes, loop.dim)
    new.location = loop.location
    Rewriter.insert_op(new, InsertPoint.before(loop))
    for old, now in zip(loop.body.args, new.body.args, strict=True):
        now.name_hint = old.name_hint
        old.replace_all_uses_with(now)
    for op in list(loop.body.ops):
        op.detach()
        new.body.add_op(op)
    Rewriter.replace_op(loop, [], new.results)
    fold_masks(new)


# -- which points count ------------------------------------------------------------------------------------------------


def _conditions(loop: kernel.ReduceOp) -> Iterator[Operation]:
    """Comparisons of which each is true wherever what is yielded is not the identity of the kind."""
    value, neutral = loop.yielded, identity(loop.kind, scalar_of(loop.yielded.type))
    while isinstance(value.owner, elem.ConvertOp) and neutral == 0:
        (value,) = value.owner.operands
    op = value.owner
    pending: list[SSAValue] = []
    if isinstance(op, elem.SelectOp) and _number(op.operands[2]) == neutral:
        pending.append(op.operands[0])
    elif isinstance(op, kernel.LoadOp) and op.mask is not None and op.other is not None:
        pending += [op.mask] if _number(op.other) == neutral else []
    elif elem.kind_of(value.type) == "b" and neutral == 0:
        pending.append(value)
    while pending:
        op = pending.pop().owner
        if isinstance(op, kernel.BroadcastOp | elem.AndOp):
            pending += op.operands
        elif isinstance(op, elem.TableOp):
            yield op


def _limits_of(loop: kernel.ReduceOp) -> Iterator[_Limit]:
    for op in _conditions(loop):
        assert isinstance(op, elem.TableOp)
        if op.row.name in ("ge", "lt"):
            left, right = (_without_broadcast(operand).owner for operand in op.operands)
            if isinstance(left, kernel.IndexOp) and isinstance(right, kernel.IndexOp):
                axis = _axis_of(loop, left)
                if axis is not None and all(_is_before(loop, index) for index in right.indices):
                    yield _Limit(op, axis, op.row.name == "ge", right.offset, right.indices)


def _axis_of(loop: kernel.ReduceOp, index: kernel.IndexOp) -> int | None:
    """The axis whose variable it is."""
    if index.offset != sym.dim(0) or index.indices[0] not in loop.induction_variables:
        return None
    return loop.induction_variables.index(index.indices[0])


def _is_before(loop: kernel.ReduceOp, index: SSAValue) -> bool:
    """Whether an index is that of one point, which is known when the loop begins."""
    block = index.block if isinstance(index, BlockArgument) else index.owner.parent
    while block is not None and block is not loop.body:
        parent = block.parent_op()
        block = None if parent is None else parent.parent
    return block is None and not shape_of_type(index.type)


def _without_broadcast(value: SSAValue) -> SSAValue:
    return value.owner.operands[0] if isinstance(value.owner, kernel.BroadcastOp) else value


def _number(value: SSAValue) -> float | None:
    owner = _without_broadcast(value).owner
    return owner.value if isinstance(owner, elem.ConstantOp) else None


# -- what is not done at the others ------------------------------------------------------------------------------------


def _missed(loop: kernel.ReduceOp, limits: Sequence[_Limit], ranges: sym.SymbolRanges) -> Operation | None:
    """An op that would be missed at a point that does not count."""
    held = {limit.op for limit in limits}
    for op in all_ops(loop):
        if op.has_trait(Pure) or isinstance(op, kernel.LoadOp | kernel.ReduceOp | kernel.YieldOp):
            continue
        if not isinstance(op, kernel.BoundOp) or not _holds_elsewhere(op, held, ranges):
            return op
    return None


def _holds_elsewhere(op: kernel.BoundOp, held: set[Operation], ranges: sym.SymbolRanges) -> bool:
    """Whether an index is a number in range at every point where one of the comparisons is false."""
    value = op.operands[0]
    while isinstance(value.owner, elem.ConvertOp):
        (value,) = value.owner.operands
    source = value.owner
    mask = other = None
    if isinstance(source, kernel.LoadOp):
        mask, other = source.mask, source.other
    elif isinstance(source, elem.SelectOp):
        mask, _, other = source.operands
    number = None if other is None else _number(other)
    if mask is None or not isinstance(number, int) or number < 0:
        return op.is_checked
    return held <= set(_parts(mask)) and sym.prove_less_equal(number + 1, op.size, [], ranges)


def _parts(mask: SSAValue) -> Iterator[Operation]:
    """The ops that are true wherever the mask is."""
    pending = [mask]
    while pending:
        op = pending.pop().owner
        if isinstance(op, kernel.BroadcastOp | elem.AndOp):
            pending += op.operands
        elif isinstance(op, Operation):
            yield op
