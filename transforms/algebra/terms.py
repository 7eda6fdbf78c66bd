"""Terms: what laws are written in. Python's operators make them, so that a law reads as an equation.

    x, y = variables("x", "y")
    x & (x | y)                     # elem.and of x and elem.or
    maximum(x, 0)                   # any row of the table by its name: apply("maximum", x, 0)
    x.convert(B)                    # elem.convert to the type B
    select(c, x, y), reduce("sum", x)

A number takes the type of what it stands beside, and wraps as torch would have it: −1 has all bits set.
`==` is not overloaded: `x.eq(y)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import format_number


@struct(eq=False)
class Type:
    """A scalar type that a law leaves open, of one of the kinds (letters of `elem.kind_of`)."""

    name: str
    kinds: str


T = Type("T", "fiub")
"""The type of variables and constants that do not say another. A law says of which kinds it is."""
BOOL = Type("i1", "b")
"""The type of conditions."""


class Term:
    """A value of a law."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Term, ...]:
        """The terms it is directly made of."""
        return ()

    def __add__(self, other: Operand) -> Apply:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Apply:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Apply:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Apply:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Apply:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Apply:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Apply:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Apply:
        return apply("div", other, self)

    def __neg__(self) -> Apply:
        return apply("neg", self)

    def __abs__(self) -> Apply:
        return apply("abs", self)

    def __invert__(self) -> Apply:
        return apply("not", self)

    def __and__(self, other: Operand) -> Apply:
        return apply("and", self, other)

    def __or__(self, other: Operand) -> Apply:
        return apply("or", self, other)

    def __xor__(self, other: Operand) -> Apply:
        return apply("xor", self, other)

    def __lt__(self, other: Operand) -> Apply:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Apply:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Apply:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Apply:
        return apply("ge", self, other)

    def eq(self, other: Operand) -> Apply:
        """`self == other`, false with NaN."""
        return apply("eq", self, other)

    def ne(self, other: Operand) -> Apply:
        """`self != other`, true with NaN."""
        return apply("ne", self, other)

    def convert(self, to: Type) -> Convert:
        """`elem.convert` to a type."""
        return Convert(self, to)


@struct(eq=False)
class Variable(Term):
    """Any value of a type, the same wherever it stands; an `invariant` one stands outside of the reduction."""

    name: str
    type: Type = T
    invariant: bool = False

    def __str__(self) -> str:
        return self.name


@struct(eq=False)
class Constant(Term):
    """A value that is an `elem.constant`. What a right-hand side makes of constants alone is computed when it fires."""

    name: str
    type: Type = T

    def __str__(self) -> str:
        return self.name


@struct(eq=False)
class Number(Term):
    """One constant: −0.0 is another than 0.0."""

    value: float | int

    def __str__(self) -> str:
        return format_number(self.value, "f") if isinstance(self.value, float) else str(int(self.value))


@struct(eq=False)
class Apply(Term):
    """A row of the table, applied."""

    row: str
    operands: tuple[Term, ...]

    @property
    def parts(self) -> tuple[Term, ...]:
        """The operands."""
        return self.operands

    def __str__(self) -> str:
        symbol = _SYMBOLS.get(self.row)
        if symbol is None:
            return f"{self.row}({', '.join(map(str, self.operands))})"
        if len(self.operands) == 1:
            return f"{symbol}{_in_brackets(self.operands[0])}"
        return f" {symbol} ".join(map(_in_brackets, self.operands))


@struct(eq=False)
class Convert(Term):
    """`elem.convert` to a type."""

    operand: Term
    to: Type

    @property
    def parts(self) -> tuple[Term, ...]:
        """The value converted."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"{self.to.name}({self.operand})"


@struct(eq=False)
class Select(Term):
    """`elem.select`."""

    condition: Term
    on_true: Term
    on_false: Term

    @property
    def parts(self) -> tuple[Term, ...]:
        """The operands."""
        return self.condition, self.on_true, self.on_false

    def __str__(self) -> str:
        return f"select({self.condition}, {self.on_true}, {self.on_false})"


@struct(eq=False)
class Reduce(Term):
    """The first result of a `loops.reduce` of one kind. Variables in the body differ from point to point, but for
    invariant ones.
    """

    kind: str
    body: Term
    points: str = "any"
    """How many points the domain has: `any` number, `some` (at least one), `one` or `none`."""

    @property
    def parts(self) -> tuple[Term, ...]:
        """The value reduced."""
        return (self.body,)

    def __str__(self) -> str:
        over = {"any": "j", "some": "j : n > 0", "one": "j : 1", "none": "j : 0"}[self.points]
        return f"{self.kind}[{over}]({self.body})"


@struct(eq=False)
class Points(Term):
    """How many points the domain of the reduction has, as a constant."""

    def __str__(self) -> str:
        return "n"


Operand: TypeAlias = "Term | float | int"

_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "neg": "-",
    "not": "~",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "shl": "<<",
    "shr": ">>",
}


def _in_brackets(term: Term) -> str:
    text = str(term)
    return f"({text})" if isinstance(term, Apply) and term.row in _SYMBOLS else text


def as_term(value: Operand) -> Term:
    """A number as a term."""
    return value if isinstance(value, Term) else Number(value)


def variables(*names: str, type: Type = T, invariant: bool = False) -> Iterator[Variable]:
    """A variable for each name."""
    return (Variable(name, type, invariant) for name in names)


def constants(*names: str, type: Type = T) -> Iterator[Constant]:
    """A constant for each name."""
    return (Constant(name, type) for name in names)


def apply(row: str, *operands: Operand) -> Apply:
    """`elem.ROW` of the operands."""
    return Apply(row, tuple(map(as_term, operands)))


def select(condition: Operand, on_true: Operand, on_false: Operand) -> Select:
    """`elem.select`."""
    return Select(as_term(condition), as_term(on_true), as_term(on_false))


def reduce(kind: str, body: Operand, points: str = "any") -> Reduce:
    """The first result of a `loops.reduce`."""
    return Reduce(kind, as_term(body), points)


def maximum(a: Operand, b: Operand) -> Apply:
    """`elem.maximum`."""
    return apply("maximum", a, b)


def minimum(a: Operand, b: Operand) -> Apply:
    """`elem.minimum`."""
    return apply("minimum", a, b)


def subterms(term: Term) -> Iterator[Term]:
    """The term and all it is made of, from the outside in."""
    yield term
    for part in term.parts:
        yield from subterms(part)
