"""Reductions: of what they do not change, of constants, over nothing; what is done once instead of at every point.

Reductions may be reassociated, so that a sum of equal numbers is a product; it is rounded once.
"""

from __future__ import annotations

from xdsl.ir import Attribute

from cuesta.transforms.algebra.law import Condition, Law, value_bits
from cuesta.transforms.algebra.terms import BOOL, Points, T, apply, reduce, variables

(x,) = variables("x")
(v,) = variables("v", invariant=True)
(p,) = variables("p", type=BOOL)
(t,) = variables("t", type=BOOL, invariant=True)
n = Points()


def holds_count(count: float | int | None, scalar: Attribute) -> bool:
    """Whether a number of points is a number of a float type."""
    return count is not None and count <= 1 << value_bits(scalar)[0]


REDUCTIONS = (
    Law("maximum-of-invariant", reduce("maximum", v, "some"), v, "fi"),
    Law("minimum-of-invariant", reduce("minimum", v, "some"), v, "fi"),
    Law("any-of-invariant", reduce("any", t, "some"), t),
    Law("all-of-invariant", reduce("all", t, "some"), t),
    Law("sum-of-zeros", reduce("sum", 0.0), 0.0, "fi"),
    Law("product-of-ones", reduce("prod", 1), 1, "fi"),
    Law("any-of-false", reduce("any", 0), 0, "b"),
    Law("all-of-true", reduce("all", 1), 1, "b"),
    Law("sum-of-whole-invariant", reduce("sum", v), v * n, "i"),
    Law(
        "sum-of-invariant",
        reduce("sum", v, "some"),
        v * n + 0.0,
        "f",
        where=Condition("T holds n", (n, T), holds_count),
        exact=False,
        note="rounded once; a sum of −0 is 0",
    ),
    Law("sum-over-nothing", reduce("sum", x, "none"), 0, "fi"),
    Law("product-over-nothing", reduce("prod", x, "none"), 1, "fi"),
    Law("any-over-nothing", reduce("any", p, "none"), 0),
    Law("all-over-nothing", reduce("all", p, "none"), 1),
    Law("any-of-nots", reduce("any", ~p), ~reduce("all", p)),
    Law("all-of-nots", reduce("all", ~p), ~reduce("any", p)),
    Law("any-and-invariant", reduce("any", p & t), reduce("any", p) & t),
    Law("all-or-invariant", reduce("all", p | t), reduce("all", p) | t),
    Law("any-or-invariant", reduce("any", p | t, "some"), reduce("any", p) | t),
    Law("all-and-invariant", reduce("all", p & t, "some"), reduce("all", p) & t),
    Law("sum-of-multiples", reduce("sum", x * v), reduce("sum", x) * v, "i"),
    Law("sum-of-negated", reduce("sum", -x), -reduce("sum", x), "i", note="of floats a sum of nothing would be −0"),
    Law("maximum-over-negated", reduce("maximum", -x), -reduce("minimum", x), "f", either_zero=True),
    Law("minimum-over-negated", reduce("minimum", -x), -reduce("maximum", x), "f", either_zero=True),
    *(
        Law(
            f"{name}-with-invariant",
            reduce(name, apply(name, x, v), "some"),
            apply(name, reduce(name, x), v),
            "fi",
            either_zero=True,
        )
        for name in ("maximum", "minimum")
    ),
)
