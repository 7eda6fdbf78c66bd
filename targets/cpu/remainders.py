"""The remainder of a division of floats (C's fmod), many lanes at a time, and exact.

LLVM has no vectors of it: it calls libm for lane by lane. But while the quotient a/b is so small that all whole numbers
up to it are floats, the rounded quotient is cut to the right whole number n or, where it was rounded up to one, to
n + 1: a division never rounds to below a whole number. Then a - n·b is a float, which a fused multiply-add gives, and
n + 1 is seen by a sign that is not that of a. All lanes do it in libm where one of them has a larger quotient.
"""

from __future__ import annotations

import functools
import math

from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import VectorText

LARGEST_QUOTIENT = {"f32": 2.0**22, "f64": 2.0**51}
"""Beyond, some lane may be cut wrong: whole numbers and halves are floats up to twice as much.

Source: a definition.
"""


@functools.cache
def remainder(dtype: str, lanes: int) -> MathFunction:
    """The remainder of %a by %b, with the sign of %a. Requires: more than one lane; fused multiply-add."""
    text = VectorText(dtype, lanes)
    size = text.intrinsic("fabs", "%b")
    quotient = text.divide("%a", "%b")
    # NaN is not larger, and its remainder is NaN.
    large = text.compare("oge", text.intrinsic("fabs", quotient), text.constant(LARGEST_QUOTIENT[dtype]))
    whole = text.intrinsic("trunc", quotient)
    rest = text.intrinsic("fma", text.negate(whole), "%b", "%a")
    zero = text.constant(0.0)
    signs = text.multiply(text.intrinsic("copysign", text.constant(1.0), "%a"), rest)
    # Of an infinite divisor the product with 0 is NaN, and the dividend is what is left.
    infinite = text.compare("oeq", size, text.constant(math.inf))
    rest = text.select(infinite, text.select(text.compare("oeq", quotient, zero), "%a", rest), rest)
    beyond = text.compare("olt", signs, zero)
    rest = text.select(beyond, text.add(rest, text.intrinsic("copysign", size, "%a")), rest)
    result = text.intrinsic("copysign", rest, "%a")
    any_of = f"@llvm.vector.reduce.or.v{lanes}i1"
    text.declarations.add(f"declare i1 {any_of}({text.boolean})")
    symbol = f"@cuesta.remainder.{dtype}x{lanes}"
    body = "\n".join(text.lines)
    arguments = f"{text.real} %a, {text.real} %b"
    definition = f"""\
define private {text.real} {symbol}.large({arguments}) noinline cold nounwind {{
  %rest = frem {text.real} %a, %b
  ret {text.real} %rest
}}
define private {text.real} {symbol}({arguments}) alwaysinline nounwind {{
{body}
  %any = call i1 {any_of}({text.boolean} {large})
  br i1 %any, label %far, label %near, !prof !{{!"branch_weights", i32 1, i32 100000}}
near:
  ret {text.real} {result}
far:
  %rest = call {text.real} {symbol}.large({arguments})
  ret {text.real} %rest
}}
"""
    return MathFunction(symbol, definition, frozenset(text.declarations), frozenset())
