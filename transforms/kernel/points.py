"""The points that the body of a kernel runs for: what of the addresses in a text is certain, whatever else it says."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import BlockArgument, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.elem import kind_of, scalar_of, width_of
from cuesta.dialects.sym.nodes import FloorDiv, Function, sum_of_terms
from cuesta.dialects.sym.ranges import Space


class Points:
    """Index values of one kernel as dimensions of a space, and proofs about addresses in it.

    A proof for an op takes for granted only what holds whenever the op runs. On the CPU a loop around it has a point
    then, and so its sizes are positive. On a GPU the body of a tile runs also where none of its lanes is a point.
    Machine arithmetic wraps: what a function (a quotient, a minimum) is of must fit into the bits that it is computed
    in, and so must what is proved to be in bounds.
    """

    def __init__(self, func: kernel.FuncOp, ranges: sym.SymbolRanges) -> None:
        self.func = func
        self.ranges = ranges
        self.narrow = func.is_for_gpu and func.schedule.choices.get("index", 64) == 32
        self.most = 1 << (31 if self.narrow else 63)
        """What indices are below, as integers that the machine computes with."""
        self.numbers: dict[SSAValue, int | None] = {}
        self.sizes: list[sym.IndexExpr] = []
        self.spaces: dict[tuple[sym.IndexExpr, ...], Space] = {}

    def is_within(self, op: kernel.LoadOp | kernel.MemoryWriteOp, size: sym.IndexExpr) -> bool:
        """Whether 0 ≤ address < size at every point for which an access runs; its mask is not looked at."""
        address = self._address(op)
        if op.mask is not None or address is None or not self._is_in_known_loops(op):
            return False
        space = self.of(op, sym.dims_of(address))
        if not self._is_exact(space, address) or not self._fits(space, size):
            return False
        low, high = space.bounds(address)
        proved = low is not None and low >= 0 and high is not None and isinstance(size, int) and high < size
        if not proved and not (space.is_non_negative(address) and space.is_non_negative(size - 1 - address)):
            return False
        return not self.func.is_for_gpu or self._is_of_points(op)

    def is_outside(self, op: kernel.LoadOp | kernel.MemoryWriteOp, size: sym.IndexExpr) -> bool:
        """Whether an access certainly runs, and at no point has 0 ≤ address < size."""
        address = self._address(op)
        if op.mask is not None or address is None or not self._certainly_runs(op):
            return False
        space = self._space(sym.dims_of(address))
        if not self._is_exact(space, address):
            return False
        low, high = space.bounds(address)
        if high is not None and high < 0:
            return True
        beyond = low is not None and isinstance(size, int) and low >= size
        return beyond or space.is_non_negative(address - size) or space.is_non_negative(-1 - address)

    def of(self, op: Operation, dims: Iterable[int] = ()) -> Space:
        """The space of `dims`, which knows what is certain where an op runs: symbols that are sizes are positive."""
        alive = set(dims)
        if not self.func.is_for_gpu:
            parent = op.parent_op()
            while isinstance(parent, kernel.LoopOp):
                alive |= {number for one in parent.induction_variables if (number := self.number(one)) is not None}
                parent = parent.parent_op()
        return self._space(alive)

    def _space(self, dims: Iterable[int]) -> Space:
        alive = set(dims)
        own = (size if number in alive else 1 for number, size in enumerate(self.sizes))
        sizes = (*own, *self.func.schedule.grid)  # a kernel that runs has programs
        space = self.spaces.get(sizes)
        if space is None:
            space = self.spaces[sizes] = Space(sizes, self.ranges)
        return space

    def _address(self, op: kernel.LoadOp | kernel.MemoryWriteOp) -> sym.IndexExpr | None:
        """The address over dimensions of the space."""
        dims: list[sym.IndexExpr] = []
        for index in op.indices:
            number = self.number(index)
            if number is None:
                return None
            dims.append(sym.dim(number))
        return sym.substitute(op.offset, dims)

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
            size = self.func.schedule.grid[owner.axis]
            space = self._space(())
            return size if self._is_exact(space, size) and self._fits(space, size) else None
        if isinstance(owner, kernel.BoundOp):  # what is out of range goes on as 0: of no elements that is not one, too
            space = Space((), self.ranges)
            known = space.is_positive(owner.size) and self._fits(space, owner.size)
            return owner.size if known and (self.func.is_for_gpu or is_defined(owner.operands[0])) else None
        if isinstance(owner, kernel.BroadcastOp):
            return self._size(owner.operands[0])
        if not isinstance(index, BlockArgument):
            return None
        loop = index.block.parent_op()
        if not isinstance(loop, kernel.LoopOp) or (ends := self._ends(loop, index.index)) is None:
            return None
        lower, upper = ends
        space = self.of(loop, {*sym.dims_of(lower), *sym.dims_of(upper)})
        if not (self._is_exact(space, lower) and self._is_exact(space, upper) and space.is_non_negative(lower)):
            return None
        # An upper end that varies is taken at its greatest: what a minimum is of that does not vary, or a number.
        symbolic = (one for one in sym.alternatives(upper) if sym.symbols_of(one) and not sym.dims_of(one))
        number = space.bounds(upper)[1] if sym.dims_of(upper) else upper
        greatest = next(symbolic, number)
        return greatest if greatest is not None and self._fits(space, greatest) else None

    def _ends(self, loop: kernel.LoopOp, axis: int) -> tuple[sym.IndexExpr, sym.IndexExpr] | None:
        """The bounds of an axis over dimensions of the space."""
        dims: list[sym.IndexExpr] = []
        for operand in loop.bound_operands:
            number = self.number(operand)
            if number is None:
                return None
            dims.append(sym.dim(number))
        return sym.substitute(loop.lowers.results[axis], dims), sym.substitute(loop.uppers.results[axis], dims)

    def _is_in_known_loops(self, op: Operation) -> bool:
        """Whether the bounds of the loops around an op are numbers that the machine computes as they are written."""
        parent = op.parent_op()
        while isinstance(parent, kernel.LoopOp):
            if any(self.number(one) is None for one in parent.induction_variables):
                return False
            parent = parent.parent_op()
        return True

    def _is_exact(self, space: Space, e: sym.IndexExpr) -> bool:
        """Whether no operand of a function in `e` wraps. Sums and products may: what they come to in the end is right;
        but what is computed with 32 bits is added up with 64, so no term may. Of what has no known end, 64 are enough.
        """
        if isinstance(e, int):
            return True
        for monomial, factor in e.terms:
            if self.narrow and not self._fits(space, sum_of_terms({monomial: factor}, 0)):
                return False
            for atom in monomial.atoms:
                if isinstance(atom, Function) and not all(
                    self._is_exact(space, side) and self._fits(space, side) for side in (atom.left, atom.right)
                ):
                    return False
        return True

    def _fits(self, space: Space, e: sym.IndexExpr) -> bool:
        low, high = space.bounds(e)
        if self.narrow and (low is None or high is None):
            return False
        return (low is None or low >= -self.most) and (high is None or high <= self.most)

    def _is_of_points(self, op: kernel.LoadOp | kernel.MemoryWriteOp) -> bool:
        """Whether a GPU accesses elements of points only. (What is the same for a whole row is loaded at the ends of a
        tile, which are no points where it has none.)
        """
        if isinstance(op, kernel.MemoryWriteOp):
            return True
        parent = op.parent_op()
        while isinstance(parent, kernel.LoopOp):
            if parent.lanes > 1 and parent.induction_variables[-1] in op.indices and _divides(op.offset):
                axis = len(parent.induction_variables) - 1
                if not self._has_a_point(parent, axis):
                    return False
            parent = parent.parent_op()
        return True

    def _certainly_runs(self, op: Operation) -> bool:
        """Whether every run of the kernel comes to an op, for one point at least."""
        if not all(Space((), self.ranges).is_positive(size) for size in self.func.schedule.grid):
            return False
        parent = op.parent_op()
        while isinstance(parent, kernel.LoopOp):
            if not all(self._has_a_point(parent, axis) for axis in range(len(parent.induction_variables))):
                return False
            parent = parent.parent_op()
        return True

    def _has_a_point(self, loop: kernel.LoopOp, axis: int) -> bool:
        """Whether an axis has a point, wherever the loop is reached."""
        ends = self._ends(loop, axis)
        if ends is None:
            return False
        space = self._space({*sym.dims_of(ends[0]), *sym.dims_of(ends[1])})
        return all(space.is_positive(upper - ends[0]) for upper in sym.alternatives(ends[1]))


def is_defined(value: SSAValue) -> bool:
    """Whether a value of data is one that LLVM has a meaning for, whatever the data are: then what is compared with a
    bound is what is used. A float that no integer is, a shift by too much and memory that nobody wrote have none.
    """
    seen = set[SSAValue]()
    work = [value]
    while work:
        one = work.pop()
        if one in seen:
            continue
        seen.add(one)
        owner = one.owner
        if isinstance(owner, kernel.LoadOp):
            if isinstance(owner.pointer.owner, kernel.LocalOp):
                return False
        elif isinstance(owner, kernel.ReduceOp):
            work.append(owner.yielded)
        elif isinstance(owner, _DEFINED) and not _may_have_no_value(owner):
            work += owner.operands
        else:
            return False
    return True


_DEFINED = (
    elem.TableOp,
    elem.BitcastOp,
    elem.ConstantOp,
    elem.ConvertOp,
    elem.DotOp,
    elem.PhiloxOp,
    elem.RandomWordOp,
    elem.SelectOp,
    kernel.BroadcastOp,
    kernel.RunningOp,
)


def _may_have_no_value(op: Operation) -> bool:
    if isinstance(op, elem.ConvertOp):
        return kind_of(op.operands[0].type) in "fs" and kind_of(op.results[0].type) in "iu"
    if isinstance(op, elem.TableOp) and op.row.name in ("shl", "shr"):
        amount = op.operands[1].owner
        width = width_of(scalar_of(op.results[0].type)) or 0
        return not isinstance(amount, elem.ConstantOp) or not 0 <= amount.value < width
    return False


def _divides(e: sym.IndexExpr) -> bool:
    return not isinstance(e, int) and any(
        isinstance(atom, FloorDiv) for monomial, _ in e.terms for atom in monomial.atoms
    )


__all__ = ["Points", "is_defined"]
