"""What changes nothing: sums, products and powers with a neutral element.

x + 0.0 is not x for floats: −0 + 0 is 0. And x · 0, x − x, x / x are no laws of floats: NaN and infinities differ.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Attribute

from cuesta.transforms.algebra.law import Condition, Law
from cuesta.transforms.algebra.terms import T, apply, variables

(x,) = variables("x")


def is_narrow(scalar: Attribute) -> bool:
    """Whether a type is not f64."""
    return not isinstance(scalar, Float64Type)


NARROW = Condition("T is not f64", (T,), is_narrow)
"""Where a power is computed in f64 and rounded once, so that it is what a product, rounded once, is."""

IDENTITIES = (
    Law("add-zero", x + 0, x, "iu"),
    Law("add-minus-zero", x + -0.0, x, "f"),
    Law("subtract-zero", x - 0, x, "fiu", note="0.0, not −0.0: 0 − −0 is 0, but −0 − −0 is 0 too"),
    Law("multiply-by-one", x * 1, x, "fiu"),
    Law("divide-by-one", x / 1, x, "f"),
    Law("divide-whole-by-one", apply("trunc_div", x, 1), x, "iu"),
    Law("remainder-by-one", apply("fmod", x, 1), 0, "iu"),
    Law("multiply-by-zero", x * 0, 0, "iu"),
    Law("subtract-itself", x - x, 0, "iu"),
    Law("first-power", apply("pow", x, 1), x, "f"),
    Law("power-of-zero", apply("pow", x, 0), 1, "f", note="NaN to the power of 0 is 1"),
    Law("power-of-one", apply("pow", 1, x), 1, "f", note="1 to the power of NaN is 1"),
    Law("second-power", apply("pow", x, 2), x * x, "f", where=NARROW),
    Law("reciprocal-power", apply("pow", x, -1), 1 / x, "f", where=NARROW),
)
