"""Each law fires where it should, and not where one of its conditions fails."""

from __future__ import annotations

import time

import pytest

from cuesta.dialects import sym
from cuesta.dialects.sym.syntax import parse_text

# (law, expression, sizes, expected); symbols: s0, s1 in [2, inf], u in [-inf, inf]
RANGES = {"s0": (2, None), "s1": (2, None), "small": (2, 4)}
FIRES = [
    ("size 1", "d0 + d1 * 5", (1, 4), "d1 * 5"),
    ("constant quotient 0", "d0 floordiv 8", (8,), "0"),
    ("constant quotient k", "(d0 + 17) floordiv 8", (7,), "2"),
    ("constant quotient -1", "(d0 - 8) floordiv 8", (8,), "-1"),
    ("mod of a small value", "d0 mod 8", (8,), "d0"),
    ("mod of a shifted value", "(d0 + 16) mod 8", (8,), "d0"),
    ("split floordiv", "(d0 * 8 + d1) floordiv 8", (9, 8), "d0"),
    ("split floordiv, rest stays", "(d0 * 8 + d1) floordiv 8", (9, 10), "d0 + d1 floordiv 8"),
    ("split mod", "(d0 * 8 + d1) mod 8", (9, 8), "d1"),
    ("split mod, rest stays", "(d0 * 8 + d1) mod 8", (9, 10), "d1 mod 8"),
    ("nested floordiv", "(d0 floordiv 4) floordiv 3", (100,), "d0 floordiv 12"),
    ("nested floordiv with offset", "(d0 floordiv 4 + 1) floordiv 3", (100,), "(d0 + 4) floordiv 12"),
    ("nested floordiv in a sum", "(d0 floordiv 4 + d1) floordiv 3", (100, 9), "(d0 + d1 * 4) floordiv 12"),
    ("floordiv of mod", "(d0 mod 12) floordiv 4", (100,), "(d0 floordiv 4) mod 3"),
    ("mod of mod", "(d0 mod 12) mod 4", (100,), "d0 mod 4"),
    ("mod of a multiple of mod", "(d0 mod 6 * 2 + d1) mod 4", (100, 9), "(d0 * 2 + d1) mod 4"),
    ("gcd floordiv", "(d0 * 6) floordiv 4", (100,), "(d0 * 3) floordiv 2"),
    ("gcd floordiv with rest", "(d0 * 4 + d1) floordiv 8", (9, 4), "d0 floordiv 2"),
    ("gcd mod", "(d0 * 4) mod 8", (100,), "(d0 mod 2) * 4"),
    ("gcd mod with rest", "(d0 * 4 + d1) mod 8", (9, 4), "(d0 mod 2) * 4 + d1"),
    ("join", "d0 floordiv 8 * 8 + d0 mod 8", (100,), "d0"),
    ("join with factor", "d0 floordiv 8 * 24 + d0 mod 8 * 3 + d1", (100, 4), "d0 * 3 + d1"),
    ("join with symbolic factor", "d0 floordiv 8 * 8 * s0 + (d0 mod 8) * s0 + d1", (100, 4), "d0 * s0 + d1"),
    ("join two of three", "d0 floordiv 4 mod 3 * 4 + d0 mod 4", (100,), "d0 mod 12"),
    ("join three", "d0 floordiv 12 * 12 + d0 floordiv 4 mod 3 * 4 + d0 mod 4", (100,), "d0"),
    ("join symbolic", "d0 floordiv s0 * s0 + d0 mod s0", (100,), "d0"),
    ("negative divisor", "d0 floordiv -4", (100,), "(-d0) floordiv 4"),
    ("symbolic split", "(d0 * s0 + d1) floordiv s0", (9, "s0"), "d0"),
    ("symbolic split mod", "(d0 * s0 + d1) mod s0", (9, "s0"), "d1"),
    ("symbolic product", "(d0 * s0 * s1 + d1 * s1 + d2) floordiv (s0 * s1)", (9, "s0", "s1"), "d0"),
    ("symbolic product inside", "(d0 * s0 * s1 + d1 * s1 + d2) floordiv s1", (9, "s0", "s1"), "d0 * s0 + d1"),
    ("symbolic gcd", "(d0 * s0 + d1) floordiv (s0 * 4)", (9, "s0"), "d0 floordiv 4"),
    ("symbolic gcd mod", "(d0 * s0 + d1) mod (s0 * 4)", (9, "s0"), "d0 mod 4 * s0 + d1"),
    ("sum as divisor", "(d0 * (s0 + 1) + d1) floordiv (s0 + 1)", (9, "s0 + 1"), "d0"),
    ("sum as divisor, mod", "(d0 * (s0 + 1) + d1) mod (s0 + 1)", (9, "s0 + 1"), "d1"),
    ("symbolic range", "d0 floordiv small", (2,), "0"),
    ("s0 ≥ 1 because it is a size", "d0 floordiv u", ("u",), "0"),
    ("symbolic linear position", "(d0 * s1 + d1) floordiv (s0 * s1)", ("s0", "s1"), "0"),
    ("min", "min(d0, 8)", (8,), "d0"),
    ("max", "max(d0, 0)", (8,), "d0"),
    ("symbolic min", "min(d0 * 4, s0 * 4)", ("s0",), "d0 * 4"),
    ("floor of a large symbolic quotient", "(d0 floordiv s0) floordiv s1", ("s0 * s1",), "0"),
]
NEAR_MISSES = [
    ("size not 1", "d0 + d1 * 5", (2, 4), None),
    ("one too large", "d0 floordiv 8", (9,), None),
    ("offset crosses", "(d0 + 1) floordiv 8", (8,), None),
    ("mod one too large", "d0 mod 8", (9,), None),
    ("no multiple", "(d0 * 7 + d1) floordiv 8", (9, 8), None),
    ("moduli that do not divide", "(d0 mod 12) floordiv 5", (100,), None),
    ("moduli that do not divide, mod", "(d0 mod 12) mod 5", (100,), None),
    ("nested by a negative", "(d0 floordiv 4) floordiv u", (100,), None),
    ("no gcd", "(d0 * 3) mod 8", (100,), None),
    ("gcd but the rest is too large", "(d0 * 4 + d1) mod 8", (9, 5), None),
    ("join with a wrong factor", "d0 floordiv 8 * 4 + d0 mod 8", (100,), None),
    ("join with a greater factor", "d0 floordiv 8 * 16 + d0 mod 8", (100,), None),
    ("join with a divisor that may be negative", "d0 floordiv 4 mod u * 4 + d0 mod 4", (100,), None),
    ("floordiv of mod by what may be negative", "(d0 mod (u * 4)) floordiv 4", (100,), None),
    ("join of different values", "d0 floordiv 8 * 8 + d1 mod 8", (100, 100), None),
    ("the symbol may be negative", "(d0 * 4 + d1) mod (u * 4)", (9, 4), None),
    ("the dimension is larger than the divisor", "d1 floordiv s0", (9, "s0 + 1"), None),
    ("min that may be either", "min(d0, 8)", (10,), None),
    ("symbolic min that may be either", "min(d0, s0)", ("s0 + 2",), None),
]


