"""`kernel.func`, `kernel.launch`, `kernel.program_id`, and the loops `kernel.for` and `kernel.reduce`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import (
    BodyOp,
    FunctionOp,
    ValueYieldOp,
    parse_arguments,
    parse_body,
    print_arguments,
)
from cuesta.dialects.core.reductions import REDUCTIONS, ReductionOp, parse_kind, parse_result_types
from cuesta.dialects.core.typed import integer_property, property_of, symbol_property, verify_counts
from cuesta.dialects.core.value_syntax import parse_symbol_and_operands, print_symbol_and_operands, print_types
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr
from cuesta.dialects.sym.syntax import canonical_operands, parse_expr, print_expr

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
            regions=[Region(Block(arg_types=[*inputs, *outs]))],
        )

    @staticmethod
    def properties_of(name: str, outs: int, symbols: Sequence[str], schedule: ScheduleAttr) -> dict[str, Attribute]:
        """The properties of a kernel, for those who have its block already."""
        return {
            "sym_name": StringAttr(name),
            "outs": IntegerAttr(outs, i64),
            "symbols": ArrayAttr([StringAttr(symbol) for symbol in symbols]),
            "schedule": schedule,
        }

    @property
    def schedule(self) -> ScheduleAttr:
        """How it runs."""
        return property_of(self, "schedule", ScheduleAttr)

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
        """Parses `@name(%x : !kernel.ptr<f32>) outs(%y : …) symbols(s0) schedule #kernel.schedule<…> { … }`."""
        name = parser.parse_symbol_name().data
        inputs = parse_arguments(parser)
        parser.parse_keyword("outs")
        outs = parse_arguments(parser)
        symbols: list[str] = []
        if parser.parse_optional_keyword("symbols"):
            symbols = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        parser.parse_keyword("schedule")
        schedule = parser.parse_attribute()
        if not isinstance(schedule, ScheduleAttr):
            parser.raise_error(f"expected #kernel.schedule, got {schedule}")
        region = parse_body(parser, [*inputs, *outs])
        return cls.create(properties=cls.properties_of(name, len(outs), symbols, schedule), regions=[region])

    def print(self, printer: Printer) -> None:
        """Prints the name, the arguments, the symbols, the schedule and the body."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.enter_scope()
        print_arguments(printer, self.inputs)
        printer.print_string(" outs")
        print_arguments(printer, self.outs)
        if self.symbols:
            printer.print_string(f" symbols({', '.join(self.symbols)})")
        printer.print_string(" schedule ")
        printer.print_attribute(self.schedule)
        printer.print_string(" ")
        printer.print_region(self.regions[0], print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()

    def verify_(self) -> None:
        """Checks that the arguments are pointers and the properties are there."""
        if not isinstance(self.properties.get("schedule"), ScheduleAttr):
            raise VerifyException("kernel.func needs a schedule, a #kernel.schedule")
        self.verify_body()
        if not 0 < self.num_outs <= len(self.body.args):
            raise VerifyException(f"kernel.func @{self.sym_name} says it has {self.num_outs} outs")
        for argument in self.body.args:
            if not isinstance(argument.type, PointerType):
                raise VerifyException(f"kernel.func @{self.sym_name}: {argument.type} is no !kernel.ptr")
        if unknown := self.symbols_used() - set(self.symbols):
            names = ", ".join(sorted(unknown))
            raise VerifyException(f"kernel.func @{self.sym_name} uses {names}, not among its symbols")


class LaunchOp(Operation):
    """Runs a kernel on tensor values; the results are its outs."""

    name = "kernel.launch"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, kernel: str, inputs: Sequence[SSAValue], outs: Sequence[Attribute]) -> LaunchOp:
        """Launches `@kernel` on `inputs`, giving tensors of the types `outs`."""
        return cls.create(operands=inputs, result_types=outs, properties={"kernel": SymbolRefAttr(kernel)})

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
        printer.print_string(" : (")
        print_types(printer, self.operands)
        printer.print_string(") -> (")
        print_types(printer, self.results)
        printer.print_string(")")

    def verify_(self) -> None:
        """Checks that operands and results are tensors; the module's contract checks them against the kernel."""
        if not self.results:
            raise VerifyException(f"kernel.launch @{self.kernel} gives nothing")
        for value in (*self.operands, *self.results):
            if not isinstance(value.type, TensorType):
                raise VerifyException(f"kernel.launch @{self.kernel} takes and gives tensors, not {value.type}")


