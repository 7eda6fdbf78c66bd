"""Elementary functions of f32 as straight-line code: range reduction and a polynomial.

The coefficients are minimax fits of this project, made by Lawson's iteration in float64; each comment gives
the function, the interval and the error of the fit. No function branches, except sine and cosine for huge
arguments. The accuracy is stated in `vector_math.ACCURACY_ULP` and tested there.
"""

from __future__ import annotations

import math

from cuesta.targets.cpu import x86_instructions
from cuesta.targets.cpu.vector_text import VectorText

_SIGN = -(2**31)

# Adding this number rounds an f32 to the nearest integer n, and leaves n + 254 in the low bits of the sum.
_ROUNDER = 1.5 * 2**23 + 254

_LOG2_E = 1.4426950408889634
# log(2) and π/2 as sums of f32 numbers.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_LOG10_2_HIGH, _LOG10_2_LOW = 0.3010300099849701, -1.432098883924482e-08

# √½ as the bits of an f32.
_SQRT_HALF_BITS = 0x3F3504F3

# As _ROUNDER, for n without an offset.
_QUARTER_ROUNDER = 1.5 * 2**23

# Beyond this, the reduction modulo π/2 loses accuracy, and sine, cosine and tangent call a library.
LARGEST_ANGLE = 65536.0

# (exp(r) - 1 - r) / r² for |r| ≤ log(2)/2; relative error of exp 2^-28, of expm1 2^-26.
_EXP = (0.499999932536833, 0.16666517762373131, 0.04166842182023902, 0.00836906346184121, 0.0013813880507617341)
_EXPM1 = (0.49999998099177334, 0.1666654119489933, 0.04166721037688318, 0.008366846572745959, 0.00138824593890033)
# (2^r - 1) / r for |r| ≤ 1/2; 2^-29.
_EXP2 = (
    0.6931472035106484, 0.24022647829083488, 0.05550330921624914, 0.009618443611484602, 0.0013399520735400388,
    0.00015352841020190564,
)  # fmt: skip
# (log(1 + f) - f + f²/2) / f³ for √½ ≤ 1 + f ≤ √2; relative error of log 2^-27.
_LOG = (
    0.333333316575485, -0.25000822714012233, 0.2000123338388157, -0.1662329836753999, 0.14201553062994396,
    -0.13160582554449207, 0.12763327041497197, -0.07635654900576959,
)  # fmt: skip
# (sin(r) - r) / r³ and (cos(r) - 1 + r²/2) / r⁴ in r², for |r| ≤ π/4; 2^-28 and 2^-33.
_SIN = (-0.16666654389681868, 0.00833214659507265, -0.00019513327367479558)
_COS = (0.04166664529546476, -0.0013887297031907459, 2.4430922511405772e-05)


def exp(text: VectorText, x: str) -> str:
    """e^x = 2^n · e^r with n = round(x / log 2)"""
    return _scaled_exp(text, text.at_most(x, 89.0))


def exp_of_non_positive(text: VectorText, x: str) -> str:
    """e^x for x ≤ 0, an instruction shorter."""
    return _scaled_exp(text, x)


def half_exp(text: VectorText, x: str) -> str:
    """e^x / 2 for x ≥ 0, finite up to x = 89.4"""
    rounded, r = _exp_reduction(text, text.at_most(x, 90.0))
    less = text.subtract(rounded, text.constant(1.0))
    return _scale(text, text.polynomial(r, (1.0, 1.0, *_EXP)), less)


def _scaled_exp(text: VectorText, x: str) -> str:
    rounded, r = _exp_reduction(text, _limited(text, x, -104.0))
    return _scale(text, _unless_below(text, x, -103.98, text.polynomial(r, (1.0, 1.0, *_EXP))), rounded)


def _limited(text: VectorText, x: str, least: float) -> str:
    """x, or `least` where that is needed to keep the exponents of `_scale` in their range."""
    return x if text.avx512 else text.at_least(x, least)


def _unless_below(text: VectorText, x: str, limit: float, p: str) -> str:
    """p, or 0 where x < limit, whose power underflows.

    Scaled, p would come out as 0 all the same, but slowly: the processor traps to microcode for a result that is too
    small (10 times slower), and masks of attention have -∞ in half of their places.
    """
    return text.select(text.compare("olt", x, text.constant(limit)), text.constant(0.0), p)


