"""Approximations of functions, for results that are only ever rounded to 16 bits. Imported only where Triton is.

The rows of `elem`'s table state their errors. Products are fused with sums only where the text says so. Triton's exp2
gives 0 for a denormal result, a square of one does not.
"""

# pyright: basic, reportGeneralTypeIssues=false
# (the language of these functions is Triton's, whose values have no Python types)

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def exp2(x):
    """2^x as (2^(x/2))²; relative error 5e-7."""
    half = tl.exp2(x * 0.5)
    return half * half


@triton.jit
def exp(x):
    """e^x = 2^(x·log2 e); relative error 1.1e-5, most of it from the rounding of the product."""
    half = tl.exp2(x * 0.7213475204444817)
    return half * half


@triton.jit
def exp2_of_weight(x):
    """2^x, 0 for a denormal result; relative error 3e-7."""
    return tl.exp2(x)


@triton.jit
def exp_of_weight(x):
    """e^x = 2^(x·log2 e), 0 for a denormal result; relative error 1.1e-5, most from the rounding of the product."""
    return tl.exp2(x * 1.4426950408889634)


@triton.jit
def divide_by_shared(a, b):
    """a / b of many a and one b, by its reciprocal wherever that is far from what is no normal number; relative error
    3e-7.
    """
    if (tl.abs(b) >= 7.9e-31) & (tl.abs(b) <= 1.26e30):  # 2^-100, 2^100
        quotient = a * libdevice.fast_dividef(1.0, b)
    else:
        quotient = a / b
    return quotient


@triton.jit
def divide_by_two(a, first, second, is_first):
    """The same where b is one of two numbers, the first where `is_first`."""
    least, most = tl.minimum(tl.abs(first), tl.abs(second)), tl.maximum(tl.abs(first), tl.abs(second))
    if (least >= 7.9e-31) & (most <= 1.26e30):
        inverse = tl.where(is_first, libdevice.fast_dividef(1.0, first), libdevice.fast_dividef(1.0, second))
        quotient = a * inverse
    else:
        quotient = a / tl.where(is_first, first, second)
    return quotient


@triton.jit
def expm1(x):
    """e^x - 1: its series near 0, where the difference cancels; relative error 2e-5."""
    near = x * tl.fma(x, tl.fma(x, tl.fma(x, 0.041666666667, 0.16666666667), 0.5), 1.0)
    return tl.where(tl.abs(x) < 0.125, near, tl.exp(x) - 1.0)


@triton.jit
def sigmoid(x):
    """1/(1 + e^-x), or e^x/(1 + e^x) for a negative x, where e^-x would overflow; relative error 1.2e-5."""
    power = exp(tl.abs(x) * -1.0)
    return tl.where(x < 0.0, power, 1.0) * libdevice.fast_dividef(1.0, 1.0 + power)


@triton.jit
def tanh(x):
    """(1 - e)/(1 + e) with e = e^(-2|x|), its series near 0; relative error 1e-5."""
    square = x * x
    near = x * tl.fma(square, tl.fma(square, 0.13333333333, -0.33333333333), 1.0)
    power = tl.exp2(tl.abs(x) * -2.8853900817779268)
    far = libdevice.fast_dividef(1.0 - power, 1.0 + power)
    return tl.where(tl.abs(x) < 0.1875, near, libdevice.copysign(far, x))


@triton.jit
def _erfc_of(x, scaled):
    """erfc x, where `scaled` is erfc |x| · e^(x²)"""
    half = tl.exp2(x * x * -0.7213475204444817)
    tail = scaled * half * half
    return tl.where(x < 0.0, 2.0 - tail, tail)


# erfc x · e^(x²) for 0 ≤ x ≤ 10.1 as a polynomial in t = 1/(1 + p·x), without constant term: minimax fits of this
# project, by Lawson's iteration in float64. Relative errors 2.4e-4 and 4.0e-5.


@triton.jit
def erfc(x):
    """erfc x; relative error 2.7e-4."""
    t = libdevice.fast_dividef(1.0, tl.fma(tl.abs(x), 0.42, 1.0))
    p = tl.fma(t, tl.fma(t, 0.4412165156415218, 0.04412660952443509), 0.28174179384011366)
    return _erfc_of(x, t * tl.fma(t, p, 0.2329208157485423))


@triton.jit
def erfc_of_f16(x):
    """erfc x; relative error 6e-5."""
    t = libdevice.fast_dividef(1.0, tl.fma(tl.abs(x), 0.54, 1.0))
    p = tl.fma(t, tl.fma(t, -0.17877930684204094, 0.368473166451786), 0.1905781928047342)
    return _erfc_of(x, t * tl.fma(t, tl.fma(t, p, 0.31564503730074717), 0.30404419274719463))
