"""f32 → bf16 in compiled code. A bf16 is its bits, an `i16`."""

from __future__ import annotations

import functools

from cuesta.targets.cpu import x86_instructions
from cuesta.targets.cpu.features import HostFeatures, host_features
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import VectorText, vector_type

_NAN = 0x7FC0


def bf16_rounding(lanes: int, features: HostFeatures | None = None) -> MathFunction:
    """The function from `lanes` f32 to the bits of the nearest bf16, ties to even. NaN becomes a quiet NaN."""
    return _rounding(lanes, features or host_features())


@functools.cache
def _rounding(lanes: int, features: HostFeatures) -> MathFunction:
    text = VectorText("f32", lanes)
    result = vector_type("i16", lanes)
    exact = f"@cuesta.bf16.x{lanes}.bits"
    slow = _function(exact, text, f"  ret {result} {_round_bits(text)}", result)
    if not x86_instructions.has_bf16_rounding(features):
        return MathFunction(exact, _define("alwaysinline", slow), frozenset(text.declarations), frozenset())
    # The instruction takes a denormal for zero. Few programs have any.
    fast = VectorText("f32", lanes, avx512=True)
    denormal = x86_instructions.any_denormal(fast, "%x")
    fast.statement(f'  br i1 {denormal}, label %rare, label %common, !prof !{{!"branch_weights", i32 1, i32 100000}}')
    fast.statement("common:")
    rounded = x86_instructions.round_to_bf16(fast, "%x")
    ending = (
        f"  ret {result} {rounded}\nrare:\n  %careful = call {result} {exact}({fast.real} %x)\n  ret {result} %careful"
    )
    symbol = f"@cuesta.bf16.x{lanes}"
    definition = _define("noinline cold", slow) + _define("alwaysinline", _function(symbol, fast, ending, result))
    return MathFunction(symbol, definition, frozenset(fast.declarations | text.declarations), frozenset())


def _function(symbol: str, text: VectorText, ending: str, result: str) -> tuple[str, str]:
    """The header without attributes, and the body."""
    return f"define private {result} {symbol}({text.real} %x)", "\n".join([*text.lines, ending])


def _define(attributes: str, function: tuple[str, str]) -> str:
    header, body = function
    return f"{header} {attributes} nounwind {{\n{body}\n}}\n"


def _round_bits(text: VectorText) -> str:
    """Adds 0x7fff and the lowest bit that is kept, and cuts; right on every machine and for denormals."""
    bits = text.bits("%x")
    odd = text.integer_operation("and", text.integer_operation("lshr", bits, 16), 1)
    rounded = text.integer_operation("add", text.integer_operation("add", bits, 0x7FFF), odd)
    high = text.integer_operation("lshr", rounded, 16)
    number = text.compare("ord", "%x", "%x")
    nan = text.integer_constant(_NAN)
    high = text.line(f"select {text.boolean} {number}, {text.integer} {high}, {text.integer} {nan}")
    return text.line(f"trunc {text.integer} {high} to {vector_type('i16', text.lanes)}")
