"""Conversions: two in a row, where the first loses nothing; what is whole already; bools as numbers."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.transforms.algebra.law import Condition, Law, holds_all_of
from cuesta.transforms.algebra.terms import BOOL, Type, apply, constants, variables

A, B, C = Type("A", "fiub"), Type("B", "fiub"), Type("C", "fiub")
N, F = Type("N", "iub"), Type("F", "f")
X, Y, Z = Type("X", "iu"), Type("Y", "iu"), Type("Z", "iu")
W = Type("W", "fiu")
(a,) = variables("a", type=A)
(i,) = variables("i", type=N)
(n,) = variables("n", type=X)
x, y = variables("x", "y")
(p,) = variables("p", type=BOOL)
(c,) = constants("c")

_ROUNDINGS = ("floor", "ceil", "trunc", "round")


def _no_wider(target: Attribute, source: Attribute) -> bool:
    return isinstance(target, IntegerType) and isinstance(source, IntegerType) and target.bitwidth <= source.bitwidth


def _goes_on_from(middle: Attribute, first: Attribute, last: Attribute) -> bool:
    """Whether A -> B -> C is A -> C: B holds all of A, and what C makes of a value does not depend on its type.

    To an integer other values than its own wrap, but of floats they are undefined. Narrow floats are made of f32.
    """
    kinds = elem.kind_of(first), elem.kind_of(middle), elem.kind_of(last)
    if not holds_all_of(middle, first) or kinds[1] == "b":
        return False
    if kinds[2] == "f":
        return str(last) in ("f32", "f64") and holds_all_of(last, first)
    return kinds[2] != "b" and "f" not in kinds


CONVERSIONS = (
    Law("convert-to-same", a.convert(A), a, note="no conversion at all"),
    Law(
        "convert-there-and-back",
        a.convert(B).convert(A),
        a,
        where=Condition("B holds all of A", (B, A), holds_all_of),
        note="bf16 to f32 to bf16, i32 to f64 to i32; f32 to bf16 to f32 is `elide-roundings`",
    ),
    Law(
        "convert-further",
        a.convert(B).convert(C),
        a.convert(C),
        where=Condition("B holds all of A, C holds all of A or wraps", (B, A, C), _goes_on_from),
    ),
    Law(
        "convert-narrower-still",
        n.convert(Y).convert(Z),
        n.convert(Z),
        where=(
            Condition("Y is no wider than X", (Y, X), _no_wider),
            Condition("Z is no wider than Y", (Z, Y), _no_wider),
        ),
        note="both wrap",
    ),
    *(
        Law(
            f"{name}-of-whole",
            apply(name, i.convert(F)),
            i.convert(F),
            note="an integer that is too large for F is rounded to one",
        )
        for name in _ROUNDINGS
    ),
    *(
        Law(f"{outer}-of-{inner}", apply(outer, apply(inner, x)), apply(inner, x), "f")
        for outer in _ROUNDINGS
        for inner in _ROUNDINGS
    ),
    Law("bool-is-not-zero", p.convert(W).ne(0), p),
    Law("bool-is-zero", p.convert(W).eq(0), ~p),
    Law("bool-is-above-zero", p.convert(W) > 0, p),
    Law("bool-is-one", p.convert(W).eq(1), p),
    Law("bool-is-not-one", p.convert(W).ne(1), ~p),
    Law("bool-as-bool-again", p.convert(W).convert(BOOL), p),
    Law("bools-multiplied", p.convert(W) * p.convert(W), p.convert(W)),
)
