"""`check-bounds`: what the text of a kernel cannot be proved to access within bounds is checked when it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from cuesta.dialects import host, kernel, sym
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import symbol_ranges
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.whole_program import WholeProgramPass
from cuesta.dialects.layout import element_count, is_contiguous, sizes_of, storage_size, tensor_type_of
from cuesta.dialects.sym.ranges import Space
from cuesta.transforms.kernel.points import Points

_MOST_ELEMENTS = 1 << 40
"""More than any memory has: a factor that makes a bound of whether there is an element at all.

Source: a definition: more than any memory has.
"""

Access = kernel.LoadOp | kernel.MemoryWriteOp


class CheckBoundsPass(WholeProgramPass):
    """load %p[e]  ->  within [e], extent of p; load %p[e]   unless 0 ≤ e < extent follows from the text.

    The extent of a pointer is what the launches pass: the elements of the buffer, the fewest if they differ. Programs
    of torch.compile are not checked: what made them proved it. Kernels are shared by all pieces of a program.
    Errors: CuestaError for an access that every run makes, and that is never in bounds.
    """

    name = "check-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [one for one in op.body.ops if isinstance(one, host.FuncOp)]
        # Of several functions each has symbols of its own, which may have the same names.
        ranges: sym.SymbolRanges = symbol_ranges(op) if len(functions) == 1 else {}
        extents = extents_of(functions, ranges)
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp):
                # What only some functions launch need not run.
                _check(func, extents.get(func.sym_name), ranges, always=len(functions) == 1)


def extents_of(functions: Iterable[host.FuncOp], ranges: sym.SymbolRanges) -> dict[str, list[sym.IndexExpr]]:
    """For every kernel that is launched, the elements behind each of its pointers."""
    found: dict[str, list[sym.IndexExpr]] = {}
    for op in [op for function in functions for op in ops_of(function.body)]:
        if not isinstance(op, host.LaunchOp):
            continue
        sizes = [_extent(buffer, ranges) for buffer in op.operands]
        known = found.setdefault(op.kernel, sizes)
        if known is not sizes:
            found[op.kernel] = [one if one == other else sym.minimum(one, other) for one, other in zip(known, sizes)]  # noqa: B905
    return found


def _extent(buffer: SSAValue, ranges: sym.SymbolRanges) -> sym.IndexExpr:
    """The elements from the first to the last of a buffer; not above 0 when it has none."""
    kind = tensor_type_of(buffer)
    extent = storage_size(kind)
    if isinstance(extent, int) or is_contiguous(kind):
        return extent
    if all(isinstance(size, int) or Space((), ranges).is_positive(size) for size in sizes_of(kind)):
        return extent
    return sym.minimum(extent, element_count(kind) * _MOST_ELEMENTS)


def _check(func: kernel.FuncOp, extents: list[sym.IndexExpr] | None, ranges: sym.SymbolRanges, *, always: bool) -> None:
    sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(func.body.args, extents or (), strict=False))
    points = Points(func, ranges)
    used = set(func.symbols)
    for op in list(func.walk()):
        if isinstance(op, kernel.WithinOp):  # of an earlier time; the text may have been changed since
            op.detach()
            op.erase()
        elif isinstance(op, kernel.MeetOp):
            size = sizes.get(op.memory, 0)
            if extents is not None and not points.of(op).is_non_negative(size - op.counters):
                fail(op, f"counts in {op.counters} elements; the launch gives it {sym.format_expr(size)}")
        elif isinstance(op, Access):
            size = size_behind(op.pointer, sizes)
            if points.is_within(op, size):
                continue
            if always and extents is not None and points.is_outside(op, size):
                _refuse(op, size)
            name = f"%{op.pointer.name_hint}" if op.pointer.name_hint else "memory"
            check = kernel.WithinOp.build(op.offset, op.indices, size, f"{op.name} of {name}", op.mask)
            check.location = op.location
            block = op.parent
            assert block is not None
            block.insert_op_before(check, op)
            used |= sym.symbols_of(size)
    if used != set(func.symbols):
        func.properties["symbols"] = ArrayAttr([StringAttr(symbol) for symbol in sorted(used)])


def size_behind(pointer: SSAValue, sizes: Mapping[SSAValue, sym.IndexExpr]) -> sym.IndexExpr:
    """The elements that there are behind a pointer, whichever it is."""
    if isinstance(pointer.owner, kernel.LocalOp):
        return pointer.owner.size
    return reduce(sym.minimum, dict.fromkeys(sizes.get(one, 0) for one in kernel.picked(pointer)))


def _refuse(op: Access, size: sym.IndexExpr) -> NoReturn:
    name = f"%{op.pointer.name_hint}" if op.pointer.name_hint else "memory"
    fail(op, f"what it accesses is never one of the {sym.format_expr(size)} elements of {name}")


__all__ = ["Access", "CheckBoundsPass", "extents_of", "size_behind"]
