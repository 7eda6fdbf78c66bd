"""Formulas behind `pointwise_table`: arithmetic as torch has it, written over `Scalar`s."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import bf16, f16, i16

from cuesta.dialects import elem, sym
from cuesta.lowering.aten.builder import decline, is_integer
from cuesta.lowering.aten.scalar import (
    Number,
    Operand,
    Scalar,
    copysign,
    differs_in_sign,
    exp,
    floor,
    fmod,
    gcd,
    is_nan,
    log1p,
    maximum,
    minimum,
    multiply_add,
    nearest,
    power,
    rsqrt,
    shift_left,
    shift_right,
    sqrt,
    trunc,
    trunc_div,
    where,
)


def _is_one(factor: Operand) -> bool:
    return not isinstance(factor, (Scalar, sym.Expr)) and factor == 1


def scaled(x: Scalar, factor: Operand) -> Scalar:
    """x · factor, x itself when the factor is the number one."""
    return x if _is_one(factor) else x * factor


def add(x: Scalar, y: Operand, alpha: Operand) -> Scalar:
    """x + alpha · y. As in eager, a product of floats is not rounded: it overflows only if the sum does."""
    if _is_one(alpha) or x.kind != "f":
        return x + scaled(x.like(y), alpha)
    return multiply_add(x.like(y), alpha, x)


def subtract(x: Scalar, y: Operand, alpha: Operand) -> Scalar:
    """x − alpha · y"""
    if _is_one(alpha) or x.kind != "f":
        return x - scaled(x.like(y), alpha)
    return multiply_add(x.like(y), -x.like(alpha), x)


def subtract_from(x: Scalar, y: Operand, alpha: Operand) -> Scalar:
    """y − alpha · x"""
    return subtract(x.like(y), x, alpha)


def add_product(x: Scalar, y: Scalar, z: Scalar, factor: Operand) -> Scalar:
    """x + factor · y · z"""
    product = scaled(y, factor)
    return multiply_add(product, z, x) if x.kind == "f" else x + product * z


def add_quotient(x: Scalar, y: Scalar, z: Scalar, factor: Operand) -> Scalar:
    """x + factor · y / z"""
    return x + scaled(y, factor) / z


def divide(x: Scalar, y: Operand, rounding_mode: str | None = None) -> Scalar:
    """torch.div"""
    if rounding_mode is None:
        return x / y
    if x.kind == "f":
        y = x.like(y)
        return trunc(rounded_as_eager(x / y)) if rounding_mode == "trunc" else _floor_divide_floats(x, y)
    divisor, is_minus_one = checked_divisor(x, y)
    quotient = floor_quotient(x, divisor) if rounding_mode == "floor" else trunc_div(x, divisor)
    return quotient if is_minus_one is None else where(is_minus_one, -x, quotient)


def floor_divide(x: Scalar, y: Operand) -> Scalar:
    """torch.floor_divide"""
    return divide(x, y, "floor")


def floor_quotient(x: Scalar, divisor: Scalar) -> Scalar:
    """The quotient of integers, rounded down, by a divisor that the machine can divide by: neither 0 nor -1."""
    quotient = trunc_div(x, divisor)
    if x.kind == "u":
        return quotient
    rest = x - quotient * divisor
    return where(rest.ne(0) & differs_in_sign(rest, divisor), quotient - 1, quotient)


def greatest_divisor(x: Scalar, y: Scalar) -> Scalar:
    """torch.gcd"""
    if x.kind == "u" and elem.bits_of(x.type) != 8:
        decline(f"eager has none of {x.type}")
    return gcd(x, y)


def lcm(x: Scalar, y: Scalar) -> Scalar:
    """torch.lcm: |x / gcd(x, y) · y|, which wraps; 0 where one is 0. Of short integers C takes the magnitude first."""
    divisor = greatest_divisor(x, y)
    quotient = trunc_div(x, where(divisor.eq(0), 1, divisor))
    width = elem.bits_of(x.type)
    return abs(quotient) * abs(y) if width is not None and width < 32 else abs(quotient * y)


def checked_divisor(x: Scalar, y: Operand) -> tuple[Scalar, Scalar | None]:
    """A divisor of integers that the machine can divide by, and where it stands for -1, if anywhere.

    By zero it raises as eager does, on devices that raise. By -1 the machine cannot divide the least integer.
    """
    if x.kind not in "iu":
        decline("a division of bools")
    divisor = x.like(y)
    number = divisor.number
    if number is not None and number not in (0, -1):
        return divisor, None
    is_zero = divisor.eq(0)
    x.builder.check_divisor(is_zero)
    if x.kind == "u":
        return where(is_zero, 1, divisor), None
    is_minus_one = divisor.eq(-1)
    return where(is_zero | is_minus_one, 1, divisor), is_minus_one


def _floor_divide_floats(x: Scalar, y: Scalar) -> Scalar:
    # As c10::div_floor_floating: exact where x / y is not, and with the sign of a zero quotient.
    rest = rounded_as_eager(fmod(x, y))
    quotient = rounded_as_eager(rounded_as_eager(x - rest) / y)
    lower = rounded_as_eager(quotient - 1.0)
    quotient = where(rest.ne(0.0) & differs_in_sign(rest, y), lower, quotient)
    whole = floor(quotient)
    whole = where(rounded_as_eager(quotient - whole) > 0.5, rounded_as_eager(whole + 1.0), whole)
    result = where(quotient.ne(0.0), whole, copysign(x.like(0.0), x / y))
    return where(y.eq(0.0), x / y, result)


def rounded_as_eager(x: Scalar) -> Scalar:
    """A value inside of a quotient of f16 or bf16, which eager computes step by step in that type.

    Not where the divisor is one number: then eager computes in f32, as we do everywhere else. Through integers, because
    `elide-roundings` leaves out what looks like a detour.
    """
    builder = x.builder
    if builder.wide_operand or builder.stored_type not in (f16, bf16):
        return x
    bits = builder.bitcast(x.convert(builder.stored_type), i16)
    return builder.bitcast(bits, builder.stored_type).convert(x.type)


def remainder(x: Scalar, y: Operand) -> Scalar:
    """torch.remainder: the sign of the divisor."""
    if x.kind != "f":
        y, _ = checked_divisor(x, y)  # a rest of -1 is one of 1
    rest = fmod(x, y)
    return rest if x.kind == "u" else where(rest.ne(0) & differs_in_sign(rest, y), rest + y, rest)


def fmod_checked(x: Scalar, y: Operand) -> Scalar:
    """torch.fmod: the sign of the dividend."""
    return fmod(x, checked_divisor(x, y)[0] if x.kind != "f" else y)


def power_by_number(x: Scalar, exponent: Number) -> Scalar:
    """torch.pow(x, number), with eager's special cases."""
    if isinstance(exponent, sym.Expr):
        decline("a symbolic exponent")
    if x.kind != "f":
        if isinstance(exponent, float) or exponent < 0:
            decline(f"an integer to the power of {exponent}")
        return _integer_power(x, int(exponent))
    match float(exponent):
        case 0.0:
            return x.like(1.0)
        case 1.0:
            return x
        case 2.0:
            return x * x
        case 3.0:
            return x * x * x
        case 0.5:
            return sqrt(x)
        case -0.5:
            return rsqrt(x)
        case -1.0:
            return 1.0 / x
        case -2.0:
            return 1.0 / (x * x)
        case other:
            return power(x, other)


