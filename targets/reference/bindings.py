"""What comes into `@main`: checked against its types, and the values of symbols read off it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Operation

from cuesta.dialects import layout, sym
from cuesta.targets.reference.errors import InterpreterError
from cuesta.targets.reference.numerics import as_tensor_type, dtype_of, same_layout

Equation = tuple[sym.IndexExpr, int, str]
"""An expression, what it equals in this run, and where that is seen."""


class Symbols(dict[str, int]):
    """The values of the symbols of a run, learnt from equations."""

    def __init__(self, declared: sym.SymbolsAttr | None) -> None:
        super().__init__()
        self._ranges = {} if declared is None else declared.ranges

    def value(self, expression: sym.IndexExpr) -> int:
        """The value of an expression. Errors: InterpreterError when it has a symbol that nothing told the value of."""
        try:
            return int(sym.evaluate(expression, (), self))
        except KeyError as error:
            raise InterpreterError(f"the symbol {error.args[0]} has no value: no input tells it") from None

    def all_values(self, expressions: Sequence[sym.IndexExpr]) -> tuple[int, ...]:
        """The values of expressions."""
        return tuple(self.value(expression) for expression in expressions)

    def learn(self, equations: Sequence[Equation]) -> None:
        """Finds values for symbols that make the equations true, then checks all of them, and the declared ranges.

        Errors: InterpreterError for one that is false.
        """
        pending, found = list(equations), True
        while found:
            found = False
            for equation in pending:
                found = self._solve(*equation) or found
        for expression, value, where in pending:
            if sym.symbols_of(expression) <= self.keys() and self.value(expression) != value:
                raise InterpreterError(f"{where} is {value}, but {self._explain(expression)}")

    def _solve(self, expression: sym.IndexExpr, value: int, where: str) -> bool:
        """Learns the only unknown symbol of an equation that is linear in it."""
        unknown = sorted(sym.symbols_of(expression) - self.keys())
        if len(unknown) != 1:
            return False
        name = unknown[0]
        at_zero, at_one = (int(sym.evaluate(expression, (), {**self, name: point})) for point in (0, 1))
        slope = at_one - at_zero
        if slope == 0 or (value - at_zero) % slope:
            return False
        solution = (value - at_zero) // slope
        if int(sym.evaluate(expression, (), {**self, name: solution})) != value:
            return False
        low, high = self._ranges.get(name, (None, None))
        if (low is not None and solution < low) or (high is not None and solution > high):
            bounds = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
            raise InterpreterError(f"{where} is {value}, so {name} is {solution}, outside of its range {bounds}")
        self[name] = solution
        return True

    def _explain(self, expression: sym.IndexExpr) -> str:
        names = sorted(sym.symbols_of(expression))
        given = f" ({', '.join(f'{name} = {self[name]}' for name in names)})" if names else ""
        return f"its type says {sym.format_expr(expression)}{given}"


def sizes_and_strides(symbols: Symbols, tensor_type: TensorType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides that a type declares."""
    return symbols.all_values(layout.sizes_of(tensor_type)), symbols.all_values(layout.strides_of(tensor_type))


def size_equations(tensor_type: TensorType, tensor: Tensor, where: str) -> list[Equation]:
    """What the sizes of a tensor of this type tell. Errors: InterpreterError when the ranks differ."""
    sizes = layout.sizes_of(tensor_type)
    if tensor.dim() != len(sizes):
        raise InterpreterError(f"{where} has {tensor.dim()} axes, but its type {tensor_type} has {len(sizes)}")
    return [
        (size, actual, f"{where}: the size of axis {axis}")
        for axis, (size, actual) in enumerate(zip(sizes, tensor.shape, strict=True))
    ]


def bind(
    declared: sym.SymbolsAttr | None,
    types: Sequence[Attribute],
    inputs: Sequence[object],
    dtype_of: Callable[[Attribute], torch.dtype] = dtype_of,
) -> Symbols:
    """Checks the inputs against the types of `@main`'s arguments; gives the values of the symbols.

    `dtype_of` says what dtype the tensors of a type have.

    Errors: InterpreterError for an input that does not have its type.
    """
    if len(types) != len(inputs):
        raise InterpreterError(f"@main takes {len(types)} inputs (constants included), but {len(inputs)} are given")
    symbols = Symbols(declared)
    equations: list[Equation] = []
    of_strides: list[Equation] = []
    for position, (value_type, value) in enumerate(zip(types, inputs, strict=True)):
        where = f"input {position}"
        if (tensor_type := as_tensor_type(value_type)) is not None:
            if not isinstance(value, Tensor):
                raise InterpreterError(f"{where} is of type {tensor_type}, but {value!r} is given")
            if value.dtype is not dtype_of(tensor_type):
                raise InterpreterError(f"{where} has dtype {value.dtype}, but its type is {tensor_type}")
            equations += size_equations(tensor_type, value, where)
            of_strides += [
                (stride, value.stride(axis), f"{where}: the stride of axis {axis}")
                for axis, stride in enumerate(layout.strides_of(tensor_type))
                if value.numel() and value.shape[axis] > 1 and not isinstance(stride, int)
            ]
        elif isinstance(value_type, sym.IntType):
            if not isinstance(value, int):
                raise InterpreterError(f"{where} is an integer, but {value!r} is given")
            equations.append((value_type.data, value, where))
    symbols.learn(equations)
    symbols.learn(of_strides)
    for position, (value_type, value) in enumerate(zip(types, inputs, strict=True)):
        if (tensor_type := as_tensor_type(value_type)) is not None and isinstance(value, Tensor):
            strides = symbols.all_values(layout.strides_of(tensor_type))
            if not same_layout(value, strides):
                found, wanted = list(value.stride()), list(strides)
                raise InterpreterError(f"input {position} has strides {found}, but its type {value_type} says {wanted}")
    return symbols


def with_constants(
    entry: Operation, inputs: Sequence[object], constants: Mapping[str, Tensor] | Sequence[Tensor] | None
) -> list[object]:
    """The inputs, followed by the constants that `@main` names.

    Errors: InterpreterError when one that it names is missing.
    """
    if constants is None:
        return list(inputs)
    if not isinstance(constants, Mapping):
        return [*inputs, *constants]
    names = entry.attributes.get("aten.constants")
    result = list(inputs)
    for name in cast(ArrayAttr[Attribute], names) if isinstance(names, ArrayAttr) else ():
        assert isinstance(name, StringAttr)
        if name.data not in constants:
            raise InterpreterError(f"the constant {name.data} is missing; there are {', '.join(constants) or 'none'}")
        result.append(constants[name.data])
    return result
