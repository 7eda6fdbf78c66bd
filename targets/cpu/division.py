"""Division by a number that a loop does not change: one reciprocal before the loop, no division in it.

A division of 16 lanes keeps its unit busy for longer than it takes to read them from memory. With r the nearest
float to 1/b, q = x·r and the exact remainder x - b·q, the sum q + r·(x - b·q) is the correctly rounded x/b (P.
Markstein, IBM J. Res. Dev. 34, 1990): not an approximation. Where q is infinite or NaN the remainder is not a number,
and q is right. Where |x| < 2^-100 the remainder may be denormal, and the quotient one unit in the last place off.

It takes a fused multiply-add, and a b whose reciprocal is normal; for any other b the loop does divide.
"""

from __future__ import annotations

import functools

from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import VectorText, float_constant

_LARGEST_POWER = {"f32": 126, "f64": 1022}


def has_normal_reciprocal(divisor: float, dtype: str) -> bool:
    """Whether 1/divisor is a normal number."""
    power = 2.0 ** _LARGEST_POWER[dtype]
    return 1 / power <= abs(divisor) <= power


def check_of_divisor(divisor: str, dtype: str, prefix: str) -> list[str]:
    """Lines that define `prefix.ok`, whether 1/divisor is normal, and `prefix.r`, the reciprocal. Scalars."""
    kind = "float" if dtype == "f32" else "double"
    power = 2.0 ** _LARGEST_POWER[dtype]
    return [
        f"{prefix}.r = fdiv {kind} {float_constant(1.0, dtype)}, {divisor}",
        f"{prefix}.size = call {kind} @llvm.fabs.{dtype}({kind} {divisor})",
        f"{prefix}.low = fcmp oge {kind} {prefix}.size, {float_constant(1 / power, dtype)}",
        f"{prefix}.high = fcmp ole {kind} {prefix}.size, {float_constant(power, dtype)}",
        f"{prefix}.ok = and i1 {prefix}.low, {prefix}.high",
    ]


@functools.cache
def division(dtype: str, lanes: int) -> MathFunction:
    """x / b, given x, b, the nearest float to 1/b, and whether that is normal (i1)."""
    text = VectorText(dtype, lanes)
    minus = text.negate("%b")
    quotient = text.multiply("%x", "%r")
    remainder = text.intrinsic("fma", minus, quotient, "%x")
    better = text.intrinsic("fma", remainder, "%r", quotient)
    number = text.compare("ord", better, better)
    # The sum of a zero and its remainder has lost the sign.
    result = text.intrinsic("copysign", text.select(number, better, quotient), quotient)
    symbol = f"@cuesta.divide.{dtype}x{lanes}"
    body = "\n".join(text.lines)
    definition = f"""\
define private {text.real} {symbol}({text.real} %x, {text.real} %b, {text.real} %r, i1 %ok) alwaysinline nounwind {{
  br i1 %ok, label %fast, label %slow, !prof !{{!"branch_weights", i32 100000, i32 1}}
fast:
{body}
  ret {text.real} {result}
slow:
  %quotient = fdiv {text.real} %x, %b
  ret {text.real} %quotient
}}
"""
    return MathFunction(symbol, definition, frozenset(text.declarations), frozenset())
