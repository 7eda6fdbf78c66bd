"""`check-bounds`: what the text of a kernel cannot be proved to access within bounds is checked when it runs."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, SSAValue

from cuesta.dialects import host, kernel, sym
from cuesta.dialects.core.entry import symbol_ranges
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.whole_program import WholeProgramPass
from cuesta.dialects.layout import element_count, is_contiguous, sizes_of, storage_size, tensor_type_of
from cuesta.dialects.sym.ranges import Space

_MOST_ELEMENTS = 1 << 40
"""More than any memory has: a factor that makes a bound of whether there is an element at all.

Source: a definition: more than any memory has.
"""


class CheckBoundsPass(WholeProgramPass):
    """load %p[e]  ->  within [e], extent of p; load %p[e]   unless 0 ≤ e < extent follows from the text.

    The extent of a pointer is what the launches pass: the elements of the buffer, the fewest if they differ. Programs
    of torch.compile are not checked: what made them proved it. Kernels are shared by all pieces of a program.
    """

    name = "check-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [one for one in op.body.ops if isinstance(one, host.FuncOp)]
        # Of several functions each has symbols of its own, which may have the same names.
        ranges: sym.SymbolRanges = symbol_ranges(op) if len(functions) == 1 else {}
        extents = _extents(functions, ranges)
        for func in op.body.ops:
            # Blocks of threads have no emitter for the checks yet: their accesses are as the text says.
            if isinstance(func, kernel.FuncOp) and not func.is_for_gpu:
                _check(func, extents.get(func.sym_name), ranges)


def _extents(functions: Iterable[host.FuncOp], ranges: sym.SymbolRanges) -> dict[str, list[sym.IndexExpr]]:
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


def _check(func: kernel.FuncOp, extents: list[sym.IndexExpr] | None, ranges: sym.SymbolRanges) -> None:
    sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(func.body.args, extents or (), strict=False))
    accesses = [op for op in func.walk() if isinstance(op, kernel.LoadOp | kernel.MemoryWriteOp | kernel.WithinOp)]
    space = _Points(ranges)
    used = set(func.symbols)
    for op in accesses:
        if isinstance(op, kernel.WithinOp):  # of an earlier time; the text may have been changed since
            op.detach()
            op.erase()
            continue
        owner = op.pointer.owner
        size = owner.size if isinstance(owner, kernel.LocalOp) else sizes.get(op.pointer, 0)
        if op.mask is None and space.is_within(op.offset, op.indices, size):
            continue
        name = f"%{op.pointer.name_hint}" if op.pointer.name_hint else "memory"
        check = kernel.WithinOp.build(op.offset, op.indices, size, f"{op.name} of {name}", op.mask)
        check.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(check, op)
        used |= sym.symbols_of(size)
    if used != set(func.symbols):
        func.properties["symbols"] = ArrayAttr([StringAttr(symbol) for symbol in _in_order(used)])


def _in_order(symbols: Iterable[str]) -> list[str]:
    return sorted(symbols)


class _Points:
    """The points that the body of a kernel runs for, and what is known of expressions on them."""

    def __init__(self, ranges: sym.SymbolRanges) -> None:
        self.ranges = ranges
        self.numbers: dict[SSAValue, int | None] = {}
        self.sizes: list[sym.IndexExpr] = []
        self.space: Space | None = None

    def is_within(self, offset: sym.IndexExpr, indices: Iterable[SSAValue], size: sym.IndexExpr) -> bool:
        """Whether 0 ≤ offset < size at every point."""
        dims: list[sym.IndexExpr] = []
        for index in indices:
            number = self.number(index)
            if number is None:
                return False
            dims.append(sym.dim(number))
        address = sym.substitute(offset, dims)
        if self.space is None or len(self.space.sizes) != len(self.sizes):
            self.space = Space(tuple(self.sizes), self.ranges)
        low, high = self.space.bounds(address)
        if low is not None and low >= 0 and high is not None and isinstance(size, int) and high < size:
            return True
        return self.space.is_non_negative(address) and self.space.is_non_negative(size - 1 - address)

    def number(self, index: SSAValue) -> int | None:
        """The dimension that an index value is; None when nothing is known of it."""
        if index not in self.numbers:
            self.numbers[index] = None
            size = self._size(index)
            if size is not None:
                self.numbers[index] = len(self.sizes)
                self.sizes.append(size)
        return self.numbers[index]

    def _size(self, index: SSAValue) -> sym.IndexExpr | None:
        """A number that an index is always below, and never below 0; None when there is none."""
        owner = index.owner
        if isinstance(owner, kernel.ProgramIdOp):
            func = owner.parent_op()
            assert isinstance(func, kernel.FuncOp)
            return func.schedule.grid[owner.axis]
        if isinstance(owner, kernel.BoundOp):  # what is out of range goes on as 0: of no elements that is not one, too
            return owner.size if Space((), self.ranges).is_positive(owner.size) else None
        if isinstance(owner, kernel.BroadcastOp):
            return self._size(owner.operands[0])
        if not isinstance(index, BlockArgument):
            return None
        loop = index.block.parent_op()
        if not isinstance(loop, kernel.LoopOp):
            return None
        dims: list[sym.IndexExpr] = []
        for operand in loop.operands:
            number = self.number(operand)
            if number is None:
                return None
            dims.append(sym.dim(number))
        lower = sym.substitute(loop.lowers.results[index.index], dims)
        upper = sym.substitute(loop.uppers.results[index.index], dims)
        space = Space(tuple(self.sizes), self.ranges)
        if not space.is_non_negative(lower):
            return None
        # An upper end that varies is taken at its greatest.
        if not sym.dims_of(upper):
            return upper
        greatest = space.bounds(upper)[1]
        return greatest


__all__ = ["CheckBoundsPass"]
