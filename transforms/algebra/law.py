"""`Law`: an equation between two terms, from which both the rewrite and the proof come."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
)
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.table import Row
from cuesta.dialects.elem.work import work_of
from cuesta.transforms.algebra.terms import (
    BOOL,
    Apply,
    Constant,
    Convert,
    Number,
    Operand,
    Points,
    Reduce,
    Select,
    T,
    Term,
    Type,
    Variable,
    as_term,
    subterms,
)

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_POINTS_ASSUMED = 8.0
"""Of a reduction, when two sides of a law are weighed."""


@struct(eq=False)
class Condition:
    """What must hold of constants, of the number of points and of types for a law to hold: `holds` is given numbers and
    attributes.

    A condition that can be written as a term of constants should be: then z3 can use it too.
    """

    text: str
    of: tuple[Constant | Points | Type, ...]
    holds: Callable[..., bool]

    def __str__(self) -> str:
        return self.text


Where: TypeAlias = "Condition | Term"


def row_named(name: str) -> Row:
    """The row of an op of the table. Errors: ValueError when there is none."""
    row = elem.TABLE.get(name) or active().elem.get(name)
    if row is None:
        raise ValueError(f"there is no op elem.{name}")
    return row


@dataclass(frozen=True, eq=False)
class Law:
    """`lhs = rhs`, for all values of the variables, and of the constants that meet the conditions.

    `kinds` are the kinds of element types for which it holds, of everything whose type is `T`. An `exact` law gives the
    same bits, whatever the operands (all NaN are the same, of ±0 each is itself); with `either_zero` it may give the
    other zero, where an extreme is involved that may too. One that is not exact `reassociates`: it gives what the
    order of a sum may give. Where the left-hand side is undefined (a division by zero), nothing is said.

    As a rewrite it replaces the left-hand side by the right-hand side, which is never more work: where it makes more
    ops than the one that it replaces, the others must have no other use.

    Errors: CuestaError for a name that is none; the equation is checked by `check`.
    """

    name: str
    lhs: Term
    rhs: Operand
    kinds: str = "fiub"
    where: Where | tuple[Where, ...] = ()
    exact: bool = True
    either_zero: bool = False
    note: str = ""
    """What a reader should know: mostly what happens to NaN, ±0 and at overflow, where that is not obvious."""
    _place: tuple[str, int] = field(default=("", 0), init=False, repr=False)

    def __post_init__(self) -> None:
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # whoever wrote the law, past __init__
        object.__setattr__(self, "_place", (frame.f_code.co_filename, frame.f_lineno))
        if not _NAME.fullmatch(self.name):
            message = f"a law's name is words joined by hyphens, not {self.name!r}"
            raise CuestaError(Diagnostic(message, place=self.source))

    @property
    def source(self) -> str:
        """File and line of the law."""
        return f"{Path(self._place[0]).name}:{self._place[1]}"

    @cached_property
    def types(self) -> dict[Term, Type]:
        """The type of every term of both sides and of the conditions.

        It is found, and the law checked, when it is first asked for: of all our laws, a program needs a few.
        Errors: CuestaError, where the equation does not make sense.
        """
        found: dict[Term, Type] = {}
        try:
            self._check(found)
        except ValueError as error:
            raise CuestaError(Diagnostic(f"the law {self.name} ({self}): {error}", place=self.source)) from None
        return found

    def check(self) -> None:
        """Checks the equation. Errors: CuestaError, where it does not make sense."""
        assert self.types

    def _check(self, types: dict[Term, Type]) -> None:
        if isinstance(self.lhs, Variable | Constant | Number | Points):
            raise ValueError("the left-hand side must be an op")
        root = assign_types(self.lhs, None, types)
        if root is None:
            root = assign_types(self.lhs, assign_types(self.right, None, types) or T, types)
        if root is None:
            raise ValueError("nothing says of what type the left-hand side is")
        if assign_types(self.right, root, types) is not root:
            raise ValueError("the two sides are of different types")
        for condition in self.conditions:
            if isinstance(condition, Term):
                assign_types(condition, BOOL, types)
            else:
                types.update({one: T for one in condition.of if isinstance(one, Points)})
        known = set(subterms(self.lhs))
        for term in (self.right, *(each for each in self.conditions if isinstance(each, Term))):
            for part in subterms(term):
                if isinstance(part, Variable | Constant) and part not in known:
                    raise ValueError(f"{part} does not stand on the left-hand side")
        if work(self.right, known) > work(self.lhs, set()):
            raise ValueError("the right-hand side is more work than the left-hand side")

    @cached_property
    def right(self) -> Term:
        """The right-hand side."""
        return as_term(self.rhs)

    @property
    def conditions(self) -> tuple[Where, ...]:
        """What must hold besides."""
        return self.where if isinstance(self.where, tuple) else (self.where,)

    @property
    def equation(self) -> str:
        """The law as text: `x / c = x * (1.0 / c)`."""
        return f"{self.lhs} = {self.right}"

    def __str__(self) -> str:
        conditions = ", ".join(map(str, self.conditions))
        return self.equation + (f" where {conditions}" if conditions else "")

    def kinds_of(self, kind: Type) -> str:
        """The kinds of types that one of the law's types stands for."""
        return self.kinds if kind is T else kind.kinds


