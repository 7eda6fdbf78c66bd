"""Conversions ask for no function that is not there: 16-bit floats go through f32, bf16 is its bits."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import BFloat16Type, Float16Type, bf16, f16, f32, f64

from cuesta.targets.cpu.emit_types import constant, conversion, type_text


@pytest.mark.parametrize("lanes", [1, 8])
def test_f64_to_f16_rounds_to_f32_first(lanes: int) -> None:
    first, second = conversion(f64, f16, lanes, "%r", "%x")
    assert "double" in first and first.endswith(f"to {type_text(f32, lanes)}")
    assert second.startswith(f"%r = fptrunc {type_text(f32, lanes)}") and second.endswith(f"to {type_text(f16, lanes)}")


@pytest.mark.parametrize("target", [f32, f64, f16], ids=str)
def test_bf16_is_never_an_llvm_float(target: Float16Type | BFloat16Type) -> None:
    lines = conversion(bf16, target, 8, "%r", "%x")
    assert lines and not any("bfloat" in line for line in lines)


@pytest.mark.parametrize(
    ("value", "bits"),
    [(1.0, 0x3F80), (-0.0, 0x8000), (float("inf"), 0x7F80), (float("nan"), 0x7FC0), (1.00390625, 0x3F80)],
)
def test_bf16_constants_are_bits(value: float, bits: int) -> None:
    assert constant(value, bf16, 1) == str(bits)
    assert constant(value, bf16, 4) == f"splat (i16 {bits})"
