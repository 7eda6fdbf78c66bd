"""What a scan changes at the same place in every round stays in registers, and is stored when the scan is done.

    kernel.scan (%r = 0 to 32) { …; kernel.for (%j = 0 to 64 lanes 64) { kernel.combine sum %v, %t[%p * 64 + %j] } }
    →
    acc = the elements of %t
    for r in range(0, 32): …; acc = acc + v
    store acc to %t

Exact: the same sums in the same order. It takes a loop that is one tile, and an address that does not change from
round to round, at memory that nothing else in the scan touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.kernel.shapes import Shape, shape_of
from cuesta.targets.triton.emit_ops import COMBINED, address_text
from cuesta.targets.triton.emit_within import is_checked

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


@dataclass(slots=True)
class Carried:
    """A `kernel.combine` whose elements a scan carries."""

    emitter: KernelEmitter
    loop: kernel.LoopOp
    combine: kernel.CombineOp

    def begin(self) -> None:
        """Before the scan: the elements as they are."""
        self.emitter.tiles(self.loop, "j", self._load)

    def end(self) -> None:
        """After the scan: back to memory."""
        self.emitter.tiles(self.loop, "j", self._store)

    def _place(self) -> tuple[list[str], Shape]:
        pointer, mask, shape = address_text(self.emitter, self.combine, shape_of(self.combine.value))
        return [pointer] if mask is None else [pointer, f"mask={mask}"], shape

    def _load(self) -> None:
        emitter = self.emitter
        arguments, shape = self._place()
        name = emitter.fresh("acc")
        stored = next((found for scope in emitter.scopes if (found := scope.stored.get(", ".join(arguments)))), None)
        if stored is None:
            emitter.barrier()
            emitter.line(f"{name} = tl.load({', '.join(arguments)})")
        else:
            owner = stored.owner
            constant = isinstance(owner, elem.ConstantOp)
            text = emitter.constant(owner) if constant else emitter.name(stored)
            emitter.line(f"{name} = {emitter.spread(text, emitter.real_of(stored), shape)}")
        emitter.carried[self.combine] = name

    def _store(self) -> None:
        arguments, _ = self._place()
        name = self.emitter.carried.pop(self.combine)
        self.emitter.line(f"tl.store({', '.join([arguments[0], name, *arguments[1:]])})")
        self.emitter.dirty.add(self.combine.pointer)
        for scope in self.emitter.scopes:
            scope.stored.pop(", ".join(arguments), None)


def take_in(emitter: KernelEmitter, op: kernel.CombineOp) -> bool:
    """Emits a `kernel.combine` that a scan around it carries; False when none does."""
    name = emitter.carried.get(op)
    if name is None:
        return False
    owner = op.value.owner
    value = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.value)
    row = COMBINED.get(op.kind, f"functions.{op.kind}({{old}}, {{value}})")
    emitter.line(f"{name} = {row.format(old=name, value=value)}")
    return True


def carried_by(emitter: KernelEmitter, scan: kernel.LoopOp) -> list[Carried]:
    """What a loop that comes in order may carry."""
    if not isinstance(scan, kernel.ScanOp) or scan.lanes > 1:
        return []
    found: list[Carried] = []
    for loop in scan.body.ops:
        if not isinstance(loop, kernel.ForOp) or not emitter.is_whole(loop):
            continue
        if not all(_is_outside(operand, scan) for operand in loop.operands):
            continue
        for op in loop.body.ops:
            if isinstance(op, kernel.CombineOp) and op.kind != "assign" and _stays(op, loop, scan):
                found.append(Carried(emitter, loop, op))
    return found


def _stays(op: kernel.CombineOp, loop: kernel.ForOp, scan: kernel.ScanOp) -> bool:
    """Whether a combination changes, in every round, the same elements, and nothing else touches them."""
    varying = loop.induction_variables[-1]
    if op.rest or varying not in op.indices or is_checked(op):
        return False
    if not all(index is varying or _is_outside(index, scan) for index in op.indices):
        return False
    return not any(inner is not op and op.pointer in inner.operands for inner in scan.walk())


def _is_outside(value: SSAValue, scan: Operation) -> bool:
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    while op is not None:
        if op is scan:
            return False
        op = op.parent_op()
    return True
