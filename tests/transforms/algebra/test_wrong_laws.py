"""The harness refutes what is not a law, and shows the operands that refute it."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntegerType

from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.laws import NotALawError, check_equation, check_rewrite, prove
from cuesta.transforms.algebra import (
    BOOL,
    Condition,
    Law,
    T,
    Type,
    apply,
    constants,
    maximum,
    reduce,
    select,
    variables,
)

x, y, z = variables("x", "y", "z")
(p,) = variables("p", type=BOOL)
(v,) = variables("v", invariant=True)
(c,) = constants("c")
A, B = Type("A", "f"), Type("B", "f")
(a,) = variables("a", type=A)

WRONG = {
    "minus-zero-is-lost": (Law("wrong", x + 0.0, x, "f"), r"x = -0\.0 the left-hand side is 0\.0, the right.* -0\.0"),
    "negative-times-zero": (
        Law("wrong", x * 0.0, 0.0, "f"),
        r"x = -0\.0 the left-hand side is -0\.0, the right.* 0\.0",
    ),
    "infinity-times-zero": (
        Law("wrong", abs(x) * 0.0, 0.0, "f"),
        r"x = (nan|-?inf) the left-hand side is nan, the right-hand side 0\.0",
    ),
    "maximum-without-nan": (Law("wrong", select(x > y, x, y), maximum(x, y), "f"), r"nan.*the right-hand side nan"),
    "difference-of-itself": (Law("wrong", x - x, 0.0, "f"), r"the left-hand side is nan"),
    "reciprocal-of-three": (Law("wrong", x / 3.0, x * (1.0 / apply("floor", 3.0)), "f"), r"T = bf16: with x = "),
    "reciprocal-of-any": (Law("wrong", x / c, x * (1 / c), "f"), r"c = "),
    "least-integer": (Law("wrong", abs(x) < 0, 0, "i"), r"x = -128 the left-hand side is True"),
    "overflow": (Law("wrong", x + 1 > x, 1, "iu"), r"x = 127 the left-hand side is False"),
    "sum-that-wraps": (Law("wrong", maximum(x + z, y + z), maximum(x, y) + z, "i"), r"T = i8: with x = "),
    "rounded-twice": (Law("wrong", a.convert(B).convert(A), a), r"A = f16, B = bf16|A = bf16, B = f16"),
    "regrouped": (Law("wrong", (x + y) + z, x + (y + z), "f"), r"T = bf16: with x = .*, y = .*, z = "),
    "not-less": (Law("wrong", ~(x < y), x >= y, "f"), r"nan.*the left-hand side is True, the right-hand side False"),
    "empty-domain": (Law("wrong", reduce("maximum", v), v, "f"), r"over 0 points: with v = .* the left.* -inf"),
    "shifts-that-vanish": (Law("wrong", apply("shr", apply("shl", x, y), y), x, "u"), r"T = ui8: with x = "),
    "undefined": (Law("wrong", apply("trunc_div", x, -1) + x, apply("fmod", x, x), "i"), r"x = 0 "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_is_refuted_by_the_operands_that_refute_it(name: str) -> None:
    law, message = WRONG[name]
    with pytest.raises(NotALawError, match=message):
        check_equation(law, effort=0.01)


def test_z3_refutes_what_holds_for_all_small_integers() -> None:
    pytest.importorskip("z3")
    is_wide = Condition("T has 64 bits", (T,), lambda scalar: scalar == IntegerType(64))
    wrong = Law("wrong", (x + 0).eq(0x7123456789ABCDEF), 0, "i", where=is_wide)
    with pytest.raises(NotALawError, match=r"x = 8152436061464415727 .*\(z3\)"):
        check_equation(wrong)


def test_a_condition_makes_a_law_of_it() -> None:
    refuted = Law("wrong", apply("fmod", x, c), x & (c - 1), "u")
    with pytest.raises(NotALawError, match="c = "):
        check_equation(refuted, effort=0.01)
    proof = prove(Law("right", apply("fmod", x, c), 0, "u", where=c.eq(1)), effort=0.01)
    assert "T = ui8, i1 = i1" in proof.complete
    assert not proof.by_z3 or proof.by_z3 == ("T = ui64, i1 = i1",)


def test_a_law_without_constants_proves_nothing() -> None:
    nothing = Condition("never", (c,), lambda number: False)
    with pytest.raises(NotALawError, match="no constants meet its conditions"):
        check_equation(Law("empty", x / c, x, "f", where=nothing))


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Law("bad", x + y, z), "z does not stand on the left-hand side"),
        (Law("bad", x + 0, x & x | x), "more work"),
        (Law("bad", x, x), "must be an op"),
        (Law("bad", apply("no_such", x), x), "there is no op elem.no_such"),
        (Law("bad", apply("exp", x, y), x), "elem.exp has 1 operands, not 2"),
        (Law("bad", x < y, x), "different types|is of type"),
    ],
)
def test_an_equation_that_makes_no_sense_is_told_with_its_place(law: Law, message: str) -> None:
    with pytest.raises(CuestaError, match=message) as caught:
        law.check()
    assert "test_wrong_laws.py:" in str(caught.value)


def test_a_name_is_words_joined_by_hyphens() -> None:
    with pytest.raises(CuestaError, match="words joined by hyphens"):
        Law("No Name", x + 0, x)


def test_the_rewrite_itself_is_tried() -> None:
    """A right-hand side that is another than the law says is found by running programs."""
    law = Law("honest", x + -0.0, x, "f")
    check_rewrite(law)
    object.__setattr__(law, "right", -x)
    with pytest.raises(NotALawError, match="changes what is computed"):
        check_rewrite(law)
