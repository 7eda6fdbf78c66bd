"""Which addresses of a program's kernels are proved to be in bounds, and how: ranges first, then z3 where it is there.

proved by ranges    0 ≤ address < size follows from the bounds of loops and of the grid
proved by z3        the same of what ranges are too coarse for: masks, products, quotients
masked              accessed only where a mask is true that nobody could prove to suffice
checked             the index is data, which a `bound` holds to its axis when the kernel runs
not proved          none of these
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from cuesta.dialects import elem, host, kernel, sym
from cuesta.dialects.core.entry import symbol_ranges
from cuesta.dialects.core.locations import format_origin
from cuesta.dialects.sym.nodes import Dim, FloorDiv, Function, Max, Min, Mod, Symbol
from cuesta.transforms.kernel.check_bounds import Access, extents_of, size_behind
from cuesta.transforms.kernel.points import Points

EFFORT = 2_000_000
"""How much z3 may do for one access, in its own units: a fraction of a second. A time limit would depend on what else
runs. Source: a definition.
"""
HOW = ("proved by ranges", "proved by z3", "masked", "checked", "not proved")


@dataclass
class Bounds:
    """How many accesses were proved how."""

    counts: Counter[str] = field(default_factory=Counter[str])
    unproved: list[str] = field(default_factory=list[str])
    """Of what is not proved: the kernel, the op, the model's line."""
    has_z3: bool = True

    def __str__(self) -> str:
        told = ", ".join(f"{self.counts[how]} {how}" for how in HOW if self.counts[how]) or "none"
        lines = [f"accesses of kernels, in bounds: {told}"]
        if not self.has_z3:
            lines.append("  (z3 is not installed: pip install z3-solver proves more)")
        return "\n".join([*lines, *(f"  not proved: {one}" for one in self.unproved)])


def bounds_of(module: ModuleOp) -> Bounds:
    """Proves what it can of the kernels of a program at `host`."""
    functions = [one for one in module.body.ops if isinstance(one, host.FuncOp)]
    ranges: sym.SymbolRanges = symbol_ranges(module) if len(functions) == 1 else {}
    extents = extents_of(functions, ranges)
    found = Bounds(has_z3=_z3() is not None)
    for func in module.body.ops:
        if isinstance(func, kernel.FuncOp) and func.sym_name in extents:
            sizes: Mapping[SSAValue, sym.IndexExpr] = dict(zip(func.body.args, extents[func.sym_name], strict=False))
            points = Points(func, ranges)
            for op in func.walk():
                if isinstance(op, Access):
                    how = _how(op, size_behind(op.pointer, sizes), points, func, ranges)
                    found.counts[how] += 1
                    if how == "not proved":
                        where = format_origin(op.location)
                        found.unproved.append(f"@{func.sym_name}: {op.name}{where and f' ({where})'}")
    return found


def _how(
    op: kernel.LoadOp | kernel.MemoryWriteOp,
    size: sym.IndexExpr,
    points: Points,
    func: kernel.FuncOp,
    ranges: sym.SymbolRanges,
) -> str:
    if points.is_within(op, size):
        return "proved by ranges"
    if _Proof(func, ranges).proves(op, size):
        return "proved by z3"
    if op.mask is not None:
        return "masked"
    return "checked" if any(_is_checked(index) for index in op.indices) else "not proved"


def _is_checked(index: SSAValue) -> bool:
    owner = index.owner
    while isinstance(owner, kernel.BroadcastOp):
        owner = owner.operands[0].owner
    return isinstance(owner, kernel.BoundOp)


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        return None
    return z3


class _Unknown(Exception):
    """Something that is not said to z3."""