def _exp_reduction(text: VectorText, x: str) -> tuple[str, str]:
    """x = n·log 2 + r: (n + _ROUNDER, r)"""
    rounded = text.multiply_add(x, text.constant(_LOG2_E), text.constant(_ROUNDER))
    n = text.subtract(rounded, text.constant(_ROUNDER))
    r = text.multiply_add(n, text.constant(-_LN2_HIGH), x)
    return rounded, text.multiply_add(n, text.constant(-_LN2_LOW), r)


def _scale(text: VectorText, p: str, rounded: str) -> str:
    """p · 2^n, right also where the result is infinite or denormal, as p · 2^⌊n/2⌋ · 2^⌈n/2⌉ (-252 ≤ n ≤ 254)."""
    if text.avx512:
        return x86_instructions.scale(text, p, text.subtract(rounded, text.constant(_ROUNDER)))
    bits = text.bits(rounded)
    lower = text.integer_operation("lshr", bits, 1)
    upper = text.integer_operation("sub", bits, lower)
    for exponent in (lower, upper):
        factor = text.real_from_bits(text.integer_operation("shl", exponent, 23))
        p = text.multiply(p, factor)
    return p


def exp2(text: VectorText, x: str) -> str:
    """2^x = 2^n · 2^r with n = round(x)"""
    limited = _limited(text, text.at_most(x, 129.0), -151.0)
    rounded = text.add(limited, text.constant(_ROUNDER))
    r = text.subtract(limited, text.subtract(rounded, text.constant(_ROUNDER)))
    return _scale(text, _unless_below(text, x, -150.0, text.polynomial(r, (1.0, *_EXP2))), rounded)


def expm1(text: VectorText, x: str) -> str:
    """e^x - 1 = 2·(2^(n-1)·(e^r - 1) + (2^(n-1) - ½)); halved so that 2^128 is not needed"""
    clamped = text.at_least(text.at_most(x, 89.0), -18.0)
    rounded, r = _exp_reduction(text, clamped)
    p = text.multiply_add(text.multiply(r, r), text.polynomial(r, _EXPM1), r)
    exponent = text.integer_operation("sub", text.bits(rounded), 254 - 126)
    half_power = text.real_from_bits(text.integer_operation("shl", exponent, 23))
    half = text.multiply_add(half_power, p, text.subtract(half_power, text.constant(0.5)))
    large = text.add(half, half)
    # n = 0: the halving would cost denormals their last bit, and the sum the sign of -0.
    small = text.compare("olt", text.intrinsic("fabs", x), text.constant(0.25))
    return text.intrinsic("copysign", text.select(small, p, large), x)


def log(text: VectorText, x: str) -> str:
    """log x = k·log 2 + log1p f, with x = 2^k·(1 + f)"""
    k, f = _log_reduction(text, x)
    tail = text.multiply_add(k, text.constant(_LN2_LOW), _log_tail(text, f))
    result = text.multiply_add(k, text.constant(_LN2_HIGH), text.add(f, tail))
    return _log_special_cases(text, x, result)


def log2(text: VectorText, x: str) -> str:
    """log2 x = k + log(1 + f)·log2 e, with log2 e in two parts"""
    k, f = _log_reduction(text, x)
    low = text.multiply_add(
        f, text.constant(1.925963033500011e-08), text.multiply(_log_tail(text, f), text.constant(_LOG2_E))
    )
    result = text.add(k, text.multiply_add(f, text.constant(1.4426950216293335), low))
    return _log_special_cases(text, x, result)


def log10(text: VectorText, x: str) -> str:
    """log10 x = k·log10 2 + log(1 + f)·log10 e, with both constants in two parts"""
    k, f = _log_reduction(text, x)
    low = text.multiply(_log_tail(text, f), text.constant(0.4342944920063019))
    low = text.multiply_add(f, text.constant(-1.0103049952192578e-08), low)
    low = text.multiply_add(k, text.constant(_LOG10_2_LOW), low)
    result = text.multiply_add(f, text.constant(0.4342944920063019), low)
    result = text.multiply_add(k, text.constant(_LOG10_2_HIGH), result)
    return _log_special_cases(text, x, result)