def _integer_power(x: Scalar, exponent: int) -> Scalar:
    result: Scalar | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x if exponent else x
    return x.like(1) if result is None else result


def power_by_tensor(x: Operand, exponent: Scalar) -> Scalar:
    """torch.pow with a tensor exponent. Of integers, what is below one is zero: of 1 and -1 there is an inverse."""
    base = exponent.like(x)
    if exponent.kind == "f":
        return power(base, exponent)
    if exponent.kind == "b":
        decline("a power of bools")
    result = base.like(1)
    square = base
    for bit in range(_bits_of(exponent) - (exponent.kind == "i")):
        result = where((shift_right(exponent, bit) & 1).ne(0), result * square, result)
        square = square * square
    if exponent.kind == "u":
        return result
    inverse = where(base.eq(1), base, where(base.eq(-1), where((exponent & 1).ne(0), base, 1), 0))
    return where(exponent < 0, inverse, result)


def lerp(start: Scalar, end: Scalar, weight: Operand) -> Scalar:
    """torch.lerp, from the nearer end."""
    if isinstance(weight, Scalar):
        near = abs(weight) < 0.5
        return multiply_add(where(near, weight, weight - 1.0), end - start, where(near, start, end))
    if isinstance(weight, sym.Expr):
        decline("a symbolic weight")
    near = abs(weight) < 0.5
    return multiply_add(end - start, weight if near else weight - 1.0, start if near else end)


