"""sinh, cosh, asinh and acosh of f32, right up to the largest number.

SLEEF's versions overflow early: sinh and cosh beyond 88.5, asinh and acosh beyond 2^64.
"""

from __future__ import annotations

import math

from cuesta.targets.cpu import polynomials
from cuesta.targets.cpu.vector_text import VectorText

# (sinh(r) - r) / r³ in r², for |r| ≤ 1; relative error of sinh 2^-25.
_SINH = (0.1666671750596811, 0.008330222599110478, 0.00020377520612779705)

# Where the square of a number would overflow, log1p sees the number itself instead of its double.
_HUGE = 2.0**60


def sinh(text: VectorText, x: str) -> str:
    """sinh |x| = h - 1/(4h) with h = e^|x|/2; an odd polynomial for |x| < 1"""
    size = text.intrinsic("fabs", x)
    power = polynomials.half_exp(text, size)
    large = text.subtract(power, text.divide(text.constant(0.25), power))
    square = text.multiply(size, size)
    cube = text.multiply(square, size)
    small = text.multiply_add(cube, text.polynomial(square, _SINH), size)
    result = text.select(text.compare("olt", size, text.constant(1.0)), small, large)
    return text.intrinsic("copysign", result, x)


def cosh(text: VectorText, x: str) -> str:
    """cosh x = h + 1/(4h) with h = e^|x|/2"""
    power = polynomials.half_exp(text, text.intrinsic("fabs", x))
    return text.add(power, text.divide(text.constant(0.25), power))


def asinh(text: VectorText, x: str) -> str:
    """asinh |x| = log1p(|x| + |x|·(|x| / (1 + √(x² + 1)))), log |x| + log 2 for the largest"""
    size = text.intrinsic("fabs", x)
    root = text.intrinsic("sqrt", text.multiply_add(size, size, text.constant(1.0)))
    ratio = text.divide(size, text.add(root, text.constant(1.0)))
    huge = text.compare("oge", size, text.constant(_HUGE))
    argument = text.select(huge, size, text.multiply_add(size, ratio, size))
    return text.intrinsic("copysign", _plus_log_two_if(text, huge, polynomials.log1p(text, argument)), x)


def acosh(text: VectorText, x: str) -> str:
    """acosh x = log1p(d + √(d·(d + 2))) with d = x - 1, log x + log 2 for the largest, NaN for x < 1"""
    excess = text.subtract(x, text.constant(1.0))
    root = text.intrinsic("sqrt", text.multiply(excess, text.add(excess, text.constant(2.0))))
    huge = text.compare("oge", x, text.constant(_HUGE))
    result = polynomials.log1p(text, text.select(huge, x, text.add(excess, root)))
    result = _plus_log_two_if(text, huge, result)
    return text.select(text.compare("olt", x, text.constant(1.0)), text.constant(math.nan), result)


def _plus_log_two_if(text: VectorText, huge: str, result: str) -> str:
    return text.select(huge, text.add(result, text.constant(math.log(2))), result)
