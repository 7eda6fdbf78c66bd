"""`kernel.func`, `kernel.launch` and `kernel.program_id`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IndexType, StringAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import FunctionOp, parse_arguments, parse_body, print_arguments
from cuesta.dialects.core.operation import PlainBlock, PlainOperation
from cuesta.dialects.core.typed import (
    integer_attribute,
    integer_property,
    property_of,
    symbol_attribute,
    symbol_property,
    verify_counts,
)
from cuesta.dialects.core.value_syntax import parse_symbol_and_operands, print_signature, print_symbol_and_operands
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr

_INDEX = IndexType()


class FuncOp(FunctionOp):
    """One kernel: isolated, run once for every program of its grid."""

    name = "kernel.func"
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    @classmethod
    def build(
        cls,
        name: str,
        inputs: Sequence[Attribute],
        outs: Sequence[Attribute],
        symbols: Sequence[str],
        schedule: ScheduleAttr,
    ) -> FuncOp:
        """A kernel with an empty body. `inputs` and `outs` are pointer types."""
        return cls.create(
            properties=cls.properties_of(name, len(outs), symbols, schedule),
            regions=[Region(PlainBlock(arg_types=[*inputs, *outs]))],
        )

    @staticmethod
    def properties_of(
        name: str, outs: int, symbols: Sequence[str], schedule: ScheduleAttr, updates: int = 0
    ) -> dict[str, Attribute]:
        """The properties of a kernel, for those who have its block already."""
        return {
            **({"updates": integer_attribute(updates)} if updates else {}),
            "sym_name": StringAttr(name),
            "outs": integer_attribute(outs),
            "symbols": ArrayAttr([StringAttr(symbol) for symbol in symbols]),
            "schedule": schedule,
        }

    @property
    def is_for_gpu(self) -> bool:
        """Whether it was scheduled for the GPU."""
        return self.schedule.choices.get("target") == "cuda"

    @property
    def schedule(self) -> ScheduleAttr:
        """How it runs."""
        return property_of(self, "schedule", ScheduleAttr)

    @property
    def launched(self) -> sym.IndexExpr:
        """How many programs a launch has: those of the grid, or two for each where those that meet take turns, or no
        more than its schedule says, each of which does several of the grid's.
        """
        takes_turns = "ahead" in self.schedule.choices and any(op.name == "kernel.meet" for op in self.body.ops)
        volume = sym.product_of(self.schedule.grid) * (2 if takes_turns else 1)
        most = self.schedule.choices.get("programs")
        return sym.minimum(volume, most) if isinstance(most, int) else volume

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols its expressions use, passed as integers after the pointers, in this order."""
        symbols = cast("ArrayAttr[StringAttr]", property_of(self, "symbols", ArrayAttr))
        return tuple(symbol.data for symbol in symbols)

    @property
    def num_outs(self) -> int:
        """How many of the arguments, at the end, are written."""
        return integer_property(self, "outs")

    @property
    def updates(self) -> int:
        """How many of the outs, at the end, hold elements already: the launch's last operands, which they take over."""
        return integer_property(self, "updates") if "updates" in self.properties else 0

    @property
    def inputs(self) -> tuple[BlockArgument, ...]:
        """The pointers read."""
        arguments = self.body.args
        return arguments[: len(arguments) - self.num_outs]

    @property
    def outs(self) -> tuple[BlockArgument, ...]:
        """The pointers written (and read, where the same program wrote)."""
        arguments = self.body.args
        return arguments[len(arguments) - self.num_outs :]

    def symbols_used(self) -> set[str]:
        """The symbols that the grid and the index expressions of the body use."""
        used = {name for size in self.schedule.grid for name in sym.symbols_of(size)}
        for op in self.body.walk():
            for attr in op.properties.values():
                if isinstance(attr, sym.MapAttr):
                    for e in attr.results:
                        used |= sym.symbols_of(e)
        return used

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        """Parses `@name(%x : !kernel.ptr<f32>) outs(%y : …) updates 1 symbols(s0) schedule #kernel.schedule<…> { … }`.

        What is empty or 0 is left out.
        """
        name = parser.parse_symbol_name().data
        inputs = parse_arguments(parser)
        parser.parse_keyword("outs")
        outs = parse_arguments(parser)
        updates = parser.parse_integer(allow_boolean=False) if parser.parse_optional_keyword("updates") else 0
        symbols: list[str] = []
        if parser.parse_optional_keyword("symbols"):
            symbols = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        parser.parse_keyword("schedule")
        schedule = parser.parse_attribute()
        if not isinstance(schedule, ScheduleAttr):
            parser.raise_error(f"expected #kernel.schedule, got {schedule}")
        region = parse_body(parser, [*inputs, *outs])
        return cls.create(properties=cls.properties_of(name, len(outs), symbols, schedule, updates), regions=[region])

    def print_signature(self, printer: Printer) -> None:
        """Prints the arguments, the symbols and the schedule."""
        print_arguments(printer, self.inputs)
        printer.print_string(" outs")
        print_arguments(printer, self.outs)
        if self.updates:
            printer.print_string(f" updates {self.updates}")
        if self.symbols:
            printer.print_string(f" symbols({', '.join(self.symbols)})")
        printer.print_string(" schedule ")
        printer.print_attribute(self.schedule)
        printer.print_string(" ")

    def verify_(self) -> None:
        """Checks that the arguments are pointers and the properties are there."""
        if not isinstance(self.properties.get("schedule"), ScheduleAttr):
            raise VerifyException("kernel.func needs a schedule, a #kernel.schedule")
        self.verify_body()
        if not 0 < self.num_outs <= len(self.body.args):
            raise VerifyException(f"kernel.func @{self.sym_name} says it has {self.num_outs} outs")
        if not 0 <= self.updates <= self.num_outs:
            raise VerifyException(f"kernel.func @{self.sym_name} says it updates {self.updates} of its outs")
        for argument in self.body.args:
            if not isinstance(argument.type, PointerType):
                raise VerifyException(f"kernel.func @{self.sym_name}: {argument.type} is no !kernel.ptr")
        if unknown := self.symbols_used() - set(self.symbols):
            names = ", ".join(sorted(unknown))
            raise VerifyException(f"kernel.func @{self.sym_name} uses {names}, not among its symbols")


