"""Bessel functions and the scaled complement of erf: series of their smooth parts (`series.py`), with the rest around.

Where eager's own are infinite, NaN or zero, so are these. In f32 a series ends where its terms are below a unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type

from cuesta.dialects.core.rounding import rounded
from cuesta.lowering.aten import series
from cuesta.lowering.aten.scalar import Scalar, cos, exp, log, rsqrt, sin, sqrt, where

_SINGLE = 1e-9
"""Of the greatest coefficient: what f32 does not see, nor a sum of some tens."""


def chebyshev(t: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Σ c_k T_k(t), by Clenshaw's recurrence."""
    if isinstance(t.type, Float32Type):
        least = _SINGLE * max(map(abs, coefficients))
        coefficients = coefficients[: max(k for k, one in enumerate(coefficients) if abs(one) > least) + 1]
    double = t + t
    last, before = t.like(coefficients[-1]), t.like(0.0)
    for coefficient in reversed(coefficients[1:-1]):
        last, before = double * last - before + coefficient, last
    return t * last - before + coefficients[0]


# -- I: even in x for order 0, odd for 1 -------------------------------------------------------------------------------


def i0e(x: Scalar) -> Scalar:
    """e^-|x| I0(x)"""
    size = abs(x)
    far = chebyshev(16.0 / size - 1.0, series.I0_FAR) * rsqrt(size)
    return where(size <= 8.0, chebyshev(size * 0.25 - 1.0, series.I0_NEAR), far)


def i1e(x: Scalar) -> Scalar:
    """e^-|x| I1(x)"""
    size = abs(x)
    far = chebyshev(16.0 / size - 1.0, series.I1_FAR) * rsqrt(size)
    value = where(size <= 8.0, chebyshev(size * 0.25 - 1.0, series.I1_NEAR) * size, far)
    return where(x < 0.0, -value, value)


def i0(x: Scalar) -> Scalar:
    """I0(x)"""
    return exp(abs(x)) * i0e(x)


def i1(x: Scalar) -> Scalar:
    """I1(x)"""
    return exp(abs(x)) * i1e(x)


# -- K: of positive numbers --------------------------------------------------------------------------------------------


def scaled_k0(x: Scalar) -> Scalar:
    """e^x K0(x)"""
    far = chebyshev(4.0 / x - 1.0, series.K0_FAR) * rsqrt(x)
    return _positive(x, where(x <= 2.0, _near_k0(x) * exp(x), far))


def k0(x: Scalar) -> Scalar:
    """K0(x)"""
    far = chebyshev(4.0 / x - 1.0, series.K0_FAR) * rsqrt(x)
    return _positive(x, where(x <= 2.0, _near_k0(x), exp(-x) * far))


def scaled_k1(x: Scalar) -> Scalar:
    """e^x K1(x)"""
    far = chebyshev(4.0 / x - 1.0, series.K1_FAR) * rsqrt(x)
    return _positive(x, where(x <= 2.0, _near_k1(x) * exp(x), far))


def k1(x: Scalar) -> Scalar:
    """K1(x)"""
    far = chebyshev(4.0 / x - 1.0, series.K1_FAR) * rsqrt(x)
    return _positive(x, where(x <= 2.0, _near_k1(x), exp(-x) * far))


def _near_k0(x: Scalar) -> Scalar:
    regular = exp(x) * chebyshev(x * 0.25 - 1.0, series.I0_NEAR)
    return chebyshev(x * x * 0.5 - 1.0, series.K0_NEAR) - (log(x) - math.log(2.0)) * regular


def _near_k1(x: Scalar) -> Scalar:
    regular = exp(x) * chebyshev(x * 0.25 - 1.0, series.I1_NEAR) * x
    return chebyshev(x * x * 0.5 - 1.0, series.K1_NEAR) / x + (log(x) - math.log(2.0)) * regular


def _positive(x: Scalar, value: Scalar) -> Scalar:
    return where(x.eq(0.0), math.inf, where(x < 0.0, math.nan, value))


# -- J and Y -----------------------------------------------------------------------------------------------------------


def j0(x: Scalar) -> Scalar:
    """J0(x)"""
    size = abs(x)
    return where(size <= 5.0, _near_j0(size), _far(size, 0)[0])


def j1(x: Scalar) -> Scalar:
    """J1(x)"""
    size = abs(x)
    value = where(size <= 5.0, _near_j1(size), _far(size, 1)[0])
    return where(x < 0.0, -value, value)


def y0(x: Scalar) -> Scalar:
    """Y0(x): −∞ at 0, and NaN below."""
    near = chebyshev(x * x * 0.08 - 1.0, series.Y0_NEAR) + log(x) * _near_j0(x) * (2.0 / math.pi)
    return -_positive(x, -where(x <= 5.0, near, _far(x, 0)[1]))


def y1(x: Scalar) -> Scalar:
    """Y1(x): −∞ at 0, and NaN below."""
    singular = log(x) * _near_j1(x) - 1.0 / x
    near = chebyshev(x * x * 0.08 - 1.0, series.Y1_NEAR) * x + singular * (2.0 / math.pi)
    return -_positive(x, -where(x <= 5.0, near, _far(x, 1)[1]))


def _near_j0(x: Scalar) -> Scalar:
    square = x * x
    return _without(square, series.J0_ROOTS) * chebyshev(square * 0.08 - 1.0, series.J0_NEAR)


def _near_j1(x: Scalar) -> Scalar:
    square = x * x
    return _without(square, series.J1_ROOTS) * chebyshev(square * 0.08 - 1.0, series.J1_NEAR) * x


def _without(square: Scalar, roots: Sequence[tuple[float, float]]) -> Scalar:
    """The product of x² − r. A root has more digits than the type."""
    product: Scalar | None = None
    for high, low in roots:
        first = rounded(high, square.type) if isinstance(square.type, Float32Type) else high
        factor = (square - first) - (high - first + low)
        product = factor if product is None else product * factor
    assert product is not None
    return product


def _far(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """J and Y from Hankel's expansion: √(2/πx) (P cos χ − Q sin χ) and √(2/πx) (P sin χ + Q cos χ), χ = x − π/4 − nπ/2.

    The sine and cosine of χ are sums of those of x, divided by √2: nothing is lost in x − π/4.
    """
    t = 50.0 / (x * x) - 1.0
    p, q = (series.P1_FAR, series.Q1_FAR) if order else (series.P0_FAR, series.Q0_FAR)
    even, odd = chebyshev(t, p), chebyshev(t, q) / x
    sine, cosine = sin(x), cos(x)
    sine_of, cosine_of = (-sine - cosine, sine - cosine) if order else (sine - cosine, sine + cosine)
    factor = sqrt(1.0 / (x * math.pi))
    j = factor * (even * cosine_of - odd * sine_of)
    y = factor * (even * sine_of + odd * cosine_of)
    return j, y


def spherical_j0(x: Scalar) -> Scalar:
    """sin x / x; 1 at 0, and 0 at infinity."""
    quotient = where(x.eq(0.0), 1.0, sin(x) / x)
    return where(abs(x).eq(math.inf), 0.0, quotient)


# -- the complement of erf ---------------------------------------------------------------------------------------------


def erfcx(x: Scalar) -> Scalar:
    """Erfc times e^(x²). Below zero it is 2 e^(x²) less that of −x."""
    size = abs(x)
    t = where(size.eq(math.inf), 1.0, (size - 3.75) / (size + 3.75))
    value = chebyshev(t, series.ERFCX) / (1.0 + 2.0 * size)
    return where(x < 0.0, 2.0 * exp(x * x) - value, value)
