"""How values of the `kernel` level look in LLVM IR: types, constants, conversions, memory formats.

A bool is `i1` in a register and a byte in memory. bf16 and f16 values are only ever loaded, converted, chosen and
stored, and floats of 8 bits, which are an `i8`, not even converted. A bf16 is its bits, an `i16`: LLVM chooses between
two `bfloat` through f32, and then asks for a library that is not there.
Every function takes the number of lanes the value has *here*: the body of a lane loop is emitted for several widths.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute

from cuesta.dialects.core.rounding import half_bits
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.targets.cpu.vector_text import float_constant, vector_type

_FLOAT_TYPES: dict[type[Attribute], tuple[str, str]] = {
    Float32Type: ("float", "f32"),
    Float64Type: ("double", "f64"),
    Float16Type: ("half", "f16"),
    BFloat16Type: ("i16", "bf16"),
}


class UnsupportedTypeError(Exception):
    """A type that CPU kernels do not compute with."""


@cache
def scalar_text(scalar: Attribute) -> str:
    """The LLVM type of one value in a register."""
    if isinstance(scalar, IndexType):
        return "i64"
    if isinstance(scalar, IntegerType):
        return f"i{scalar.bitwidth}"
    if kind_of(scalar) == "s":
        return "i8"
    found = _FLOAT_TYPES.get(type(scalar))
    if found is None:
        raise UnsupportedTypeError(f"the CPU target has no values of type {scalar}")
    return found[0]


@cache
def memory_text(scalar: Attribute) -> str:
    """The LLVM type of one value in memory."""
    text = scalar_text(scalar)
    return "i8" if text == "i1" else text


@cache
def byte_width(scalar: Attribute) -> int:
    """The bytes of one value in memory."""
    return {"double": 8, "i64": 8, "float": 4, "i32": 4, "half": 2, "i16": 2, "i8": 1}[memory_text(scalar)]


@lru_cache(maxsize=4096)
def type_text(value_type: Attribute, lanes: int) -> str:
    """The LLVM type of a value that has `lanes` lanes here."""
    return vector_type(scalar_text(scalar_of(value_type)), lanes)


@lru_cache(maxsize=4096)
def suffix(scalar: Attribute, lanes: int) -> str:
    """The suffix of intrinsics on the type: `f32`, `v8f32`, `v8i64`."""
    found = _FLOAT_TYPES.get(type(scalar))
    name = scalar_text(scalar) if found is None else found[1]
    return name if lanes == 1 else f"v{lanes}{name}"


@lru_cache(maxsize=8192)
def _constant(value: str, scalar: Attribute, lanes: int) -> str:
    kind = kind_of(scalar)
    if kind == "f":
        dtype = _FLOAT_TYPES[type(scalar)][1]
        if dtype in ("f32", "f64"):
            return float_constant(float(value), dtype, lanes)
        bits = half_bits(float(value), scalar)
        text = f"0xH{bits:04X}" if dtype == "f16" else str(bits)
    elif kind == "b":
        text = "true" if int(value) else "false"
    else:
        text = value
    return text if lanes == 1 else f"splat ({scalar_text(scalar)} {text})"


def constant(value: float | int, scalar: Attribute, lanes: int) -> str:
    """An LLVM constant with `value` in every lane."""
    return _constant(repr(float(value)) if kind_of(scalar) == "f" else str(int(value)), scalar, lanes)


def splat_integer(value: int, lanes: int, width: int = 64) -> str:
    """An integer in every lane."""
    return str(value) if lanes == 1 else f"splat (i{width} {value})"


def conversion(source: Attribute, target: Attribute, lanes: int, result: str, value: str) -> list[str]:
    """Lines that convert `value` to `target`, not bf16 (see `bf16.py`), under the name `result`, as `.to` does.

    Float → int truncates (out of range: undefined in torch; as eager does on x86, but for 32 bits without a sign), to
    bool is `!= 0`, a narrower float rounds to nearest even.
    """
    source, target = scalar_of(source), scalar_of(target)
    here, there = type_text(source, lanes), type_text(target, lanes)
    kinds = kind_of(source) + kind_of(target)
    if source == target:
        return [f"{result} = freeze {here} {value}"]
    assert not isinstance(target, BFloat16Type), "bf16_rounding does that"
    if kinds[1] == "b":
        if kinds[0] != "f":
            return [f"{result} = icmp ne {here} {value}, {constant(0, source, lanes)}"]
        if isinstance(source, Float16Type | BFloat16Type):
            wide = conversion(source, Float32Type(), lanes, f"{result}.w", value)
            return [*wide, *conversion(Float32Type(), target, lanes, result, f"{result}.w")]
        return [f"{result} = fcmp une {here} {value}, {constant(0.0, source, lanes)}"]
    if kinds == "ff":
        return _float_conversion(source, target, lanes, result, value)
    if kinds[0] == "f":
        if isinstance(source, Float16Type | BFloat16Type):
            wide = conversion(source, Float32Type(), lanes, f"{result}.w", value)
            return [*wide, *conversion(Float32Type(), target, lanes, result, f"{result}.w")]
        if byte_width(target) == 8 or (byte_width(target) == 4 and kinds[1] == "i"):
            return [f"{result} = fptosi {here} {value} to {there}"]
        # Through a wider one, so that negative values and small widths wrap as eager's do on x86.
        through_i64 = kinds[1] == "u" and byte_width(target) != 2
        wide_type = vector_type("i64" if through_i64 else "i32", lanes)
        return [
            f"{result}.i = fptosi {here} {value} to {wide_type}",
            f"{result} = trunc {wide_type} {result}.i to {there}",
        ]
    if kinds[1] == "f":
        operation = "sitofp" if kinds[0] == "i" else "uitofp"
        if isinstance(target, Float16Type):
            single = type_text(Float32Type(), lanes)
            wide = f"{result}.w = {operation} {here} {value} to {single}"
            return [wide, *_float_conversion(Float32Type(), target, lanes, result, f"{result}.w")]
        return [f"{result} = {operation} {here} {value} to {there}"]
    if here == there:
        return [f"{result} = freeze {here} {value}"]
    narrow, wide_bits = int(scalar_text(target)[1:]), int(scalar_text(source)[1:])
    if narrow < wide_bits:
        return [f"{result} = trunc {here} {value} to {there}"]
    return [f"{result} = {'sext' if kinds[0] == 'i' else 'zext'} {here} {value} to {there}"]


def out_of_range(number: float, source: Attribute, target: Attribute) -> int | None:
    """What `conversion` of a float to integers gives on x86 where the number has no place among them, which LLVM does
    not say of a number that it knows; None of other conversions, and of a number that has one.
    """
    kinds, width = kind_of(source) + kind_of(target), byte_width(scalar_of(target))
    if kinds not in ("fi", "fu"):
        return None
    bits = 64 if width == 8 or (kinds == "fu" and width != 2) else 32
    least = -(1 << (bits - 1))
    if math.isfinite(number) and least <= math.trunc(number) < -least:
        return None
    if bits > 8 * width:
        return 0  # the low bits of the least of all
    return least if kinds == "fi" else -least


def _float_conversion(source: Attribute, target: Attribute, lanes: int, result: str, value: str) -> list[str]:
    here, there = type_text(source, lanes), type_text(target, lanes)
    single = type_text(Float32Type(), lanes)
    bits = vector_type("i32", lanes)
    if isinstance(source, BFloat16Type):
        if not isinstance(target, Float32Type):
            wide = _float_conversion(source, Float32Type(), lanes, f"{result}.w", value)
            return [*wide, *_float_conversion(Float32Type(), target, lanes, result, f"{result}.w")]
        return [
            f"{result}.z = zext {here} {value} to {bits}",
            f"{result}.s = shl {bits} {result}.z, {splat_integer(16, lanes, 32)}",
            f"{result} = bitcast {bits} {result}.s to {single}",
        ]
    if isinstance(source, Float64Type) and isinstance(target, Float16Type):
        # As eager rounds, twice; no machine has the instruction for once.
        narrow = f"{result}.w = fptrunc {here} {value} to {single}"
        return [narrow, f"{result} = fptrunc {single} {result}.w to {there}"]
    wider = byte_width(target) > byte_width(source)
    return [f"{result} = {'fpext' if wider else 'fptrunc'} {here} {value} to {there}"]
