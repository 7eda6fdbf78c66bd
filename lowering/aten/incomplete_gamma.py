"""The incomplete gamma functions P(a, x) = ∫ tᵃ⁻¹ e⁻ᵗ dt / Γ(a) from 0 to x, and Q = 1 − P.

    where x is small         P   by its power series:  xᵃ e⁻ˣ / Γ(a + 1) · (1 + x/(a+1) · (1 + x/(a+2) · (…)))
    where x is large         Q   by its continued fraction (Legendre's)
    large a, x not far off   both by Temme's uniform expansion in 1/a around the error function
    a and x are small        Q   by the power series of P, of which 1 is taken before anything is rounded

Each has a fixed number of terms, enough for the digits of a double where it is used; f32 is computed in f64, with those
that it needs. Off by a few units in the last place; in tails by as many as their logarithm: 2e-13 of 1e-250.

Source: DLMF 8.7, 8.9, 8.12; Temme, "The asymptotic expansion of the incomplete gamma functions" (1979).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from xdsl.dialects.builtin import Float32Type, f64

from cuesta.lowering.aten import series
from cuesta.lowering.aten.bessel import chebyshev
from cuesta.lowering.aten.scalar import Scalar, copysign, erfc, exp, expm1, log, log1p, maximum, minimum, sqrt, where
from cuesta.lowering.aten.scalar import power as raised

_LARGE = 16.0
"""From this a on eight terms of Stirling's series, and a dozen of Temme's, are exact to the last place of a double."""
_NEAR = (0.31, 2.35)
"""Between these quotients x/a Temme's coefficients are well within the circle where their series converge."""
_SMALL = 1.5
"""Up to this x the power series is good for Q; beyond, the continued fraction."""
_TERMS = {True: (42, 56, 20, 1e-16), False: (30, 28, 15, 3e-10)}
"""In f64, and for f32: of the power series, of the continued fraction, of the one for Q, and what Temme's coefficients
are cut off at.
"""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
"""B(2k) / (2k (2k − 1))"""
_SHIFT = 11
_LOGARITHM = 18
"""Terms of the series of w − atanh w for |w| ≤ 1/3."""


def igamma(a: Scalar, x: Scalar) -> Scalar:
    """P(a, x). Its edges are eager's, which asks in this order: NaN of negative numbers; 1 at a = 0, but NaN at x = 0
    too; 0 at x = 0; 0 at a = ∞, but NaN at x = ∞ too; 1 at x = ∞. Some of these are asked before NaN is.
    """
    return _computed(a, x, lower=True)


def igammac(a: Scalar, x: Scalar) -> Scalar:
    """Q(a, x) = 1 − P(a, x), to its own last digits."""
    return _computed(a, x, lower=False)


def _computed(a: Scalar, x: Scalar, *, lower: bool) -> Scalar:
    stored, double = a.type, not isinstance(a.type, Float32Type)
    a, x = a.convert(f64), x.convert(f64)
    terms, steps, few, least = _TERMS[double]
    scale = _scale(a, x)
    sum_from_zero = scale * _series(a, x, terms)
    fraction = scale * a / (x + 1.0 - a + _fraction(a, x, steps))
    uniform = _uniform(a, x, least, lower=lower)
    if lower:
        result = where(x <= maximum(a, _SMALL), sum_from_zero, 1.0 - fraction)
    else:
        result = where(x > maximum(a, _SMALL), fraction, 1.0 - sum_from_zero)
        result = where((x <= _SMALL) & (a <= maximum(x, 1.0)), _complement(a, x, few), result)
    result = where((a >= _LARGE) & (x > a * _NEAR[0]) & (x < a * _NEAR[1]), uniform, result)
    none, all_of_it = (0.0, 1.0) if lower else (1.0, 0.0)
    result = where(a.ne(a) | x.ne(x), math.nan, result)
    result = where(x.eq(math.inf), all_of_it, result)
    result = where(a.eq(math.inf), where(x.eq(math.inf), math.nan, x.like(none)), result)
    result = where(x.eq(0.0), none, result)
    result = where(a.eq(0.0), where(x > 0.0, all_of_it, x.like(math.nan)), result)
    return where((a < 0.0) | (x < 0.0), math.nan, result).convert(stored)