def log1p(text: VectorText, x: str) -> str:
    """log(1 + x) = k·log 2 + log(1 + f) with f = 2^-k·x + (2^-k - 1): one rounding, so 1 + x loses nothing"""
    y = text.add(x, text.constant(1.0))
    bits = text.bits(y)
    exponent, significand = _split_exponent(text, bits)
    one_bits = 0x3F800000
    power = text.real_from_bits(text.integer_operation("sub", text.integer_constant(one_bits), exponent))
    f = text.multiply_add(x, power, text.subtract(power, text.constant(1.0)))
    # Above 2^24 the one is lost in the rounding of x; near the largest numbers 2^-k would be denormal.
    huge = text.compare("ogt", x, text.constant(2.0**25))
    f = text.select(huge, text.subtract(significand, text.constant(1.0)), f)
    k = _whole_number(text, exponent)
    tail = text.multiply_add(k, text.constant(_LN2_LOW), _log_tail(text, f))
    result = text.multiply_add(k, text.constant(_LN2_HIGH), text.add(f, tail))
    return text.intrinsic("copysign", _log_special_cases(text, y, result), x)


def _split_exponent(text: VectorText, bits: str) -> tuple[str, str]:
    """x = 2^k · m with √½ ≤ m < √2: (k in the exponent's place, m)"""
    above = text.integer_operation("sub", bits, _SQRT_HALF_BITS)
    exponent = text.integer_operation("and", above, -(2**23))
    return exponent, text.real_from_bits(text.integer_operation("sub", bits, exponent))


def _whole_number(text: VectorText, exponent: str) -> str:
    shifted = text.integer_operation("ashr", exponent, 23)
    return text.line(f"sitofp {text.integer} {shifted} to {text.real}")


def _log_reduction(text: VectorText, x: str) -> tuple[str, str]:
    """x = 2^k · (1 + f): (k, f), for denormal x too"""
    denormal = text.compare("olt", x, text.constant(2.0**-126))
    scaled = text.select(denormal, text.multiply(x, text.constant(2.0**23)), x)
    exponent, significand = _split_exponent(text, text.bits(scaled))
    k = text.add(_whole_number(text, exponent), text.select(denormal, text.constant(-23.0), text.constant(0.0)))
    return k, text.subtract(significand, text.constant(1.0))


def _log_tail(text: VectorText, f: str) -> str:
    """log(1 + f) - f = -f²/2 + f³·p(f)"""
    square = text.multiply(f, f)
    tail = text.multiply(text.multiply(text.polynomial(f, _LOG), f), square)
    return text.multiply_add(square, text.constant(-0.5), tail)


def _log_special_cases(text: VectorText, x: str, result: str) -> str:
    """log 0 = -∞, log ∞ = ∞, NaN for NaN and negative numbers"""
    result = text.select(text.compare("olt", x, text.constant(math.inf)), result, x)
    result = text.select(text.compare("oeq", x, text.constant(0.0)), text.constant(-math.inf), result)
    return text.select(text.compare("olt", x, text.constant(0.0)), text.constant(math.nan), result)


def sin(text: VectorText, x: str) -> str:
    """sin x = ±sin r or ±cos r, for |x| ≤ LARGEST_ANGLE. Its sign is taken apart first, to keep that of -0."""
    quarter, sine, cosine = _quarter_turns(text, text.intrinsic("fabs", x))
    result = text.select(_is_odd(text, quarter), cosine, sine)
    sign = text.integer_operation("and", text.bits(x), _SIGN)
    return _flip(text, text.real_from_bits(text.integer_operation("xor", text.bits(result), sign)), quarter)


def cos(text: VectorText, x: str) -> str:
    """cos x = ±cos r or ±sin r, for |x| ≤ LARGEST_ANGLE"""
    quarter, sine, cosine = _quarter_turns(text, x)
    result = text.select(_is_odd(text, quarter), sine, cosine)
    return _flip(text, result, text.integer_operation("add", quarter, 1))