def left_shift(x: Scalar, y: Operand) -> Scalar:
    """torch.bitwise_left_shift: 0 where every bit is shifted out, and for a negative distance."""
    distance, outside = _shift(x, y)
    return where(outside, 0, shift_left(x, distance))


def right_shift(x: Scalar, y: Operand) -> Scalar:
    """torch.bitwise_right_shift: the sign fills; it is all that is left for a distance that is negative or too far."""
    distance, outside = _shift(x, y)
    far = shift_right(x, _bits_of(x) - 1) if x.kind == "i" else 0
    return where(outside, far, shift_right(x, distance))


def _shift(x: Scalar, y: Operand) -> tuple[Scalar, Scalar]:
    """A distance that a shift is defined for, and whether the one that was asked for is another."""
    if x.kind not in "iu":
        decline("a shift of bools")
    distance = x.like(y)
    outside = distance >= _bits_of(x)
    if x.kind == "i":
        outside = outside | (distance < 0)
    return where(outside, 0, distance), outside


def _bits_of(x: Scalar) -> int:
    """How many bits an integer has."""
    assert is_integer(x.type)
    return x.type.width.data


def sign(x: Scalar) -> Scalar:
    """torch.sign: 0 for NaN."""
    if x.kind == "b":
        return x
    positive = where(x > 0, x.like(1), 0)
    return positive if x.kind == "u" else where(x < 0, x.like(-1), positive)


def clamp(x: Scalar, low: Operand | None = None, high: Operand | None = None) -> Scalar:
    """torch.clamp: NaN stays, and so does −0 at a limit of 0; where low > high, high wins."""
    x = x if low is None else _limited(x, low, maximum, Scalar.__lt__)
    return x if high is None else _limited(x, high, minimum, Scalar.__gt__)


def _limited(
    x: Scalar,
    limit: Operand,
    extreme: Callable[[Scalar, Operand], Scalar],
    beyond: Callable[[Scalar, Operand], Scalar],
) -> Scalar:
    """x, or the limit where x is beyond it; NaN if either is."""
    if x.kind != "f" or not isinstance(limit, int | float):
        return extreme(x, limit)
    return x.like(limit) if limit != limit else where(beyond(x, limit), limit, x)


def nan_to_num(
    x: Scalar, nan: Number | None = None, posinf: Number | None = None, neginf: Number | None = None
) -> Scalar:
    """torch.nan_to_num"""
    if x.kind != "f":
        return x
    greatest = _GREATEST.get(str(x.builder.stored_type))
    if greatest is None:
        decline("nan_to_num of an unknown type")
    finite = where(x.eq(math.inf), x.like(greatest if posinf is None else posinf), x)
    finite = where(x.eq(-math.inf), x.like(-greatest if neginf is None else neginf), finite)
    return where(is_nan(x), x.like(0.0 if nan is None else nan), finite)


_GREATEST = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "bf16": 3.3895313892515355e38,
    "f16": 65504.0,
}


def is_infinite(x: Scalar) -> Scalar:
    """torch.isinf"""
    return abs(x).eq(math.inf) if x.kind == "f" else is_nan(x)


def is_finite(x: Scalar) -> Scalar:
    """torch.isfinite"""
    return abs(x) < math.inf if x.kind == "f" else x.builder.true()


def sign_bit(x: Scalar) -> Scalar:
    """torch.signbit: whether the sign is minus, that of −0 and NaN included."""
    if x.kind == "f":
        return copysign(x.like(1.0), x) < 0.0
    return x < 0 if x.kind == "i" else is_nan(x)


def angle(x: Scalar) -> Scalar:
    """torch.angle of a real number: 0 or π, NaN for NaN."""
    if x.kind != "f":
        decline("the angle of an integer")
    return where(is_nan(x), x, where(x < 0.0, math.pi, x.like(0.0)))


def round_to_decimals(x: Scalar, decimals: int) -> Scalar:
    """torch.round(x, decimals=…), with eager's two roundings more than the true result has."""
    if abs(decimals) > 300:
        decline("a power of ten that no number holds")
    if x.kind != "f" or x.builder.stored_type != x.type:
        decline("eager rounds to decimals in the type itself")
    scale = 10.0 ** abs(decimals)
    return nearest(x * scale) / scale if decimals >= 0 else nearest(x / scale) * scale


def log_add_exp(x: Scalar, y: Scalar) -> Scalar:
    """torch.logaddexp"""
    greatest = maximum(x, y)
    sum_of = greatest + log1p(exp(-abs(x - y)))
    return where(x.eq(y) & abs(x).eq(math.inf), x, sum_of)