def assign_types(term: Term, expected: Type | None, types: dict[Term, Type]) -> Type | None:
    """Notes the type of a term and of all it is made of; None where nothing says it.

    Errors: ValueError for operands of different types.
    """
    found = _type_of(term, expected, types)
    if found is not None:
        if types.setdefault(term, found) is not found:
            raise ValueError(f"{term} is of type {types[term].name} here and of type {found.name} there")
        if expected is not None and found is not expected:
            raise ValueError(f"{term} is of type {found.name} where {expected.name} is needed")
    return found


def _type_of(term: Term, expected: Type | None, types: dict[Term, Type]) -> Type | None:
    if isinstance(term, Variable | Constant):
        return term.type
    if isinstance(term, Apply):
        row = row_named(term.row)
        if len(term.operands) != row.arity:
            raise ValueError(f"elem.{row.name} has {row.arity} operands, not {len(term.operands)}")
        same = row.result == "same"
        operand = _common(term.operands, expected if same else None, types)
        return operand if same else BOOL
    if isinstance(term, Convert):
        if assign_types(term.operand, None, types) is None:
            raise ValueError(f"nothing says of what type {term.operand} is")
        return term.to
    if isinstance(term, Select):
        assign_types(term.condition, BOOL, types)
        return _common((term.on_true, term.on_false), expected, types)
    if isinstance(term, Reduce):
        return assign_types(term.body, expected, types)
    return expected


def _common(operands: tuple[Term, ...], expected: Type | None, types: dict[Term, Type]) -> Type | None:
    """The one type of several operands, of which numbers take that of the others."""
    found = expected
    for operand in operands:
        if found is None and not isinstance(operand, Number | Points):
            found = assign_types(operand, None, types)
    for operand in operands:
        assign_types(operand, found, types)
    return found


def is_constant(term: Term) -> bool:
    """Whether a term is made of constants alone: it is computed when the law fires."""
    return not any(isinstance(part, Variable | Reduce) for part in subterms(term))


def work(term: Term, known: set[Term]) -> float:
    """How much work a term is, without what is known already (the very same terms of the left-hand side)."""
    if term in known or is_constant(term):
        return 0.0
    own = 0.0
    if isinstance(term, Apply):
        own = work_of(row_named(term.row))
    elif isinstance(term, Select | Convert):
        own = 1.0
    elif isinstance(term, Reduce):
        return _POINTS_ASSUMED * (1.0 + sum(work(part, known) for part in term.parts))
    return own + sum(work(part, known) for part in set(term.parts))


# Facts about types that conditions need


def value_bits(scalar: Attribute) -> tuple[int, int, int]:
    """What a scalar type can hold: its significant bits, and the exponents of its least and its greatest power of two.

    Signed integers hold one more than they are told to.
    """
    width = elem.width_of(scalar)
    if width is not None:
        signed = elem.kind_of(scalar) == "i"
        return width - signed, 0, width - 1 - signed
    for kind, facts in _FLOATS.items():
        if isinstance(scalar, kind):
            return facts
    raise ValueError(f"{scalar} is no type of numbers")


_FLOATS: dict[type[AnyFloat], tuple[int, int, int]] = {
    Float16Type: (11, -24, 15),
    BFloat16Type: (8, -133, 127),
    Float32Type: (24, -149, 127),
    Float64Type: (53, -1074, 1023),
}


def least_normal_exponent(scalar: Attribute) -> int:
    """The exponent of the least normal number of a float type."""
    bits, least, _ = value_bits(scalar)
    return least + bits - 1


def holds_all_of(wide: Attribute, narrow: Attribute) -> bool:
    """Whether every value of `narrow` is one of `wide`; NaN and infinities are values of floats."""
    kinds = elem.kind_of(wide), elem.kind_of(narrow)
    if kinds[1] == "b":
        return True
    if kinds[0] == "b" or (kinds[1] == "f" and kinds[0] != "f") or kinds == ("u", "i"):
        return False
    wide_bits, wide_least, wide_greatest = value_bits(wide)
    bits, least, greatest = value_bits(narrow)
    # −2^(w − 1), which a signed integer holds besides, is a power of two: a float that holds w − 1 bits holds it too,
    # unless its exponents end there.
    if kinds == ("f", "i"):
        greatest += 1
    return wide_bits >= bits and wide_least <= least and wide_greatest >= greatest
