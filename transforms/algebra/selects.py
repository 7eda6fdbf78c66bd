"""Selects: of constants, of the same, of the opposite; those that are a connective or an extreme.

select(x < y, x, y) is minimum(x, y) only where there is no NaN; select(x == y, x, y) is not y: 0 == −0.
"""

from __future__ import annotations

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.terms import BOOL, maximum, minimum, select, variables

x, y, z = variables("x", "y", "z")
p, q, r = variables("p", "q", "r", type=BOOL)

SELECTS = (
    Law("select-true", select(1, x, y), x),
    Law("select-false", select(0, x, y), y),
    Law("select-of-same", select(p, x, x), x),
    Law("select-by-not", select(~p, x, y), select(p, y, x)),
    Law("select-true-or-false", select(p, 1, 0), p),
    Law("select-true-or-other", select(p, 1, q), p | q),
    Law("select-other-or-false", select(p, q, 0), p & q),
    Law("select-itself-or-other", select(p, p, q), p | q),
    Law("select-other-or-itself", select(p, q, p), p & q),
    Law("select-again-when-true", select(p, select(p, x, y), z), select(p, x, z)),
    Law("select-again-when-false", select(p, x, select(p, y, z)), select(p, x, z)),
    Law("select-by-either", select(p, x, select(q, x, y)), select(p | q, x, y)),
    Law("select-by-both", select(p, select(q, x, y), y), select(p & q, x, y)),
    Law("select-of-negated", select(p, -x, -y), -select(p, x, y), "fi"),
    Law("select-of-nots", select(p, ~x, ~y), ~select(p, x, y), "iub"),
    Law("select-with-condition", p & select(p, q, r), p & q),
    Law("select-equal", select(x.eq(y), x, y), y, "iub"),
    Law("select-equal-other", select(x.eq(y), y, x), x, "iub"),
    Law("select-unequal", select(x.ne(y), x, y), x, "iub"),
    Law("select-unequal-other", select(x.ne(y), y, x), y, "iub"),
    Law("select-lesser", select(x < y, x, y), minimum(x, y), "iub"),
    Law("select-not-greater", select(x <= y, x, y), minimum(x, y), "iub"),
    Law("select-greater", select(x > y, x, y), maximum(x, y), "iub"),
    Law("select-not-lesser", select(x >= y, x, y), maximum(x, y), "iub"),
    Law("select-absolute", select(x < 0, -x, x), abs(x), "i", note="for floats −0 would become 0"),
    Law("select-absolute-from-zero", select(x >= 0, x, -x), abs(x), "i", note="for floats 0 becomes 0, but −0 too"),
)