class ProgramIdOp(Operation):
    """The program's coordinate along an axis of the grid."""

    name = "kernel.program_id"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, axis: int) -> ProgramIdOp:
        """The coordinate along `axis`."""
        return cls.create(result_types=(_INDEX,), properties={"axis": IntegerAttr(axis, i64)})

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


@cache
def _index_vector(lanes: int) -> Attribute:
    return VectorType(_INDEX, [lanes])


class LoopOp(BodyOp):
    """A loop over a list of axes `lo to hi`; the last may be stepped through in lanes."""

    traits = traits_def(NoTerminator())

    @property
    def lowers(self) -> sym.MapAttr:
        """The first point of each axis, over the operands."""
        return property_of(self, "lowers", sym.MapAttr)

    @property
    def uppers(self) -> sym.MapAttr:
        """One past the last point of each axis, over the operands."""
        return property_of(self, "uppers", sym.MapAttr)

    @property
    def lanes(self) -> int:
        """The lanes of the last axis; 1 when it has none."""
        return integer_property(self, "lanes")

    @property
    def induction_variables(self) -> tuple[BlockArgument, ...]:
        """One per axis: `index`, or `vector<Lxindex>` for a last axis with lanes."""
        return self.body.args

    @staticmethod
    def loop_properties(
        lowers: Sequence[sym.IndexExpr], uppers: Sequence[sym.IndexExpr], operands: Sequence[SSAValue], lanes: int
    ) -> tuple[Sequence[SSAValue], dict[str, Attribute]]:
        """The operands and properties of a loop, in canonical order."""
        count = len(lowers)
        pairs = zip(lowers, uppers, strict=True)
        used, bounds = canonical_operands(operands, [bound for pair in pairs for bound in pair])
        assert len(bounds) == 2 * count
        return used, {
            "lowers": sym.MapAttr.get(len(used), tuple(bounds[0::2])),
            "uppers": sym.MapAttr.get(len(used), tuple(bounds[1::2])),
            "lanes": IntegerAttr(lanes, i64),
        }

    @staticmethod
    def variable_types(count: int, lanes: int) -> list[Attribute]:
        """The types of the induction variables."""
        types: list[Attribute] = [_INDEX] * count
        if lanes > 1:
            types[-1] = _index_vector(lanes)
        return types

    def verify_loop(self) -> None:
        """Checks the bounds, the lanes and the induction variables."""
        lowers, uppers = self.lowers, self.uppers
        if len(lowers.results) != len(uppers.results) or not lowers.num_dims == uppers.num_dims == len(self.operands):
            raise VerifyException(f"{self.name}: bounds and operands do not fit")
        if not lowers.results:
            raise VerifyException(f"{self.name} needs an axis")
        if self.lanes < 1:
            raise VerifyException(f"{self.name}: {self.lanes} lanes")
        self.verify_body()
        expected = self.variable_types(len(lowers.results), self.lanes)
        if [argument.type for argument in self.body.args] != expected:
            found = ", ".join(str(argument.type) for argument in self.body.args)
            raise VerifyException(f"{self.name}: induction variables are {', '.join(map(str, expected))}, not {found}")
        if any(operand.type != _INDEX for operand in self.operands):
            raise VerifyException(f"{self.name}: bounds are expressions over scalar index values")


def _parse_axes(
    parser: Parser,
) -> tuple[list[Parser.Argument], list[SSAValue], list[sym.IndexExpr], list[sym.IndexExpr], int]:
    names: list[Parser.UnresolvedArgument] = []
    operands: list[UnresolvedOperand] = []
    lowers: list[sym.IndexExpr] = []
    uppers: list[sym.IndexExpr] = []
    lanes = 1

    def axis() -> None:
        nonlocal lanes
        if lanes != 1:
            parser.raise_error("only the last axis has lanes")
        names.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        lowers.append(parse_expr(parser, operands))
        parser.parse_keyword("to")
        uppers.append(parse_expr(parser, operands))
        if parser.parse_optional_keyword("lanes"):
            lanes = parser.parse_integer(allow_boolean=False, allow_negative=False)

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis, " in a loop")
    types = LoopOp.variable_types(len(names), lanes)
    arguments = [name.resolve(variable) for name, variable in zip(names, types, strict=True)]
    return arguments, [parser.resolve_operand(operand, _INDEX) for operand in operands], lowers, uppers, lanes


