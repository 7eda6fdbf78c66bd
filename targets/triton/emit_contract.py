"""`kernel.contract` as Triton text: a loop around `tl.dot`.

Triton's product takes matrices, so the factors' tiles have two dimensions here: rows by points, and points by columns.
What varies along rows only, or along columns only, has the same shape in the rest of the kernel. So the body is emitted
once for each factor, as far as that factor needs it, with the lanes of the contracted axis along the dimension that is
free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import Shape, shape_of
from cuesta.targets.triton.emit_index import operand_text
from cuesta.targets.triton.emit_types import constant_text
from cuesta.targets.triton.emit_within import is_checked

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def emit_contract(emitter: KernelEmitter, op: Operation) -> None:
    """Sums of products of tiles, `lanes` points at a time."""
    assert isinstance(op, kernel.ContractOp)
    shape = shape_of(op.result)
    result = emitter.names[op.result] = emitter.fresh(op.result.name_hint or "acc")
    emitter.real[op.result] = shape
    emitter.line(f"{result} = tl.zeros({list(shape)}, tl.float32)")
    lower, upper = op.lowers.results[0], op.uppers.results[0]
    low, high = emitter.index(lower, op.operands)[0], emitter.index(upper, op.operands)[0]
    hint = op.induction_variables[0].name_hint or "k"
    start = emitter.fresh(f"{hint}_start")
    emitter.enter()
    first = emitter.bind(f"tl.cast({start}, tl.int64)", start) if emitter.wide else start
    trip = upper - lower
    whole = isinstance(trip, int) and trip % op.lanes == 0
    limit = None if whole else operand_text(upper, [emitter.names[operand] for operand in op.operands])
    left, right = (_factor(emitter, op, factor, 1 - side, first, limit) for side, factor in enumerate(op.factors))
    precision = ""
    if isinstance(scalar_of(op.factors[0].type), Float32Type):
        precision = f', input_precision="{"tf32" if op.is_tf32 else "ieee"}"'
    emitter.line(f"{result} = tl.dot({left}, {right}, {result}{precision})")
    emitter.leave(f"for {start} in range({low}, {high}, {op.lanes}):")


def _factor(
    emitter: KernelEmitter, op: kernel.ContractOp, factor: SSAValue, dim: int, first: str, limit: str | None
) -> str:
    """Emits what a factor is made of, with the points along dimension `dim`; gives its text. It is 0 beyond `limit`."""
    variable = op.induction_variables[0]
    points = emitter.names[variable] = emitter.bind(f"{first} + {emitter.lane_text(op.lanes, dim)}", "k")
    shape: Shape = (op.lanes, 1) if dim == 0 else (1, op.lanes)
    emitter.real[variable] = shape
    masks, frame, zero = emitter.masks, emitter.frame, emitter.zero_masked
    emitter.masks = {axis: mask for axis, mask in masks.items() if axis != dim}
    if limit is not None:
        emitter.masks[dim] = emitter.bind(f"{points} < {limit}", "mask")
    emitter.frame = (0, 2) if dim == 1 else (2, 1)
    emitter.zero_masked = limit is not None
    emitter.ops(_needed(op, factor))
    text = emitter.name(factor)
    is_loaded = isinstance(factor.owner, kernel.LoadOp) and factor.owner.mask is None
    if limit is not None and not is_loaded:
        zero_text = constant_text(0.0, scalar_of(factor.type))
        text = emitter.bind(f"tl.where({emitter.masks[dim]}, {text}, {zero_text})", "v")
    emitter.masks, emitter.frame, emitter.zero_masked = masks, frame, zero
    return text


def _needed(op: kernel.ContractOp, factor: SSAValue) -> list[Operation]:
    """The ops of the body that a factor depends on, in order, and the checks of those that load."""
    found: set[Operation] = set()
    work = [factor]
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner.parent is op.body and owner not in found:
            found.add(owner)
            work += owner.operands
    found.update(check for one in tuple(found) if (check := one.prev_op) is not None and is_checked(one))
    return [one for one in op.body.ops if one in found and not isinstance(one, elem.ConstantOp)]
