"""What bodies have in common at the levels `loops` and `kernel`: values over the grid, `elem` ops, reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, sym
from cuesta.targets.reference import elementwise, reductions
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.numerics import Numerics, first_point
from cuesta.targets.reference.random_numbers import philox, random_word
from cuesta.targets.reference.scope import Scope

Handler = Callable[[Any, Any], None]


class Body:
    """Evaluates ops at all points of a grid at a time. `handlers` says what each op does; subclasses add to it."""

    handlers: dict[type[Operation], Handler]

    def __init__(self, numerics: Numerics, symbols: Mapping[str, int]) -> None:
        self.numerics = numerics
        self.symbols = symbols
        self.scope = Scope()
        self.values: dict[SSAValue, Tensor] = {}

    def run_block(self, block: Block) -> None:
        """Evaluates the ops of a block in the current scope."""
        handlers = self.handlers
        for op in block.ops:
            handler = handlers.get(type(op))
            if handler is None and isinstance(op, elem.TableOp):
                _table(self, op)
                continue
            if handler is None:
                fail(op, "does not belong in a body")
            handler(self, op)

    def run_inner(self, scope: Scope, block: Block) -> None:
        """Evaluates a block in an inner scope."""
        outer, self.scope = self.scope, scope
        self.run_block(block)
        self.scope = outer

    def value(self, op: Operation, name: SSAValue) -> Tensor:
        """A value in the current scope, aligned."""
        value = self.values.get(name)
        if value is None:
            fail(op, f"uses %{name.name_hint or '?'} before it is defined")
        return self.scope.align(value)

    def define(self, op: Operation, *results: Tensor) -> None:
        """Gives an op's results their values."""
        for name, result in zip(op.results, results, strict=True):
            self.values[name] = result

    def alike(self, name: SSAValue, result: Tensor) -> Tensor:
        """A result, with one element where the type says that points are alike. Here no type does."""
        return result

    # -- indices ------------------------------------------------------------------------------------------------------

    def size(self, op: Operation, expression: sym.IndexExpr) -> int:
        """The value of an expression over symbols."""
        return int(self._evaluate(op, expression, ()))

    def indices(
        self, op: Operation, expressions: Sequence[sym.IndexExpr], operands: Sequence[SSAValue]
    ) -> list[Tensor]:
        """The values of expressions over index operands, aligned."""
        dims = [self.value(op, operand) for operand in operands]
        return [self.scope.align(torch.as_tensor(self._evaluate(op, e, dims))) for e in expressions]

    def _evaluate(self, op: Operation, expression: sym.IndexExpr, dims: Sequence[Tensor]) -> Any:
        try:
            return sym.evaluate(expression, dims, self.symbols)
        except KeyError as error:
            fail(op, f"uses the symbol {error.args[0]}, which has no value here")

    def checked(self, op: Operation, index: Tensor, size: int, mask: Tensor | None, what: str) -> Tensor:
        """The index, in range everywhere: out of range where the mask is false it becomes one that is not.

        Errors: InterpreterError when it is out of range where the mask is true.
        """
        if self.scope.is_empty or index.numel() == 0:
            return index
        low, high = index.aminmax()
        if int(low) >= 0 and int(high) < size:
            return index
        bad = (index < 0) | (index >= size)
        bad = self.scope.expand(bad if mask is None else bad & mask)
        if bool(bad.any()):
            value = int(self.scope.expand(index)[bad][0])
            point = ", ".join(str(coordinate) for coordinate in first_point(bad))
            fail(op, f"index {value} is out of range for {what} of size {size}, at point ({point})")
        return index.clamp(0, max(size - 1, 0))

    def bound(self, op: Operation, value: Tensor, size: int, *, wrap: bool) -> Tensor:
        """What `bound` gives: the value as an index.

        Errors: as torch words them, when it is out of range at an active point: IndexError, or RuntimeError for a
        division by zero.
        """
        index = value.to(torch.int64)
        lowest = -size if wrap else 0
        bad = (index < lowest) | (index >= size)
        if bool(bad.any()):
            mask = self.scope.mask(bad)
            if mask is not None and bool(mask.any()):
                if "divisor" in op.properties:
                    raise RuntimeError("ZeroDivisionError")
                first = int(index.expand(mask.shape)[mask][0])
                raise IndexError(f"index {first} is out of bounds for dimension with size {size}")
            index = torch.where(bad, 0, index)
        return torch.where(index < 0, index + size, index) if wrap else index

    # -- reductions ---------------------------------------------------------------------------------------------------

    def reduce(self, op: Operation, kind: str, inner: Scope, yielded: Tensor, position: Tensor) -> None:
        """Reduces a value over the axes that `inner` has and the current scope does not, and defines the op's results.

        Requires: `position` is the row-major linear index of a point of the reduction's domain, aligned in `inner`.
        """
        outer = self.scope.depth
        aligned = inner.align(yielded)
        # Lanes that have the same value have one result, that of the first, which is there if any is.
        same = [k for k in range(outer) if inner.axes[k].lanes and aligned.shape[k] == 1]

        def flatten(value: Tensor) -> Tensor:
            whole = inner.expand(value)
            for axis in same:
                whole = whole.narrow(axis, 0, 1)
            return whole.reshape((*whole.shape[:outer], math.prod(inner.shape[outer:])))

        active = None if inner.active is None else flatten(inner.active)
        results = reductions.reduce(kind, flatten(yielded), active, lambda: flatten(position))
        self.define(op, *results)


def yield_value(body: Body, op: Operation) -> None:
    """What a yield does: its value must be defined; the reduction takes it from there."""
    body.value(op, op.operands[0])


# -- elem -------------------------------------------------------------------------------------------------------------


def _table(body: Body, op: elem.TableOp) -> None:
    operands = [body.value(op, operand) for operand in op.operands]
    body.define(op, elementwise.apply(op, operands, body.scope.mask(None)))


def _constant(body: Body, op: elem.ConstantOp) -> None:
    body.define(op, elementwise.constant(op, body.numerics))


def _convert(body: Body, op: elem.ConvertOp) -> None:
    body.define(op, elementwise.convert(op, body.value(op, op.operands[0]), body.numerics))


def _bitcast(body: Body, op: elem.BitcastOp) -> None:
    body.define(op, elementwise.bitcast(op, body.value(op, op.operands[0]), body.numerics))


def _dot(body: Body, op: elem.DotOp) -> None:
    a, b = (body.value(op, operand) for operand in op.operands)
    body.define(op, elementwise.dot(op, a, b, body.numerics))


def _philox(body: Body, op: elem.PhiloxOp) -> None:
    key, counter = (body.value(op, operand) for operand in op.operands)
    body.define(op, philox(key, counter)[op.word])


def _random_word(body: Body, op: elem.RandomWordOp) -> None:
    key, place = (body.value(op, operand) for operand in op.operands)
    body.define(op, random_word(key, place, op.first))


def _select(body: Body, op: elem.SelectOp) -> None:
    condition, on_true, on_false = (body.value(op, operand) for operand in op.operands)
    body.define(op, elementwise.select(condition, on_true, on_false))


ELEM_HANDLERS: dict[type[Operation], Handler] = {
    elem.BitcastOp: _bitcast,
    elem.ConstantOp: _constant,
    elem.ConvertOp: _convert,
    elem.DotOp: _dot,
    elem.PhiloxOp: _philox,
    elem.RandomWordOp: _random_word,
    elem.SelectOp: _select,
}
"""What the ops of `elem` do in any body that are no rows of its table."""
