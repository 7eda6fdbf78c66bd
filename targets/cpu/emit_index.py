"""The ground of kernel emission: names, lines, loop levels, and index expressions.

Addresses are split by loop level: what an inner loop does not change is computed before it. That is loop-invariant code
motion by construction, and LLVM's pipeline stays short.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import field

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import shape_of_type
from cuesta.dialects.kernel.types import PointerType
from cuesta.dialects.sym.expr import Expr, apply_function
from cuesta.dialects.sym.nodes import Dim, FloorDiv, Function, Max, Min, Mod, Symbol
from cuesta.targets.cpu.emit_types import constant, memory_text, splat_integer, type_text
from cuesta.targets.cpu.vector_text import vector_type


@struct(frozen=False)
class Level:
    """The body of one loop under construction: its lines, and what has been computed in it."""

    lines: list[str] = field(default_factory=list[str])
    addresses: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])


@struct
class Index:
    """An index value here: its name, the loop level that defines it, and whether it has lanes.

    `lane` means the points base, base + 1, …: the name is that of the base. Otherwise lanes are arbitrary (a gather).
    `row` means the same of rows that stand side by side.
    """

    name: str
    level: int
    lane: bool = False
    vector: bool = False
    row: bool = False


class IndexEmitter:
    """Emits index arithmetic into the bodies of nested loops.

    `levels` are the bodies under construction, outermost (the program) first; `width` is the number of lanes that
    vector values have at present.

    Of several lane axes around an op only the innermost is in vectors; the others, `row_axes` of them, are taken point
    by point. `rows` points of the one next to the innermost may be emitted side by side: then `row` is the one at hand,
    and what varies along it has a name for every row.

    `naturals` are indices that are known not to be negative. LLVM does not know it of a loop's counter.
    """

    def __init__(self, prefix: str = "%v") -> None:
        self.levels: list[Level] = [Level()]
        self.names: MutableMapping[SSAValue, str] = {}
        self.indices: MutableMapping[SSAValue, Index] = {}
        self.broadcast_levels: dict[SSAValue, int] = {}
        self.naturals: set[SSAValue] = set()
        self.symbols: dict[str, str] = {}
        self.width: int = 1
        self.row_axes: int = 0
        self.rows: int = 1
        self.row: int = 0
        self._names_of_rows: list[MutableMapping[SSAValue, str]] = []
        self._indices_of_rows: list[MutableMapping[SSAValue, Index]] = []
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
        return self.width if len(shape_of_type(value_type)) > self.row_axes else 1

    @contextmanager
    def side_by_side(self, rows: int) -> Generator[None]:
        """Within: one more lane axis is taken as rows, so many at a time."""
        before = self.names, self.indices, self.rows, self._names_of_rows, self._indices_of_rows
        self.rows, self.row_axes = rows, self.row_axes + 1
        self._names_of_rows = [ChainMap({}, self.names) for _ in range(rows)]
        self._indices_of_rows = [ChainMap({}, self.indices) for _ in range(rows)]
        yield
        self.row_axes -= 1
        self.names, self.indices, self.rows, self._names_of_rows, self._indices_of_rows = before

    @contextmanager
    def at_row(self, row: int) -> Generator[None]:
        """Within: what is emitted belongs to one of the rows."""
        before = self.names, self.indices
        self.row, self.names, self.indices = row, self._names_of_rows[row], self._indices_of_rows[row]
        yield
        self.row = 0
        self.names, self.indices = before

    def varies_by_row(self, value: SSAValue) -> bool:
        """Whether a value has a name for every row."""
        if self.rows <= 1:
            return False
        shape = shape_of_type(value.type)
        return len(shape) >= self.row_axes and shape[self.row_axes - 1] > 1

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
        if self.lanes_of(op.operands[0].type) == self.lanes_of(value.type):
            return self.name(op.operands[0])  # repeated along the rows
        level = self.broadcast_levels[value]
        key = ("broadcast", value, self.width, self.row if self.varies_by_row(value) else 0)
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
        return self._scalar_here(self.moved_to_row(e, operands), operands, level)

    def moved_to_row(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> sym.IndexExpr:
        """An expression for row 0, as it is for the row at hand."""
        if self.row == 0 or isinstance(e, int):
            return e
        return sym.substitute(
            e, [sym.dim(k) + (self.row if self.index(operand).row else 0) for k, operand in enumerate(operands)]
        )

    def _key(self, kind: str, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> tuple[object, ...]:
        """What tells one computed expression from another. Rows that stand side by side have one base."""
        differs = any(self.varies_by_row(one) and not self.index(one).row for one in operands)
        return kind, e, tuple(operands), self.row if differs else 0

    def _scalar_here(self, e: sym.IndexExpr, operands: Sequence[SSAValue], level: int) -> str:
        if isinstance(e, int):
            return str(e)
        key = self._key("scalar", e, operands)
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
            left, right = (self._scalar_here(side, operands, level) for side in (atom.left, atom.right))
            return self._function(atom, left, right, 1, level, is_natural=self.is_natural(atom.left, operands))

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

    def is_natural(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> bool:
        """Whether an expression is seen not to be negative: of sums and functions of what is not."""
        if isinstance(e, int):
            return e >= 0
        return e.constant >= 0 and all(
            factor >= 0 and all(self._is_natural_atom(atom, operands) for atom in monomial.atoms)
            for monomial, factor in e.terms
        )

    def _is_natural_atom(self, atom: object, operands: Sequence[SSAValue]) -> bool:
        if isinstance(atom, Dim):
            return operands[atom.index] in self.naturals
        if not isinstance(atom, Function):
            return False
        if isinstance(atom, Mod):
            return True  # a divisor is positive
        natural = self.is_natural(atom.left, operands), self.is_natural(atom.right, operands)
        return any(natural) if isinstance(atom, Max) else all(natural)

    def _function(self, atom: Function, left: str, right: str, lanes: int, level: int, *, is_natural: bool) -> str:
        """A function of two numbers, of which a divisor is positive; `is_natural`: the left one is not negative."""
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
        if is_natural:
            return self.instruction(f"{'udiv' if isinstance(atom, FloorDiv) else 'urem'} {kind} {left}, {right}", level)
        # Floor division of numbers of any sign.
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
        return self._lanewise_here(self.moved_to_row(e, operands), operands)

    def _lanewise_here(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
        lanes = self.width
        if lanes == 1:
            return self._scalar_here(e, operands, len(self.levels) - 1)
        if isinstance(e, int):
            return splat_integer(e, lanes)
        level = len(self.levels) - 1
        if not self._has_lanes(e, operands):
            return self.broadcast(self._scalar_here(e, operands, level), "i64")

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
            if not self._has_lanes(one := _atom_expr(atom), operands):
                return self.broadcast(self._scalar_here(one, operands, level), "i64")
            left, right = self._lanewise_here(atom.left, operands), self._lanewise_here(atom.right, operands)
            return self._function(atom, left, right, lanes, level, is_natural=self.is_natural(atom.left, operands))

        return self._sum(e, atom_value, lanes, level)

    def _has_lanes(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> bool:
        """Whether a value differs from lane to lane."""
        return not isinstance(e, int) and any(
            self.index(operands[k]).lane or self.index(operands[k]).vector for k in e.dims
        )

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

        Each loop level adds its own terms, in its own body. A later row lies at an offset from row 0.
        """
        if self.row == 0 or isinstance(e, int):
            return self._address_here(pointer, e, operands)
        moved = self.moved_to_row(e, operands)
        if not isinstance(offset := moved - e, int):
            return self._address_here(pointer, moved, operands)
        return self.further(self._address_here(pointer, e, operands), offset, pointer)

    def further(self, place: str, offset: sym.IndexExpr, pointer: SSAValue) -> str:
        """The address so many elements behind another one. `offset` is over symbols."""
        if offset == 0:
            return place
        known = self.levels[-1].addresses
        key = ("further", place, offset)
        if key not in known:
            element, distance = memory_text(scalar_of(pointee(pointer))), self._scalar_here(offset, (), 0)
            known[key] = self.instruction(f"getelementptr inbounds {element}, ptr {place}, i64 {distance}")
        return known[key]

    def _address_here(self, pointer: SSAValue, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
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
            key = ("address", name, *self._key("", part, operands))
            known = self.levels[level].addresses
            if key not in known:
                offset = self._scalar_here(part, operands, level)
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
