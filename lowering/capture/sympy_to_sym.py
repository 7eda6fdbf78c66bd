"""SymPy expressions, as torch's shape environment holds them, to index expressions of the `sym` dialect.

Nothing here imports SymPy or torch: expressions are told apart by the names of their classes, so a graph without
symbols costs nothing. Results are memoised by expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

from cuesta.dialects import sym
from cuesta.dialects.core.interning import Memo
from cuesta.dialects.sym import IndexExpr

Sympy: TypeAlias = Any  # sympy.Expr: SymPy ships no types


class UnsupportedExpressionError(Exception):
    """An expression that the `sym` dialect cannot say, such as a symbolic float."""


_memo = Memo[Sympy, IndexExpr](100_000)


def index_expression(expression: Sympy) -> IndexExpr:
    """The index expression equal to a SymPy integer expression.

    Source: the functions of torch.utils._sympy.functions. Their integer division and remainder round as Python's do.
    Errors: UnsupportedExpressionError, which names the function that has no counterpart.
    """
    result = _memo.get(expression)
    return _memo.keep(expression, _translate(expression)) if result is None else result


def _translate(expression: Sympy) -> IndexExpr:
    if expression.is_Integer:
        return int(expression)
    handler = _HANDLERS.get(type(expression).__name__)
    if handler is None:
        raise UnsupportedExpressionError(f"{type(expression).__name__} in the symbolic expression {expression}")
    return handler(expression)


def _operands(expression: Sympy) -> list[IndexExpr]:
    return [index_expression(argument) for argument in expression.args]


def _symbol(expression: Sympy) -> IndexExpr:
    name = str(expression)
    if not expression.is_integer:
        raise UnsupportedExpressionError(f"the symbol {name} is not an integer")
    try:
        return sym.symbol(name)
    except ValueError as error:
        raise UnsupportedExpressionError(str(error)) from error


def _sum(expression: Sympy) -> IndexExpr:
    if _has_fraction(expression.args):
        return _over_denominator(expression)
    return reduce(lambda left, right: left + right, _operands(expression))


def _product(expression: Sympy) -> IndexExpr:
    if _has_fraction((expression,)):
        return _over_denominator(expression)
    return reduce(lambda left, right: left * right, _operands(expression))


def _has_fraction(terms: Sequence[Sympy]) -> bool:
    return any(
        (factor.is_Rational and not factor.is_Integer) or (factor.is_Pow and factor.args[1].is_negative)
        for term in terms
        for factor in (term.args if term.is_Mul else (term,))
    )


def _over_denominator(expression: Sympy) -> IndexExpr:
    """s0/2 + 1/2 -> (s0 + 1) floordiv 2: the whole is known to be an integer, so the division leaves no rest."""
    if not expression.is_integer:
        raise UnsupportedExpressionError(f"the symbolic expression {expression} is not known to be an integer")
    numerator, denominator = expression.as_numer_denom()
    return index_expression(numerator) // index_expression(denominator)


def _power(expression: Sympy) -> IndexExpr:
    base, exponent = _operands(expression)
    if not isinstance(exponent, int) or not 0 <= exponent <= 16:
        raise UnsupportedExpressionError(f"the power {expression}")
    return reduce(lambda left, right: left * right, [base] * exponent, 1)


def _floor_division(expression: Sympy) -> IndexExpr:
    left, right = _operands(expression)
    return left // right


def _remainder(expression: Sympy) -> IndexExpr:
    left, right = _operands(expression)
    return left % right


def _division_and_remainder(expression: Sympy) -> IndexExpr:
    value, divisor, modulus = _operands(expression)
    return (value // divisor) % modulus


def _rounded_down(expression: Sympy) -> IndexExpr:
    left, right, _ = _quotient(expression)
    return left // right


def _rounded_up(expression: Sympy) -> IndexExpr:
    left, right, _ = _quotient(expression)
    return sym.ceildiv(left, right)


def _truncated(expression: Sympy) -> IndexExpr:
    left, right, nonnegative = _quotient(expression)
    if not nonnegative:
        raise UnsupportedExpressionError(f"truncation of a quotient that may be negative: {expression}")
    return left // right


_LARGEST_DENOMINATOR = 2**16


def _quotient(expression: Sympy) -> tuple[IndexExpr, IndexExpr, bool]:
    """What is being rounded, as a quotient of integers, and whether neither of them is negative.

    1.5 * ToFloat(s0) is 3 * s0 over 2, without rounding as long as 3 * s0 has less than 53 bits. 1.3 is no such number.
    """
    rounded = expression.args[0]
    if type(rounded).__name__ == "IntTrueDiv":
        left, right = _operands(rounded)
        return left, right, all(argument.is_nonnegative for argument in rounded.args)
    if rounded.is_Mul and len(rounded.args) == 2:
        factor, integer = rounded.args
        if factor.is_Float and type(integer).__name__ == "ToFloat":
            numerator, denominator = float(factor).as_integer_ratio()
            if denominator <= _LARGEST_DENOMINATOR:
                nonnegative = numerator >= 0 and bool(integer.args[0].is_nonnegative)
                return index_expression(integer.args[0]) * numerator, denominator, nonnegative
    raise UnsupportedExpressionError(f"{type(expression).__name__} of a symbolic float: {expression}")


def _shift(expression: Sympy) -> IndexExpr:
    left, right = _operands(expression)
    if not isinstance(right, int):
        raise UnsupportedExpressionError(f"a shift by a symbolic amount: {expression}")
    return left * 2**right if type(expression).__name__ == "LShift" else left // 2**right


_HANDLERS: dict[str, Callable[[Sympy], IndexExpr]] = {
    "Symbol": _symbol,
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _floor_division,
    "CleanDiv": _floor_division,
    "CeilDiv": lambda expression: sym.ceildiv(*_operands(expression)),
    "Mod": _remainder,
    "PythonMod": _remainder,
    "ModularIndexing": _division_and_remainder,
    "Max": lambda expression: reduce(sym.maximum, _operands(expression)),
    "Min": lambda expression: reduce(sym.minimum, _operands(expression)),
    "FloorToInt": _rounded_down,
    "CeilToInt": _rounded_up,
    "TruncToInt": _truncated,
    "LShift": _shift,
    "RShift": _shift,
    "Identity": lambda expression: index_expression(expression.args[0]),
}
