"""The Python text of what a host program does besides running kernels of its own (`dialects/host/eager.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from cuesta.dialects import host
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.targets.host.python_text import argument_text, tuple_text
from cuesta.targets.host.tensor_texts import layout_text, metadata_check, place_of

if TYPE_CHECKING:
    from cuesta.targets.host.wrapper import WrapperWriter

OPERATOR = "operator "
"""Before the name of an operator that is meant as it is, and not as the fastest function that does the same."""


def write_eager(writer: WrapperWriter, op: Operation) -> None:
    """Appends the lines of one op."""
    if isinstance(op, host.CallOp | host.FunctionOp) and op.callee not in writer.functions:
        fail(op, f"@{op.callee} is no function of the program; `link-pieces` makes one of a piece")
    if isinstance(op, host.CallOp):
        _call(writer, op)
    elif isinstance(op, host.EagerOp):
        operands = [writer.names[operand] for operand in op.operands]
        arguments = op.arguments_attr
        parts = [argument_text(argument, operands) for argument in arguments.positional]
        parts += [f"{key}={argument_text(value, operands)}" for key, value in arguments.keywords]
        callee = writer.callee(OPERATOR + op.overload)
        writer.lines.append(f"{writer.define(op.results[0], 'value')} = {callee}({', '.join(parts)})")
    elif isinstance(op, host.OperatorOp):
        writer.names[op.results[0]] = writer.callee(OPERATOR + op.operator)
    elif isinstance(op, host.FunctionOp):
        last = "".join(f"{writer.names[operand]}, " for operand in op.operands)
        made = f"unboxed({writer.functions[op.callee]}, {op.single}, ({last}))"
        writer.lines.append(f"{writer.define(op.results[0], op.callee)} = {made}")
    elif isinstance(op, host.BindOp):
        writer.lines.append(f"{op.symbol} = {_number(writer.names[op.operands[0]], op)}")
    elif isinstance(op, host.CheckOp):
        _check(writer, op)


def _call(writer: WrapperWriter, op: host.CallOp) -> None:
    """A call of a piece, which empties the list that it is given."""
    writer.lines.append(f"inputs = [{', '.join(writer.names[operand] for operand in op.operands)}]")
    last = dict.fromkeys(writer.names[op.operands[position]] for position in op.last)
    if last:
        writer.lines.append(f"del {', '.join(last)}")
    results = [writer.define(result, "out") for result in op.results]
    call = f"{writer.functions[op.callee]}(inputs)"
    writer.lines.append(f"{', '.join(results)}, = {call}" if results else call)


def _number(text: str, op: host.BindOp) -> str:
    for kind, number in op.steps:
        if kind == "item":
            text += f"[{number}]"
        elif kind == "divide":
            text = f"int({text}) // {number}"
        elif kind in host.NO_NUMBER:
            text += f".{kind}()"
        else:
            text += f".{kind}({number})"
    return text


def _check(writer: WrapperWriter, op: host.CheckOp) -> None:
    """Holds a tensor to its type. The object is called what it was called before: nobody else keeps it."""
    name = writer.names[op.results[0]] = writer.names[op.operands[0]]
    result = tensor_type_of(op.results[0])
    if writer.checked:
        layout, where = layout_text(result), place_of(op)
        writer.lines.append(f"{name} = check_result({name}, {layout}, {op.operator!r}, {where!r})")
        return
    strides = tuple_text(strides_of(result))
    writer.lines.append(metadata_check(name, result, op.operator))
    if sizes_of(result):
        writer.lines.append(f"if {name}.stride() != {strides}: {name} = with_strides({name}, {strides})")