def _scale(a: Scalar, x: Scalar) -> Scalar:
    """xᵃ e⁻ˣ / Γ(a + 1): by Stirling's series, of a small a for Γ(a + 11). Large powers do not meet small ones."""
    small = a < _LARGE
    b = where(small, a + float(_SHIFT), a)
    inverse = 1.0 / (b * b)
    rest = b.like(_STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        rest = rest * inverse + coefficient
    quotient = a.like(1.0)
    for k in range(1, _SHIFT):
        quotient = quotient * ((a + float(k)) / b)
    bounded = minimum(x, 1e6)  # the exponential is 0 from there on
    ratio = x / a
    exponent = where(small, b - bounded, a * (log(ratio) - (ratio - 1.0))) - rest / b
    base = raised(where(small, bounded / b, 1.0), where(small, a, 1.0))
    return base * exp(exponent) * where(small, quotient, 1.0) / sqrt(b * (2.0 * math.pi))


def _series(a: Scalar, x: Scalar, terms: int) -> Scalar:
    total = x.like(1.0)
    for k in reversed(range(1, terms + 1)):
        total = x / (a + float(k)) * total + 1.0
    return total


def _fraction(a: Scalar, x: Scalar, steps: int) -> Scalar:
    """1(a − 1)/(x + 3 − a + 2(a − 2)/(x + 5 − a + …)), from its end."""
    rest = x.like(0.0)
    for k in reversed(range(1, steps + 1)):
        rest = (a - float(k)) * float(k) / (x + float(2 * k + 1) - a + rest)
    return rest


def _complement(a: Scalar, x: Scalar, terms: int) -> Scalar:
    """1 − xᵃ / Γ(1 + a) · (1 + a Σ (−x)ᵏ / (k! (a + k)))"""
    bounded = minimum(a, 2.0)
    exponent = bounded * (log(x) - chebyshev(bounded - 1.0, series.LOG_GAMMA))
    missing = expm1(exponent)
    term, total = x.like(1.0), x.like(0.0)
    for k in range(1, terms + 1):
        term = term * x * (-1.0 / k)
        total = total + term / (a + float(k))
    return -missing - (missing + 1.0) * a * total


def _uniform(a: Scalar, x: Scalar, least: float, *, lower: bool) -> Scalar:
    """½ erfc(∓ η √(a/2)) ∓ e^(−a η²/2) / √(2πa) Σ C_k(η) a⁻ᵏ, where η²/2 = μ − log(1 + μ) and μ = x/a − 1."""
    excess = (x - a) / a
    w = excess / (excess + 2.0)
    square = w * w
    rest = w.like(1.0 / (2 * _LOGARITHM + 3))
    for k in reversed(range(_LOGARITHM)):
        rest = rest * square + 1.0 / (2 * k + 3)
    half_square = where(abs(excess) < 0.5, excess * w - 2.0 * w * square * rest, excess - log1p(maximum(excess, -0.9)))
    eta = copysign(sqrt(half_square * 2.0), excess)
    inverse, total = 1.0 / a, a.like(0.0)
    for row in reversed(_coefficients(least)):
        one = eta.like(row[-1])
        for coefficient in reversed(row[:-1]):
            one = one * eta + coefficient
        total = total * inverse + one
    root = copysign(sqrt(a * half_square), excess)
    correction = exp(-(a * half_square)) / sqrt(a * (2.0 * math.pi)) * total
    return 0.5 * erfc(-root) - correction if lower else 0.5 * erfc(root) + correction


@functools.lru_cache(maxsize=4)
def _coefficients(least: float) -> tuple[tuple[float, ...], ...]:
    """Of the power series of C_0, C_1, … in η, as far as they are above `least` where a is `_LARGE` and η is 1.

    With μ = Σ αₙ ηⁿ, from η (1 + μ) = μ μ′: C_0 = 1/μ − 1/η, and C_k = (1/η) d/dη C_(k−1) − c/μ, where c, the
    coefficient of η in C_(k−1), takes away what is infinite at 0.
    """
    count = 60
    alpha: list[Fraction] = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        others = sum((alpha[i] * alpha[n + 1 - i] for i in range(2, n)), Fraction(0))
        alpha.append((alpha[n - 1] * 2 / (n + 1) - others) / 2)
    inverse: list[Fraction] = [Fraction(1)]
    for n in range(1, count + 1):
        inverse.append(-sum((alpha[j + 1] * inverse[n - j] for j in range(1, n + 1)), Fraction(0)))
    first = inverse[1:]
    row: list[Fraction] = first
    rows: list[tuple[float, ...]] = []
    while len(row) > 2:
        seen = [n for n, value in enumerate(row) if abs(value) > least * _LARGE ** len(rows)]
        if not seen:
            break
        rows.append(tuple(map(float, row[: seen[-1] + 1])))
        row = [(n + 2) * row[n + 2] - row[1] * first[n] for n in range(len(row) - 2)]
    return tuple(rows)
