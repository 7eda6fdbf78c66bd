"""`kernel.contract` as Triton text: `tl.dot`, in a loop where there are more points than lanes.

Triton's product takes matrices, and so all blocks of a kernel with products are some: rows by columns, rows by points,
and points by columns. What varies along rows only, or along columns only, has the same shape in the rest of the kernel.
So the body is emitted once for each factor, as far as that factor needs it: for the left one the lanes of the
contracted axis are along the columns, as those of every inner axis, and for the right one along the rows.

A product of one tile is an expression like any other, which is written once however often it is asked for. Where it is
added to something that a fold carries, that is what it begins from: the matrix unit adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.contract import Eight
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.targets.triton.emit_descriptors import described_factor
from cuesta.targets.triton.emit_index import index_text
from cuesta.targets.triton.emit_places import is_defined_in
from cuesta.targets.triton.emit_steps import Steps
from cuesta.targets.triton.emit_types import constant_text
from cuesta.targets.triton.emit_within import is_checked

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

IMPRECISE = 128
"""So many products of floats of 8 bits units add up by themselves, which keep some 13 bits of a sum; f32 adds that up.

Source: a definition: CUTLASS and cuBLAS do so for `_scaled_mm` without `use_fast_accum`.
"""


def emit_contract(emitter: KernelEmitter, op: Operation) -> None:
    """Sums of products of tiles, `lanes` points at a time."""
    assert isinstance(op, kernel.ContractOp)
    emitter.real[op.result] = shape = emitter.padded(shape_of(op.result))
    if emitter.is_single_tile(op):
        if is_accumulated(emitter, op):
            emitter.products[op.result] = op
        else:
            emitter.define(op, _product(emitter, op, ""), shape)
        return
    if op.result in emitter.names:  # with the one before
        return
    together = [op, *_beside(emitter, op)]
    results = [emitter.fresh(one.result.name_hint or "acc") for one in together]
    result = results[0]
    low, high = (emitter.index(e.results[0], op.operands)[0] for e in (op.lowers, op.uppers))
    hint = op.induction_variables[0].name_hint or "k"
    start = emitter.fresh(f"{hint}_start")
    emitter.enter()
    first = emitter.bind(f"tl.cast({start}, tl.int64)", start) if emitter.wide else start
    for one, name in zip(together, results, strict=True):
        emitter.line(f"{name} = {_product(emitter, one, name, first)}")
    body = emitter.scopes[-1].lines
    if high.isdigit() and not emitter.hoisting.loops and not emitter.flattened:
        high = f"functions.rolled({high})"
    head = f"for {start} in range({low}, {high}, {op.lanes}):"
    if len(together) == 1:
        known = emitter.known_loop(op, [f"{list(shape)}", head, *body], len(emitter.scopes) - 2, result, start)
        if known != result:
            emitter.names[op.result] = known
            emitter.scopes.pop()
            return
    for one, name in zip(together, results, strict=True):
        emitter.names[one.result], emitter.real[one.result] = name, shape
        emitter.scopes[-2].lines.append(f"{name} = tl.zeros({list(shape)}, tl.float32)")
    emitter.leave(head)


def _beside(emitter: KernelEmitter, op: kernel.ContractOp) -> list[kernel.ContractOp]:
    """The contractions after one, of as many points, that may be written in its loop: what they need is there already.
    A factor that both have is loaded once.
    """
    if emitter.hoisting.loops:
        return []
    found: list[kernel.ContractOp] = []
    other = op.next_op
    while other is not None and not any(isinstance(inner, kernel.MemoryWriteOp) for inner in other.walk()):
        if isinstance(other, kernel.ContractOp) and _goes_with(emitter, op, other):
            found.append(other)
        other = other.next_op
    return found


def _goes_with(emitter: KernelEmitter, op: kernel.ContractOp, other: kernel.ContractOp) -> bool:
    """Whether another contraction has the same points and the same shape, and needs nothing that comes between."""
    if (op.lowers, op.uppers, op.lanes, op.dim) != (other.lowers, other.uppers, other.lanes, other.dim):
        return False
    if list(op.operands) != list(other.operands) or op.result.type != other.result.type:
        return False
    return all(
        is_defined_in(other, value) or value in emitter.names or isinstance(value.owner, elem.ConstantOp)
        for inner in other.walk()
        for value in inner.operands
    )


def accumulate(emitter: KernelEmitter, op: Operation) -> bool:
    """Emits an addition to a product of one tile as the product that begins from the other operand; False when there is
    no such product.
    """
    for side, value in enumerate(op.operands):
        product = emitter.products.pop(value, None)
        if product is not None:
            other, wanted = op.operands[1 - side], emitter.real_of(value)
            start = emitter.spread(emitter.name(other), emitter.real_of(other), wanted)
            emitter.define(op, _product(emitter, product, emitter.bind(start)), wanted)
            return True
    return False


def is_accumulated(emitter: KernelEmitter, op: kernel.ContractOp) -> bool:
    """Whether nothing is done with a product in a fold but that it is added to another value, and nothing is written in
    between.
    """
    add = next((use.operation for use in op.result.uses), None)
    if not isinstance(add, elem.AddOp) or len(list(op.result.uses)) > 1 or add.parent is not op.parent:
        return False
    if not isinstance(op.parent_op(), kernel.FoldOp) or any(value in emitter.products for value in add.operands):
        return False
    between = op.next_op
    while between is not None and between is not add:
        if any(isinstance(inner, kernel.MemoryWriteOp) for inner in between.walk()):
            return False
        between = between.next_op
    return not any(isinstance(value.owner, elem.ConstantOp) for value in add.operands)


def _product(emitter: KernelEmitter, op: kernel.ContractOp, start: str, first: str | None = None) -> str:
    """The product of the tiles of both factors, from `start` on; of the points from `first` on, or of all."""
    left, right = (_factor(emitter, op, factor, side == 1, first) for side, factor in enumerate(op.factors))
    arguments = [left, right, *([start] if start else [])]
    if isinstance(scalar_of(op.factors[0].type), Eight):  # units add in fewer bits: from tile to tile f32 does
        arguments.append(f"max_num_imprecise_acc={min(op.lanes, IMPRECISE)}")
    if op.precision == "bf16x6":
        return f"functions.multiply_in_pieces({left}, {right}, {start or '0.0'})"
    if isinstance(scalar_of(op.factors[0].type), Float32Type):
        arguments.append(f'input_precision="{op.precision or "ieee"}"')
    return f"tl.dot({', '.join(arguments)})"


def _factor(emitter: KernelEmitter, op: kernel.ContractOp, factor: SSAValue, is_right: bool, first: str | None) -> str:
    """Emits what a factor is made of; gives its text. It is 0 for lanes that are no points."""
    load = factor.owner
    if isinstance(load, kernel.LoadOp) and (one := emitter.described.get(load)) is not None:
        return described_factor(emitter, op, load, one, is_right, first)
    dim, in_fold = op.dim, bool(emitter.hoisting.loops)
    before = emitter.masks, emitter.upright, emitter.zero_masked, emitter.in_factor
    masks, upright, _, _ = before
    emitter.masks = dict(masks)
    turned = _turned(emitter, op, factor) if is_right and in_fold and first is None else None
    if is_right:
        emitter.upright = upright | {dim if turned is None else turned.dim}
    _place(emitter, op, first)
    mask = emitter.masks.get(dim)
    is_loaded = isinstance(factor.owner, kernel.LoadOp) and _is_0_elsewhere(factor.owner)
    emitter.zero_masked = is_loaded and (mask is not None or in_fold)
    emitter.in_factor = True
    if turned is None:
        emitter.ops(_needed(op, factor))
        text = emitter.name(factor)
        text = emitter.spread(text, emitter.real_of(factor), emitter.padded(shape_of(factor)))
    else:
        outer = turned.induction_variables[-1]
        name, real = emitter.names[outer], emitter.real[outer]
        _place(emitter, turned, None)
        emitter.ops(_needed(op, factor))
        text = emitter.bind(f"tl.trans({emitter.name(factor)})", factor.name_hint or "v")
        emitter.names[outer], emitter.real[outer] = name, real
    if mask is not None and not is_loaded:
        zero_text = constant_text(0.0, scalar_of(factor.type))
        text = emitter.bind(f"tl.where({mask}, {text}, {zero_text})", "v")
    emitter.masks, emitter.upright, emitter.zero_masked, emitter.in_factor = before
    emitter.steps.pop(op.induction_variables[0], None)
    return text


def _is_0_elsewhere(load: kernel.LoadOp) -> bool:
    """Whether a load gives 0 where it reads nothing."""
    if load.mask is None or load.other is None:
        return True
    value = load.other
    while isinstance(value.owner, kernel.BroadcastOp):
        value = value.owner.operands[0]
    return isinstance(value.owner, elem.ConstantOp) and value.owner.value == 0


def _place(emitter: KernelEmitter, loop: kernel.LoopOp, first: str | None) -> None:
    """Names the points of a loop, from `first` on or of its one tile, along the dimension where its lanes are here, and
    the mask of those.
    """
    variable, place = loop.induction_variables[-1], emitter.place(loop.dim)
    lower, upper = loop.lowers.results[-1], loop.uppers.results[-1]
    points = emitter.lane_text(loop.lanes, place)
    if first is None:
        low = index_text(lower, [emitter.names[operand] for operand in loop.operands])
        text = points if lower == 0 else f"{low} + {points}"
        limits = [one for one in sym.alternatives(upper) if one - lower != loop.lanes]
    else:
        text = f"{first} + {points}"
        trip = upper - lower
        limits = [] if isinstance(trip, int) and trip % loop.lanes == 0 else [upper]
    points = emitter.names[variable] = emitter.bind(text, variable.name_hint or "k")
    emitter.real[variable] = (loop.lanes, 1) if place == 0 else (1, loop.lanes)
    emitter.mask(loop.dim, points, limits, loop)
    if first is not None and lower == 0 and not emitter.hoisting.loops:
        emitter.steps[variable] = Steps(first, emitter.lane_text(loop.lanes, place), loop.lanes, upper)


def _turned(emitter: KernelEmitter, op: kernel.ContractOp, factor: SSAValue) -> kernel.LoopOp | None:
    """The loop whose lanes are along the rows where a right factor is loaded with the contracted axis along the columns
    and turned afterwards, so that a tile which is there in this form too is loaded once: a factor that is loaded as it
    is, rows of which are contiguous in memory. None for any other.
    """
    load, variable = factor.owner, op.induction_variables[0]
    if not isinstance(load, kernel.LoadOp) or load.rest or is_checked(load) or load.pointer in emitter.written:
        return None
    if variable not in load.indices or sym.coefficient(load.offset, load.indices.index(variable)) != 1:
        return None
    found: list[kernel.LoopOp] = []
    for index in load.indices:
        if index is variable:
            continue
        if is_defined_in(op, index):
            return None
        if shape_of(index):
            loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
            if not isinstance(loop, kernel.LoopOp) or not emitter.is_single_tile(loop):
                return None
            found.append(loop)
    return found[0] if len(found) == 1 else None


def _needed(op: kernel.ContractOp, factor: SSAValue) -> list[Operation]:
    """The ops of the body that a factor depends on, in order, and the checks of those that load."""
    found: set[Operation] = set()
    work = [factor]
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner.parent is op.body and owner not in found:
            found.add(owner)
            work += (operand for inner in owner.walk() for operand in inner.operands)
    found.update(check for one in tuple(found) if (check := one.prev_op) is not None and is_checked(one))
    return [one for one in op.body.ops if one in found and not isinstance(one, elem.ConstantOp)]
