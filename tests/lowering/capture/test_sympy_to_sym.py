from __future__ import annotations

import itertools
from typing import Any

import pytest
import sympy
import torch.utils._sympy.functions as functions

from cuesta.dialects import sym
from cuesta.lowering.capture.sympy_to_sym import UnsupportedExpressionError, index_expression

s0, s1 = sympy.symbols("s0 s1", integer=True, positive=True)
F: Any = functions  # to SymPy's annotations, what these give is a class and not an expression


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        (sympy.Integer(7), lambda a, b: 7),
        (s0, lambda a, b: a),
        (2 * s0 * s1 - s0 + 3, lambda a, b: 2 * a * b - a + 3),
        (s0**3, lambda a, b: a**3),
        (F.FloorDiv(s0 - 5, 3), lambda a, b: (a - 5) // 3),
        (F.FloorDiv(s0, s1), lambda a, b: a // b),
        (F.CleanDiv(s0 * s1, s1), lambda a, b: a),
        (F.CeilDiv(s0, 4), lambda a, b: -(-a // 4)),
        (F.Mod(s0, 3), lambda a, b: a % 3),
        (F.PythonMod(s0 - 9, 4), lambda a, b: (a - 9) % 4),
        (F.ModularIndexing(s0, 2, 3), lambda a, b: (a // 2) % 3),
        (F.Max(s0, s1, 3), lambda a, b: max(a, b, 3)),
        (F.Min(s0, s1), lambda a, b: min(a, b)),
        (sympy.Max(s0, 4), lambda a, b: max(a, 4)),
        (F.CeilToInt(F.IntTrueDiv(s0, 2)), lambda a, b: -(-a // 2)),
        (F.FloorToInt(F.IntTrueDiv(s0, s1)), lambda a, b: a // b),
        (F.TruncToInt(F.IntTrueDiv(s0, s1)), lambda a, b: a // b),
        (F.TruncToInt(F.ToFloat(s0) * 1.5), lambda a, b: a * 3 // 2),
        (F.CeilToInt(F.ToFloat(s0) * 0.5), lambda a, b: -(-a // 2)),
        (F.LShift(s0, 3), lambda a, b: a << 3),
        (F.RShift(s0, 2), lambda a, b: a >> 2),
        (F.Identity(s0 + 1), lambda a, b: a + 1),
        (F.PowByNatural(s0, 2), lambda a, b: a * a),
    ],
)
def test_meaning_is_kept(expression: sympy.Expr, meaning):
    result = index_expression(expression)
    for a, b in itertools.product(range(1, 13), range(1, 8)):
        assert sym.evaluate(result, [], {"s0": a, "s1": b}) == meaning(a, b)


def test_fractions_that_cancel():
    even = sympy.Symbol("e", integer=True, even=True, positive=True)
    result = index_expression(even / 2 + 1)
    assert [sym.evaluate(result, [], {"e": value}) for value in (2, 4, 10)] == [2, 3, 6]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (F.ToFloat(s0), "ToFloat in the symbolic expression"),
        (F.IntTrueDiv(s0, 2), "IntTrueDiv in the symbolic expression"),
        (F.CeilToInt(F.ToFloat(s0) * 1.3), "CeilToInt of a symbolic float"),
        (F.TruncToInt(F.ToFloat(s0 - 9) * 0.5), "truncation of a quotient that may be negative"),
        (s0 / 2, "not known to be an integer"),
        (2**s0, "the power"),
        (sympy.Symbol("zf0", real=True), "the symbol zf0 is not an integer"),
    ],
)
def test_what_cannot_be_said_is_named(expression: sympy.Expr, message: str):
    with pytest.raises(UnsupportedExpressionError, match=message):
        index_expression(expression)
