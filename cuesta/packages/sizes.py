"""The sizes of a captured program as text: which symbols there are, where a call shows them, and what holds of them.

Source: torch/fx/experimental/symbolic_shapes.py (`ShapeEnv.guards`, `var_to_range`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._guards import detect_fake_mode
from torch.utils._sympy.printers import PythonPrinter

from cuesta.packages.graph import PackageError, Size
from cuesta.packages.signature import FUNCTIONS, Input, Signature, Symbol, TensorInput, ValueInput


class SizeExpressions:
    """The symbols in the sizes of a program's inputs. `tensors` are all fake tensors that the graph takes, `leaves` are
    what callers give: some of these, and values.
    """

    def __init__(self, tensors: Sequence[Any], leaves: Sequence[Any], declared: Mapping[Any, Any]) -> None:
        self.leaves = leaves
        self.declared = declared
        mode: Any = detect_fake_mode(tensors)
        self.environment: Any = None if mode is None else mode.shape_env
        found: dict[Any, None] = {}
        for one in tensors:
            for size in (*one.shape, *one.stride()):
                if isinstance(size, torch.SymInt):
                    found.update(dict.fromkeys(sorted(_expression(size).free_symbols, key=str)))
        self.symbols = list(found)

    @property
    def names(self) -> list[str]:
        """Those of the symbols."""
        return [str(one) for one in self.symbols]

    @property
    def numbers(self) -> list[torch.SymInt]:
        """The symbols as numbers that a graph can take."""
        return [self._number(one) for one in self.symbols]

    def _number(self, symbol: Any) -> torch.SymInt:
        return self.environment.create_symintnode(symbol, hint=self._hint(symbol))

    def _hint(self, symbol: Any) -> int:
        known = getattr(self.environment, "backed_var_to_val", None) or self.environment.var_to_val
        return int(known[symbol])

    def signature(self, names: Sequence[str], written: set[int], differentiable: set[int]) -> Signature:
        """What callers have to give. `names` are those of the leaves, and `written` the numbers of those that change,
        `differentiable` of those that gradients flow to.

        Errors: PackageError when the sizes do not tell what a symbol is.
        """
        inputs: list[Input] = []
        for number, (name, value) in enumerate(zip(names, self.leaves, strict=True)):
            if not isinstance(value, torch.Tensor):
                inputs.append(ValueInput(name, value))
                continue
            dtype, device = str(value.dtype).removeprefix("torch."), str(value.device)
            sizes, strides = tuple(map(size_text, value.shape)), tuple(map(size_text, value.stride()))
            inputs.append(TensorInput(name, dtype, device, sizes, strides, number in written, number in differentiable))
        return Signature(tuple(inputs), tuple(map(self._symbol, self.symbols)), tuple(self._conditions()))

    def _symbol(self, symbol: Any) -> Symbol:
        """Where a call shows the symbol. Errors: PackageError when nowhere."""
        ranges = [self.environment.var_to_range.get(symbol), self.declared.get(symbol)]
        least = max((int(one.lower) for one in ranges if one is not None and one.lower.is_Integer), default=None)
        most = min((int(one.upper) for one in ranges if one is not None and one.upper.is_Integer), default=None)
        for exact in (True, False):
            for number, value in enumerate(self.leaves):
                for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                    if not isinstance(size, torch.SymInt):
                        continue
                    expression = _expression(size)
                    factor = expression.coeff(symbol)
                    offset = sympy.expand(expression - factor * symbol)
                    if exact and expression != symbol:
                        continue
                    if factor.is_Integer and factor > 0 and offset.is_Integer:
                        return Symbol(str(symbol), least, most, number, axis, int(factor), int(offset))
        raise PackageError(f"no input's size tells what {symbol} is, of which others are made")

    def _conditions(self) -> list[str]:
        """What must hold of the symbols, besides their ranges. Errors: PackageError."""
        if self.environment is None or not self.symbols:
            return []
        known, found = set(self.symbols), dict[str, None]()
        hints = {str(one): self._hint(one) for one in self.symbols}
        for guard in self.environment.guards:
            expression = guard.expr
            if not expression.free_symbols or not expression.free_symbols <= known:
                continue
            text = str(PythonPrinter().doprint(expression))
            try:
                holds = eval(text, dict(FUNCTIONS), dict(hints))
            except (NameError, SyntaxError, TypeError, AttributeError) as error:
                raise PackageError(f"the condition {text} on sizes cannot be said in a package: {error}") from error
            if holds is not True and holds != True:  # noqa: E712 - a SymPy truth value
                raise PackageError(f"the condition {text} on sizes does not hold of the inputs given")
            found[text] = None
        return list(found)


def _expression(size: torch.SymInt) -> Any:
    node: Any = size.node
    return sympy.expand(node.expr)


def size_text(size: int | torch.SymInt) -> Size:
    """A size as text, or the number it is."""
    if isinstance(size, int):
        return size
    expression = _expression(size)
    return int(expression) if expression.is_Integer else str(PythonPrinter().doprint(expression))
