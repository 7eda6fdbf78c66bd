"""Types and constants as Triton spells them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    f32,
)
from xdsl.ir import Attribute

from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.lowering.aten.float8 import overflow_of_e4m3

_FLOATS: Mapping[type[Attribute], tuple[str, str]] = {
    Float32Type: ("tl.float32", "fp32"),
    Float64Type: ("tl.float64", "fp64"),
    Float16Type: ("tl.float16", "fp16"),
    BFloat16Type: ("tl.bfloat16", "bf16"),
    Float8E4M3FNType: ("tl.float8e4nv", "fp8e4nv"),
    Float8E5M2Type: ("tl.float8e5", "fp8e5"),
    # Triton has no such types, or not on every device: they are bytes, of which our own formulas make numbers.
    Float8E4M3FNUZType: ("tl.uint8", "u8"),
    Float8E5M2FNUZType: ("tl.uint8", "u8"),
    Float8E8M0FNUType: ("tl.uint8", "u8"),
}
"""A float in the text of a kernel, and in its signature."""


def dtype_text(value_type: Attribute) -> str:
    """`tl.float32`, `tl.int1`, `tl.uint8`, … of a scalar or vector type."""
    scalar = scalar_of(value_type)
    found = _FLOATS.get(type(scalar))
    return found[0] if found else f"tl.{'uint' if kind_of(scalar) == 'u' else 'int'}{bits_of(scalar)}"


def bits_of(scalar: Attribute) -> int:
    """The bits of an integer type."""
    assert isinstance(scalar, IntegerType), scalar
    return cast("IntegerType", scalar).bitwidth


def pointer_text(scalar: Attribute) -> str:
    """The type of a pointer in a kernel's signature: `*fp32`, `*i1`, `*u8`."""
    found = _FLOATS.get(type(scalar))
    return f"*{found[1]}" if found else f"*{'u' if kind_of(scalar) == 'u' else 'i'}{bits_of(scalar)}"


def number_text(value: float | int) -> str:
    """A number in the text of a kernel; not for −0.0, which Triton takes for 0.0."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def constant_text(value: float | int, scalar: Attribute) -> str:
    """A scalar constant of this type."""
    dtype = dtype_text(scalar)
    if kind_of(scalar) == "b":
        return f"tl.full([], {bool(value)}, {dtype})"
    if isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0:
        return f"(tl.full([], -1.0, {dtype}) * tl.full([], 0.0, {dtype}))"
    if kind_of(scalar) == "s":
        return f"tl.full([], 0, tl.uint8).to({dtype}, bitcast=True)"
    if is_narrow_float(scalar):  # exactly; Triton's interpreter has no constants of bf16
        return f"tl.full([], {number_text(value)}, tl.float32).to({dtype})"
    return f"tl.full([], {number_text(value)}, {dtype})"


def is_narrow_float(scalar: Attribute) -> bool:
    """Whether arithmetic on the type goes through f32."""
    return isinstance(scalar, BFloat16Type | Float16Type)


def is_double(scalar: Attribute) -> bool:
    """Whether it is f64."""
    return isinstance(scalar, Float64Type)


def convert_text(value: str, source: Attribute, target: Attribute) -> str:
    """`elem.convert` from one scalar type to another, as torch casts."""
    source, target = scalar_of(source), scalar_of(target)
    if source == target:
        return value
    kinds = kind_of(source) + kind_of(target)
    if kinds[0] == "s":  # exactly, and on from there
        wide = f"{value}.to(tl.float32)"
        return wide if isinstance(target, Float32Type) else convert_text(wide, f32, target)
    if kinds[1] == "s":
        value = convert_text(value, source, f32)
        if isinstance(target, Float8E5M2Type):
            return f"functions.to_e5m2({value})"
        return f"functions.to_e4m3({value}, {overflow_of_e4m3()})"
    if kinds[1] == "b":
        return f"({value} != 0)"
    steps: list[str] = []
    if is_narrow_float(target) and not isinstance(source, Float32Type):
        steps.append("tl.float32")  # as torch: rounded to f32 first
    elif kinds[0] == "f" and kinds[1] in "iu":
        if is_narrow_float(source):
            steps.append("tl.float32")
        if kinds[1] == "u" and bits_of(target) < 64:
            steps.append("tl.int64")  # as torch: negative numbers wrap
        elif bits_of(target) < 32:
            steps.append("tl.int32")
    elif kinds[0] == "b" and is_narrow_float(target):
        steps.append("tl.float32")
    steps.append(dtype_text(target))
    return value + "".join(f".to({step})" for step in steps)
