"""Division by what has an exact reciprocal."""

from __future__ import annotations

import math

from xdsl.ir import Attribute

from cuesta.transforms.algebra.law import Condition, Law, least_normal_exponent, value_bits
from cuesta.transforms.algebra.terms import T, apply, constants, variables

x, y = variables("x", "y")
(c,) = constants("c")


def has_exact_reciprocal(number: float, scalar: Attribute) -> bool:
    """Whether a number and its reciprocal are normal powers of two, of either sign."""
    if number == 0 or not math.isfinite(number):
        return False
    mantissa, exponent = math.frexp(number)
    exponent -= 1  # number = ±2^exponent when the mantissa is ±0.5
    least, greatest = least_normal_exponent(scalar), value_bits(scalar)[2]
    return abs(mantissa) == 0.5 and least <= exponent <= greatest and least <= -exponent <= greatest


DIVISION = (
    Law(
        "divide-by-power-of-two",
        x / c,
        x * (1 / c),
        "f",
        where=Condition("c and 1 / c are normal powers of two", (c, T), has_exact_reciprocal),
        note="x / 3 is not x · (1 / 3): both round",
    ),
    Law(
        "remainder-by-power-of-two",
        apply("fmod", x, c),
        x & (c - 1),
        "u",
        where=(c & (c - 1)).eq(0) & c.ne(0),
    ),
    Law("remainder-again", apply("fmod", apply("fmod", x, y), y), apply("fmod", x, y), "f"),
)
