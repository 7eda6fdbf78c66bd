"""Index expressions as Triton text: what the text is, as Python reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuesta.dialects import sym
from cuesta.targets.triton.emit_index import index_text, without_remainders

NAMES = ["i", "j"]


@st.composite
def places(draw: st.DrawFn) -> sym.IndexExpr:
    """Sums of quotients and remainders, as merged axes have them; some of quotients of quotients."""
    x = sym.dim(0) * draw(st.integers(1, 3)) + sym.dim(1) * draw(st.integers(0, 3))
    divisors = draw(st.lists(st.sampled_from([3, 5, 8, 33]), min_size=1, max_size=3))
    found: sym.IndexExpr = draw(st.integers(0, 9))
    for divisor in divisors:
        if draw(st.booleans()):
            found = found + x % divisor * draw(st.integers(-4, 4))
        x = x // divisor
        if draw(st.booleans()):
            found = found + x * draw(st.integers(-4, 4))
    return found + x


@given(places(), st.integers(0, 5000), st.integers(0, 5000))
def test_the_text_means_the_expression(e: sym.IndexExpr, i: int, j: int) -> None:
    value = sym.evaluate(e, [i, j], {})
    assert sym.evaluate(without_remainders(e), [i, j], {}) == value
    assert eval(index_text(e, NAMES), {"i": i, "j": j}) == value


PLACE, ROW = sym.dim(0), 4097
KEPT = {
    "nothing else is divided": (PLACE % ROW + sym.dim(1), "(i % 4097) + j"),
    "another quotient": (PLACE % ROW + PLACE // 5, "(i // 5) + (i % 4097)"),
    "what would be more than the sum": (PLACE % 33 * 600000 + PLACE // 33 * 3, "(i // 33) * 3 + (i % 33) * 600000"),
    "a power of two": (PLACE // 1024 * 3000 + PLACE % 1024, "(i // 1024) * 3000 + (i % 1024)"),
}


def test_a_remainder_beside_its_quotient_is_no_division() -> None:
    assert index_text(PLACE // ROW * 24582 + PLACE % ROW, NAMES) == "i + (i // 4097) * 20485"
    nested = PLACE // (5 * ROW) * 50000 + PLACE // ROW % 5 * 9000 + PLACE % ROW
    assert index_text(nested, NAMES) == "i + (i // 4097) * 4903 + (i // 20485) * 5000"


@pytest.mark.parametrize("name", KEPT)
def test_near_misses(name: str) -> None:
    e, text = KEPT[name]
    assert sorted(index_text(e, NAMES).split(" + ")) == sorted(text.split(" + "))
