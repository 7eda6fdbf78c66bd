"""Pointers that differ by numbers: computed once, and the number is added.

    a = tl.load(x + (p * 4096 + i // 256 * 32768 - 1057))
    b = tl.load(x + (p * 4096 + i // 256 * 32768 - 1056))
    →
    at = x + p * 4096 + i // 256 * 32768
    a = tl.load(at - 1057)
    b = tl.load(at - 1056)

In short loops the same goes for what their counters add: the rest is computed before the loops.

Exact: no more than pointers is computed otherwise. An access is shorter by some instructions, since a number that is
added to a pointer is part of it. And it is compiled sooner: for each access Triton looks at everything that is
connected with it, and for each of those ops at all that it comes from, so that the time goes with the third power of
their number (`TritonGPUCoalesce`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import kernel, sym
from cuesta.dialects.kernel.shapes import Shape
from cuesta.dialects.sym.nodes import Expr, FloorDiv, Mod, sum_of_terms
from cuesta.targets.triton.emit_index import index_text
from cuesta.targets.triton.emit_steps import split_by_steps
from cuesta.targets.triton.emit_within import is_checked, moved

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

Access = kernel.LoadOp | kernel.MemoryWriteOp

_FARTHEST = 2**22
"""The largest number that is added, in elements: addresses of 32 bits leave room for it (`LARGE` in
`lowering/schedule/gpu/schedule_gpu.py`).
"""


def shared_places(ops: Iterable[Operation]) -> set[object]:
    """What several accesses of a kernel have in common that differ by numbers only."""
    numbers: dict[object, set[int]] = {}
    for op in ops:
        if isinstance(op, Access) and isinstance(op.offset, Expr) and not is_checked(op):
            numbers.setdefault(_common(op, op.offset), set()).add(op.offset.constant)
    return {place for place, found in numbers.items() if len(found) > 1 and max(map(abs, found)) <= _FARTHEST}


def pointer_to(emitter: KernelEmitter, op: Access) -> str:
    """The text of the pointer to what an access reads or writes."""
    base, distance = _parts(emitter, op)
    return base if distance == "0" else moved(base, distance)


def pointers_to_columns(emitter: KernelEmitter, op: Access, width: int) -> str:
    """The text of pointers to so many elements for every lane, from the one of an access on."""
    columns = f"tl.arange(0, {width})[None, :]"
    base, distance = _parts(emitter, op)
    if not base.isidentifier() or base == emitter.names[op.pointer]:
        return f"({pointer_to(emitter, op)})[:, None] + {columns}"
    columns = emitter.bind(f"{base}[:, None] + {columns}", "columns")
    return columns if distance == "0" else moved(columns, distance)


def _parts(emitter: KernelEmitter, op: Access) -> tuple[str, str]:
    """The text of a pointer that has been computed, and of the distance from there."""
    pointer, offset = emitter.names[op.pointer], op.offset
    if not is_checked(op) and (split := split_by_steps(emitter, offset, op.indices)) is not None:
        return (pointer if split.same == "0" else moved(pointer, split.same)), split.rest
    text, shape = emitter.index(offset, op.indices)
    if (axis := hidden_neighbours(emitter, op, shape)) is not None:
        text = f"tl.max_contiguous({text}, {[1 + (place == axis) for place in range(len(shape))]})"
    whole = pointer, text
    if not isinstance(offset, Expr) or is_checked(op):
        return whole
    counted = {place: emitter.counters[value] for place, value in enumerate(op.indices) if value in emitter.counters}
    counting = [(monomial, factor) for monomial, factor in offset.terms if monomial.dims & counted.keys()]
    distance = sum_of_terms(dict(counting), offset.constant)
    common = offset - distance
    if isinstance(common, int) or not (counting or _common(op, offset) in emitter.shared):
        return whole
    if not sym.dims_of(distance) <= counted.keys() or sym.symbols_of(distance):
        return whole
    low, high = sym.bounds(distance, [counted.get(place, 1) for place in range(len(op.indices))])
    if low is None or high is None or max(-low, high) > _FARTHEST:
        return whole
    operands = [op.pointer, *(op.indices[place] for place in sorted(sym.dims_of(common)))]
    names = [emitter.names[value] for value in op.indices]
    base = emitter.bind_outside(moved(pointer, index_text(common, names)), "at", operands)
    return base, index_text(distance, names)


def hidden_neighbours(emitter: KernelEmitter, op: Access, shape: Shape) -> int | None:
    """The dimension of a block of several along which an access finds neighbours where Triton's compiler sees none, and
    would have the threads of a warp lie along another: remainders by an odd number, as in `i // 65 * 4160 + i % 65`.

    Told that two are neighbours, which is wrong where a row ends, it lets the threads lie so. It does no more: for an
    access of two elements at a time it would have to know that each first one is at an even place, too.
    """
    if sum(size > 1 for size in shape) < 2 or not isinstance(op.offset, Expr):
        return None
    for place, value in enumerate(op.indices):
        axes = [axis for axis, size in enumerate(emitter.real_of(value)) if size > 1]
        if len(axes) == 1 and _walks_by_one(op.offset, place):
            return axes[0]
    return None


def _walks_by_one(offset: Expr, place: int) -> bool:
    """Whether an offset has an index only as its remainder by an odd number, and in quotients."""
    found = False
    for monomial, factor in offset.terms:
        if place not in monomial.dims:
            continue
        atom = monomial.atoms[0]
        if len(monomial.atoms) > 1 or not isinstance(atom, FloorDiv | Mod):
            return False
        if isinstance(atom, Mod):
            odd = isinstance(atom.right, int) and atom.right % 2 == 1
            if found or factor != 1 or not odd or sym.coefficient(atom.left, place) != 1:
                return False
            found = True
    return found


def _common(op: Access, offset: Expr) -> object:
    return op.pointer, offset - offset.constant, tuple(op.indices)


def is_defined_in(loop: Operation, value: SSAValue) -> bool:
    """Whether a value is one of a loop's body."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and (parent := block.parent_op()) is not None:
        if parent is loop:
            return True
        block = parent.parent
    return False


__all__ = ["hidden_neighbours", "is_defined_in", "pointer_to", "pointers_to_columns", "shared_places"]
