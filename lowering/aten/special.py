"""Special functions, as formulas over scalars; those that `elem` has a row for are not here."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type, IntegerType, i32

from cuesta.dialects import elem
from cuesta.lowering.aten.bessel import erfcx
from cuesta.lowering.aten.builder import decline
from cuesta.lowering.aten.scalar import (
    Scalar,
    copysign,
    erf,
    erfc,
    exp,
    exp2,
    floor,
    is_nan,
    log,
    log1p,
    maximum,
    minimum,
    nearest,
    shift_left,
    shift_right,
    sin,
    sqrt,
    tan,
    where,
)
from cuesta.lowering.aten.scalar import power as raised

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


HIGHEST_ORDER = 20
"""Of the derivatives of digamma: beyond, the factorial is soon more than f32 holds."""


def polygamma(order: object, x: Scalar) -> Scalar:
    """The derivatives of digamma: itself, trigamma, and ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! ζ(n + 1, x) up to the twentieth.

    Below a half by reflection: ψ⁽ⁿ⁾(x) = (−1)ⁿ ψ⁽ⁿ⁾(1 − x) − π dⁿ cot πx / dxⁿ, a polynomial of the cotangent.
    """
    if order == 0:
        return digamma(x)
    if order == 1:
        return trigamma(x)
    if not isinstance(order, int) or not 0 < order <= HIGHEST_ORDER:
        decline(f"the derivative {order} of digamma")
    sign = 1.0 if order % 2 else -1.0
    reflects = x < 0.5
    up = where(reflects, 1.0 - x, x)
    value = _zeta(order + 1, up) * (sign * math.factorial(order))
    cotangent = 1.0 / tan((x - nearest(x)) * math.pi)
    derivative = x.like(0.0)
    for coefficient in reversed(_derivative_of_cotangent(order)):
        derivative = derivative * cotangent + coefficient
    reflected = value * -sign - derivative * math.pi ** (order + 1)
    is_pole = reflects & x.eq(nearest(x))
    value = where(is_pole, sign * math.inf, where(reflects, reflected, value))
    return where(x.eq(math.inf), math.nan, value)  # as eager's; the limit is 0


def _zeta(power: int, x: Scalar) -> Scalar:
    """Σ (x + k)^-power from k = 0 on, of x ≥ ½: some terms, and the formula of Euler and Maclaurin for the rest.

    The rest is y^(1 − power) · (1 / (power − 1) + 1/2y + Σ B(2j) / (2j)! · power … (power + 2j − 2) · y^-2j).
    """

    def to_the(exponent: int, y: Scalar) -> Scalar:
        result = y
        for _ in range(exponent - 1):
            result = result * y
        return result

    total = to_the(power, 1.0 / x)
    for k in range(1, _TERMS_OF_ZETA):
        total = total + to_the(power, 1.0 / (x + float(k)))
    rest = x + float(_TERMS_OF_ZETA)
    inverse = 1.0 / rest
    square = inverse * inverse
    series = x.like(0.0)
    for j in range(len(_BERNOULLI), 0, -1):
        rising = math.prod(range(power, power + 2 * j - 1))
        series = series * square + _BERNOULLI[j - 1] * 2 * j / math.factorial(2 * j) * rising
    return total + to_the(power - 1, inverse) * (series * square + 0.5 * inverse + 1.0 / (power - 1))


def zeta(power: Scalar, x: Scalar) -> Scalar:
    """Hurwitz's Σ (x + k)^-power from k = 0 on, of a power above 1.

    Where x is negative, a power that is a whole number n is summed up over all integers, less those below x: with the
    fraction f of x, ζ(n, x) = ζ(n, f) + (−1)ⁿ ζ(n, 1 − f) − (−1)ⁿ ζ(n, 1 − x).
    """
    negative, below = x < 0.0, floor(x)
    fraction = where(negative, x - below, x)
    sign = where((power * 0.5).eq(floor(power * 0.5)), x.like(1.0), -1.0)
    other = where(negative, below + 1.0 - x, 0.5)
    every = _zeta_above_zero(power, fraction) + where(negative, sign * _zeta_above_zero(power, other), 0.0)
    result = every - where(negative, sign * _zeta_above_zero(power, where(negative, 1.0 - x, 0.5)), 0.0)
    result = where(power.eq(math.inf), raised(fraction, -power), result)
    result = where(negative & power.ne(floor(power)), math.nan, result)
    result = where((x <= 0.0) & x.eq(below), math.inf, result)
    return where(power < 1.0, math.nan, where(power.eq(1.0), math.inf, result))


def _zeta_above_zero(power: Scalar, x: Scalar) -> Scalar:
    """As `_zeta`, of any power: y^-power is small before factors of it are large."""
    total = last = raised(x, -power)
    for k in range(1, _TERMS_OF_HURWITZ + 1):
        last = raised(x + float(k), -power)
        total = total + last
    rest = x + float(_TERMS_OF_HURWITZ)
    inverse = 1.0 / rest
    rising = last * power * inverse
    total = total + raised(rest, 1.0 - power) / (power - 1.0) - last * 0.5
    for j, number in enumerate(_BERNOULLI):
        total = total + rising * (number * (2 * j + 2) / math.factorial(2 * j + 2))
        rising = rising * ((power + float(2 * j + 1)) * inverse) * ((power + float(2 * j + 2)) * inverse)
    return total


_TERMS_OF_HURWITZ = 12
"""So that seven terms of the rest are exact to the last place of a double of every power: what the rest is of the sum
falls as fast as its series becomes slow.
"""

_TERMS_OF_ZETA = 14
"""So that seven terms of the rest are exact to the last place of a double for powers up to eleven; of higher ones the
rest is the less of the sum.
"""


def _derivative_of_cotangent(order: int) -> list[float]:
    """dⁿ cot y / dyⁿ as a polynomial of c = cot y: its coefficients from c⁰ on. Each dc/dy is −(1 + c²)."""
    polynomial = [0, 1]
    for _ in range(order):
        slope = [k * coefficient for k, coefficient in enumerate(polynomial)][1:]
        polynomial = [-(low + high) for low, high in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [float(coefficient) for coefficient in polynomial]


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


def ndtri(p: Scalar) -> Scalar:
    """The x with Φ(x) = p: √2 erfinv(2p − 1), and in the tails by Newton's iteration for log erfc y = log 2p.

    Its start is good to 2e-3 (Abramowitz and Stegun, 26.2.22). Logarithms do not underflow.
    """
    tail = where(p < 0.5, p, 1.0 - p)
    w = sqrt(log(tail) * -2.0)
    y = (w - (w * 0.27061 + 2.30753) / ((w * 0.04481 + 0.99229) * w + 1.0)) * math.sqrt(0.5)
    wanted = log(tail * 2.0)
    for _ in range(2 if isinstance(p.type, Float32Type) else 3):
        complement = erfcx(y)
        y = y + (log(complement) - y * y - wanted) * complement * (math.sqrt(math.pi) / 2.0)
    outer = where(p < 0.5, -y, y) * math.sqrt(2.0)
    result = where(tail < 0.25, outer, erfinv(2.0 * p - 1.0) * math.sqrt(2.0))
    result = where(p.eq(0.0), -math.inf, where(p.eq(1.0), math.inf, result))
    return where((p < 0.0) | (p > 1.0), math.nan, result)


def next_after(x: Scalar, y: Scalar) -> Scalar:
    """The next number of the stored type on the way from x to y; y where they are equal."""
    builder = x.builder
    stored = builder.stored_type
    width = elem.bits_of(stored)
    if width is None or x.kind != "f":
        decline(f"there is no number next to one of {stored}")
    bits = builder.bitcast(x.convert(stored), IntegerType(width))
    grows = (y > x) ^ (x < 0.0)
    moved = builder.bitcast(where(grows, bits + 1, bits - 1), stored).convert(x.type)
    least = builder.bitcast(bits.like(1), stored).convert(x.type)
    moved = where(x.eq(0.0), copysign(least, y), moved)
    return where(is_nan(x) | is_nan(y), x + y, where(x.eq(y), y, moved))


def fraction_and_exponent(x: Scalar) -> tuple[Scalar, Scalar]:
    """The m from ½ to 1 and the whole number e with m · 2^e = x; x and 0 of zeros, infinities and NaN.

    The exponent has the type of the bits of x. Numbers below the normal ones are scaled first.
    """
    builder, width = x.builder, elem.bits_of(x.type)
    if x.kind != "f" or width not in (32, 64):
        decline(f"there is no exponent in {x.type}")
    digits, bias = (23, 126) if width == 32 else (52, 1022)
    bits_type = IntegerType(width)
    small = abs(x) < 2.0 ** (1 - bias)
    scaled = where(small, x * 2.0 ** (digits + 2), x)
    bits = builder.bitcast(scaled, bits_type)
    field = 2 * bias + 3
    exponent = (shift_right(bits, digits) & field) - where(small, bias + digits + 2, bits.like(bias))
    fraction = builder.bitcast((bits & ~(field << digits)) | (bias << digits), x.type)
    plain = x.eq(0.0) | ~(abs(x) < math.inf)
    return where(plain, x, fraction), where(plain, 0, exponent)


def times_power_of_two(x: Scalar, exponent: Scalar) -> Scalar:
    """torch.ldexp: of whole exponents rounded once, also where the result is not normal; of others x · 2^y."""
    if exponent.kind == "f":
        return x * exp2(exponent).convert(x.type)
    if exponent.kind == "u" and elem.bits_of(exponent.type) == 8:
        exponent = exponent.convert(i32)
    if exponent.kind != "i":
        decline("an exponent that may be beyond all signed integers")
    fraction, own = fraction_and_exponent(x)
    most = 100 if elem.bits_of(x.type) == 32 else 1000
    total = own + _within(exponent, 3 * most).convert(own.type)
    first = _within(total, most)
    scaled = fraction * _power_of_two(first, x) * _power_of_two(_within(total - first, most), x)
    return where(x.eq(0.0) | ~(abs(x) < math.inf), x, scaled)


def _within(x: Scalar, most: int) -> Scalar:
    """x, or the limit that it is beyond. A limit that the type does not hold is none."""
    if elem.bits_of(x.type) == 8 and most > 127:
        return x
    return minimum(maximum(x, -most), most)


def _power_of_two(exponent: Scalar, like: Scalar) -> Scalar:
    bias, digits = (127, 23) if elem.bits_of(like.type) == 32 else (1023, 52)
    return exponent.builder.bitcast(shift_left(exponent + bias, digits), like.type)
