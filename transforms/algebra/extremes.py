"""Maximum and minimum. NaN wins; of 0 and −0 either may come out, as in eager: such laws say `either_zero`.

maximum(x, minimum(x, y)) is not x for floats: y may be NaN. And maximum(−x, −y) is not −minimum(x, y) for integers.
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.signs import NEVER_NEGATIVE
from cuesta.transforms.algebra.terms import Apply, apply, constants, maximum, minimum, variables

x, y = variables("x", "y")
c, d = constants("c", "d")

_INFINITY = float("inf")


def _lattice(name: str, extreme: Callable[..., Apply], other: Callable[..., Apply]) -> tuple[Law, ...]:
    """What holds of either extreme."""
    m = extreme(x, y)
    return (
        Law(f"{name}-of-same", extreme(x, x), x),
        Law(f"{name}-again", extreme(m, x), m, either_zero=True),
        Law(f"{name}-of-constants", extreme(extreme(x, c), d), extreme(x, extreme(c, d)), either_zero=True),
        Law(f"{name}-absorbs", extreme(x, other(x, y)), x, "iub"),
        Law(f"{name}-of-negated", extreme(-x, -y), -other(x, y), "f", either_zero=True),
    )


EXTREMES = (
    *_lattice("maximum", maximum, minimum),
    *_lattice("minimum", minimum, maximum),
    Law("maximum-of-least", maximum(x, -_INFINITY), x, "f"),
    Law("minimum-of-greatest", minimum(x, _INFINITY), x, "f"),
    Law("maximum-of-zero-unsigned", maximum(x, 0), x, "u"),
    Law("minimum-of-zero-unsigned", minimum(x, 0), 0, "u"),
    Law(
        "maximum-of-opposites",
        maximum(x, -x),
        abs(x),
        "fi",
        either_zero=True,
        note="the least integer is its own opposite",
    ),
    Law("minimum-of-opposites", minimum(x, -x), -abs(x), "fi", either_zero=True),
    Law("maximum-of-absolute-and-zero", maximum(abs(x), 0), abs(x), "f", either_zero=True),
    Law("maximum-of-square-and-zero", maximum(x * x, 0), x * x, "f", either_zero=True),
    Law("maximum-of-root-and-zero", maximum(apply("sqrt", x), 0), apply("sqrt", x), "f", either_zero=True),
    *(
        Law(f"maximum-of-{name}-and-zero", maximum(apply(name, x), 0), apply(name, x), "f", either_zero=True)
        for name in NEVER_NEGATIVE
    ),
    Law(
        "sum-of-extremes",
        maximum(x, y) + minimum(x, y),
        x + y,
        "iu",
        note="for floats one may be NaN, and zeros differ",
    ),
)
