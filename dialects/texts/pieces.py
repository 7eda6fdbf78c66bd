"""What a text says of pieces and of eager's part: pieces are called as they are made, symbols are bound once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation

from cuesta.dialects import host, kernel, sym
from cuesta.dialects.aten import schemas
from cuesta.dialects.core.contracts import Finding
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.func import FuncOp
from cuesta.dialects.host.lending import CHANGES, changes_between, lent
from cuesta.dialects.texts.numbers import expressions_of, expressions_of_type

_WRITE = "aten.copy_.default"
"""The one operator of eager's that may write to what it is given: to an argument, at the end."""


def programs_in(module: ModuleOp) -> Iterator[tuple[ModuleOp, bool]]:
    """Every program of a module, and whether it is one that calls pieces: the module itself where it is not in pieces;
    else each piece, and each function, with the kernels that it launches.
    """
    if not host.is_in_pieces(module):
        yield module, False
        return
    kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
    for part in module.body.ops:
        if isinstance(part, ModuleOp):
            yield from programs_in(part)
        elif isinstance(part, host.FuncOp):
            alone = part.clone()
            alone.properties["sym_name"] = StringAttr("main")
            launched = {op.kernel for op in part.body.ops if isinstance(op, host.LaunchOp)} & kernels.keys()
            program = ModuleOp([*(kernels[name].clone() for name in sorted(launched)), alone])
            yield program, host.is_in_pieces(program)


def parts_fit(module: ModuleOp) -> Iterator[Finding]:
    """What is called is there, and takes and gives what the call says. (What eager passes is checked when it does.)"""
    parts: dict[str, tuple[Sequence[Attribute], Sequence[Attribute]]] = {}
    for op in module.body.ops:
        if isinstance(op, ModuleOp):
            yield from parts_fit(op)
            main = entry_function(op)
            name = "" if op.sym_name is None else op.sym_name.data
        elif isinstance(op, host.FuncOp):
            main, name = op, op.sym_name
        else:
            continue
        if not isinstance(main, host.FuncOp | FuncOp) or name == "main":
            continue
        if not name.isidentifier() or name in parts:
            yield op, f"{name!r} is no name for a part of a program, or another has it"
        parts[name] = main.function_type.inputs.data, main.function_type.outputs.data
    for function in module.body.ops:
        if isinstance(function, host.FuncOp):
            yield from _calls_fit(function, parts)


def _calls_fit(
    function: host.FuncOp, parts: Mapping[str, tuple[Sequence[Attribute], Sequence[Attribute]]]
) -> Iterator[Finding]:
    for op in function.body.ops:
        if not isinstance(op, host.CallOp | host.FunctionOp):
            continue
        if op.callee not in parts:
            yield op, f"there is no @{op.callee}"
            continue
        inputs, outputs = parts[op.callee]
        given = tuple(operand.type for operand in op.operands)
        if isinstance(op, host.FunctionOp):
            if given != tuple(inputs[len(inputs) - len(given) :]):
                yield op, f"the last arguments of @{op.callee} have other types"
        elif given != tuple(inputs) or tuple(result.type for result in op.results) != tuple(outputs):
            yield op, f"@{op.callee} takes and gives other types"


def symbols_are_bound(module: ModuleOp) -> Iterator[Finding]:
    """A symbol is declared, and told by an argument or bound: once, before anything uses it."""
    main, declared, bound = entry_function(module), symbol_ranges(module), set[str]()
    for argument in entry_block(module).args:
        for e in expressions_of_type(argument.type):
            if (line := sym.line_of(e)) is not None:
                bound.add(line[0])
    for op in all_ops(main):
        if op is main:
            continue
        if isinstance(op, host.BindOp):
            if op.symbol in bound or op.symbol not in declared:
                yield op, f"binds {op.symbol}, which has a value already, or which @main does not declare"
            bound.add(op.symbol)
        for e in expressions_of(op):
            for symbol in sorted(sym.symbols_of(e) - bound):
                yield op, f"uses the symbol {symbol}, which has no value here"


def eager_writes_nothing(module: ModuleOp) -> Iterator[Finding]:
    """What eager runs leaves its arguments as they are: code is made for their memory. It may change an argument of the
    program that gets, in the end, what was made of it.
    """
    ops = list(entry_block(module).ops)
    copies = [op.operands for op in ops if isinstance(op, host.EagerOp) and op.overload == _WRITE]
    ends = [(to[0], to[1]) for to in copies if len(to) == 2 and isinstance(to[0], BlockArgument)]
    allowed = {change for argument, value in ends for change in changes_between(argument, value)}
    for op in ops:
        if not isinstance(op, host.EagerOp):
            continue
        if op.overload != _WRITE and _mutates(op):
            yield op, f"{op.overload} writes to what it is given"
        if op.overload == CHANGES and any((op, number) not in allowed for number in lent(op)):
            yield op, "changes a tensor itself that is no argument, or an argument that nothing is copied to in the end"


def _mutates(op: Operation) -> bool:
    schema = schemas.lookup(op.overload) if isinstance(op, host.EagerOp) else None
    return schema is not None and schema.mutates


__all__ = ["eager_writes_nothing", "parts_fit", "programs_in", "symbols_are_bound"]