def tan(text: VectorText, x: str) -> str:
    """tan x = sin r / cos r or -cos r / sin r, for |x| ≤ LARGEST_ANGLE"""
    quarter, sine, cosine = _quarter_turns(text, text.intrinsic("fabs", x))
    odd = _is_odd(text, quarter)
    quotient = text.divide(text.select(odd, cosine, sine), text.select(odd, text.negate(sine), cosine))
    sign = text.integer_operation("and", text.bits(x), _SIGN)
    return text.real_from_bits(text.integer_operation("xor", text.bits(quotient), sign))


def _quarter_turns(text: VectorText, x: str) -> tuple[str, str, str]:
    """x = n·π/2 + r: (n mod 4 in the low bits, sin r, cos r)"""
    rounded = text.multiply_add(x, text.constant(2 / math.pi), text.constant(_QUARTER_ROUNDER))
    n = text.subtract(rounded, text.constant(_QUARTER_ROUNDER))
    r = x
    for part in _HALF_PI:
        r = text.multiply_add(n, text.constant(-part), r)
    z = text.multiply(r, r)
    sine = text.multiply_add(text.multiply(text.polynomial(z, _SIN), z), r, r)
    cosine = text.polynomial(z, (1.0, -0.5, *_COS))
    return text.bits(rounded), sine, cosine


def _is_odd(text: VectorText, quarter: str) -> str:
    return text.line(f"trunc {text.integer} {quarter} to {text.boolean}")


def _flip(text: VectorText, x: str, quarter: str) -> str:
    """-x where bit 1 of `quarter` is set"""
    sign = text.integer_operation("and", text.integer_operation("shl", quarter, 30), _SIGN)
    return text.real_from_bits(text.integer_operation("xor", text.bits(x), sign))


def tanh(text: VectorText, x: str) -> str:
    """tanh |x| = -e / (e + 2) with e = e^(-2|x|) - 1, which loses nothing near 0 nor near 1"""
    size = text.intrinsic("fabs", x)
    rounded, r = _exp_reduction(text, text.at_least(text.multiply(size, text.constant(-2.0)), -20.0))
    p = text.multiply_add(text.multiply(r, r), text.polynomial(r, _EXPM1), r)
    exponent = text.integer_operation("sub", text.bits(rounded), 254 - 127)
    power = text.real_from_bits(text.integer_operation("shl", exponent, 23))
    e = text.multiply_add(power, p, text.subtract(power, text.constant(1.0)))
    ratio = quotient(text, text.negate(e), text.add(e, text.constant(2.0)))
    return text.intrinsic("copysign", text.at_most(ratio, 1.0), x)


def quotient(text: VectorText, a: str, b: str) -> str:
    """a / b for normal b, not so large that 1/b is denormal; within 1 ULP.

    A division of 16 lanes keeps one unit busy for 16 cycles. An estimate r of 1/b, better by Newton's iteration, and
    the remainder a - b·(a·r) cost 3.
    """
    if not text.avx512:
        return text.divide(a, b)
    estimate = x86_instructions.reciprocal_estimate(text, b)
    minus = text.negate(b)
    error = text.multiply_add(minus, estimate, text.constant(1.0))
    reciprocal = text.multiply_add(estimate, error, estimate)
    quotient = text.multiply(a, reciprocal)
    return text.multiply_add(text.multiply_add(minus, quotient, a), reciprocal, quotient)


def sigmoid(text: VectorText, x: str) -> str:
    """1 / (1 + e^-x) = (1 or e^-|x|) / (1 + e^-|x|): the power is at most 1, and small results are not lost"""
    power = exp_of_non_positive(text, text.negate(text.intrinsic("fabs", x)))
    negative = text.compare("olt", x, text.constant(0.0))
    top = text.select(negative, power, text.constant(1.0))
    return quotient(text, top, text.add(power, text.constant(1.0)))


def sqrt(text: VectorText, x: str) -> str:
    """√x, correctly rounded"""
    return text.intrinsic("sqrt", x)


def rsqrt(text: VectorText, x: str) -> str:
    """1 / √x"""
    return text.divide(text.constant(1.0), sqrt(text, x))