class LaunchOp(PlainOperation):
    """Runs a kernel on tensor values; the results are its outs. The last operands are what its `updates` take over."""

    name = "kernel.launch"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, kernel: str, inputs: Sequence[SSAValue], outs: Sequence[Attribute]) -> LaunchOp:
        """Launches `@kernel` on `inputs`, giving tensors of the types `outs`."""
        return cls.create(operands=inputs, result_types=outs, properties={"kernel": symbol_attribute(kernel)})

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return symbol_property(self, "kernel")

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        """Parses `@k(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)`."""
        name, operands = parse_symbol_and_operands(parser)
        parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        inputs = parser.resolve_operands(operands, signature.inputs.data, parser.pos)
        return cls.build(name, inputs, signature.outputs.data)

    def print(self, printer: Printer) -> None:
        """Prints the kernel, the inputs and the types."""
        print_symbol_and_operands(printer, self.kernel, self.operands)
        print_signature(printer, self.operands, self.results)

    def verify_(self) -> None:
        """Checks that operands and results are tensors; the module's contract checks them against the kernel."""
        if not self.results:
            raise VerifyException(f"kernel.launch @{self.kernel} gives nothing")
        for value in (*self.operands, *self.results):
            if not isinstance(value.type, TensorType):
                raise VerifyException(f"kernel.launch @{self.kernel} takes and gives tensors, not {value.type}")


class ProgramIdOp(PlainOperation):
    """The program's coordinate along an axis of the grid."""

    name = "kernel.program_id"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, axis: int) -> ProgramIdOp:
        """The coordinate along `axis`."""
        return cls.create(result_types=(_INDEX,), properties={"axis": integer_attribute(axis)})

    @property
    def axis(self) -> int:
        """The axis of the grid."""
        return integer_property(self, "axis")

    @property
    def result(self) -> SSAValue:
        """The coordinate, in [0, grid[axis])."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> ProgramIdOp:
        """Parses `0`."""
        return cls.build(parser.parse_integer(allow_boolean=False, allow_negative=False))

    def print(self, printer: Printer) -> None:
        """Prints the axis."""
        printer.print_string(f" {self.axis}")

    def verify_(self) -> None:
        """Checks the axis against the kernel's grid."""
        verify_counts(self, operands=0, results=1)
        parent = self.parent_op()
        if not isinstance(parent, FuncOp):
            raise VerifyException("kernel.program_id stands at the top of a kernel.func")
        if not 0 <= self.axis < len(parent.schedule.grid):
            raise VerifyException(f"kernel.program_id {self.axis}: the grid has {len(parent.schedule.grid)} axes")
        if self.result.type != _INDEX:
            raise VerifyException(f"kernel.program_id is of type index, not {self.result.type}")
