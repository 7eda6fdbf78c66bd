"""Running `@main`, at any level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import aten, func, host, kernel, loops, sym
from cuesta.dialects.core.entry import arguments_by_storage, entry_function, written_arguments
from cuesta.dialects.host.collectives import is_collective
from cuesta.targets.reference.aten import arguments_of, call, constant
from cuesta.targets.reference.bindings import Symbols, bind, sizes_and_strides, with_constants
from cuesta.targets.reference.collectives import Unfinished, collective
from cuesta.targets.reference.eager import EAGER_HANDLERS
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.host import HOST_HANDLERS
from cuesta.targets.reference.kernel import run_kernel
from cuesta.targets.reference.loops import gather, run_nest
from cuesta.targets.reference.memory import Memory
from cuesta.targets.reference.numerics import (
    Numerics,
    as_tensor_type,
    dtype_of,
    extent,
    flat,
    offsets_of,
    restride,
    words_of,
)
from cuesta.targets.reference.scope import Scope

LaunchWatch: TypeAlias = Callable[[Operation, Sequence[Tensor]], None]
"""Is shown every launch before it runs, with the tensors that it is given."""


class Program:
    """One run of `@main`: the values of its SSA names so far."""

    def __init__(
        self, module: ModuleOp, symbols: Symbols, numerics: Numerics, watch: LaunchWatch | None = None
    ) -> None:
        self.symbols = symbols
        self.watch = watch
        self.numerics = numerics
        self.values: dict[SSAValue, object] = {}
        self.arguments: dict[SSAValue, object] = {}
        self.freed: dict[SSAValue, Operation] = {}
        self.unfinished: Unfinished = {}
        self.module = module
        self.kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}

    def value(self, op: Operation, name: SSAValue) -> object:
        """The value of an operand of `op`. Errors: InterpreterError when it has none (any more)."""
        if name not in self.values:
            hint = f"%{name.name_hint or '?'}"
            if name in self.freed:
                fail(op, f"uses {hint} after it was freed")
            fail(op, f"uses {hint} before it is defined")
        return self.values[name]

    def tensor(self, op: Operation, name: SSAValue) -> Tensor:
        """The tensor that an operand of `op` is."""
        value = self.value(op, name)
        if not isinstance(value, Tensor):
            fail(op, f"%{name.name_hint or '?'} is no tensor, but {value!r}")
        return value

    def call(self, op: Operation, name: str, inputs: Sequence[object]) -> list[object]:
        """Runs a part of the program: a module in this one, or a function of it."""
        for part in self.module.body.ops:
            if isinstance(part, ModuleOp) and part.sym_name is not None and part.sym_name.data == name:
                return _run(part, entry_function(part), inputs, self.numerics, self.numerics.dtype)[0]
            if isinstance(part, host.FuncOp) and part.sym_name == name:
                return _run(self.module, part, inputs, self.numerics, self.numerics.dtype)[0]
        fail(op, f"there is no @{name} in this module")

    def layout(self, value_type: Attribute) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes and strides of a tensor type."""
        tensor_type = as_tensor_type(value_type)
        assert tensor_type is not None, f"{value_type} is no type of tensors"
        return sizes_and_strides(self.symbols, tensor_type)

    def launch(self, op: Operation, name: str, inputs: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
        """Runs a kernel on tensors, into the memory of `outs`, all elements of which it must store.

        Errors: InterpreterError when there is no such kernel, or it has other arguments, or breaks a rule.
        """
        kernel_func = self.kernels.get(name)
        if kernel_func is None:
            fail(op, f"there is no kernel @{name} in this module")
        if len(inputs) != len(kernel_func.inputs) or len(outs) != kernel_func.num_outs:
            wanted = f"{len(kernel_func.inputs)} inputs and {kernel_func.num_outs} outs"
            fail(op, f"@{name} has {wanted}, but {len(inputs)} and {len(outs)} are given")
        if self.watch is not None:
            self.watch(op, [*inputs, *outs])
        fresh = len(outs) - kernel_func.updates
        memories = [Memory(flat(out), given=position >= fresh) for position, out in enumerate(outs)]
        read = [flat(tensor) for tensor in inputs]
        run_kernel(kernel_func, self.numerics, self.symbols, read, memories, shared=_shared(read, memories))
        for position, (memory, out) in enumerate(zip(memories, outs, strict=True)):
            wanted = None if out.is_contiguous() else offsets_of(out.shape, out.stride())
            memory.check_complete(op, f"out {position} of @{name}", wanted)


def _shared(inputs: Sequence[Tensor], outs: Sequence[Memory]) -> dict[int, list[tuple[Memory, int]]]:
    """Which inputs overlap with which outs, and where in these they begin. Units: elements, of one size."""
    found: dict[int, list[tuple[Memory, int]]] = {}
    for position, one in enumerate(inputs):
        for out in outs:
            width = one.element_size()
            start, last = one.data_ptr() - out.data.data_ptr(), one.numel() * width
            if width != out.data.element_size() or start >= out.data.numel() * width or start + last <= 0:
                continue
            if start % width == 0:
                found.setdefault(position, []).append((out, start // width))
    return found


def _results(program: Program, op: func.ReturnOp | host.ReturnOp, main: Operation) -> tuple[list[object], list[object]]:
    """What is returned, and what the arguments that `@main` writes to hold in the end."""
    values = [program.value(op, operand) for operand in op.operands]
    arguments = main.regions[0].block.args
    written = [program.arguments[arguments[position]] for position in written_arguments(main)]
    if isinstance(op, func.ReturnOp) and written:
        split = len(values) - len(written)
        new = [value.clone() if isinstance(value, Tensor) else value for value in values[split:]]
        values = values[:split]
        for argument, value in zip(written, new, strict=True):
            if not isinstance(argument, Tensor) or not isinstance(value, Tensor):
                fail(op, "writes what is no tensor to an argument")
            argument.copy_(value)
    return values, written


Handler = Callable[[Program, Any], None]


def run(
    module: ModuleOp,
    inputs: Sequence[object],
    *,
    constants: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    precise: bool = False,
    verify: bool = True,
) -> list[object]:
    """Interprets `@main`, at any of the levels `aten`, `loops`, `kernel`, `host`; gives what it returns.

    Every rule of docs/levels.md that can be checked while running is checked. `constants` are those that `@main` names,
    by name or in order; without them they are the last of the inputs. `precise` computes all floating-point values in
    float64 without rounding any. Everything runs on the CPU. An op that mutates its operands mutates the inputs.

    Units: strides of what is returned are those that the types declare.
    Errors: InterpreterError when an input does not have its type or the program breaks a rule; IndexError where eager
    raises it; VerifyException, unless `verify` is false, for a module that is not well-formed.
    """
    return run_and_write(module, inputs, constants=constants, precise=precise, verify=verify)[0]


def run_and_write(
    module: ModuleOp,
    inputs: Sequence[object],
    *,
    constants: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    precise: bool = False,
    verify: bool = True,
) -> tuple[list[object], list[object]]:
    """As `run`, and gives also what the arguments hold in the end that `@main` writes to (`aten.writes_to`)."""
    if verify:
        module.verify()
    entry = entry_function(module)
    given = [value.cpu() if isinstance(value, Tensor) else value for value in with_constants(entry, inputs, constants)]
    return _run(module, entry, given, Numerics(precise), dtype_of)


def run_and_watch(module: ModuleOp, inputs: Sequence[object], watch: LaunchWatch) -> list[object]:
    """As `run`, of a program with kernels; `watch` is shown every launch of `@main` before it runs.

    Errors: as `run`, and what `watch` raises.
    """
    entry = entry_function(module)
    given = [value.cpu() if isinstance(value, Tensor) else value for value in with_constants(entry, inputs, None)]
    return _run(module, entry, given, Numerics(), dtype_of, watch)[0]


def _run(
    module: ModuleOp,
    entry: Operation,
    given: Sequence[object],
    numerics: Numerics,
    dtype_given: Callable[[Attribute], torch.dtype],
    watch: LaunchWatch | None = None,
) -> tuple[list[object], list[object]]:
    """Interprets one function of a module."""
    body = entry.regions[0].block
    declared = entry.attributes.get("sym.symbols")
    types = [argument.type for argument in body.args]
    symbols = bind(declared if isinstance(declared, sym.SymbolsAttr) else None, types, given, dtype_given)
    program = Program(module, symbols, numerics, watch)
    by_storage = {body.args[position] for position in arguments_by_storage(entry)}
    for argument, value in zip(body.args, given, strict=True):
        if argument in by_storage and isinstance(value, Tensor):
            value = value.as_strided(value.size(), value.stride(), 0)
        program.values[argument] = numerics.hold(value.detach()) if isinstance(value, Tensor) else value
    program.arguments.update(program.values)
    with torch.no_grad():
        for op in body.ops:
            if isinstance(op, func.ReturnOp | host.ReturnOp):
                return _results(program, op, entry)
            if isinstance(op, aten.CallLike) and not isinstance(op, host.EagerOp):
                _call(program, op)
                continue
            handler = _HANDLERS.get(type(op))
            if handler is None:
                fail(op, "the reference interpreter does not know this op in @main")
            handler(program, op)
    fail(entry, "does not return")


# -- the ops ----------------------------------------------------------------------------------------------------------


def _call(program: Program, op: aten.CallLike) -> None:
    operands = [program.value(op, operand) for operand in op.operands]
    if is_collective(op):
        positional, _ = arguments_of(op, operands, program.symbols, program.numerics)
        results: Sequence[object] = collective(op, positional, program.unfinished)
    else:
        results = call(op, operands, program.symbols, program.numerics)
    program.values.update(zip(op.results, results, strict=True))


def _literal(program: Program, op: aten.LiteralOp) -> None:
    value = op.value
    if isinstance(value, tuple | aten.Operand):
        fail(op, f"is a constant of an unexpected kind, {value!r}")
    program.values[op.result] = constant(value, program.symbols, program.numerics)


def _symbol(program: Program, op: sym.ValueOp) -> None:
    program.values[op.results[0]] = program.symbols.value(op.expression)


def _nest(program: Program, op: loops.NestOp) -> None:
    layouts = [program.layout(result.type) for result in op.results]
    outs = run_nest(op, program.numerics, program.symbols, program.values, [sizes for sizes, _ in layouts])
    for result, out, (_, strides) in zip(op.results, outs, layouts, strict=True):
        program.values[result] = _laid_out(op, out, strides)


def _view(program: Program, op: loops.ViewOp) -> None:
    source = program.tensor(op, op.source)
    sizes, strides = program.layout(op.result.type)
    scope = Scope().inner(sizes)
    dims = [scope.along(axis, torch.arange(size)) for axis, size in enumerate(sizes)]
    indices: list[Tensor] = []
    for axis, expression in enumerate(op.map.results):
        index = scope.align(torch.as_tensor(sym.evaluate(expression, dims, program.symbols)))
        if not scope.is_empty:
            low, high = (int(end) for end in index.aminmax())
            if low < 0 or high >= source.shape[axis]:
                fail(op, f"reaches from {low} to {high} along axis {axis} of size {source.shape[axis]}")
        indices.append(index)
    program.values[op.result] = _laid_out(op, scope.expand(gather(source, indices)), strides)


def _words(program: Program, op: loops.WordsOp) -> None:
    source = program.tensor(op, op.source)
    program.values[op.result] = words_of(source, dtype_of(op.source.type), op.axis, program.layout(op.result.type)[1])


def _join(program: Program, op: loops.JoinOp) -> None:
    parts = [program.tensor(op, part) for part in op.operands]
    program.values[op.result] = _laid_out(op, torch.cat(parts, op.axis), program.layout(op.result.type)[1])


def _laid_out(op: Operation, value: Tensor, strides: Sequence[int]) -> Tensor:
    try:
        return restride(value, strides)
    except ValueError as error:
        fail(op, str(error))


def _launch(program: Program, op: kernel.LaunchOp) -> None:
    outs: list[Tensor] = []
    for result in op.results:
        sizes, strides = program.layout(result.type)
        memory = torch.empty(extent(sizes, strides), dtype=program.numerics.dtype(result.type))
        outs.append(memory.as_strided(sizes, strides))
    operands = [program.tensor(op, operand) for operand in op.operands]
    callee = program.kernels.get(op.kernel)
    updates = 0 if callee is None else min(callee.updates, len(operands), len(outs))
    inputs, taken_over = operands[: len(operands) - updates], operands[len(operands) - updates :]
    for out, before in zip(outs[len(outs) - updates :], taken_over, strict=True):
        out.copy_(before)
    program.launch(op, op.kernel, inputs, outs)
    program.values.update(zip(op.results, outs, strict=True))


_HANDLERS: dict[type[Operation], Handler] = {
    aten.LiteralOp: _literal,
    kernel.LaunchOp: _launch,
    loops.JoinOp: _join,
    loops.NestOp: _nest,
    loops.ViewOp: _view,
    loops.WordsOp: _words,
    sym.ValueOp: _symbol,
    **EAGER_HANDLERS,
    **HOST_HANDLERS,
}
