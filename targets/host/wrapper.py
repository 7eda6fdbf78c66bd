"""`host.func` → the Python text of a wrapper, and the runs of launches that it calls.

The wrapper is a boxed function: it takes a list of inputs and empties it, so that an input's memory can go as soon as
its last use is over. Consecutive launches become one native call, a *run*.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import aten, host, kernel, sym
from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.layout import device_of, is_tensor, sizes_of, strides_of, tensor_type_of
from cuesta.targets.cpu.emit_module import Launch, Run
from cuesta.targets.host.python_text import argument_text, expression, identifier, tuple_text

_RESERVED = (
    "args",
    "as_strided",
    "call",
    "check_metadata",
    "complex",
    "empty_strided",
    "error",
    "flattened",
    "float",
    "max",
    "min",
    "raise_index_error",
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


@dataclass
class _PendingRun:
    launches: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    frees: list[str] = field(default_factory=list[str])


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
        self.taken: set[str] = set(_RESERVED)
        self.overloads: dict[str, str] = {}
        self.runs: list[Run] = []
        self.pending = _PendingRun()
        self.launches = 0

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
        return Wrapper(f"def call(args):\n    {body}\n", self.runs, self.overloads, self.launches)

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
            self.pending.launches.append((op.kernel, [self.names[operand] for operand in op.operands]))
        elif isinstance(op, host.ReinterpretOp):
            self.reinterpret(op)
        elif isinstance(op, host.ExternOp):
            self.flush()
            self.extern(op)
        elif isinstance(op, host.FreeOp):
            names = [self.names[operand] for operand in op.operands]
            if self.pending.launches:
                self.pending.frees += names
            else:
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
        where = "" if device == "cpu" else f", device={device!r}"
        return f"empty_strided({sizes}, {strides}, dtype=torch.{dtype}{where})"

    def reinterpret(self, op: host.ReinterpretOp) -> None:
        """An alias: `as_strided`, whose offset counts from the start of the storage, so the source's own is added."""
        source, result_type = self.names[op.source], tensor_type_of(op.results[0])
        name = self.define(op.results[0], "view")
        sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
        offset = "" if op.offset == 0 else f", {source}.storage_offset() + {expression(op.offset)}"
        self.lines.append(f"{name} = as_strided({source}, {sizes}, {strides}{offset})")

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
        values = ", ".join([*(f"{name}.data_ptr()" for name in parameters), *symbols])
        what = ", ".join(launch.kernel for launch in launches)
        self.lines.append(f"if error := {run.name}({values}): raise_index_error(error)  # {what}")
        if pending.frees:
            self.lines.append(f"del {', '.join(pending.frees)}")
