"""`Scalar`: a value in the body of a nest, with operators that append `elem` ops, so that formulas look like formulas.

    gelu = x * 0.5 * (1.0 + erf(x * math.sqrt(0.5)))

A number next to a scalar becomes a constant of the scalar's type. Two scalars must have one type: conversion is
explicit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import elem, sym
from cuesta.dialects.elem import kind_of

if TYPE_CHECKING:
    from cuesta.lowering.aten.builder import LoopBuilder

Number: TypeAlias = "bool | int | float | sym.Expr"


class Scalar:
    """An SSA value of a scalar type and the builder that appends to the body it lives in.

    On bools `+` is or and `*` is and, as in torch. `==` is not overloaded: `x.eq(y)`.
    """

    __slots__ = ("builder", "value")

    def __init__(self, builder: LoopBuilder, value: SSAValue):
        self.builder, self.value = builder, value

    @property
    def type(self) -> Attribute:
        """The scalar type."""
        return self.value.type

    @property
    def kind(self) -> str:
        """`f`, `i`, `u` or `b`, as in `elem.kind_of`."""
        return kind_of(self.value.type)

    @property
    def number(self) -> int | float | None:
        """The number that it is, if it is a constant."""
        owner = self.value.owner
        return owner.value if isinstance(owner, elem.ConstantOp) else None

    def like(self, other: Operand) -> Scalar:
        """A number as a constant of this scalar's type; a scalar as it is."""
        return other if isinstance(other, Scalar) else self.builder.constant(other, self.value.type)

    def convert(self, to: Attribute) -> Scalar:
        """The value as `to`, with torch's casts."""
        return self.builder.convert(self, to)

    def to_bool(self) -> Scalar:
        """Whether the value differs from zero (NaN does)."""
        return self.builder.convert(self, i1)

    def _binary(self, name: str, other: Operand) -> Scalar:
        return self.builder.elem(name, self, self.like(other))

    def _reversed(self, name: str, other: Operand) -> Scalar:
        return self.builder.elem(name, self.like(other), self)

    def __add__(self, other: Operand) -> Scalar:
        return self._binary("or" if self.kind == "b" else "add", other)

    def __radd__(self, other: Operand) -> Scalar:
        return self._reversed("or" if self.kind == "b" else "add", other)

    def __sub__(self, other: Operand) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Scalar:
        return self._reversed("sub", other)

    def __mul__(self, other: Operand) -> Scalar:
        return self._binary("and" if self.kind == "b" else "mul", other)

    def __rmul__(self, other: Operand) -> Scalar:
        return self._reversed("and" if self.kind == "b" else "mul", other)

    def __truediv__(self, other: Operand) -> Scalar:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Scalar:
        return self._reversed("div", other)

    def __neg__(self) -> Scalar:
        return self._reversed("sub", 0) if self.kind == "u" else self.builder.elem("neg", self)

    def __abs__(self) -> Scalar:
        return self if self.kind in "ub" else self.builder.elem("abs", self)

    def __and__(self, other: Operand) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Scalar:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Scalar:
        return self._binary("xor", other)

    def __invert__(self) -> Scalar:
        return self.builder.elem("not", self)

    def __lt__(self, other: Operand) -> Scalar:
        return self._binary("lt", other)

    def __le__(self, other: Operand) -> Scalar:
        return self._binary("le", other)

    def __gt__(self, other: Operand) -> Scalar:
        return self._binary("gt", other)

    def __ge__(self, other: Operand) -> Scalar:
        return self._binary("ge", other)

    def eq(self, other: Operand) -> Scalar:
        """`self == other`, false with NaN."""
        return self._binary("eq", other)

    def ne(self, other: Operand) -> Scalar:
        """`self != other`, true with NaN."""
        return self._binary("ne", other)


Operand: TypeAlias = "Scalar | Number"


def where(condition: Scalar, on_true: Operand, on_false: Operand) -> Scalar:
    """`condition ? on_true : on_false`. Requires: one of the two is a scalar, which gives a number its type."""
    typed = on_true if isinstance(on_true, Scalar) else on_false
    assert isinstance(typed, Scalar), "a select between two numbers has no type"
    return condition.builder.select(condition, typed.like(on_true), typed.like(on_false))


def _function(name: str) -> Callable[[Scalar], Scalar]:
    return lambda x: x.builder.elem(name, x)


def _binary_function(name: str) -> Callable[[Scalar, Operand], Scalar]:
    return lambda x, y: x.builder.elem(name, x, x.like(y))


sqrt, rsqrt, exp, exp2, expm1 = map(_function, ("sqrt", "rsqrt", "exp", "exp2", "expm1"))
log, log2, log10, log1p, sigmoid = map(_function, ("log", "log2", "log10", "log1p", "sigmoid"))
sin, cos, tan, asin, acos, atan = map(_function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_function, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
erf, erfc, lgamma = map(_function, ("erf", "erfc", "lgamma"))
maximum, minimum, fmod = map(_binary_function, ("maximum", "minimum", "fmod"))
power, atan2, copysign, hypot = map(_binary_function, ("pow", "atan2", "copysign", "hypot"))
trunc_div, gcd, shift_left, shift_right = map(_binary_function, ("trunc_div", "gcd", "shl", "shr"))


def _rounding(name: str) -> Callable[[Scalar], Scalar]:
    return lambda x: x.builder.elem(name, x) if x.kind == "f" else x


# Integers are whole already.
floor, ceil, trunc, nearest = map(_rounding, ("floor", "ceil", "trunc", "round"))


def is_nan(x: Scalar) -> Scalar:
    """Whether x is NaN; an integer never is."""
    return x.ne(x) if x.kind == "f" else x.builder.constant(False, i1)


def multiply_add(x: Scalar, y: Operand, z: Operand) -> Scalar:
    """x · y + z, of floats: the product is not rounded where the machine adds at once."""
    return x.builder.elem("multiply_add", x, x.like(y), x.like(z))


def square(x: Scalar) -> Scalar:
    """x · x"""
    return x * x


def differs_in_sign(x: Scalar, y: Operand) -> Scalar:
    """Whether exactly one of the two is below zero."""
    return (x < 0) ^ (x.like(y) < 0)
