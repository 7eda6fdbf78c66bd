"""Pairs of scalars: what pointwise ops of complex numbers compute, written over the real and the imaginary parts.

A formula takes the overload's arguments in the order of the schema, as many as it has parameters, and gives a `Pair`,
or a `Scalar` where the result is real. How each argument is passed is said by one letter per parameter:

    z  as a pair: of a real tensor or number the imaginary part is 0, as eager converts it (the default)
    s  as a scalar: a tensor of real numbers
    b  as a bool
    p  as a Python value
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuesta.dialects.core.structs import struct
from cuesta.lowering.aten import arithmetic
from cuesta.lowering.aten import scalar as s
from cuesta.lowering.aten.builder import decline
from cuesta.lowering.aten.scalar import Number, Scalar, where


class Pair:
    """A complex number: its parts, of one type."""

    __slots__ = ("imaginary", "real")

    def __init__(self, real: Scalar, imaginary: Scalar):
        self.real, self.imaginary = real, imaginary

    def __neg__(self) -> Pair:
        return Pair(-self.real, -self.imaginary)

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.real + other.real, self.imaginary + other.imaginary)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.real - other.real, self.imaginary - other.imaginary)

    def __mul__(self, other: Pair) -> Pair:
        """Eager's, which multiplies out: an infinite part times 0 is NaN."""
        return Pair(
            self.real * other.real - self.imaginary * other.imaginary,
            self.real * other.imaginary + self.imaginary * other.real,
        )

    def __truediv__(self, other: Pair) -> Pair:
        """Smith's formula: divides by the larger part first, so that no square overflows.

        Source: `c10::complex::operator/=`; by 0 each part is divided by itself.
        """
        a, b, c, d = self.real, self.imaginary, other.real, other.imaginary
        by_real = abs(c) >= abs(d)
        zero = c.eq(0.0) & d.eq(0.0)
        large, small = where(by_real, c, d), where(by_real, d, c)
        ratio = small / large
        scale = 1.0 / (large + small * ratio)
        upper, lower = where(by_real, a, b), where(by_real, b, a)
        real = (upper + lower * ratio) * scale
        imaginary = where(by_real, b - a * ratio, b * ratio - a) * scale
        return Pair(where(zero, a / abs(c), real), where(zero, b / abs(c), imaginary))


def _conjugate(z: Pair) -> Pair:
    return Pair(z.real, -z.imaginary)


def _times(z: Pair, alpha: Number) -> Pair:
    """Eager multiplies by 1, too, which makes NaN of 0 times an infinite part (`docs/differences.md`)."""
    if alpha == 1:
        return z
    return z * Pair(z.real.like(alpha), z.real.like(0.0))


def _magnitude(z: Pair) -> Scalar:
    return arithmetic.hypot(z.real, z.imaginary)


def _polar(magnitude: Scalar, angle: Scalar) -> Pair:
    return Pair(magnitude * s.cos(angle), magnitude * s.sin(angle))


def _exp(z: Pair) -> Pair:
    """Of an infinite real part, C's: a real exponent has a real exponential, e^−∞ is 0 whatever the imaginary part."""
    magnitude, is_real = s.exp(z.real), z.imaginary.eq(0.0)
    is_infinite = arithmetic.is_infinite(z.real) & ~arithmetic.is_finite(z.imaginary)
    angle = where(is_infinite, 0.0, z.imaginary)
    return Pair(
        where(is_real, magnitude, magnitude * s.cos(angle)), where(is_real, z.imaginary, magnitude * s.sin(angle))
    )


def _sign(z: Pair) -> Pair:
    """z / |z|; 0 of 0."""
    magnitude = _magnitude(z)
    zero = magnitude.eq(0.0)
    return Pair(where(zero, 0.0, z.real / magnitude), where(zero, 0.0, z.imaginary / magnitude))


def _reciprocal(z: Pair) -> Pair:
    return Pair(z.real.like(1.0), z.real.like(0.0)) / z


def _choose(condition: Scalar, z: Pair, w: Pair) -> Pair:
    return Pair(where(condition, z.real, w.real), where(condition, z.imaginary, w.imaginary))


def _replace_where(z: Pair, mask: Scalar, value: Pair) -> Pair:
    return _choose(mask, value, z)


def _same(z: Pair) -> Pair:
    return z


def _second(_: object, z: Pair) -> Pair:
    return z


def _power(z: Pair, exponent: Number) -> Pair:
    if exponent != 2:
        decline("only squares are multiplied out")
    return z * z


Formula = Callable[..., "Pair | Scalar"]


@struct
class Row:
    """A formula, and how its parameters are passed; fewer letters than parameters: the rest have the default."""

    formula: Formula
    passing: str = ""

    @property
    def count(self) -> int:
        """How many arguments the formula takes."""
        return self.formula.__code__.co_argcount


def _rows(passing: str, formulas: Mapping[str, Formula]) -> dict[str, Row]:
    return {f"aten.{name}": Row(formula, passing) for name, formula in formulas.items()}


def _tensor_and_scalar(formulas: Mapping[str, Formula]) -> dict[str, Formula]:
    return {f"{name}.{kind}": formula for name, formula in formulas.items() for kind in ("Tensor", "Scalar")}


_ARITHMETIC: dict[str, Callable[[Pair, Pair], Pair | Scalar]] = {
    "mul": lambda z, w: z * w,
    "div": lambda z, w: z / w,
    "eq": lambda z, w: z.real.eq(w.real) & z.imaginary.eq(w.imaginary),
    "ne": lambda z, w: z.real.ne(w.real) | z.imaginary.ne(w.imaginary),
}
_SUMS: dict[str, Callable[[Pair, Pair, Number], Pair]] = {
    "add": lambda z, w, alpha: z + _times(w, alpha),
    "sub": lambda z, w, alpha: z - _times(w, alpha),
    "rsub": lambda z, w, alpha: w - _times(z, alpha),
}
_UNARY: dict[str, Callable[[Pair], Pair | Scalar]] = {
    "neg.default": lambda z: -z,
    "conj_physical.default": _conjugate,
    "_conj_physical.default": _conjugate,
    "abs.default": _magnitude,
    "angle.default": lambda z: s.atan2(z.imaginary, z.real),
    "sgn.default": _sign,
    "exp.default": _exp,
    "reciprocal.default": _reciprocal,
    "square.default": lambda z: z * z,
    **dict.fromkeys(
        ("clone.default", "_to_copy.default", "positive.default", "contiguous.default", "resolve_conj.default"), _same
    ),
}
_OF_PARTS: dict[str, Callable[[Scalar, Scalar], Pair]] = {
    "complex.default": lambda real, imaginary: Pair(real, imaginary),
    "polar.default": _polar,
}

TABLE: dict[str, Row] = {
    **_rows("", _tensor_and_scalar(_ARITHMETIC)),
    **_rows("zzp", _tensor_and_scalar(_SUMS)),
    **_rows("", _UNARY),
    **_rows("zp", {"pow.Tensor_Scalar": _power}),
    **_rows("ss", _OF_PARTS),
    **_rows("bzz", dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"), _choose)),
    **_rows("zbz", _tensor_and_scalar({"masked_fill": _replace_where})),
    **_rows("pz", {"copy.default": _second}),
    "prims::convert_element_type.default": Row(_same),
}
"""Pointwise overloads of which an argument or the result is complex."""
