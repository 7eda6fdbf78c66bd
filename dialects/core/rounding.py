"""Python's numbers, which are doubles, as torch holds them in a narrower type: the one place that says how.

Torch makes a float of a number first, and that of f16 or bf16: what is narrower than f32 is rounded *twice*, each time
to the nearest, ties to even. A number just beyond the middle between two of f16 is so rounded to the middle first, and
then perhaps back. What a program says must be what eager computes with, so constants are rounded like that everywhere.
"""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type
from xdsl.ir import Attribute


def rounded(value: float, scalar: Attribute) -> float:
    """`value` as a scalar of this type (f16, bf16, f32 or f64) holds it. What is too large becomes infinite."""
    if isinstance(scalar, Float64Type) or not math.isfinite(value):
        return value
    try:
        packed = struct.pack("<f", value)
        if isinstance(scalar, Float16Type):
            return struct.unpack("<e", struct.pack("<e", *struct.unpack("<f", packed)))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if isinstance(scalar, BFloat16Type):
        (bits,) = struct.unpack("<I", packed)
        packed = struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000)
    return struct.unpack("<f", packed)[0]


def half_bits(value: float, scalar: Attribute) -> int:
    """The 16 bits of a number as f16 or bf16 holds it; of NaN those of the quiet one."""
    if value != value:
        return 0x7E00 if isinstance(scalar, Float16Type) else 0x7FC0
    if isinstance(scalar, Float16Type):
        return struct.unpack("<H", struct.pack("<e", rounded(value, scalar)))[0]
    return struct.unpack("<I", struct.pack("<f", rounded(value, scalar)))[0] >> 16


__all__ = ["half_bits", "rounded"]
