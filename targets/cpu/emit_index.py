"""The ground of kernel emission: names, lines, loop levels, and index expressions.

Addresses are split by loop level: what an inner loop does not change is computed before it. That is loop-invariant code
motion by construction, and LLVM's pipeline stays short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.types import PointerType
from cuesta.dialects.sym.expr import Expr, apply_function
from cuesta.dialects.sym.nodes import Dim, FloorDiv, Function, Max, Min, Mod, Symbol
from cuesta.targets.cpu.emit_types import constant, memory_text, splat_integer, type_text
from cuesta.targets.cpu.vector_text import vector_type


@dataclass(frozen=True, slots=True)
class BoundSite:
    """A `kernel.bound` that may fail: what the error message needs."""

    location: str


@dataclass
class Level:
    """The body of one loop under construction: its lines, and what has been computed in it."""

    lines: list[str] = field(default_factory=list[str])
    addresses: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])


@dataclass(frozen=True, slots=True)
class Index:
    """An index value here: its name, the loop level that defines it, and whether it has lanes.

    `lane` means the points base, base + 1, …: the name is that of the base. Otherwise lanes are arbitrary (a gather).
    """

    name: str
    level: int
    lane: bool = False
    vector: bool = False


class IndexEmitter:
    """Emits index arithmetic into the bodies of nested loops.

    `levels` are the bodies under construction, outermost (the program) first; `width` is the number of lanes that
    vector values have at present.
    """

    def __init__(self, prefix: str = "%v") -> None:
        self.levels: list[Level] = [Level()]
        self.names: dict[SSAValue, str] = {}
        self.indices: dict[SSAValue, Index] = {}
        self.broadcast_levels: dict[SSAValue, int] = {}
        self.symbols: dict[str, str] = {}
        self.width: int = 1
        self._prefix = prefix
        self._count = 0

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def label(self) -> str:
        """A new block label."""
        self._count += 1
        return f"b{self._count}"

    def line(self, text: str) -> None:
        """Appends to the body being emitted."""
        self.levels[-1].lines.append(text)

    def instruction(self, text: str, level: int | None = None) -> str:
        """Appends `%n = text` to a level's body."""
        name = self.fresh()
        self.levels[-1 if level is None else level].lines.append(f"{name} = {text}")
        return name

    def lanes_of(self, value_type: Attribute) -> int:
        """The lanes that a value of this type has at the present width."""
        return self.width if isinstance(value_type, VectorType) else 1

    def type_of(self, value_type: Attribute) -> str:
        """The LLVM type of a value at the present width."""
        return type_text(value_type, self.lanes_of(value_type))

    def name(self, value: SSAValue) -> str:
        """The operand text of a value that is no index: a name, or a constant."""
        owner = value.owner
        if isinstance(owner, elem.ConstantOp):
            return constant(owner.value, scalar_of(value.type), self.lanes_of(value.type))
        if isinstance(owner, kernel.BroadcastOp):
            return self._broadcast_value(value, owner)
        return self.names[value]

    def _broadcast_value(self, value: SSAValue, op: kernel.BroadcastOp) -> str:
        """A broadcast at the present width, made in the body where the op stands, which may be outside of the lane
        loop.
        """
        level = self.broadcast_levels[value]
        key = ("broadcast", value, self.width)
        known = self.levels[level].addresses
        if key not in known:
            source = op.operands[0]
            known[key] = self.broadcast(self.name(source), type_text(source.type, 1), level)
        return known[key]

    def index(self, operand: SSAValue) -> Index:
        """What an index operand is here."""
        return self.indices[operand]

    def scalar(self, e: sym.IndexExpr, operands: Sequence[SSAValue], level: int) -> str:
        """The value of an expression over scalar indices and lane bases, computed in the body of `level`."""
        if isinstance(e, int):
            return str(e)
        key = ("scalar", e, tuple(operands))
        known = self.levels[level].addresses
        if key not in known:
            known[key] = self._scalar(e, operands, level)
        return known[key]

    def _scalar(self, e: Expr, operands: Sequence[SSAValue], level: int) -> str:
        def atom_value(atom: object) -> str:
            if isinstance(atom, Dim):
                return self.index(operands[atom.index]).name
            if isinstance(atom, Symbol):
                return self.symbols[atom.name]
            assert isinstance(atom, Function)
            left, right = self.scalar(atom.left, operands, level), self.scalar(atom.right, operands, level)
            return self._function(atom, left, right, 1, level)

        return self._sum(e, atom_value, 1, level)

    def _sum(self, e: Expr, atom_value: Callable[[object], str], lanes: int, level: int) -> str:
        kind = vector_type("i64", lanes)
        total: str | None = str(e.constant) if e.constant and lanes == 1 else None
        if e.constant and lanes > 1:
            total = splat_integer(e.constant, lanes)
        for monomial, factor in e.terms:
            product: str | None = None
            for atom in monomial.atoms:
                value = atom_value(atom)
                product = value if product is None else self.instruction(f"mul nsw {kind} {product}, {value}", level)
            assert product is not None
            if factor != 1:
                product = self.instruction(f"mul nsw {kind} {product}, {splat_integer(factor, lanes)}", level)
            total = product if total is None else self.instruction(f"add nsw {kind} {total}, {product}", level)
        assert total is not None
        return total

    def _function(self, atom: Function, left: str, right: str, lanes: int, level: int) -> str:
        kind = vector_type("i64", lanes)
        if isinstance(atom, Min | Max):
            name = "smin" if isinstance(atom, Min) else "smax"
            return self.instruction(
                f"call {kind} @llvm.{name}.{suffix_i64(lanes)}({kind} {left}, {kind} {right})", level
            )
        if isinstance(atom.right, int) and atom.right & (atom.right - 1) == 0 and atom.right > 0:
            # Right for negative numbers as well: the shift and the mask round towards −∞, as Python does.
            bits = atom.right.bit_length() - 1
            if isinstance(atom, FloorDiv):
                return self.instruction(f"ashr {kind} {left}, {splat_integer(bits, lanes)}", level)
            return self.instruction(f"and {kind} {left}, {splat_integer(atom.right - 1, lanes)}", level)
        # Floor division of numbers of any sign by a positive divisor.
        remainder = self.instruction(f"srem {kind} {left}, {right}", level)
        zero = splat_integer(0, lanes)
        negative = self.instruction(f"icmp slt {kind} {remainder}, {zero}", level)
        boolean = vector_type("i1", lanes)
        if isinstance(atom, Mod):
            lifted = self.instruction(f"add {kind} {remainder}, {right}", level)
            return self.instruction(f"select {boolean} {negative}, {kind} {lifted}, {kind} {remainder}", level)
        quotient = self.instruction(f"sdiv {kind} {left}, {right}", level)
        correction = self.instruction(f"sext {boolean} {negative} to {kind}", level)
        return self.instruction(f"add {kind} {quotient}, {correction}", level)

    def lanewise(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
        """The value of an expression in every lane, as a vector of i64."""
        lanes = self.width
        if lanes == 1:
            return self.scalar(e, operands, len(self.levels) - 1)
        if isinstance(e, int):
            return splat_integer(e, lanes)
        level = len(self.levels) - 1
        if not any(self.index(operands[k]).lane or self.index(operands[k]).vector for k in e.dims):
            return self.broadcast(self.scalar(e, operands, level), "i64")

        def atom_value(atom: object) -> str:
            if isinstance(atom, Dim):
                index = self.index(operands[atom.index])
                if index.vector:
                    return index.name
                base = self.broadcast(index.name, "i64")
                if not index.lane:
                    return base
                steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
                return self.instruction(f"add nsw <{lanes} x i64> {base}, <{steps}>")
            if isinstance(atom, Symbol):
                return self.broadcast(self.symbols[atom.name], "i64")
            assert isinstance(atom, Function)
            left, right = self.lanewise(atom.left, operands), self.lanewise(atom.right, operands)
            return self._function(atom, left, right, lanes, level)

        return self._sum(e, atom_value, lanes, level)

    def broadcast(self, value: str, element: str, level: int | None = None) -> str:
        """A scalar in every lane of the present width."""
        if self.width == 1:
            return value
        kind = f"<{self.width} x {element}>"
        one = self.instruction(f"insertelement {kind} poison, {element} {value}, i64 0", level)
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.instruction(f"shufflevector {kind} {one}, {kind} poison, {zeros}", level)

    def address(self, pointer: SSAValue, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
        """The address of an element, for an expression over scalars and lane bases.

        Each loop level adds its own terms, in its own body.
        """
        name = self.names[pointer]
        element = scalar_of(pointee(pointer))
        if isinstance(e, int):
            parts: dict[int, sym.IndexExpr] = {0: e}
        else:
            parts = self._by_level(e, operands)
        for level in sorted(parts):
            part = parts[level]
            if part == 0:
                continue
            key = ("address", name, part, tuple(operands))
            known = self.levels[level].addresses
            if key not in known:
                offset = self.scalar(part, operands, level)
                known[key] = self.instruction(
                    f"getelementptr inbounds {memory_text(element)}, ptr {name}, i64 {offset}", level
                )
            name = known[key]
        return name

    def _by_level(self, e: Expr, operands: Sequence[SSAValue]) -> dict[int, sym.IndexExpr]:
        parts: dict[int, sym.IndexExpr] = {0: e.constant}
        for monomial, factor in e.terms:
            level = max((self.index(operands[k]).level for k in monomial.dims), default=0)
            term = sym.product_of([_atom_expr(atom) for atom in monomial.atoms]) * factor
            parts[level] = parts.get(level, 0) + term
        return parts


def symbolic_value(e: sym.IndexExpr, symbols: Mapping[str, str], prefix: str, lines: list[str]) -> str:
    """Appends lines that compute an expression over symbols, outside of any kernel; names begin with `prefix`."""
    emitter = IndexEmitter(prefix)
    emitter.levels = [Level(lines)]
    emitter.symbols.update(symbols)
    return emitter.scalar(e, (), 0)


def suffix_i64(lanes: int) -> str:
    """The suffix of intrinsics on i64."""
    return "i64" if lanes == 1 else f"v{lanes}i64"


def pointee(pointer: SSAValue) -> Attribute:
    """The element type behind a pointer."""
    pointer_type = pointer.type
    assert isinstance(pointer_type, PointerType)
    return pointer_type.element_type


def _atom_expr(atom: object) -> sym.IndexExpr:
    if isinstance(atom, Dim):
        return sym.dim(atom.index)
    if isinstance(atom, Symbol):
        return sym.symbol(atom.name)
    assert isinstance(atom, Function)
    return apply_function(atom, atom.left, atom.right)