class _Proof:
    """One access as a problem of z3: its indices are integers within their bounds, and its mask is true."""

    def __init__(self, func: kernel.FuncOp, ranges: sym.SymbolRanges) -> None:
        self.z3 = _z3()
        self.func = func
        self.ranges = ranges
        self.values: dict[SSAValue | str, Any] = {}
        self.facts: list[Any] = []

    def proves(self, op: kernel.LoadOp | kernel.MemoryWriteOp, size: sym.IndexExpr) -> bool:
        """Whether no point is outside."""
        if self.z3 is None:
            return False
        try:
            address = self.expression(op.offset, op.indices)
            limit = self.expression(size, ())
            if op.mask is not None:
                self.facts.append(self.condition(op.mask))
        except _Unknown:
            return False
        solver = self.z3.Solver()
        solver.set("rlimit", EFFORT)
        solver.add(*self.facts)
        solver.add(self.z3.Or(address < 0, address >= limit))
        return solver.check() == self.z3.unsat

    def expression(self, e: sym.IndexExpr, operands: Any) -> Any:
        """An index expression over index values."""
        if isinstance(e, int):
            return self.z3.IntVal(e)
        total = self.z3.IntVal(e.constant)
        for monomial, factor in e.terms:
            product = self.z3.IntVal(factor)
            for atom in monomial.atoms:
                product = product * self.atom(atom, operands)
            total = total + product
        return total

    def atom(self, atom: Any, operands: Any) -> Any:
        if isinstance(atom, Dim):
            return self.index(operands[atom.index])
        if isinstance(atom, Symbol):
            return self.symbol(atom.name)
        assert isinstance(atom, Function)
        left, right = self.expression(atom.left, operands), self.expression(atom.right, operands)
        if isinstance(atom, Min | Max):
            return self.z3.If((left < right) == isinstance(atom, Min), left, right)
        if not isinstance(atom, FloorDiv | Mod) or not isinstance(atom.right, int) or atom.right <= 0:
            raise _Unknown
        return left / right if isinstance(atom, FloorDiv) else left % right

    def symbol(self, name: str) -> Any:
        if name not in self.values:
            one = self.values[name] = self.z3.Int(name)
            low, high = self.ranges.get(name, (0, None))
            if low is not None:
                self.facts.append(one >= low)
            if high is not None:
                self.facts.append(one <= high)
        return self.values[name]

    def index(self, value: SSAValue) -> Any:
        """An index value, with what is known of it as facts."""
        if value in self.values:
            return self.values[value]
        owner = value.owner
        if isinstance(owner, kernel.BroadcastOp):
            return self.index(owner.operands[0])
        one = self.values[value] = self.z3.Int(f"i{len(self.values)}")
        if isinstance(owner, kernel.ProgramIdOp):
            self.facts += [one >= 0, one < self.expression(self.func.schedule.grid[owner.axis], ())]
        elif isinstance(owner, kernel.BoundOp):
            self.facts += [one >= 0, one < self.expression(owner.size, ())]
        elif isinstance(value, BlockArgument) and isinstance(loop := value.block.parent_op(), kernel.LoopOp):
            low, high = loop.lowers.results[value.index], loop.uppers.results[value.index]
            operands = loop.bound_operands
            self.facts += [one >= self.expression(low, operands), one < self.expression(high, operands)]
        else:
            raise _Unknown
        return one

    def condition(self, value: SSAValue) -> Any:
        """A mask, as far as it is made of comparisons of indices: of a conjunction what is understood of it."""
        op = value.owner
        if isinstance(op, kernel.BroadcastOp):
            return self.condition(op.operands[0])
        if not isinstance(op, elem.TableOp):
            raise _Unknown
        if op.row.name == "and":
            sides: list[Any] = []
            for operand in op.operands:
                try:
                    sides.append(self.condition(operand))
                except _Unknown:
                    continue
            return self.z3.And(*sides) if sides else self.z3.BoolVal(True)
        compare = {"lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}.get(op.row.name)
        if compare is None:
            raise _Unknown
        left, right = (self.number(operand.owner) for operand in op.operands)
        return getattr(left, compare)(right)

    def number(self, op: Any) -> Any:
        while isinstance(op, kernel.BroadcastOp):
            op = op.operands[0].owner
        if isinstance(op, kernel.IndexOp):
            return self.expression(op.offset, op.indices)
        if isinstance(op, elem.ConstantOp) and isinstance(op.value, int):
            return self.z3.IntVal(op.value)
        raise _Unknown


__all__ = ["Bounds", "bounds_of"]