def _print_axes(printer: Printer, op: LoopOp) -> None:
    printer.print_string(" (")
    last = len(op.induction_variables) - 1
    for position, variable in enumerate(op.induction_variables):
        printer.print_ssa_value(variable)
        printer.print_string(" = ")
        print_expr(printer, op.operands, op.lowers.results[position])
        printer.print_string(" to ")
        print_expr(printer, op.operands, op.uppers.results[position])
        if position == last and op.lanes > 1:
            printer.print_string(f" lanes {op.lanes}")
        printer.print_string("" if position == last else ", ")
    printer.print_string(") ")
    printer.print_region(op.regions[0], print_entry_block_args=False, print_empty_block=False)


class ForOp(LoopOp):
    """Runs its body for the points of its axes; the points are independent of one another."""

    name = "kernel.for"

    @classmethod
    def build(
        cls,
        lowers: Sequence[sym.IndexExpr],
        uppers: Sequence[sym.IndexExpr],
        operands: Sequence[SSAValue] = (),
        lanes: int = 1,
    ) -> ForOp:
        """A loop with an empty body; dim k of the bounds is `operands[k]`."""
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes)
        block = Block(arg_types=cls.variable_types(len(lowers), lanes))
        return cls.create(operands=used, properties=properties, regions=[Region(block)])

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        """Parses `(%n = 0 to 8, %j = %p * 64 to min(%p * 64 + 64, 1000) lanes 8) { … }`."""
        arguments, operands, lowers, uppers, lanes = _parse_axes(parser)
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes)
        return cls.create(operands=used, properties=properties, regions=[parse_body(parser, arguments)])

    def print(self, printer: Printer) -> None:
        """Prints the axes and the body."""
        printer.enter_scope()
        _print_axes(printer, self)
        printer.exit_scope()

    def verify_(self) -> None:
        """Checks the loop."""
        self.verify_loop()
        if self.results:
            raise VerifyException("kernel.for has no results")


class ReduceOp(LoopOp, ReductionOp):
    """Reduces what the body yields over the axes.

    With lanes it gives scalars; without, what is yielded may itself be a vector.
    """

    name = "kernel.reduce"
    traits: ClassVar = traits_def()

    @classmethod
    def result_types_of(cls, kind: str, yielded: Attribute, lanes: int) -> tuple[Attribute, ...]:
        """The result types of reducing values of type `yielded`."""
        value = scalar_of(yielded) if lanes > 1 else yielded
        types = REDUCTIONS[kind].results(scalar_of(value))
        return tuple(VectorType(t, value.get_shape()) if isinstance(value, VectorType) else t for t in types)

    @classmethod
    def build(
        cls,
        kind: str,
        yielded: Attribute,
        lowers: Sequence[sym.IndexExpr],
        uppers: Sequence[sym.IndexExpr],
        operands: Sequence[SSAValue] = (),
        lanes: int = 1,
    ) -> ReduceOp:
        """A reduction with an empty body, which must come to end in `kernel.yield` of a `yielded`."""
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes)
        return cls.create(
            operands=used,
            result_types=cls.result_types_of(kind, yielded, lanes),
            properties={**properties, "kind": StringAttr(kind)},
            regions=[Region(Block(arg_types=cls.variable_types(len(lowers), lanes)))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parses `sum (%j = 0 to 1024 lanes 8) { … kernel.yield %v : vector<8xf32> } : f32`."""
        kind = parse_kind(parser)
        arguments, operands, lowers, uppers, lanes = _parse_axes(parser)
        region = parse_body(parser, arguments)
        result_types = parse_result_types(parser)
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes)
        properties["kind"] = StringAttr(kind)
        return cls.create(operands=used, result_types=result_types, properties=properties, regions=[region])

    def print(self, printer: Printer) -> None:
        """Prints the kind, the axes, the body and the result types."""
        printer.print_string(f" {self.kind}")
        printer.enter_scope()
        _print_axes(printer, self)
        printer.exit_scope()
        self.print_result_types(printer)

    def verify_(self) -> None:
        """Checks the loop, the kind, and that the results follow from what is yielded."""
        self.verify_loop()
        self.verify_kind(YieldOp)
        self.verify_results(self.result_types_of(self.kind, self.yielded.type, self.lanes))


class YieldOp(ValueYieldOp):
    """Ends the body of a `kernel.reduce` and gives the value of one point (or of `lanes` points)."""

    name = "kernel.yield"

    def verify_(self) -> None:
        """Checks that it yields one value, from a reduction."""
        parent = self.parent_op()
        if len(self.operands) != 1 or not isinstance(parent, ReduceOp):
            raise VerifyException("kernel.yield gives one value, at the end of a kernel.reduce")
        if parent.lanes > 1 and not isinstance(self.operands[0].type, VectorType):
            raise VerifyException(f"kernel.yield: {parent.lanes} lanes yield a vector, not {self.operands[0].type}")
