"""What becomes of the masks in a loop when one of the conditions that they are made of is decided."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.operation import all_ops, replace_all_uses
from cuesta.dialects.kernel.shapes import shape_of_type


def fold_masks(loop: kernel.LoopOp) -> None:
    """Follows the constants among the conditions in a loop, and takes out what guards against nothing."""
    for op in all_ops(loop):
        if isinstance(op, elem.AndOp):
            left, right = op.operands
            if (value := _constant(left)) is not None:
                replace_value(op, right if value else left)
            elif (value := _constant(right)) is not None:
                replace_value(op, left if value else right)
        elif isinstance(op, kernel.BroadcastOp) and (value := _constant(op.operands[0])) is not None:
            replace_value(op, elem.constant(value, op.result.type))
        elif isinstance(op, elem.SelectOp) and (value := _constant(op.operands[0])) is not None:
            replace_value(op, op.operands[1 if value else 2])
        elif isinstance(op, kernel.LoadOp) and op.mask is not None and (value := _constant(op.mask)) is not None:
            assert op.other is not None
            replace_value(op, _without_mask(op) if value else op.other)
    for op in reversed(all_ops(loop)):
        if op.has_trait(Pure) and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def replace_value(op: Operation, new: Operation | SSAValue) -> None:
    """Puts another op, or the value of one, into the place of an op with one result."""
    if isinstance(new, Operation):
        new.location = op.location
        Rewriter.insert_op(new, InsertPoint.before(op))
        new = new.results[0]
    replace_all_uses(op.results[0], new)
    Rewriter.erase_op(op)


def _without_mask(op: kernel.LoadOp) -> Operation:
    """The load of all lanes, put before `op`. If it had its lanes from the mask alone, they get all the same number."""
    load = kernel.LoadOp.build(op.pointer, op.offset, op.indices)
    if load.result.type == op.result.type:
        return load
    load.location = op.location
    Rewriter.insert_op(load, InsertPoint.before(op))
    return kernel.BroadcastOp.build(load.result, *shape_of_type(op.result.type))


def _constant(value: SSAValue) -> bool | None:
    """What a bool is in all lanes, if it is a constant."""
    op = value.owner
    if not isinstance(op, elem.ConstantOp) or elem.kind_of(value.type) != "b":
        return None
    return bool(op.value)


__all__ = ["fold_masks", "replace_value"]
