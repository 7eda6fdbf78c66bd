"""`host.func` → the Python text of a wrapper, and the runs of launches that it calls.

The wrapper is a boxed function: it takes a list of inputs and empties it, so that an input's memory can go as soon as
its last use is over. Consecutive launches become one native call, a *run*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import aten, host, kernel, sym
from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.layout import device_of, is_tensor, sizes_of, strides_of, tensor_type_of
from cuesta.targets.cpu.emit_module import Launch, Run
from cuesta.targets.cpu.emit_types import byte_width
from cuesta.targets.host.python_text import argument_text, expression, identifier, tuple_text
from cuesta.targets.triton.emit_module import is_for_gpu

MOST_PARAMETERS = 1000
"""The most values that a native call is given: ctypes takes 1024."""

_RESERVED = (
    "args",
    "call",
    "check_metadata",
    "current_stream",
    "complex",
    "empty_cpu",
    "empty_strided",
    "error",
    "flattened",
    "float",
    "max",
    "min",
    "raise_index_error",
    "reinterpret",
    "torch",
    "with_strides",
)  # fmt: skip


@dataclass
class Wrapper:
    """The text of a wrapper and what its names stand for.

    `overloads` maps the names of library calls to overloads, `runs` are the native functions it calls by name.
    """

    source: str
    runs: list[Run]
    overloads: dict[str, str]
    launches: int = 0
    device_launches: dict[str, tuple[str, int]] = field(default_factory=dict[str, "tuple[str, int]"])
    """The functions it calls to launch kernels on CUDA devices: by name, the kernel and the device."""


@dataclass
class _PendingRun:
    launches: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    frees: list[str] = field(default_factory=list[str])
    parameters: set[str] = field(default_factory=set[str])
    """What the call passes on: addresses and symbols."""


class WrapperWriter:
    """Writes the wrapper of a module at the `host` level."""

    def __init__(self, module: ModuleOp) -> None:
        main = entry_function(module)
        if not isinstance(main, host.FuncOp):
            fail(main, "a wrapper is made of a host.func @main")
        self.main = main
        self.kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.addresses: dict[SSAValue, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.overloads: dict[str, str] = {}
        self.runs: list[Run] = []
        self.pending = _PendingRun()
        self.positions = {op: position for position, op in enumerate(main.body.ops)}
        self.launches = 0
        self.device_launches: dict[str, tuple[str, int]] = {}
        self.streams: dict[int, str] = {}

    def write(self) -> Wrapper:
        """The wrapper's text and what it needs."""
        arguments = [self.define(argument, "arg") for argument in self.main.body.args]
        if arguments:
            self.lines.append(f"{', '.join(arguments)}, = args")
        self.lines.append("args.clear()")
        self.bind_symbols()
        for op in self.main.body.ops:
            self.op(op)
        body = "\n    ".join(self.lines)
        source = f"def call(args):\n    {body}\n"
        return Wrapper(source, self.runs, self.overloads, self.launches, self.device_launches)

    def define(self, value: SSAValue, default: str) -> str:
        """Names a value."""
        name = self.names[value] = identifier(value.name_hint or default, self.taken)
        return name

    def bind_symbols(self) -> None:
        """Each symbol from the first input that is it, or has it as a size."""
        symbols = self.main.attributes.get("sym.symbols")
        names = symbols.names if isinstance(symbols, sym.SymbolsAttr) else ()
        found: dict[str, str] = {}
        for argument in self.main.body.args:
            name = self.names[argument]
            argument_type = argument.type
            if isinstance(argument_type, sym.IntType):
                found.setdefault(expression(argument_type.data), name)
            elif is_tensor(argument):
                for axis, size in enumerate(sizes_of(argument.type)):
                    if not isinstance(size, int):
                        found.setdefault(expression(size), f"{name}.size({axis})")
                for axis, stride in enumerate(strides_of(argument.type)):
                    if not isinstance(stride, int):
                        found.setdefault(expression(stride), f"{name}.stride({axis})")
        for symbol in names:
            if symbol in self.taken:
                fail(self.main, f"the symbol {symbol} has the name of a value")
            if symbol in found:
                self.lines.append(f"{symbol} = {found[symbol]}")
            self.taken.add(symbol)

    def op(self, op: Operation) -> None:
        """Writes one op."""
        if isinstance(op, host.AllocOp):
            name = self.define(op.result, "buf")
            self.lines.append(f"{name} = {self.allocation(tensor_type_of(op.result))}")
        elif isinstance(op, host.LaunchOp):
            if is_for_gpu(self.kernels[op.kernel]):
                self.flush()
                self.device_launch(op)
            else:
                addresses = [self.address(operand) for operand in op.operands]
                parameters = {*addresses, *self.kernels[op.kernel].symbols}
                if len(self.pending.parameters) + len(parameters) > MOST_PARAMETERS:
                    self.flush()
                self.pending.parameters |= parameters
                self.pending.launches.append((op.kernel, addresses))
        elif isinstance(op, host.ReinterpretOp):
            self.reinterpret(op)
        elif isinstance(op, host.PlaceOp):
            self.place(op)
        elif isinstance(op, host.ExternOp):
            self.flush()
            self.extern(op)
        elif isinstance(op, host.FreeOp):
            names = [self.names[operand] for operand in op.operands if operand in self.names]
            if self.pending.launches:
                self.pending.frees += names
            elif names:
                self.lines.append(f"del {', '.join(names)}")
        elif isinstance(op, aten.LiteralOp):
            self.names[op.result] = argument_text(op.value, [])
        elif isinstance(op, sym.ValueOp):
            value_type = op.results[0].type
            assert isinstance(value_type, sym.IntType)
            self.names[op.results[0]] = expression(value_type.data)
        elif isinstance(op, host.ReturnOp):
            self.flush()
            values = [self.names[operand] for operand in op.operands]
            self.lines.append(f"return ({', '.join(values)}{',' if len(values) == 1 else ''})")
        else:
            fail(op, f"{op.name} has no place at the host level")

    def allocation(self, buffer: TensorType) -> str:
        """The text that makes a buffer of this type."""
        dtype = dtypes.type_to_dtype(buffer.element_type)
        sizes, strides = tuple_text(sizes_of(buffer)), tuple_text(strides_of(buffer))
        device = device_of(buffer)
        if device == "cpu":
            return f"empty_cpu({sizes}, {strides}, torch.{dtype})"
        return f"empty_strided({sizes}, {strides}, dtype=torch.{dtype}, device={device!r})"

    def device_launch(self, op: host.LaunchOp) -> None:
        """One launch on a CUDA device, on the stream that torch uses there."""
        func = self.kernels[op.kernel]
        device = device_of(tensor_type_of(op.operands[-1]))
        index = int(device.partition(":")[2] or 0)
        name = next((name for name, known in self.device_launches.items() if known == (op.kernel, index)), None)
        if name is None:
            name = identifier(f"launch_{op.kernel}", self.taken)
            self.device_launches[name] = (op.kernel, index)
        stream = self.streams.get(index)
        if stream is None:
            stream = self.streams[index] = identifier("stream", self.taken)
            self.lines.append(f"{stream} = current_stream({index})")
        programs: sym.IndexExpr = math.prod(func.schedule.grid, start=1)
        values = [self.address(operand) for operand in op.operands]
        self.lines.append(f"{name}({', '.join([expression(programs), stream, *values, *func.symbols])})")
        self.launches += 1

    def reinterpret(self, op: host.ReinterpretOp) -> None:
        """An alias: a tensor, or only an address where that is enough."""
        source, result_type = self.names[op.source], tensor_type_of(op.results[0])
        if host.only_launched(op.results[0]) and self.outlives(op.source, op.results[0]):
            size = byte_width(result_type.element_type)
            offset = "" if op.offset == 0 else f" + {expression(op.offset * size)}"
            self.addresses[op.results[0]] = f"{source}.data_ptr(){offset}"
            return
        name = self.define(op.results[0], "view")
        sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
        self.lines.append(f"{name} = reinterpret({source}, {sizes}, {strides}, {expression(op.offset)})")

    def place(self, op: host.PlaceOp) -> None:
        """A buffer in an arena: a tensor, or only an address where that is enough."""
        arena, result_type = self.names[op.arena], tensor_type_of(op.results[0])
        if host.only_launched(op.results[0]) and self.outlives(op.arena, op.results[0]):
            offset = f" + {op.offset}" if op.offset else ""
            self.addresses[op.results[0]] = f"{arena}.data_ptr(){offset}"
            return
        name = self.define(op.results[0], "buf")
        elements = f"{arena}[{op.offset}:].view(torch.{dtypes.type_to_dtype(result_type.element_type)})"
        sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
        self.lines.append(f"{name} = reinterpret({elements}, {sizes}, {strides}, 0)")

    def address(self, buffer: SSAValue) -> str:
        """The text of a buffer's address."""
        return self.addresses.get(buffer) or f"{self.names[buffer]}.data_ptr()"

    def outlives(self, source: SSAValue, alias: SSAValue) -> bool:
        """Whether `source` still has its name when `alias` is used for the last time."""
        freed = [self.positions[use.operation] for use in source.uses if isinstance(use.operation, host.FreeOp)]
        used = [self.positions[use.operation] for use in alias.uses]
        return max(used, default=0) <= min(freed, default=len(self.positions))

    def extern(self, op: host.ExternOp) -> None:
        """A library call, with a check that it laid out its results as the program expects.

        An operator nobody knows may give any tree of results, and other ones than its metadata function promised.
        """
        name = self.callee(op.overload)
        operands = [self.names[operand] for operand in op.operands]
        arguments = op.arguments_attr
        parts = [argument_text(argument, operands) for argument in arguments.positional]
        parts += [f"{key}={argument_text(value, operands)}" for key, value in arguments.keywords]
        results = [self.define(result, "out") if result.uses else "_" for result in op.results]
        target = ", ".join(results)
        call = f"{name}({', '.join(parts)})"
        if results and op.schema is None:
            target, call = f"{target},", f"flattened({call})"
        elif self.returns_list(op):
            target = f"{target},"
        self.lines.append(f"{target} = {call}" if results else call)
        operand_types = {tensor_type_of(operand).element_type for operand in op.operands if is_tensor(operand)}
        for result, result_name in zip(op.results, results, strict=True):
            if result_name == "_" or not is_tensor(result):
                continue
            result_type = tensor_type_of(result)
            sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
            dtype = dtypes.type_to_dtype(result_type.element_type)
            if op.schema is None:
                self.lines.append(f"check_metadata({result_name}, {sizes}, torch.{dtype}, {op.overload!r})")
            elif len(op.results) > 1 or result_type.element_type not in operand_types:
                # Also some metadata functions of PyTorch's own promise another dtype than the kernel gives.
                given = f"{result_name}.to(torch.{dtype})"
                self.lines.append(f"if {result_name}.dtype != torch.{dtype}: {result_name} = {given}")
            if sizes_of(result_type):
                self.lines.append(
                    f"if {result_name}.stride() != {strides}: {result_name} = with_strides({result_name}, {strides})"
                )

    @staticmethod
    def returns_list(op: host.ExternOp) -> bool:
        """Whether the call gives a list (of one tensor, say) and not a bare tensor."""
        schema = op.schema
        return len(op.results) == 1 and schema is not None and any("[]" in str(result) for result in schema.results)

    def callee(self, overload: str) -> str:
        """The wrapper's name for an overload."""
        for name, known in self.overloads.items():
            if known == overload:
                return name
        short = overload.removeprefix("aten.").removesuffix(".default").replace("::", "_").replace(".", "_")
        name = identifier(short, self.taken)
        self.overloads[name] = overload
        return name

    def flush(self) -> None:
        """Writes the pending launches as one native call."""
        pending, self.pending = self.pending, _PendingRun()
        if not pending.launches:
            return
        parameters: dict[str, int] = {}
        launches: list[Launch] = []
        symbols: dict[str, None] = {}
        for name, buffers in pending.launches:
            launches.append(Launch(name, tuple(parameters.setdefault(b, len(parameters)) for b in buffers)))
            symbols.update(dict.fromkeys(self.kernels[name].symbols))
        self.launches += len(launches)
        run = Run(f"run_{len(self.runs)}", len(parameters), tuple(symbols), tuple(launches))
        self.runs.append(run)
        values = ", ".join([*parameters, *symbols])
        what = ", ".join(launch.kernel for launch in launches)
        self.lines.append(f"if error := {run.name}({values}): raise_index_error(error)  # {what}")
        if pending.frees:
            self.lines.append(f"del {', '.join(pending.frees)}")
