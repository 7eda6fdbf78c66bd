"""Floats of 8 bits as formulas over their bits: casts as torch has them, where a device has no instructions for them.

A format is a sign, exponent bits and mantissa bits, below the least normal number multiples of one unit. Those that
end in `fnuz` have one zero and one NaN, where the others have the negative zero, and no infinity. E8M0 has nothing but
an exponent: the powers of two from 2^-127 on, and NaN.

Source: c10/util/Float8_*.h.
"""

from __future__ import annotations

import math
from functools import cache

from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    f32,
    i32,
)
from xdsl.ir import Attribute

from cuesta.dialects.core.structs import struct
from cuesta.lowering.aten.scalar import Scalar, shift_left, shift_right, where

_BYTE = IntegerType(8, Signedness.UNSIGNED)
_INFINITY = 0xFF << 23
"""The bits of the infinity of f32; what is more is NaN."""


@struct
class _Format:
    """A format with a mantissa; `bias` is what its exponents are stored with. `fnuz`: one zero, one NaN."""

    mantissa: int
    bias: int
    largest: float
    fnuz: bool = False


_FORMATS: dict[type[Attribute], _Format] = {
    Float8E4M3FNType: _Format(3, 7, 448.0),
    Float8E5M2Type: _Format(2, 15, 57344.0),
    Float8E4M3FNUZType: _Format(3, 8, 240.0, fnuz=True),
    Float8E5M2FNUZType: _Format(2, 16, 57344.0, fnuz=True),
}


def can_hold(value: float, element: Attribute) -> bool:
    """Whether a number is in the range of a format. Eager refuses to fill a tensor with any other."""
    if isinstance(element, Float8E8M0FNUType):
        return math.isnan(value) or 2.0**-127 <= value <= 2.0**127
    infinite = isinstance(element, Float8E5M2Type) and math.isinf(value)
    return math.isnan(value) or infinite or abs(value) <= _FORMATS[type(element)].largest


def from_float8(x: Scalar) -> Scalar:
    """The number as f32, exactly."""
    builder = x.builder
    bits = builder.convert(builder.bitcast(x, _BYTE), i32)
    if isinstance(x.type, Float8E8M0FNUType):
        power = builder.bitcast(shift_left(bits, 23), f32)
        return where(bits.eq(0xFF), math.nan, where(bits.eq(0), 2.0**-127, power))
    form = _FORMATS[type(x.type)]
    magnitude = bits & 0x7F
    normal = builder.bitcast(shift_left(magnitude, 23 - form.mantissa) + ((127 - form.bias) << 23), f32)
    small = builder.convert(magnitude, f32) * 2.0 ** (1 - form.bias - form.mantissa)
    value = where(magnitude < (1 << form.mantissa), small, normal)
    if isinstance(x.type, Float8E5M2Type):
        value = where(magnitude >= 0x7C, where(magnitude.eq(0x7C), value.like(math.inf), math.nan), value)
    if isinstance(x.type, Float8E4M3FNType):
        value = where(magnitude.eq(0x7F), math.nan, value)
    value = builder.bitcast(builder.bitcast(value, i32) | shift_left(bits & 0x80, 24), f32)
    return where(bits.eq(0x80), math.nan, value) if form.fnuz else value


def to_float8(x: Scalar, to: Attribute) -> Scalar:
    """An f32, rounded to nearest, ties to even."""
    builder = x.builder
    raw = builder.bitcast(x, i32)
    bits = raw & 0x7FFFFFFF
    byte = _power(bits) if isinstance(to, Float8E8M0FNUType) else _rounded(raw, bits, to)
    return builder.bitcast(builder.convert(byte, _BYTE), to)


def _power(bits: Scalar) -> Scalar:
    """The exponent of the nearest power of two. Halfway it is the greater one, but for 2^-127: there it is itself."""
    exponent, mantissa = shift_right(bits, 23), bits & 0x7FFFFF
    up = (mantissa > 0x400000) | (mantissa.eq(0x400000) & (exponent > 0))
    return where(up & (exponent < 0xFF), exponent + 1, exponent)


def _rounded(raw: Scalar, bits: Scalar, to: Attribute) -> Scalar:
    form = _FORMATS[type(to)]
    cut = 23 - form.mantissa
    odd = shift_right(bits, cut) & 1
    normal = shift_right(bits + (((form.bias - 127) << 23) + (1 << (cut - 1)) - 1) + odd, cut)
    # Adding so many units of the least number leaves the rounded multiple of it in the low bits.
    builder = raw.builder
    units = builder.bitcast(bits, f32) + 2.0 ** (cut + 1 - form.bias)
    small = builder.bitcast(units, i32) - ((127 + cut + 1 - form.bias) << 23)
    magnitude = where(bits < ((128 - form.bias) << 23), small, normal)
    sign = shift_right(raw, 24) & 0x80
    if form.fnuz:
        beyond = bits >= ((127 + (8 if form.mantissa == 3 else 16)) << 23)
        return where(beyond, 0x80, where(magnitude.eq(0), 0, magnitude | sign))
    if isinstance(to, Float8E5M2Type):
        magnitude = where(bits >= 0x47800000, 0x7C, magnitude)  # from 2^16 on; what rounds to that is there already
    else:
        magnitude = where(
            bits > 0x43E80000, overflow_of_e4m3(), magnitude
        )  # 464, halfway from 448 to what is not there
    return where(bits > _INFINITY, 0x7F, magnitude) | sign


@cache
def overflow_of_e4m3() -> int:
    """The bits that this torch makes of what is too large for E4M3FN: NaN up to 2.11 or so, 448 since."""
    import torch

    return int(torch.tensor([1e30]).to(torch.float8_e4m3fn).view(torch.uint8))
