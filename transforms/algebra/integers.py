"""Integers: sums and products wrap, so that they are regrouped freely; none of these is a law of floats."""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.terms import apply, constants, variables

x, y, z = variables("x", "y", "z")
c, d = constants("c", "d")

INTEGERS = (
    Law("add-constants", (x + c) + d, x + (c + d), "iu"),
    Law("subtract-constants", (x - c) - d, x - (c + d), "iu"),
    Law("add-then-subtract-constants", (x + c) - d, x + (c - d), "iu"),
    Law("subtract-then-add-constants", (x - c) + d, x + (d - c), "iu"),
    Law("multiply-constants", (x * c) * d, x * (c * d), "iu"),
    Law("and-constants", (x & c) & d, x & (c & d), "iu"),
    Law("or-constants", (x | c) | d, x | (c | d), "iu"),
    Law("xor-constants", (x ^ c) ^ d, x ^ (c ^ d), "iu"),
    Law("add-what-was-subtracted", (x - y) + y, x, "iu"),
    Law("subtract-what-was-added", (x + y) - y, x, "iu"),
    Law("subtract-difference", x - (x - y), y, "iu"),
    Law("subtract-from-part", (x - y) - x, -y, "i"),
    Law("subtract-common", (x + z) - (y + z), x - y, "iu"),
    Law("common-factor", (x * y) + (x * z), x * (y + z), "iu"),
    Law("common-factor-of-difference", (x * y) - (x * z), x * (y - z), "iu"),
    Law("not-plus-one", ~x + 1, -x, "i"),
    Law("negate-minus-one", -x - 1, ~x, "i"),
    Law("minus-one-minus", -1 - x, ~x, "iu"),
    Law("negate-not", -~x, x + 1, "i"),
    Law("not-negate", ~-x, x - 1, "i"),
    Law("add-complement", x + ~x, -1, "iu"),
    Law("add-and-or", (x & y) + (x | y), x + y, "iu"),
    Law("subtract-and-from-or", (x | y) - (x & y), x ^ y, "iu"),
    Law("add-and-xor", (x & y) + (x ^ y), x | y, "iu"),
    Law("shift-left-by-zero", apply("shl", x, 0), x, "iu"),
    Law("shift-right-by-zero", apply("shr", x, 0), x, "iu"),
    Law("shift-zero-left", apply("shl", 0, x), 0, "iu"),
    Law("shift-zero-right", apply("shr", 0, x), 0, "iu"),
    Law("divide-zero", apply("trunc_div", 0, x), 0, "iu", note="by zero it is undefined"),
    Law("remainder-of-zero", apply("fmod", 0, x), 0, "iu", note="by zero it is undefined"),
    Law("divide-by-itself", apply("trunc_div", x, x), 1, "iu", note="by zero it is undefined"),
    Law("remainder-by-itself", apply("fmod", x, x), 0, "iu", note="by zero it is undefined"),
)
