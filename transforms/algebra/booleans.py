"""Logic: on i1 the bitwise ops are the connectives; most of it holds for the bits of integers too."""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.terms import variables

x, y, z = variables("x", "y", "z")

BOOLEANS = (
    Law("and-true", x & -1, x, "iub", note="−1 has all bits set; of bools it is true"),
    Law("and-false", x & 0, 0, "iub"),
    Law("or-false", x | 0, x, "iub"),
    Law("or-true", x | -1, -1, "iub"),
    Law("xor-false", x ^ 0, x, "iub"),
    Law("xor-true", x ^ -1, ~x, "iub"),
    Law("and-itself", x & x, x, "iub"),
    Law("or-itself", x | x, x, "iub"),
    Law("xor-itself", x ^ x, 0, "iub"),
    Law("not-twice", ~~x, x, "iub"),
    Law("and-complement", x & ~x, 0, "iub"),
    Law("or-complement", x | ~x, -1, "iub"),
    Law("xor-complement", x ^ ~x, -1, "iub"),
    Law("absorb-and", x & (x | y), x, "iub"),
    Law("absorb-or", x | (x & y), x, "iub"),
    Law("absorb-and-complement", x & (~x | y), x & y, "iub"),
    Law("absorb-or-complement", x | (~x & y), x | y, "iub"),
    Law("and-again", x & (x & y), x & y, "iub"),
    Law("or-again", x | (x | y), x | y, "iub"),
    Law("xor-again", x ^ (x ^ y), y, "iub"),
    Law("and-of-nots", ~x & ~y, ~(x | y), "iub", note="De Morgan"),
    Law("or-of-nots", ~x | ~y, ~(x & y), "iub", note="De Morgan"),
    Law("xor-of-nots", ~x ^ ~y, x ^ y, "iub"),
    Law("distribute-and", (x & y) | (x & z), x & (y | z), "iub"),
    Law("distribute-or", (x | y) & (x | z), x | (y & z), "iub"),
    Law("and-or-xor", (x & y) | (x ^ y), x | y, "iub"),
    Law("and-xor-xor", (x & y) ^ (x ^ y), x | y, "iub"),
    Law("or-xor-and", (x | y) ^ (x & y), x ^ y, "iub"),
    Law("split-by-other", (x & y) | (x & ~y), x, "iub"),
    Law("join-by-other", (x | y) & (x | ~y), x, "iub"),
)
