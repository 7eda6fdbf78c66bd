"""Pairs of scalars: what pointwise ops of complex numbers compute, written over the real and the imaginary parts.

A formula takes the overload's arguments in the order of the schema, as many as it has parameters, and gives a `Pair`,
or a `Scalar` where the result is real. How each argument is passed is said by one letter per parameter:

    z  as a pair: of a real tensor or number the imaginary part is 0, as eager converts it (the default)
    s  as a scalar: a tensor of real numbers
    b  as a bool
    p  as a Python value; n  the same, which may be a complex number
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from cuesta.dialects.core.structs import struct
from cuesta.lowering.aten import arithmetic
from cuesta.lowering.aten import scalar as s
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
    return s.hypot(z.real, z.imaginary)


def _polar(magnitude: Scalar, angle: Scalar) -> Pair:
    return Pair(magnitude * s.cos(angle), magnitude * s.sin(angle))


def _exp(z: Pair) -> Pair:
    """Of an infinite real part, C's: a real exponent has a real exponential, e^−∞ is 0 whatever the imaginary part. A
    great one is a product of two, which overflows only where the parts do.
    """
    magnitude, is_real = s.exp(z.real), z.imaginary.eq(0.0)
    is_infinite = arithmetic.is_infinite(z.real) & ~arithmetic.is_finite(z.imaginary)
    angle = where(is_infinite, 0.0, z.imaginary)
    is_great = (z.real > 40.0) & arithmetic.is_finite(z.real)
    near, rest = where(is_great, s.exp(z.real - 40.0), magnitude), where(is_great, z.real.like(math.exp(40.0)), 1.0)
    real, imaginary = (near * part * rest for part in (s.cos(angle), s.sin(angle)))
    return Pair(where(is_real, magnitude, real), where(is_real, z.imaginary, imaginary))


def _sign(z: Pair) -> Pair:
    """z / |z|; 0 of 0."""
    magnitude = _magnitude(z)
    zero = magnitude.eq(0.0)
    return Pair(where(zero, 0.0, z.real / magnitude), where(zero, 0.0, z.imaginary / magnitude))


def _reciprocal(z: Pair) -> Pair:
    return _one(z) / z


def _choose(condition: Scalar, z: Pair, w: Pair) -> Pair:
    return Pair(where(condition, z.real, w.real), where(condition, z.imaginary, w.imaginary))


def _replace_where(z: Pair, mask: Scalar, value: Pair) -> Pair:
    return _choose(mask, value, z)


def _same(z: Pair) -> Pair:
    return z


def _second(_: object, z: Pair) -> Pair:
    return z


# -- functions, as C has them at infinities and zeros (Annex G of its standard) -------------------------------------


def _log(z: Pair) -> Pair:
    """log |z| + i angle. Near 1, log |z| = log1p((m − 1) (m + 1) + n²) / 2 for the parts m ≥ n; where |z| may overflow,
    log m + log1p((n / m)²) / 2.
    """
    x, y = abs(z.real), abs(z.imaginary)
    large, small = s.maximum(x, y), s.minimum(x, y)
    near = s.log1p((large - 1.0) * (large + 1.0) + small * small) * 0.5
    far = s.log(large) + s.log1p(s.square(small / large)) * 0.5
    is_near = (large > 0.5) & (large < 2.0)
    is_far = (large > 1e18) & arithmetic.is_finite(large)
    magnitude = where(is_near, near, where(is_far, far, s.log(_magnitude(z))))
    return Pair(magnitude, s.atan2(z.imaginary, z.real))


def _log_to(base: float) -> Callable[[Pair], Pair]:
    """log z / log base"""

    def formula(z: Pair) -> Pair:
        logarithm = _log(z)
        return Pair(logarithm.real * (1.0 / math.log(base)), logarithm.imaginary * (1.0 / math.log(base)))

    return formula


def _sinh(z: Pair) -> Pair:
    """sinh x · cos y + i cosh x · sin y"""
    x, y = z.real, z.imaginary
    cosine, sine = _angle(z)
    unknown = ~arithmetic.is_finite(y)
    real = where(_is_far(x), _far(x, cosine) * _sign_of(x), s.sinh(x) * cosine)
    real = where(unknown, where(x.eq(0.0), x, where(arithmetic.is_infinite(x), math.inf, real)), real)
    imaginary = where(_is_far(x), _far(x, sine), s.cosh(x) * sine)
    is_real = y.eq(0.0)
    return Pair(where(is_real, s.sinh(x), real), where(is_real, y, imaginary))


def _cosh(z: Pair) -> Pair:
    """cosh x · cos y + i sinh x · sin y"""
    x, y = z.real, z.imaginary
    cosine, sine = _angle(z)
    real = where(_is_far(x), _far(x, cosine), s.cosh(x) * cosine)
    imaginary = where(_is_far(x), _far(x, sine) * _sign_of(x), s.sinh(x) * sine)
    imaginary = where(x.eq(0.0) & ~arithmetic.is_finite(y), 0.0, imaginary)
    is_real = y.eq(0.0)
    return Pair(where(is_real, s.cosh(x), real), where(is_real, y * _sign_of(x), imaginary))


def _angle(z: Pair) -> tuple[Scalar, Scalar]:
    """cos y and sin y; 1 and NaN of no finite y where x is infinite."""
    endless = arithmetic.is_infinite(z.real) & ~arithmetic.is_finite(z.imaginary)
    return where(endless, 1.0, s.cos(z.imaginary)), s.sin(z.imaginary)


def _is_far(x: Scalar) -> Scalar:
    """Whether sinh |x| and cosh x are e^|x| / 2."""
    return abs(x) > 40.0


def _far(x: Scalar, factor: Scalar) -> Scalar:
    """e^|x| / 2 · factor, which overflows only where the product does."""
    half = s.exp(abs(x) * 0.5)
    return half * 0.5 * factor * half


def _sign_of(x: Scalar) -> Scalar:
    return s.copysign(x.like(1.0), x)


def _swapped(z: Pair) -> Pair:
    return Pair(z.imaginary, z.real)


def _tanh(z: Pair) -> Pair:
    """(sinh x · cosh x + i sin y · cos y) / (sinh² x + cos² y); far from 0, ±1 + 4 i sin y · cos y · e^(−2 |x|)."""
    x, y = z.real, z.imaginary
    finite = arithmetic.is_finite(y)
    sine, cosine = where(finite, s.sin(y), 0.0), where(finite, s.cos(y), 1.0)
    is_far = abs(x) > 20.0
    near = where(is_far, 0.0, x)
    sinh, cosh = s.sinh(near), s.cosh(near)
    below = s.square(sinh) + s.square(cosine)
    decay = s.exp(abs(x) * -1.0)
    real = where(is_far, _sign_of(x), sinh * cosh / below)
    imaginary = where(is_far, sine * cosine * 4.0 * decay * decay, sine * cosine / below)
    unknown = ~finite & ~arithmetic.is_infinite(x)
    real = where(unknown & x.ne(0.0), math.nan, where(x.eq(0.0), x, real))
    real = where(s.is_nan(x), x, real)
    imaginary = where(unknown, math.nan, where(s.is_nan(x), x, imaginary))
    return Pair(real, where(y.eq(0.0), y, imaginary))


def _sqrt(z: Pair) -> Pair:
    """The larger part is √((|z| + |x|) / 2), the other |y| / 2 of it; of z scaled, where |z| is near an end of the
    range.
    """
    x, y = z.real, z.imaginary
    largest = s.maximum(abs(x), abs(y))
    is_large, is_small = largest > 1e38, largest < 1e-30
    scale = where(is_large, x.like(0.25), where(is_small, x.like(2.0**64), 1.0))
    back = where(is_large, x.like(2.0), where(is_small, x.like(2.0**-32), 1.0))
    a, b = abs(x) * scale, abs(y) * scale
    larger = s.sqrt((_magnitude(Pair(a, b)) + a) * 0.5)
    other = where(b.eq(0.0) & ~s.is_nan(a), 0.0, b * 0.5 / larger)
    larger, other = larger * back, other * back
    forward = x >= 0.0
    endless = arithmetic.is_infinite(y)
    real = where(endless, math.inf, where(forward, larger, other))
    imaginary = where(endless, math.inf, where(forward, other, larger))
    return Pair(real, s.copysign(imaginary, y))


def _one(z: Pair) -> Pair:
    return Pair(z.real.like(1.0), z.real.like(0.0))


def _sigmoid(z: Pair) -> Pair:
    """1 / (1 + e^−z), or e^z / (1 + e^z): that of which the exponential does not overflow."""
    one, below = _one(z), z.real < 0.0
    growth = _exp(_choose(below, z, -z))
    return _choose(below, growth, one) / (one + growth)


def _power(z: Pair, exponent: Number | complex) -> Pair:
    """z^n by products, where there are few; any other power as in C: by a logarithm."""
    powers: dict[Number | complex, Callable[[Pair], Pair]] = {
        0: _one,
        1: _same,
        2: lambda z: z * z,
        3: lambda z: z * z * z,
        0.5: _sqrt,
        -1: _reciprocal,
        -2: lambda z: _reciprocal(z * z),
    }
    if exponent in powers:
        return powers[exponent](z)
    return _to_the(z, _number(exponent, z))


def _to_the(z: Pair, w: Pair) -> Pair:
    """e^(w log z), with the digits that C's power has.

    Source: `cpow` of the GNU C library; the errors of both against float64 are equal, up to 44 units for z^7.
    """
    return _exp(_product(w, _log(z)))


def _product(z: Pair, w: Pair) -> Pair:
    """z · w as C has it: infinite, where a factor is, and NaN not for want of a sign.

    Source: Annex G.5.1 of the standard of C, of the operator `*`.
    """
    made = z * w
    a, b, c, d = z.real, z.imaginary, w.real, w.imaginary
    of_first = arithmetic.is_infinite(a) | arithmetic.is_infinite(b)
    of_second = arithmetic.is_infinite(c) | arithmetic.is_infinite(d)
    ac, bd, ad, bc = map(arithmetic.is_infinite, (a * c, b * d, a * d, b * c))
    partial = ac | bd | ad | bc

    def finite(part: Scalar, own: Scalar, other: Scalar) -> Scalar:
        unit = s.copysign(where(arithmetic.is_infinite(part), 1.0, part.like(0.0)), part)
        nothing = s.copysign(part.like(0.0), part)
        return where(own, unit, where(s.is_nan(part) & (other | partial), nothing, part))

    first = Pair(finite(a, of_first, of_second), finite(b, of_first, of_second))
    second = Pair(finite(c, of_second, of_first), finite(d, of_second, of_first))
    endless = first * second
    lost = s.is_nan(made.real) & s.is_nan(made.imaginary) & (of_first | of_second | partial)
    return Pair(
        where(lost, endless.real * math.inf, made.real), where(lost, endless.imaginary * math.inf, made.imaginary)
    )


def _power_of(base: Number | complex, w: Pair) -> Pair:
    """base^w; 1 of the base 1, whatever w is."""
    if base == 1:
        return _one(w)
    return _to_the(_number(base, w), w)


def _number(value: Number | complex, like: Pair) -> Pair:
    """A number, also a size, in the type of a pair."""
    if isinstance(value, complex):
        return Pair(like.real.like(value.real), like.real.like(value.imag))
    return Pair(like.real.like(value), like.real.like(0.0))


def _log1p(z: Pair) -> Pair:
    """log(1 + z); near 0, log |1 + z| = log1p(x (x + 2) + y²) / 2, or x, where that is nothing."""
    x, y = z.real, z.imaginary
    far = _log(Pair(x + 1.0, y))
    excess = x * (x + 2.0) + y * y
    near = where(excess.eq(0.0), x, s.log1p(excess) * 0.5)
    return Pair(where(_magnitude(z) < 0.5, near, far.real), far.imaginary)


def _expm1(z: Pair) -> Pair:
    """e^z − 1 = expm1 x · cos y − 2 sin² (y / 2) + i e^x sin y"""
    x, y = z.real, z.imaginary
    half = s.sin(y * 0.5)
    return Pair(s.expm1(x) * s.cos(y) - half * half * 2.0, s.exp(x) * s.sin(y))


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
    "log.default": _log,
    "log2.default": _log_to(2.0),
    "log10.default": _log_to(10.0),
    "sinh.default": _sinh,
    "cosh.default": _cosh,
    "sin.default": lambda z: _swapped(_sinh(_swapped(z))),
    "cos.default": lambda z: _cosh(Pair(-z.imaginary, z.real)),
    "tanh.default": _tanh,
    "tan.default": lambda z: _swapped(_tanh(_swapped(z))),
    "sqrt.default": _sqrt,
    "rsqrt.default": lambda z: _reciprocal(_sqrt(z)),
    "sigmoid.default": _sigmoid,
    "silu.default": lambda z: z * _sigmoid(z),
    "log1p.default": _log1p,
    "expm1.default": _expm1,
    "isnan.default": lambda z: s.is_nan(z.real) | s.is_nan(z.imaginary),
    "isinf.default": lambda z: arithmetic.is_infinite(z.real) | arithmetic.is_infinite(z.imaginary),
    "isfinite.default": lambda z: arithmetic.is_finite(z.real) & arithmetic.is_finite(z.imaginary),
    "reciprocal.default": _reciprocal,
    "square.default": lambda z: z * z,
    **dict.fromkeys(
        ("clone.default", "_to_copy.default", "positive.default", "contiguous.default", "resolve_conj.default"), _same
    ),
}
_DERIVATIVES: dict[str, Callable[[Pair, Pair], Pair]] = {
    "tanh_backward.default": lambda gradient, y: gradient * _conjugate(_one(y) - y * y),
    "sigmoid_backward.default": lambda gradient, y: gradient * _conjugate((_one(y) - y) * y),
}
_OF_THREE: dict[str, Callable[[Pair, Pair, Pair, Number], Pair]] = {
    "addcmul.default": lambda z, v, w, value: z + _times(v * w, value),
    "addcdiv.default": lambda z, v, w, value: z + _times(v / w, value),
}
_OF_PARTS: dict[str, Callable[[Scalar, Scalar], Pair]] = {
    "complex.default": lambda real, imaginary: Pair(real, imaginary),
    "polar.default": _polar,
}

TABLE: dict[str, Row] = {
    **_rows("", _tensor_and_scalar(_ARITHMETIC)),
    **_rows("zzp", _tensor_and_scalar(_SUMS)),
    **_rows("", _UNARY),
    **_rows("", _DERIVATIVES),
    **_rows("zn", {"pow.Tensor_Scalar": _power}),
    **_rows("zz", {"pow.Tensor_Tensor": _to_the}),
    **_rows("nz", {"pow.Scalar": _power_of}),
    **_rows("zzzp", _OF_THREE),
    **_rows("ss", _OF_PARTS),
    **_rows("bzz", dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"), _choose)),
    **_rows("zbz", _tensor_and_scalar({"masked_fill": _replace_where})),
    **_rows("pz", {"copy.default": _second}),
    "prims::convert_element_type.default": Row(_same),
}
"""Pointwise overloads of which an argument or the result is complex."""
