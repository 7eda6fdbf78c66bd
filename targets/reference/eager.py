"""The ops of a host program that calls its pieces, and lets eager run operators between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from xdsl.ir import Operation

from cuesta.dialects import host
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.lowering.capture.operator_names import resolve_operator
from cuesta.targets.reference.aten import arguments_of
from cuesta.targets.reference.bindings import size_equations
from cuesta.targets.reference.errors import InterpreterError, describe, fail
from cuesta.targets.reference.numerics import restride

if TYPE_CHECKING:
    from cuesta.targets.reference.program import Handler, Program


def _operator(op: Operation, name: str) -> Any:
    try:
        return resolve_operator(name)
    except (AttributeError, ImportError, ValueError):
        fail(op, f"there is no operator {name}")


def _call(program: Program, op: host.CallOp) -> None:
    results = program.call(op, op.callee, [program.value(op, operand) for operand in op.operands])
    if len(results) != len(op.results):
        fail(op, f"@{op.callee} gives {len(results)} results, not {len(op.results)}")
    program.values.update(zip(op.results, results, strict=True))
    for position in op.last:
        operand = op.operands[position]
        program.values.pop(operand, None)
        program.freed[operand] = op


def _eager(program: Program, op: host.EagerOp) -> None:
    operands = [program.value(op, operand) for operand in op.operands]
    positional, keywords = arguments_of(op, operands, program.symbols, program.numerics)
    try:
        program.values[op.results[0]] = _operator(op, op.overload)(*positional, **keywords)
    except Exception as error:
        error.add_note(f"raised by {describe(op)} ({op.overload})")
        raise


def _operator_value(program: Program, op: host.OperatorOp) -> None:
    program.values[op.results[0]] = _operator(op, op.operator)


def _function(program: Program, op: host.FunctionOp) -> None:
    last = [program.value(op, operand) for operand in op.operands]

    def call(*arguments: object) -> object:
        results = program.call(op, op.callee, [*arguments, *last])
        return results[0] if op.single else tuple(results)

    program.values[op.results[0]] = call


def _bind(program: Program, op: host.BindOp) -> None:
    value: Any = program.value(op, op.operands[0])
    try:
        for kind, number in op.steps:
            if kind == "item":
                value = value[number]
            elif kind == "divide":
                value = int(value) // number
            elif kind in host.NO_NUMBER:
                value = getattr(value, kind)()
            else:
                value = getattr(value, kind)(number)
        number = int(value)
    except (TypeError, IndexError, AttributeError, ValueError) as error:
        fail(op, f"{op.symbol} is not found in {value!r}: {error}")
    known = program.symbols.setdefault(op.symbol, number)
    if known != number:
        fail(op, f"{op.symbol} is {known} already, and {number} here")


def _check(program: Program, op: host.CheckOp) -> None:
    value, kind = program.value(op, op.operands[0]), tensor_type_of(op.results[0])
    if not isinstance(value, Tensor):
        fail(op, f"{op.operator} gave no tensor, but {value!r}")
    value = program.numerics.hold(value.detach())
    if value.dtype is not program.numerics.dtype(kind):
        fail(op, f"{op.operator} gave {value.dtype}, not {kind}")
    try:
        program.symbols.learn(size_equations(kind, value, f"what {op.operator} gave"))
        if tuple(value.shape) != program.symbols.all_values(sizes_of(kind)):
            fail(op, f"{op.operator} gave {tuple(value.shape)}, not {kind}")
        program.values[op.results[0]] = restride(value, program.symbols.all_values(strides_of(kind)))
    except (InterpreterError, ValueError) as error:
        fail(op, str(error))


EAGER_HANDLERS: dict[type[Operation], Handler | Any] = {
    host.BindOp: _bind,
    host.CallOp: _call,
    host.CheckOp: _check,
    host.EagerOp: _eager,
    host.FunctionOp: _function,
    host.OperatorOp: _operator_value,
}
"""What the ops of `dialects/host/eager.py` do."""
