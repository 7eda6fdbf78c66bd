"""Orthogonal polynomials of a degree that is a number: their recurrences of three terms, written out.

A negative degree gives 0, and a fraction is cut off, as in eager. Between −1 and 1 Chebyshev's of higher degrees are a
cosine or a sine, in the place of many terms; the degrees from which on are eager's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cuesta.lowering.aten.builder import decline
from cuesta.lowering.aten.scalar import Scalar, acos, cos, multiply_add, sin, where

HIGHEST = 64
"""The highest degree: each takes a few operations of its own in the text."""

Formula = Callable[[Scalar, object], Scalar]
Start = Callable[[Scalar], Scalar]
"""P(1) of x."""
Factor = Callable[[Scalar, int], Scalar]
"""What P(k) is multiplied by, of x and k."""
OfAngle = Callable[[Scalar, int, Scalar], Scalar]
"""Of acos |x|, the degree, and whether x is below zero; but for the sign of an odd degree there."""


def _polynomial(
    start: Start, factor: Factor, weight: Callable[[int], float], over: Callable[[int], float] | None = None
) -> Formula:
    return lambda x, n: _recurrence(x, _degree(n), start, factor, weight, over)


def _recurrence(
    x: Scalar,
    degree: int,
    start: Start,
    factor: Factor,
    weight: Callable[[int], float],
    over: Callable[[int], float] | None = None,
) -> Scalar:
    """P(k + 1) = (factor · P(k) − weight · P(k − 1)) / over, where the difference is rounded once, as eager's is."""
    if degree <= 0:
        return x.like(1.0 if degree == 0 else 0.0)
    before, last = x.like(1.0), start(x)
    for k in range(1, degree):
        value = multiply_add(factor(x, k), last, before * -weight(k))
        before, last = last, value if over is None else value / over(k)
    return last


def _degree(n: object) -> int:
    if not isinstance(n, int | float) or not math.isfinite(n) or n > HIGHEST:
        decline(f"a polynomial of the degree {n}")
    return int(n)


def _chebyshev(start: Start, of_angle: OfAngle, few: int) -> Formula:
    """Those of degrees up to `few` and outside of the interval by the recurrence, the others of the angle acos |x|:
    below zero, where acos x would be near π and has no digits to spare, by symmetry.
    """

    def formula(x: Scalar, n: object) -> Scalar:
        degree = _degree(n)
        value = _recurrence(x, degree, start, lambda x, k: x + x, lambda k: 1.0)
        if degree <= few:
            return value
        below = x < 0.0
        inside = of_angle(acos(abs(x)), degree, below)
        return where(abs(x) < 1.0, where(below, -inside, inside) if degree % 2 else inside, value)

    return formula


def _of_half(angle: Scalar, degree: int, is_sine: Scalar) -> Scalar:
    """sin (n + ½)a / sin a/2, or the same of cosines: V is this of −x where W is that of x, but for the sign."""
    above, half = angle * (degree + 0.5), angle * 0.5
    return where(is_sine, sin(above), cos(above)) / where(is_sine, sin(half), cos(half))


def _shifted(formula: Formula) -> Formula:
    """Of 2x − 1: from −1 to 1 where x is from 0 to 1."""
    return lambda x, n: formula(x + x - 1.0, n)


def _kinds(few: tuple[int, int, int, int]) -> dict[str, Formula]:
    """The four kinds, given up to which degree each is no function of the angle."""
    t, u, v, w = few
    return {
        "t": _chebyshev(lambda x: x, lambda angle, n, below: cos(angle * float(n)), t),
        "u": _chebyshev(lambda x: x + x, lambda angle, n, below: sin(angle * (n + 1.0)) / sin(angle), u),
        "v": _chebyshev(lambda x: x + x - 1.0, _of_half, v),
        "w": _chebyshev(lambda x: x + x + 1.0, lambda angle, n, below: _of_half(angle, n, ~below), w),
    }


def _next(k: int) -> float:
    return k + 1.0


FORMULAS: dict[str, Formula] = {
    **{f"chebyshev_polynomial_{kind}": formula for kind, formula in _kinds((6, 8, 8, 8)).items()},
    **{f"shifted_chebyshev_polynomial_{kind}": _shifted(formula) for kind, formula in _kinds((6, 6, 4, 4)).items()},
    "hermite_polynomial_h": _polynomial(lambda x: x + x, lambda x, k: x + x, lambda k: 2.0 * k),
    "hermite_polynomial_he": _polynomial(lambda x: x, lambda x, k: x, float),
    "laguerre_polynomial_l": _polynomial(lambda x: 1.0 - x, lambda x, k: (1.0 - x) + 2.0 * k, float, over=_next),
    "legendre_polynomial_p": _polynomial(lambda x: x, lambda x, k: x * (2.0 * k + 1.0), float, over=_next),
}
"""Of x and n, by the name of the operator."""
