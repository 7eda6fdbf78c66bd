"""The symbols of a traced graph: SymInts as index expressions, and the ranges that torch has found for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.sym import IndexExpr
from cuesta.lowering.capture.sympy_to_sym import Sympy, UnsupportedExpressionError, index_expression

if TYPE_CHECKING:
    import torch


class Symbols:
    """Translates the SymInts of one graph, and remembers which symbols have been met."""

    def __init__(self, inputs: Iterable[Any] = ()) -> None:
        """`inputs` are what the graph is given: their sizes may tell a sum of symbols, and none of these alone."""
        self.values: dict[IndexExpr, SSAValue] = {}
        """Values of type `!sym.int` that the program already has, by the expression they equal."""
        self.solution = sym.Solution()
        self._known: dict[str, tuple[Any, Any]] = {}  # name -> (SymPy symbol, shape environment)
        self._ones: dict[Any, bool] = {}  # SymPy expression -> whether it is known to be 1
        self.solution = sym.solve([self.translate(number) for number in numbers_of(inputs)])

    def translate(self, number: torch.SymInt) -> IndexExpr:
        """The index expression that a SymInt stands for; a Python int when it is known to be constant.

        An expression that guards hold to 1 is 1: a size that was broadcast when the graph was captured, such as
        `(s0 - 1) // 3 + 1`, and that nothing but the guard says so of.
        Errors: UnsupportedExpressionError.
        """
        node: Any = number.node
        expression = getattr(node, "expr", None)
        if expression is None:
            constant = node.maybe_as_int()
            if constant is None:
                raise UnsupportedExpressionError(f"the size {number} of a ragged tensor")
            return constant
        result = index_expression(expression)
        if not isinstance(result, int) and not expression.is_symbol:
            if expression not in self._ones:
                from torch.fx.experimental.symbolic_shapes import statically_known_true

                self._ones[expression] = statically_known_true(number == 1)
            if self._ones[expression]:
                return 1
        if not isinstance(result, int) and not (result.symbols <= self._known.keys()):
            for symbol in expression.free_symbols:
                self._known.setdefault(str(symbol), (symbol, node.shape_env))
        return self.said(result)

    def said(self, e: IndexExpr) -> IndexExpr:
        """An expression over the symbols of the graph by what its inputs tell. Errors: UnsupportedExpressionError."""
        found = self.solution.say(e)
        if found is None:
            raise UnsupportedExpressionError(f"a size {sym.format_expr(e)}, which the sizes of no inputs tell")
        return found

    def float_expression(self, number: torch.SymFloat) -> Sympy:
        """The SymPy expression that a SymFloat stands for; its symbols are remembered.

        Errors: UnsupportedExpressionError.
        """
        node: Any = number.node
        expression: Sympy = getattr(node, "expr", None)
        if expression is None:
            raise UnsupportedExpressionError(f"the symbolic float {number}")
        for symbol in expression.free_symbols:
            self._known.setdefault(str(symbol), (symbol, node.shape_env))
        return expression

    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """The inclusive range of every symbol met, by name, in order of name; None is an infinite end."""
        known = {name: _range_of(*self._known[name]) for name in sorted(self._known, key=_natural_order)}
        own = {sym.format_expr(name): sym.bounds(e, (), known) for e, name in self.solution.names.items()}
        return {name: known[name] for name in known if name not in self.solution.values} | own


def numbers_of(inputs: Iterable[Any]) -> list[torch.SymInt]:
    """What inputs tell of symbols: sizes, and numbers themselves, before strides, which need not be what they say."""
    import torch

    sizes: list[Any] = []
    strides: list[Any] = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            sizes += value.shape
            strides += value.stride() if value.layout is torch.strided else ()
        else:
            sizes.append(value)
    return [cast("torch.SymInt", one) for one in (*sizes, *strides) if isinstance(one, torch.SymInt)]


def _range_of(symbol: Any, shape_env: Any) -> tuple[int | None, int | None]:
    found = shape_env.var_to_range.get(symbol)
    if found is None:
        return None, None
    lower, upper = [int(bound) if bound.is_Integer else None for bound in (found.lower, found.upper)]
    # torch writes "no limit" as the largest sizes that fit.
    return lower, None if upper is None or upper >= 2**62 else upper


def _natural_order(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
