"""`kernel.fold` as Triton text: a loop that carries names.

m = tl.full([64, 1], float("-inf"), tl.float32)
for c in range(0, 4):
    …
    m = m_1
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import Shape, shape_of
from cuesta.dialects.sym.nodes import Max, Min
from cuesta.targets.triton.emit_hoist import Loop
from cuesta.targets.triton.emit_index import ANY, operand_text
from cuesta.targets.triton.emit_reduce import filled
from cuesta.targets.triton.emit_types import constant_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def emit_fold(emitter: KernelEmitter, op: Operation) -> None:
    """The loop, and what it carries."""
    assert isinstance(op, kernel.FoldOp)
    emitter.settle(op)
    lower, upper = op.lowers.results[0], op.uppers.results[0]
    low, high = (operand_text(e, [emitter.names[one] for one in op.bound_operands]) for e in (lower, upper))
    names: list[str] = []
    for initial, argument, result in zip(op.initials, op.carried, op.results, strict=True):
        shape = emitter.padded(shape_of(result)) or ((1,) * emitter.rank if emitter.rank > 1 else ())
        text = _initial(emitter, initial, shape)
        name = emitter.fresh(result.name_hint or "carried")
        emitter.line(f"{name} = {text}")
        for value in (argument, result):
            emitter.names[value], emitter.real[value] = name, shape
        names.append(name)
    sizes = [_size(emitter, one) for one in op.bound_operands]
    certain = all(is_below(lower, one, sizes) for one in sym.alternatives(upper))
    test = "" if certain else emitter.bind(f"tl.cast({low}, {emitter.integer}) < {high}", "some")
    emitter.enter()
    homes, depth = emitter.hoisting.homes, len(emitter.scopes) - 1
    counter = emitter.fresh(op.induction_variables[0].name_hint or "i")
    homes.update(dict.fromkeys(names, depth))
    emitter.hoisting.loops.append(Loop(depth, test))
    point = emitter.bind(f"tl.cast({counter}, tl.int64)", counter) if emitter.wide else counter
    emitter.names[op.induction_variables[0]] = point
    emitter.block(op.body)
    _hand_on(emitter, op, names)
    emitter.hoisting.loops.pop()
    emitter.leave(f"for {counter} in range({low}, {high}):")
    homes.update(dict.fromkeys(names, depth - 1))


def _size(emitter: KernelEmitter, index: SSAValue) -> sym.IndexExpr:
    """A number that an index is below."""
    size = emitter.func.schedule.grid[index.owner.axis] if isinstance(index.owner, kernel.ProgramIdOp) else ANY
    return size if isinstance(size, int) else ANY


def is_below(low: sym.IndexExpr, high: sym.IndexExpr, sizes: Sequence[sym.IndexExpr]) -> bool:
    """Whether low < high for indices below `sizes`; a minimum is if one of what it is of is, a maximum if all are."""
    if isinstance(low, sym.Expr) and not low.constant and len(low.terms) == 1:
        monomial, factor = low.terms[0]
        if factor == 1 and len(monomial.atoms) == 1 and isinstance(atom := monomial.atoms[0], Min | Max):
            every = all if isinstance(atom, Max) else any
            return every(is_below(side, high, sizes) for side in (atom.left, atom.right))
    least, _ = sym.bounds(high - low, sizes)
    return least is not None and least > 0


def _initial(emitter: KernelEmitter, value: SSAValue, shape: Shape) -> str:
    source = value
    while isinstance(source.owner, kernel.BroadcastOp):
        source = source.owner.operands[0]
    if isinstance(source.owner, elem.ConstantOp):
        text = constant_text(source.owner.value, scalar_of(source.type))
        return filled(text, shape) if shape else text
    return emitter.spread(emitter.name(value), emitter.real_of(value), shape)


def _hand_on(emitter: KernelEmitter, op: kernel.FoldOp, names: list[str]) -> None:
    """All at once: what one value becomes may be what another one was."""
    assigned: list[str] = []
    for name, value in zip(names, op.handed_on, strict=True):
        owner = value.owner
        text = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(value)
        text = emitter.spread(text, emitter.real_of(value), emitter.real_of(op.carried[names.index(name)]))
        if text == name:
            continue
        if any(re.search(rf"\b{other}\b", text) for other in names if other != name):
            temporary = emitter.fresh("next")
            emitter.line(f"{temporary} = {text}")
            text = temporary
        assigned.append(f"{name} = {text}")
    for line in assigned:
        emitter.line(line)


__all__ = ["emit_fold"]