def _sizes(sizes: tuple[int | str, ...]) -> list[sym.IndexExpr]:
    return [parse_text(size) if isinstance(size, str) else size for size in sizes]


@pytest.mark.parametrize(("text", "sizes", "expected"), [row[1:] for row in FIRES], ids=[row[0] for row in FIRES])
def test_fires(text: str, sizes: tuple[int | str, ...], expected: str):
    assert sym.simplify(parse_text(text), _sizes(sizes), RANGES) == parse_text(expected)


@pytest.mark.parametrize(("text", "sizes"), [row[1:3] for row in NEAR_MISSES], ids=[row[0] for row in NEAR_MISSES])
def test_near_miss(text: str, sizes: tuple[int | str, ...]):
    e = parse_text(text)
    assert sym.simplify(e, _sizes(sizes), RANGES) is e


def test_bounds_of_sums_of_dimensions_are_exact():
    assert sym.bounds(parse_text("d0 * 3 - d1 * 2 + 1"), (4, 6)) == (-9, 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(d0 - 2) mod 8", (0, 7)),
        ("(d0 - 5) mod 8", (3, 6)),
        ("(d0 + 7) mod 100", (7, 10)),
        ("(d0 - 2) floordiv 2", (-1, 0)),
        ("d0 mod small", (0, 3)),
        ("small floordiv -2", (-2, -1)),
        ("min(d0, small)", (0, 3)),
        ("max(d0, s0)", (2, None)),
    ],
)
def test_bounds_of_functions(text: str, expected: tuple[int | None, int | None]):
    assert sym.bounds(parse_text(text), (4,), RANGES) == expected


def test_a_symbol_without_a_range_is_unbounded():
    assert sym.bounds(sym.symbol("u"), ()) == (None, None)
    assert not sym.prove_less_equal(0, sym.symbol("u"), ())


def test_proofs_with_symbols():
    s0, s1, d0, d1 = sym.symbol("s0"), sym.symbol("s1"), sym.dim(0), sym.dim(1)
    sizes = (s0, s1)
    assert sym.prove_less_equal(d0 * s1 + d1, s0 * s1 - 1, sizes, RANGES)
    assert not sym.prove_less_equal(d0 * s1 + d1, s0 * s1 - 2, sizes, RANGES)
    assert sym.prove_less_equal(s0, s0 * s1, (), RANGES)
    assert sym.prove_equal((d0 * s1 + d1) // s1, d0, sizes, RANGES)
    unsigned = sym.symbol("unsigned")
    assert sym.prove_less_equal(d0 * s1, (s0 - 1) * s1, sizes, RANGES)
    assert not sym.prove_less_equal(d0 * unsigned, (s0 - 1) * unsigned, sizes, {**RANGES, "unsigned": (-3, 5)})
    assert not sym.prove_equal((d0 * s1 + d1) // s0, d0, sizes, RANGES)


def test_an_empty_space_simplifies_to_anything_but_does_not_fail():
    e = parse_text("(d0 * 4 + d1) floordiv 4 + d1 mod 3")
    sym.simplify(e, (0, 4), {})
    assert sym.delinearize(sym.dim(0), (3, 0, 2)) == (sym.dim(0) // 2, (sym.dim(0) // 2) % 1, sym.dim(0) % 2)


def test_linearize_and_delinearize():
    d0, d1 = sym.dim(0), sym.dim(1)
    assert sym.linearize((d0, d1), (4, 6)) == d0 * 6 + d1
    assert sym.delinearize(d0, (4, 6)) == (d0 // 6, d0 % 6)
    assert sym.linearize((), ()) == 0 and sym.delinearize(0, ()) == ()


def test_a_deep_chain_of_reshapes_stays_linear():
    """Simplification after every step, a hundred times; without the memo and the laws this does not end."""
    sizes = (6, 10, 14)
    view = sym.MapAttr.identity(3)
    start = time.perf_counter()
    for turn in range(100):
        there = ((60, 14), (6, 140), (12, 5, 14), (3, 4, 70))[turn % 4]
        forward = sym.MapAttr.get(3, sym.delinearize(sym.linearize(view.results, sizes), there)).simplified(sizes)
        view = sym.MapAttr.get(3, sym.delinearize(sym.linearize(forward.results, there), sizes)).simplified(sizes)
    assert view.is_identity
    assert time.perf_counter() - start < 2
