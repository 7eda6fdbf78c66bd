"""Signs: negation, absolute values, copysign, and even functions.

−(x − y) is not y − x for floats: for x = y one is −0 and the other 0.
|√x| is not √x: the root of −0 is −0. And the absolute value of the least integer is negative.
"""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.terms import apply, constants, variables

x, y, z = variables("x", "y", "z")
(c,) = constants("c")

NEVER_NEGATIVE = ("exp", "exp2", "sigmoid", "cosh", "erfc", "acos", "acosh")
"""Functions of floats that never give a number below zero, nor −0."""
EVEN = ("cos", "cosh")

SIGNS = (
    Law("negate-twice", apply("neg", -x), x, "fi"),
    Law("negate-by-product", x * -1, -x, "fi"),
    Law("negate-by-quotient", x / -1, -x, "f"),
    Law("negate-by-difference", -0.0 - x, -x, "f", note="0.0 − x is not −x: for 0 they are 0 and −0"),
    Law("negate-whole-by-difference", 0 - x, -x, "i"),
    Law("add-negated", x + -y, x - y, "fi"),
    Law("subtract-negated", x - -y, x + y, "fi"),
    Law("negate-difference", -(x - y), y - x, "i"),
    Law("multiply-negated", -x * -y, x * y, "fi"),
    Law("divide-negated", -x / -y, x / y, "f"),
    Law("multiply-negated-by-constant", -x * c, x * -c, "fi"),
    Law("divide-negated-by-constant", -x / c, x / -c, "f"),
    Law("negate-product-with-constant", -(x * c), x * -c, "fi"),
    Law("negate-quotient-by-constant", -(x / c), x / -c, "f"),
    Law("negate-constant-quotient", -(c / x), -c / x, "f"),
    Law("negate-constant-difference", -(x - c), c - x, "i"),
    Law("absolute-twice", abs(abs(x)), abs(x), "fi"),
    Law("absolute-of-negated", abs(-x), abs(x), "fi"),
    Law("absolute-of-square", abs(x * x), x * x, "f"),
    Law("square-of-absolute", abs(x) * abs(x), x * x, "f"),
    Law("product-of-absolutes", abs(x) * abs(y), abs(x * y), "f"),
    Law("quotient-of-absolutes", abs(x) / abs(y), abs(x / y), "f"),
    Law("copysign-twice", apply("copysign", apply("copysign", x, y), z), apply("copysign", x, z), "f"),
    Law("copysign-of-itself", apply("copysign", x, x), x, "f"),
    Law("copysign-of-absolute", apply("copysign", abs(x), y), apply("copysign", x, y), "f"),
    Law("copysign-of-negated", apply("copysign", -x, y), apply("copysign", x, y), "f"),
    Law("absolute-of-copysign", abs(apply("copysign", x, y)), abs(x), "f"),
    *(Law(f"absolute-of-{name}", abs(apply(name, x)), apply(name, x), "f") for name in NEVER_NEGATIVE),
    *(Law(f"{name}-of-negated", apply(name, -x), apply(name, x), "f") for name in EVEN),
    *(Law(f"{name}-of-absolute", apply(name, abs(x)), apply(name, x), "f") for name in EVEN),
)
