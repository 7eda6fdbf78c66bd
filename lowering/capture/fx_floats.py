"""Symbolic floats: `1.0 / (s0 * 4)` is computed as a 0-d tensor, by a few calls, once per program.

The levels have index expressions, which are integers; a float made of sizes (what batch norm divides by) is data like
any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects.aten import Argument, CallArguments, DType, Operand, op_class
from cuesta.dialects.layout import tensor_type
from cuesta.dialects.sym import IndexExpr
from cuesta.lowering.capture.sympy_to_sym import Sympy, UnsupportedExpressionError, index_expression

_SCALAR_F64: Final = tensor_type((), f64)
_SCALAR_F32: Final = tensor_type((), f32)

_UNARY: Final = {"OpaqueUnaryFn_sqrt": "aten.sqrt.default", "OpaqueUnaryFn_exp": "aten.exp.default"}
_BINARY: Final = {
    "Add": "aten.add.Tensor",
    "Mul": "aten.mul.Tensor",
    "FloatTrueDiv": "aten.div.Tensor",
    "IntTrueDiv": "aten.div.Tensor",
    "FloatPow": "aten.pow.Tensor_Tensor",
    "Pow": "aten.pow.Tensor_Tensor",
    "Max": "aten.maximum.default",
    "Min": "aten.minimum.default",
}


class SymbolicFloats:
    """The symbolic floats of one graph. `append` adds an op to the program, `said` says a number of its symbols."""

    def __init__(self, append: Callable[[Operation], None], said: Callable[[IndexExpr], IndexExpr]) -> None:
        self._append, self._said = append, said
        self._doubles: dict[Sympy, SSAValue] = {}
        self._singles: dict[Sympy, SSAValue] = {}

    def double(self, expression: Sympy) -> SSAValue:
        """A 0-d f64 tensor with the value of a SymPy expression: Python's arithmetic, in Python's precision.

        Errors: UnsupportedExpressionError.
        """
        found = self._doubles.get(expression)
        if found is None:
            found = self._doubles[expression] = self._computed(expression)
        return found

    def single(self, expression: Sympy) -> SSAValue:
        """The same, rounded to f32."""
        found = self._singles.get(expression)
        if found is None:
            double = self.double(expression)
            found = self._singles[expression] = self._call(
                "aten._to_copy.default", (Operand(0),), (double,), _SCALAR_F32, dtype=DType("float32")
            )
        return found

    def _computed(self, expression: Sympy) -> SSAValue:
        if expression.is_integer and not expression.is_Float:
            return self._number(self._said(index_expression(expression)))
        if expression.is_number:
            return self._number(float(expression))
        name = type(expression).__name__
        if name == "ToFloat":
            return self.double(expression.args[0])
        operands = [self.double(argument) for argument in expression.args] if name in _UNARY or name in _BINARY else []
        if name in _UNARY:
            return self._call(_UNARY[name], (Operand(0),), operands, _SCALAR_F64)
        if name in _BINARY:
            overload = _BINARY[name]
            return reduce(lambda a, b: self._call(overload, (Operand(0), Operand(1)), (a, b), _SCALAR_F64), operands)
        raise UnsupportedExpressionError(f"{name} in the symbolic float {expression}")

    def _number(self, value: Argument) -> SSAValue:
        return self._call("aten.scalar_tensor.default", (value,), (), _SCALAR_F64, dtype=DType("float64"))

    def _call(
        self, overload: str, arguments: tuple[Argument, ...], operands: Any, result: Attribute, **keywords: Argument
    ) -> SSAValue:
        op = op_class(overload).create(
            operands=operands,
            result_types=(result,),
            properties={"arguments": CallArguments.of(arguments, tuple(keywords.items()))},
        )
        self._append(op)
        return op.results[0]
