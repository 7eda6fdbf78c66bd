"""`host.func` → the Python text of a wrapper, and the runs of launches that it calls.

The wrapper is a boxed function: it takes a list of inputs and empties it, so that an input's memory can go as soon as
its last use is over. Consecutive launches on one device become one call, a *run*; how it is called, the device's target
says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import aten, host, kernel, sym
from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import arguments_by_storage, entry_function
from cuesta.dialects.core.structs import struct
from cuesta.dialects.host.collectives import is_collective, is_start
from cuesta.dialects.layout import device_of, is_tensor, sizes_of, strides_of, tensor_type_of, traits_of
from cuesta.targets.cpu.emit_types import byte_width
from cuesta.targets.host.eager_text import OPERATOR, write_eager
from cuesta.targets.host.kept_text import KeptLaunches
from cuesta.targets.host.labels import Labels
from cuesta.targets.host.pending import Address, PendingRun, is_large
from cuesta.targets.host.profiled import GUARD
from cuesta.targets.host.python_text import Names, argument_text, expression, identifier, tuple_text
from cuesta.targets.host.scratch import Scratch, is_small
from cuesta.targets.host.tensor_texts import allocator_of, is_complex, layout_text, metadata_check, place_of
from cuesta.targets.lookup import target_of
from cuesta.targets.program import BYTES_OF_ROW, POINTER_ALIGNMENT, BoundSite, Label
from cuesta.targets.target import Launch, Run

if TYPE_CHECKING:
    from cuesta.targets.target import Target

MOST_PARAMETERS = 1000
"""The most values that a native call is given: ctypes takes 1024."""

_RESERVED = (
    "Kept",
    "args",
    "call",
    "check_call",
    "check_metadata",
    "check_report",
    "check_result",
    "check_storage",
    "complex",
    "copies",
    "copies_of",
    "error",
    "flattened",
    "float",
    "inputs",
    "max",
    "min",
    "new_report",
    "profiled",
    "profiler",
    "raise_index_error",
    "reinterpret",
    "torch",
    "unboxed",
    "with_strides",
    "words",
)  # fmt: skip


@struct(frozen=False)
class Wrapper:
    """The text of a wrapper and what its names stand for.

    `overloads` maps the names of library calls to overloads, `runs` are the functions that launch kernels.
    """

    source: str
    runs: list[Run]
    overloads: dict[str, str]
    launches: int = 0
    in_eager: dict[str, str] = field(default_factory=dict[str, str])
    """The functions it calls with tensors in place of kernels that have no machine code, and those kernels."""
    stand_ins: dict[str, Target] = field(default_factory=dict[str, "Target"])
    """Whose functions those are, by the kernels."""
    sites: list[BoundSite] = field(default_factory=list[BoundSite])
    """What the rows of the reports stand for."""
    labels: tuple[Label, ...] = ()

    def runs_by_target(self) -> dict[Target, list[Run]]:
        """The runs that each target makes."""
        found: dict[Target, list[Run]] = {}
        for run in self.runs:
            found.setdefault(target_of(run.device), []).append(run)
        return found


class WrapperWriter:
    """Writes the wrapper of a module at the `host` level. Kernels named `in_eager` have no machine code.

    `checked` is for a program that came from a text: what a call gives is held to its type, and aliases to the memory
    that they are of; every buffer is a tensor then, so that memory lives as long as anything points to it. With
    `checks_calls` operators that only their authors know are held to what their schema denies.

    Errors: CuestaError for a device that no target is for, or a kernel that is scheduled for another kind of device.
    """

    def __init__(
        self, module: ModuleOp, in_eager: Collection[str] = (), *, checked: bool = False, checks_calls: bool = False
    ) -> None:
        main = entry_function(module)
        if not isinstance(main, host.FuncOp):
            fail(main, "a wrapper is made of a host.func @main")
        self.main = main
        """The function that is being written."""
        self.kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.addresses: dict[SSAValue, Address] = {}
        self.taken = Names(_RESERVED)
        self.parts = [op for op in module.body.ops if isinstance(op, host.FuncOp)]
        self.functions: dict[str, str] = {}
        """The functions of the program, and what the text calls them."""
        self.overloads: dict[str, str] = {}
        self.runs: list[Run] = []
        self.known_runs: dict[tuple[str, int, tuple[str, ...], tuple[Launch, ...], tuple[int, ...]], Run] = {}
        self.pending = PendingRun()
        self.scratch = Scratch()
        self.positions: dict[Operation, int] = {}
        self.shared: set[SSAValue] = set()
        self.complex_results: set[SSAValue] = set()
        """The memory in which complex results lie."""
        self.launches = 0
        self.without_code = frozenset(in_eager)
        self.checked = checked
        self.checks_calls = checks_calls or checked
        self.in_eager: dict[str, str] = {}
        self.stand_ins: dict[str, Target] = {}
        self.queues: dict[str, str] = {}
        self.reports: dict[str, str] = {}
        """For a device, what the text calls what its kernels report to."""
        self.sites: list[BoundSite] = []
        self.checks: dict[str, Sequence[kernel.WithinOp]] = {}
        self.labels = Labels()
        self.rows: dict[str, int] = {}
        """The first row of a report that is about a kernel."""
        self.kept = KeptLaunches(self.kernels)

    def write(self) -> Wrapper:
        """The wrapper's text and what it needs."""
        self.reserve_names()
        source = "\n\n".join([*map(self.function, self.parts), *self.kept.definitions()])
        runs, stand_ins, labels = self.runs, self.stand_ins, self.labels.all()
        return Wrapper(source, runs, self.overloads, self.launches, self.in_eager, stand_ins, self.sites, labels)

    def function(self, main: host.FuncOp) -> str:
        """One function of the program."""
        self.main, self.lines, self.queues, self.reports = main, [], {}, {}
        self.scratch = Scratch()
        self.shared = host.shared_results(main)
        self.kept.begin(main)
        results = main.body.last_op.operands if main.body.last_op is not None else ()
        tensors = [value for value in results if is_tensor(value)]
        self.complex_results = {host.chain_of_views(one)[-1] for one in tensors if is_complex(tensor_type_of(one))}
        self.positions = {op: position for position, op in enumerate(main.body.ops)}
        arguments = [self.define(argument, "arg") for argument in main.body.args]
        if arguments:
            self.lines.append(f"{', '.join(arguments)}, = args")
        self.lines.append("args.clear()")
        for position in arguments_by_storage(main):
            name = arguments[position]
            self.lines.append(
                f"if {name}.storage_offset(): {name} = {name}.as_strided({name}.size(), {name}.stride(), 0)"
            )
        self.bind_symbols()
        if self.checked and main.sym_name != "main":  # who calls it may be an operator of eager's
            self.check_arguments(main)
        for op in main.body.ops:
            first = len(self.lines)
            self.op(op)
            if self.checked and not isinstance(op, host.FreeOp):
                place = place_of(op).replace("\n", " ")
                self.lines[first:] = [line if "#" in line else f"{line}  # at {place}" for line in self.lines[first:]]
        if self.functions[main.sym_name] == "call":
            self.lines.insert(0, GUARD)
        body = "\n    ".join(self.lines)
        return f"def {self.functions[main.sym_name]}(args):\n    {body}\n"

    def reserve_names(self) -> None:
        """The names of symbols, and those that allocations and calls of runs will use, are nobody else's."""
        for part in self.parts:
            self.taken.update(_symbols_of(part))
            for op in part.body.ops:
                if isinstance(op, host.AllocOp):
                    self.taken.add(allocator_of(device_of(tensor_type_of(op.result))))
                elif isinstance(op, host.LaunchOp):
                    self.taken.update(self.target_of(op).names)
        for part in self.parts:
            name = part.sym_name
            self.functions[name] = "call" if name == "main" else identifier(name, self.taken)

    def target_of(self, op: host.LaunchOp) -> Target:
        """Who makes the kernel of a launch."""
        return target_of(device_of(tensor_type_of(op.operands[-1])))

    def define(self, value: SSAValue, default: str) -> str:
        """Names a value."""
        name = self.names[value] = identifier(value.name_hint or default, self.taken)
        return name

    def bind_symbols(self) -> None:
        """Each symbol from the first input that is it, or has it as a size; else from one that is linear in it; from a
        stride, which is any number where an axis has one element, only where no size says it.
        """
        known: dict[sym.IndexExpr, str] = {}  # static sizes, too
        for argument in self.main.body.args:
            name = self.names[argument]
            argument_type = argument.type
            if isinstance(argument_type, sym.IntType):
                known.setdefault(argument_type.data, name)
            elif is_tensor(argument):
                for axis, size in enumerate(sizes_of(argument.type)):
                    known.setdefault(size, f"{name}.size({axis})")
        for argument in filter(is_tensor, self.main.body.args):
            for axis, stride in enumerate(strides_of(tensor_type_of(argument))):
                known.setdefault(stride, f"{self.names[argument]}.stride({axis})")
        found = {expression(e): value for e, value in known.items()}
        for e, value in known.items():
            if (line := sym.line_of(e)) is not None:
                symbol, factor, constant = line
                found.setdefault(symbol, f"({value} - {constant}) // {factor}")
        for symbol in _symbols_of(self.main):
            if symbol in found:
                self.lines.append(f"{symbol} = {found[symbol]}")

    def op(self, op: Operation) -> None:
        """Writes one op."""
        if isinstance(op, host.AllocOp):
            # A run frees nothing before its end. Where that is something large, and so is what is needed now, it ends
            # here. (Not where launches return at once: what it would cost there has not been measured.)
            if self.pending.frees_large and is_large(op.result) and not self.pending.asynchronous:
                self.flush()
            if host.is_kept(op.result):
                return  # its launch makes it, or has it
            name = self.define(op.result, "buf")
            if self.may_be_scratch(op):
                self.scratch.add(name, op)
            else:
                self.lines.append(f"{name} = {self.allocation(tensor_type_of(op.result))}")
        elif isinstance(op, host.LaunchOp) and op.kept and not self.kept.writing:
            self.kept.write(self, op)
        elif isinstance(op, host.LaunchOp):
            if op.kernel in self.without_code or self.target_of(op).takes_tensors:
                self.flush()
                self.launch_in_eager(op)
            else:
                self.launch(op)
        elif isinstance(op, host.ReinterpretOp):
            if self.kept.writing or op.results[0] not in self.kept.put_off:
                self.reinterpret(op)
        elif isinstance(op, host.PlaceOp):
            self.place(op)
        elif isinstance(op, host.ExternOp):
            self.flush()
            self.extern(op)
        elif isinstance(op, host.FreeOp):
            names = [self.names[one] for one in op.operands if one in self.names and one not in self.kept.not_freed]
            names = [one for one in names if not self.scratch.is_no_tensor(one, self.pending.ops)]
            if self.pending.launches:
                self.pending.frees += names
                self.pending.frees_large |= any(is_large(operand) for operand in op.operands if operand in self.names)
            elif names:
                self.lines.append(f"del {', '.join(names)}")
        elif isinstance(op, host.EAGER_OPS):
            self.flush()
            write_eager(self, op)
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
        return f"{allocator_of(device_of(buffer))}({sizes}, {strides}, torch.{dtype})"

    def launch(self, op: host.LaunchOp) -> None:
        """One more launch of the present run, or the first of the next."""
        func, out = self.kernels[op.kernel], op.operands[-1]
        device, traits = device_of(tensor_type_of(out)), traits_of(out)
        if func.is_for_gpu != traits.blocks:
            blocks = "blocks of threads" if func.is_for_gpu else "single threads"
            fail(op, f"@{op.kernel} is scheduled for {blocks}, which a program on {device} is not")
        if self.pending.device != device:
            self.flush()
        addresses = [self.address(operand) for operand in op.operands]
        if self.target_of(op).reports and self.checks_in(func):
            addresses.append(self.report(func, device))
        adds_offsets = self.target_of(op).adds_offsets
        bases = (address.base if adds_offsets else str(address) for address in addresses)
        parameters = {*bases, *func.symbols}
        if len(self.pending.parameters) + len(parameters) > MOST_PARAMETERS:
            self.flush()
        self.pending.device, self.pending.asynchronous = device, traits.asynchronous
        self.pending.parameters |= parameters
        self.pending.launches.append((op.kernel, addresses))
        self.pending.ops.add(op)
        self.pending.locations.append(op.location)

    def checks_in(self, func: kernel.FuncOp) -> Sequence[kernel.WithinOp]:
        """The checks of addresses in a kernel."""
        if func.sym_name not in self.checks:
            self.checks[func.sym_name] = kernel.checks_in(func)
        return self.checks[func.sym_name]

    def report(self, func: kernel.FuncOp, device: str) -> Address:
        """Where a kernel reports to that checks addresses: a tensor for each call and device, made for all kernels."""
        if device not in self.reports:
            self.reports[device] = identifier("report", self.taken)
            rows = sum(len(self.checks_in(one)) for one in self.kernels.values())
            self.lines.append(f"{self.reports[device]} = new_report({rows}, {device!r})")
        if func.sym_name not in self.rows:
            self.rows[func.sym_name] = len(self.sites)
            named = f"in @{func.sym_name}"
            self.sites += [BoundSite(place_of(op), f"{op.access} {named}") for op in self.checks_in(func)]
        return Address(f"{self.reports[device]}.data_ptr()", BYTES_OF_ROW * self.rows[func.sym_name], aligned=True)

    def launch_in_eager(self, op: host.LaunchOp) -> None:
        """What stands in for a launch of a kernel that has no machine code: a call with tensors."""
        name = next((name for name, known in self.in_eager.items() if known == op.kernel), None)
        if name is None:
            name = identifier(f"eager_{op.kernel}", self.taken)
            self.in_eager[name] = op.kernel
            self.stand_ins[op.kernel] = self.target_of(op)
        self.launches += op.kernel not in self.without_code
        values = [self.names[operand] for operand in op.operands]
        self.labels.add(name, [op.kernel], [op.location])
        self.lines.append(f"{name}({', '.join([*values, *self.kernels[op.kernel].symbols])})")

    def only_an_address(self, buffer: SSAValue, but: type[Operation] | tuple[()] = ()) -> bool:
        """Whether nobody needs a tensor for a buffer; `but` such ops are not asked."""
        if self.checked:
            return False
        users = [use.operation for use in buffer.uses if not isinstance(use.operation, but)]
        return all(isinstance(user, host.LaunchOp | host.FreeOp) for user in users) and not any(
            isinstance(user, host.LaunchOp) and (user.kernel in self.without_code or self.target_of(user).takes_tensors)
            for user in users
        )

    def reinterpret(self, op: host.ReinterpretOp) -> None:
        """An alias: a tensor, or only an address where that is enough."""
        source, result_type = self.names[op.source], tensor_type_of(op.results[0])
        if self.only_an_address(op.results[0]) and self.outlives(op.source, op.results[0]):
            base, offset = f"{source}.data_ptr()", op.offset * byte_width(result_type.element_type)
            if isinstance(offset, int):
                address = Address(base, offset, self.is_aligned(op.results[0]))
            else:
                address = Address(f"{base} + {expression(offset)}")
            self.addresses[op.results[0]] = address
            return
        name = self.define(op.results[0], "view")
        sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
        offset = expression(op.offset)
        if (axis := op.axis_of_words) is not None:
            self.lines.append(f"{name} = words({source}, {axis}, {strides})")
            return
        if self.checked:
            self.lines.append(f"check_storage({source}, {sizes}, {strides}, {offset}, {place_of(op)!r})")
        if op.results[0] in self.shared:  # a view that autograd knows of: it counts changes of both as one
            begin = f"{source}.storage_offset()" + (f" + {offset}" if offset != "0" else "")
            # AOTAutograd makes the parts of a complex result anew by what they are a view of: that is to be nothing.
            lies_in_one = host.chain_of_views(op.results[0])[-1] in self.complex_results
            is_part = lies_in_one and not is_complex(result_type)
            alone = ".detach()" if is_part and not self.are_pairs_of_real(op.results[0]) else ""
            self.lines.append(f"{name} = {source}.as_strided({sizes}, {strides}, {begin}){alone}")
        else:
            self.lines.append(f"{name} = reinterpret({source}, {sizes}, {strides}, {offset})")

    def place(self, op: host.PlaceOp) -> None:
        """A buffer in an arena: a tensor, or only an address where that is enough."""
        arena, result_type = self.names[op.arena], tensor_type_of(op.results[0])
        if self.only_an_address(op.results[0]) and self.outlives(op.arena, op.results[0]):
            self.addresses[op.results[0]] = Address(f"{arena}.data_ptr()", op.offset, aligned=True)
            return
        name = self.define(op.results[0], "buf")
        elements = f"{arena}[{op.offset}:].view(torch.{dtypes.type_to_dtype(result_type.element_type)})"
        sizes, strides = tuple_text(sizes_of(result_type)), tuple_text(strides_of(result_type))
        self.lines.append(f"{name} = reinterpret({elements}, {sizes}, {strides}, 0)")

    def address(self, buffer: SSAValue) -> Address:
        """A buffer's address."""
        known = self.addresses.get(buffer)
        return known or Address(f"{self.names[buffer]}.data_ptr()", aligned=self.is_aligned(buffer))

    def is_aligned(self, buffer: SSAValue) -> bool:
        """Whether the address is certainly such that kernels for CUDA devices take it as aligned: our own memory."""
        owner = buffer.owner
        if isinstance(owner, host.ReinterpretOp):
            offset = owner.offset * byte_width(tensor_type_of(buffer).element_type)
            return isinstance(offset, int) and offset % POINTER_ALIGNMENT == 0 and self.is_aligned(owner.source)
        return isinstance(owner, host.AllocOp | host.PlaceOp)

    def outlives(self, source: SSAValue, alias: SSAValue) -> bool:
        """Whether `source` still has its name when `alias` is used for the last time."""
        freed = [self.positions[use.operation] for use in source.uses if isinstance(use.operation, host.FreeOp)]
        used = [self.positions[use.operation] for use in alias.uses]
        return max(used, default=0) <= min(freed, default=len(self.positions))

    def extern(self, op: host.ExternOp) -> None:
        """A library call, with a check that it laid out its results as the program expects.

        An operator nobody knows may give any tree of results, and other ones than its metadata function promised. A
        known one may give lists beside other results.
        """
        known = op.overload == host.AS_COMPLEX and self.are_pairs_of_real(op.operands[0])
        name = "torch.view_as_complex" if known else self.callee(op.overload)
        operands = [self.names[operand] for operand in op.operands]
        arguments = op.arguments_attr
        parts = [argument_text(argument, operands) for argument in arguments.positional]
        parts += [f"{key}={argument_text(value, operands)}" for key, value in arguments.keywords]
        results = [self.define(result, "out") if result.uses else "_" for result in op.results]
        target = ", ".join(results)
        call = f"{name}({', '.join(parts)})"
        if results and (op.schema is None or self.returns_lists(op)):
            target, call = f"{target},", f"flattened({call})"
        elif self.returns_list(op):
            target = f"{target},"
        tensors = [name for name, operand in zip(operands, op.operands, strict=True) if is_tensor(operand)]
        holds_to_schema = self.checks_calls and op.schema is None and bool(tensors) and not is_collective(op)
        if holds_to_schema:
            self.lines.append(f"copies = copies_of({', '.join(tensors)})")
        self.lines.append(f"{target} = {call}" if results else call)
        if holds_to_schema:
            taken, given = (
                "".join(f"{name}, " for name in tensors),
                "".join(f"{one}, " for one in results if one != "_"),
            )
            self.lines.append(f"check_call(copies, ({taken}), ({given}), {op.overload!r}, {place_of(op)!r})")
            self.lines.append("del copies")
        if is_start(op):  # it is still being written: only what its wait gives may be laid out otherwise
            for result, result_name in zip(op.results, results, strict=True):
                if result_name != "_" and is_tensor(result):
                    self.lines.append(metadata_check(result_name, tensor_type_of(result), op.overload))
            return
        if self.checked:
            self.check_results(op, results)
            return
        operand_types = {tensor_type_of(operand).element_type for operand in op.operands if is_tensor(operand)}
        for result, result_name in zip(op.results, results, strict=True):
            if result_name == "_" or not is_tensor(result):
                continue
            result_type = tensor_type_of(result)
            strides = tuple_text(strides_of(result_type))
            dtype = dtypes.type_to_dtype(result_type.element_type)
            if op.schema is None:
                self.lines.append(metadata_check(result_name, result_type, op.overload))
            elif len(op.results) > 1 or result_type.element_type not in operand_types:
                # Also some metadata functions of PyTorch's own promise another dtype than the kernel gives.
                given = f"{result_name}.to(torch.{dtype})"
                self.lines.append(f"if {result_name}.dtype != torch.{dtype}: {result_name} = {given}")
            if sizes_of(result_type):
                self.lines.append(
                    f"if {result_name}.stride() != {strides}: {result_name} = with_strides({result_name}, {strides})"
                )

    def are_pairs_of_real(self, pairs: SSAValue) -> bool:
        """Whether complex numbers are returned that are a part of real ones, which are returned, too: then autograd has
        to know of what they are a view (`_view_as_complex` of the runtime).
        """
        view = pairs.owner
        if not isinstance(view, host.ReinterpretOp) or pairs not in self.shared or host.is_seen_as_complex(view.source):
            return False
        return host.is_seen_as_complex(pairs) and isinstance(view.source.owner, host.AllocOp | host.ReinterpretOp)

    def check_results(self, op: host.ExternOp, results: list[str]) -> None:
        """Holds what a call gave to the types that a text says."""
        where = place_of(op)
        for result, name in zip(op.results, results, strict=True):
            if name == "_" or not is_tensor(result):
                continue
            layout = layout_text(tensor_type_of(result))
            self.lines.append(f"{name} = check_result({name}, {layout}, {op.overload!r}, {where!r})")

    def check_arguments(self, function: host.FuncOp) -> None:
        """Holds what a part of the program is given to the types that a text says."""
        where = place_of(function)
        for argument in function.body.args:
            if is_tensor(argument):
                name = self.names[argument]
                layout = layout_text(tensor_type_of(argument))
                self.lines.append(f"{name} = check_result({name}, {layout}, '@{function.sym_name}', {where!r})")

    @staticmethod
    def returns_list(op: host.ExternOp) -> bool:
        """Whether the call gives a list (of one tensor, say) and not a bare tensor."""
        schema = op.schema
        return len(op.results) == 1 and schema is not None and any(result.is_list for result in schema.results)

    @staticmethod
    def returns_lists(op: host.ExternOp) -> bool:
        """Whether the call gives several results, of which one is a list."""
        results = () if op.schema is None else op.schema.results
        return len(results) > 1 and any(result.is_list for result in results)

    def callee(self, overload: str) -> str:
        """The wrapper's name for an overload."""
        for name, known in self.overloads.items():
            if known == overload:
                return name
        short = (
            overload.removeprefix(OPERATOR)
            .removeprefix("aten.")
            .removeprefix("higher_order.")
            .removesuffix(".default")
            .replace("::", "_")
            .replace(".", "_")
        )
        name = identifier(short, self.taken)
        self.overloads[name] = overload
        return name

    def may_be_scratch(self, op: host.AllocOp) -> bool:
        """Whether a buffer is small, and nobody needs a tensor for it or a part of it."""
        if self.checked or not is_small(op.result, target_of(device_of(tensor_type_of(op.result))).scratch):
            return False
        parts = [use.operation.results[0] for use in op.result.uses if isinstance(use.operation, host.PlaceOp)]
        whole = self.only_an_address(op.result, but=host.PlaceOp)
        return whole and all(self.only_an_address(one) and self.outlives(op.result, one) for one in parts)

    def flush(self) -> None:
        """Writes the pending launches as one native call."""
        pending, self.pending = self.pending, PendingRun()
        if not pending.launches:
            return
        scratch, others = self.scratch.taken(pending.ops, target_of(pending.device).scratch)
        self.lines += [f"{name} = {self.allocation(tensor_type_of(op.result))}" for name, op in others.items()]
        pending.frees = [one for one in pending.frees if one not in scratch]
        symbols = tuple(dict.fromkeys(name for kernel, _ in pending.launches for name in self.kernels[kernel].symbols))
        self.launches += len(pending.launches)
        what = ", ".join(kernel for kernel, _ in pending.launches)
        self.lines.append(f"{self.run(pending, symbols, scratch)}  # {what}")
        if any(name in self.rows for name, _ in pending.launches):
            self.lines.append(f"check_report({self.reports[pending.device]})")
        if pending.frees:
            self.lines.append(f"del {', '.join(pending.frees)}")

    def run(self, pending: PendingRun, symbols: tuple[str, ...], sizes: Mapping[str, int]) -> str:
        """The text that calls a run, which has scratch memory of these sizes for the buffers of these names."""
        target = target_of(pending.device)
        adds, scratch = target.adds_offsets, {f"{name}.data_ptr()": size for name, size in sizes.items()}
        written = {
            one: one if adds or one.base in scratch else Address(str(one), aligned=one.aligned)
            for _, buffers in pending.launches
            for one in buffers
        }
        addresses = dict.fromkeys(one.base for one in written.values() if one.base not in scratch)
        parameters = {base: number for number, base in enumerate((*addresses, *scratch))}
        launches: list[Launch] = []
        for name, buffers in pending.launches:
            buffers = [written[one] for one in buffers]
            pointers = [(parameters[one.base], one.offset) for one in buffers]
            looked_at = zip(pointers, buffers, strict=True) if target.adds_offsets else ()
            unaligned = tuple(pointer for pointer, one in looked_at if not one.aligned)
            launches.append(Launch(name, tuple(pointers), unaligned))
        described = (pending.device, len(addresses), symbols, tuple(launches), tuple(scratch.values()))
        run = self.known_runs.get(described)
        if run is None:  # identical layers make identical runs
            run = Run(f"run_{len(self.runs)}", *described)
            self.known_runs[described] = run
            self.runs.append(run)
        self.labels.add(run.name, [one.kernel for one in launches], pending.locations)
        return target.call(run.name, [*self.queue(target, pending.device), *addresses, *symbols])

    def queue(self, target: Target, device: str) -> list[str]:
        """The name of what launches on a device are put into, where the target has such a thing."""
        name = self.queues.get(device)
        if name is None:
            text = target.queue(device)
            if text is None:
                return []
            name = self.queues[device] = identifier("stream", self.taken)
            self.lines.append(f"{name} = {text}")
        return [name]


def _symbols_of(function: host.FuncOp) -> tuple[str, ...]:
    """The symbols that a function declares."""
    symbols = function.attributes.get("sym.symbols")
    return tuple(symbols.names) if isinstance(symbols, sym.SymbolsAttr) else ()
