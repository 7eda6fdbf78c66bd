"""Conversions between f32 and the 16-bit float types, as LLVM IR text.

bf16 is handled as `i16`, in integer operations: right on every machine, denormals included (the AVX-512 instruction
flushes them), and as fast as memory. f16 is LLVM's `half`: every machine with AVX2 or NEON converts it in one
instruction.
"""

from __future__ import annotations

from cuesta.targets.cpu.vector_text import VectorText, vector_type

_BF16_NAN = 0x7FC0


def bf16_to_f32(text: VectorText, x: str) -> str:
    """The f32 of a bf16, which is given by its bits (`i16` or a vector of it)."""
    wide = text.line(f"zext {vector_type('i16', text.lanes)} {x} to {text.integer}")
    return text.real_from_bits(text.integer_operation("shl", wide, 16))


def f32_to_bf16(text: VectorText, x: str) -> str:
    """The bits (`i16`) of the nearest bf16, ties to even. NaN becomes eager's NaN, 0x7FC0."""
    bits = text.bits(x)
    odd = text.integer_operation("and", text.integer_operation("lshr", bits, 16), 1)
    rounded = text.integer_operation("add", text.integer_operation("add", bits, 0x7FFF), odd)
    high = text.integer_operation("lshr", rounded, 16)
    number = text.compare("ord", x, x)
    high = text.line(
        f"select {text.boolean} {number}, {text.integer} {high}, {text.integer} {text.integer_constant(_BF16_NAN)}"
    )
    return text.line(f"trunc {text.integer} {high} to {vector_type('i16', text.lanes)}")


def f16_to_f32(text: VectorText, x: str) -> str:
    """The f32 of an f16 (`half`)."""
    return text.line(f"fpext {vector_type('half', text.lanes)} {x} to {text.real}")


def f32_to_f16(text: VectorText, x: str) -> str:
    """The nearest f16 (`half`), ties to even, infinite when too large."""
    return text.line(f"fptrunc {text.real} {x} to {vector_type('half', text.lanes)}")
