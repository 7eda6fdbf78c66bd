"""Comparisons: with themselves, with what lies outside of a range, and their negations.

~(x < y) is x >= y only where there is no NaN, and x == x is no constant for floats.
|x| < 0 is false for floats, but not for integers: the least one is its own absolute value.
"""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.signs import NEVER_NEGATIVE
from cuesta.transforms.algebra.terms import BOOL, Term, apply, constants, variables

x, y = variables("x", "y")
p, q = variables("p", "q", type=BOOL)
(c,) = constants("c")

_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _never_below_zero(name: str, term: Term) -> tuple[Law, ...]:
    """What is NaN or no less than 0 is not below it, on whichever side it stands."""
    return (
        Law(f"{name}-below-zero", term < 0.0, 0, "f", note="false with NaN too"),
        Law(f"zero-above-{name}", apply("gt", 0.0, term), 0, "f", note="false with NaN too"),
    )


COMPARISONS = (
    Law("equal-to-itself", x.eq(x), 1, "iub"),
    Law("unequal-to-itself", x.ne(x), 0, "iub"),
    Law("less-than-itself", x < x, 0, "fiub", note="false with NaN too"),
    Law("greater-than-itself", x > x, 0, "fiub", note="false with NaN too"),
    Law("at-most-itself", x <= x, 1, "iub"),
    Law("at-least-itself", x >= x, 1, "iub"),
    Law("below-zero-unsigned", x < 0, 0, "u"),
    Law("from-zero-unsigned", x >= 0, 1, "u"),
    Law("zero-above-unsigned", apply("gt", 0, x), 0, "u"),
    Law("zero-up-to-unsigned", apply("le", 0, x), 1, "u"),
    Law("not-above-zero-unsigned", x <= 0, x.eq(0), "u"),
    Law("above-infinity", x > float("inf"), 0, "f", note="false with NaN too"),
    Law("below-minus-infinity", x < float("-inf"), 0, "f", note="false with NaN too"),
    *_never_below_zero("absolute", abs(x)),
    *_never_below_zero("square", x * x),
    *_never_below_zero("root", apply("sqrt", x)),
    *(law for name in NEVER_NEGATIVE for law in _never_below_zero(name, apply(name, x))),
    Law("absolute-from-zero", abs(x) >= 0.0, x.eq(x), "f", note="false with NaN: it is asked whether x is a number"),
    Law("not-equal", ~x.eq(y), x.ne(y), "fiub", note="with NaN both are true"),
    Law("not-unequal", ~x.ne(y), x.eq(y), "fiub", note="with NaN both are false"),
    *(Law(f"not-{name}", ~apply(name, x, y), apply(other, x, y), "iub") for name, other in _OPPOSITE.items()),
    *(
        Law(
            f"{name}-of-negated",
            apply(name, -x, -y),
            apply(other, x, y),
            "f",
            note="not of integers: the least is its own",
        )
        for name, other in _MIRRORED.items()
    ),
    *(
        Law(f"{name}-of-negated-and-constant", apply(name, -x, c), apply(other, x, -c), "f")
        for name, other in _MIRRORED.items()
    ),
    Law("equality-of-negated", (-x).eq(-y), x.eq(y), "fi"),
    Law("equality-of-nots", (~x).eq(~y), x.eq(y), "iub"),
    Law("equal-to-true", p.eq(1), p),
    Law("equal-to-false", p.eq(0), ~p),
    Law("unequal-to-false", p.ne(0), p),
    Law("unequal-to-true", p.ne(1), ~p),
    Law("equal-and-unequal", x.eq(y) & x.ne(y), 0, "fiub"),
    Law("equal-or-unequal", x.eq(y) | x.ne(y), 1, "fiub"),
    Law("less-or-equal", (x < y) | x.eq(y), x <= y, "fiub"),
    Law("greater-or-equal", (x > y) | x.eq(y), x >= y, "fiub"),
    Law("less-or-greater", (x < y) | (x > y), x.ne(y), "iub"),
    Law("at-most-and-at-least", (x <= y) & (x >= y), x.eq(y), "fiub"),
    Law("at-most-and-unequal", (x <= y) & x.ne(y), x < y, "fiub"),
    Law("at-least-and-unequal", (x >= y) & x.ne(y), x > y, "fiub"),
)
