"""Special functions, as formulas over scalars; those that `elem` has a row for are not here."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type

from cuesta.lowering.aten.builder import decline
from cuesta.lowering.aten.scalar import (
    Scalar,
    copysign,
    erf,
    erfc,
    exp,
    floor,
    is_nan,
    log,
    log1p,
    nearest,
    sin,
    sqrt,
    tan,
    where,
)

_ASYMPTOTIC_FROM = 10
"""From here on eight terms of digamma's asymptotic series are exact to the last place of a double."""
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k"""
_INVERSE_ERF_NEAR = (
    1.50140941,
    0.24664028,
    -0.00417738687,
    -0.0012527419,
    0.000218344445,
    -4.96334542e-06,
    -3.4627044e-06,
    4.66170121e-07,
    2.32326247e-08,
    -8.79101769e-09,
)
"""erfinv x / x as a polynomial of w − 2.5, where w = −log(1 − x²) < 5; within 6e-9, fitted to a double's."""
_INVERSE_ERF_FAR = (
    2.83297682,
    1.00167513,
    0.00944568403,
    -0.00763940811,
    0.00568317436,
    -0.00358699681,
    0.00149585016,
    -7.6601842e-05,
    -0.000318717328,
    0.000128952539,
)
"""The same of √w − 3, from there to the last f32 before 1."""


def digamma(x: Scalar) -> Scalar:
    """d/dx log Γ(x)

    Below zero by reflection, ψ(x) = ψ(1 − x) − π / tan πx; up from there by ψ(x) = ψ(x + 1) − 1/x; then
    log x − 1/2x − Σ B(2k) / 2k x^2k. It is ∓∞ at ±0 and NaN at the other poles.
    """
    negative = x < 0.0
    up = where(negative, 1.0 - x, x)
    below: Scalar = x.like(0.0)
    for _ in range(_ASYMPTOTIC_FROM):
        small = up < float(_ASYMPTOTIC_FROM)
        below = below + where(small, 1.0 / up, 0.0)
        up = where(small, up + 1.0, up)
    inverse = 1.0 / (up * up)
    series = x.like(_BERNOULLI[-1])
    for coefficient in reversed(_BERNOULLI[:-1]):
        series = series * inverse + coefficient
    result = log(up) - 0.5 / up - series * inverse - below
    # tan has the period π: the distance from the nearest pole keeps the digits, and is exact.
    reflected = result - math.pi / tan((x - nearest(x)) * math.pi)
    result = where(negative, reflected, result)
    result = where(negative & x.eq(floor(x)), math.nan, result)
    result = where(x.eq(math.inf), math.inf, result)
    return where(x.eq(0.0), copysign(x.like(math.inf), -x), result)


def polygamma(order: object, x: Scalar) -> Scalar:
    """The first derivatives of digamma: itself, and trigamma."""
    if order == 0:
        return digamma(x)
    if order != 1:
        decline(f"the derivative {order} of digamma")
    return trigamma(x)


def trigamma(x: Scalar) -> Scalar:
    """Σ 1/(x + k)², like `digamma`: by reflection, ψ₁(x) = π² / sin² πx − ψ₁(1 − x), and an asymptotic series."""
    negative = x < 0.5
    up = where(negative, 1.0 - x, x)
    below: Scalar = x.like(0.0)
    for _ in range(_ASYMPTOTIC_FROM):
        small = up < float(_ASYMPTOTIC_FROM)
        below = below + where(small, 1.0 / (up * up), 0.0)
        up = where(small, up + 1.0, up)
    inverse = 1.0 / (up * up)
    series = x.like(_BERNOULLI[-1] * 2 * len(_BERNOULLI))
    for k in reversed(range(1, len(_BERNOULLI))):
        series = series * inverse + _BERNOULLI[k - 1] * 2 * k
    result = below + 1.0 / up + 0.5 * inverse + series * inverse / up
    # At its poles, as eager has it: as large as the sine of a rounded multiple of π is small.
    sine = sin(x * math.pi)
    return where(negative, (math.pi * math.pi) / (sine * sine) - result, result)


def erfinv(x: Scalar) -> Scalar:
    """The y with erf y = x: Winitzki's approximation, good to 2e-3, then two steps of Halley's iteration.

    What a step corrects is told by erfc where erf is flat: 1 − |x| is exact there.
    In f32 it is x times a polynomial of the logarithm, within 4 ULP.
    """
    if isinstance(x.type, Float32Type):
        return _single_erfinv(x)
    a = 0.147
    wanted = abs(x)
    logarithm = log1p(-(x * x))
    t = logarithm * 0.5 + 2.0 / (math.pi * a)
    # √(t² − l/a) − t, without the difference.
    y = sqrt((-logarithm / a) / (sqrt(t * t - logarithm / a) + t))
    for _ in range(2):
        excess = where(wanted < 0.5, erf(y) - wanted, (1.0 - wanted) - erfc(y))
        step = excess / (exp(-(y * y)) * (2.0 / math.sqrt(math.pi)))
        y = y - step / (y * step + 1.0)
    return copysign(where(wanted.eq(1.0), math.inf, y), x)


def _single_erfinv(x: Scalar) -> Scalar:
    wanted = abs(x)
    w = -log((1.0 - wanted) * (1.0 + wanted))
    is_near = w < 5.0
    t = where(is_near, w - 2.5, sqrt(w) - 3.0)
    ratio = where(is_near, _INVERSE_ERF_NEAR[-1], x.like(_INVERSE_ERF_FAR[-1]))
    for near, far in zip(reversed(_INVERSE_ERF_NEAR[:-1]), reversed(_INVERSE_ERF_FAR[:-1]), strict=True):
        ratio = ratio * t + where(is_near, near, x.like(far))
    return where(wanted.eq(1.0), copysign(x.like(math.inf), x), ratio * x)


def entr(x: Scalar) -> Scalar:
    """−x log x; 0 at 0, and −∞ below."""
    inside = where(x > 0.0, -x * log(x), where(x.eq(0.0), x.like(0.0), -math.inf))
    return where(is_nan(x), x, inside)
