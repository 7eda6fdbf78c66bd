from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

from cuesta.dialects import sym

d0, d1, s0, s1 = sym.dim(0), sym.dim(1), sym.symbol("s0"), sym.symbol("s1")


def test_equal_polynomials_are_one_object():
    assert (d0 + 1) * (s0 + 2) is d0 * s0 + 2 * d0 + s0 + 2
    assert d1 + d0 * 64 is 64 * d0 + d1
    assert sym.minimum(d0, d1) is sym.minimum(d1, d0)
    assert d0 - d1 != d1 - d0


@pytest.mark.parametrize(
    ("expression", "line"),
    [(s0, ("s0", 1, 0)), (s0 * 2 - 3, ("s0", 2, -3)), (-s1, ("s1", -1, 0))]
    + [(other, None) for other in (7, d0 + 1, s0 + s1, s0 * s0, s0 * s1 + 1, s0 // 2, s0 * d0)],
)
def test_lines(expression, line):
    assert sym.line_of(expression) == line


def test_constants_are_python_ints():
    for value, expected in [
        (d0 - d0, 0),
        (d0 * 0, 0),
        (5 - s0 + s0, 5),
        ((d0 * 4 + 7) % 4, 3),
        (s0 // s0, 1),
        (s0 % s0, 0),
    ]:
        assert type(value) is int and value == expected
    assert sym.minimum(3, 4) == 3 and sym.maximum(d0, d0 + 3) is d0 + 3 and sym.ceildiv(7, 2) == 4


def test_division_by_constants_that_divide_is_done_at_once():
    assert (d0 * 4 + 7) // 4 is d0 + 1
    assert d0 // 1 is d0 and d0 // -1 is -d0 and 0 // s0 == 0
    with pytest.raises(ZeroDivisionError):
        d0 // 0
    with pytest.raises(ZeroDivisionError):
        d0 % 0


def test_other_operands_are_refused():
    with pytest.raises(TypeError):
        d0 + 1.5  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(TypeError):
        d0 // "x"  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("name", ["d0", "floordiv", "mod", "inf", "3x", "a b", ""])
def test_names_that_cannot_be_symbols(name: str):
    with pytest.raises(ValueError, match="cannot name a symbol"):
        sym.symbol(name)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (d0 * 64 + d1, "d0 * 64 + d1"),
        ((d0 + 1) // 4, "(d0 + 1) floordiv 4"),
        (d0 % 8, "d0 mod 8"),
        (sym.minimum(d0, 4), "min(d0, 4)"),
        (3 - d0, "-d0 + 3"),
        (s0 - 1, "s0 - 1"),
        (d1 - d0 * s0 * 2, "-d0 * s0 * 2 + d1"),
        ((d0 // 4) % 8 * 3 + d1, "d1 + ((d0 floordiv 4) mod 8) * 3"),
        (d0 // -4, "d0 floordiv -4"),
        (7, "7"),
    ],
)
def test_text(e: sym.IndexExpr, text: str):
    assert sym.format_expr(e) == text


def test_text_with_names():
    assert sym.format_expr(d0 * 64 + d1 % 3, ["%i", "%j"]) == "%i * 64 + (%j mod 3)"


def test_questions():
    e = (d0 * s0 + d1) // 4 + 1
    assert sym.dims_of(e) == {0, 1} and sym.symbols_of(e) == {"s0"}
    assert sym.dims_of(3) == frozenset() == sym.symbols_of(3)


def test_coefficient():
    e = d0 * s0 * 2 + d0 * 3 + d1 // 2 + 5
    assert sym.coefficient(e, 0) == s0 * 2 + 3
    assert sym.coefficient(e, 1) is None
    assert sym.coefficient(e, 2) == 0 and sym.coefficient(7, 0) == 0
    assert sym.coefficient(d0 * d0, 0) is None


def test_substitution_is_simultaneous():
    assert sym.substitute(d0 * 2 + d1, (d1, d0)) is d0 + d1 * 2
    assert sym.substitute(d0 * s0, None, {"s0": 4}) is d0 * 4
    assert sym.substitute((d0 + s0) // 2, (3,), {"s0": 4}) == 3
    assert sym.substitute(d0 * s0, (d1, d1)) is d1 * s0
    assert sym.shift_dims(d0 + d1 * 2, 2) is sym.dim(2) + sym.dim(3) * 2
    assert sym.shift_dims(d0 + d1 * 2, 1, start=1) is d0 + sym.dim(2) * 2


def test_substitution_is_linear_in_shared_subexpressions():
    e: sym.IndexExpr = d0 + s0
    for _ in range(60):  # as a tree this has 2^60 leaves
        e = (e // 3) * 2 + (e % 5)
    assert sym.substitute(e, (d1,)) != e
    assert isinstance(sym.evaluate(e, (1000,), {"s0": 7}), int)


def test_evaluation_on_tensors():
    torch = pytest.importorskip("torch")
    i, j = torch.arange(-4, 4)[:, None], torch.arange(5)[None, :]
    e = sym.minimum((d0 * 3 + d1) // 2 % 5, 3) + sym.maximum(d0, d1) * s0
    value = sym.evaluate(e, (i, j), {"s0": 2})
    for a in range(8):
        for b in range(5):
            assert int(value[a, b]) == sym.evaluate(e, (a - 4, b), {"s0": 2})


def test_copies_and_pickles_are_the_same_object():
    e = (d0 * s0 + d1) // 4
    assert copy.deepcopy(e) is e and copy.copy(e) is e
    assert pickle.loads(pickle.dumps(e)) is e


def test_text_does_not_depend_on_the_process():
    program = (
        "from cuesta.dialects import sym\n"
        "names = ['zeta', 's10', 's9', 'alpha', 's0']\n"
        "e = sum(sym.symbol(n) * sym.dim(k % 3) for k, n in enumerate(names)) + sym.symbol('s9') // 3\n"
        "print(sym.format_expr(e))\n"
        "print(sym.MapAttr.get(3, [e]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
