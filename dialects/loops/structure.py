"""Ops with a domain: `loops.nest`, `loops.for`, `loops.reduce`, and `loops.yield`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IndexType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import BodyOp, ValueYieldOp, parse_arguments, parse_body, print_arguments
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.reductions import REDUCTIONS, ReductionOp, parse_kind, parse_result_types
from cuesta.dialects.core.typed import property_of
from cuesta.dialects.loops.schedule import ScheduleAttr
from cuesta.dialects.sym.syntax import parse_size

_INDEX = IndexType()


class DomainOp(BodyOp):
    """An op whose body runs for every point of a domain; the first block arguments are the induction variables."""

    traits = traits_def(NoTerminator())

    @property
    def domain(self) -> sym.MapAttr:
        """The sizes, as a map without dims."""
        found = self.properties.get("sizes")
        if type(found) is sym.MapAttr:
            return found
        return property_of(self, "sizes", sym.MapAttr)

    @property
    def sizes(self) -> tuple[sym.IndexExpr, ...]:
        """The size of each axis of the domain."""
        found = self.properties.get("sizes")
        return found.results if type(found) is sym.MapAttr else self.domain.results

    @property
    def induction_variables(self) -> tuple[BlockArgument, ...]:
        """One `index` per axis."""
        return self.body.args[: len(self.sizes)]

    def verify_domain(self, extra_arguments: int = 0) -> None:
        """Checks the region, the induction variables and the sizes."""
        if not isinstance(self.properties.get("sizes"), sym.MapAttr) or self.domain.num_dims:
            raise VerifyException(f"{self.name} needs `sizes`, a map without dims")
        self.verify_body()
        arguments = self.body.args
        if len(arguments) != len(self.sizes) + extra_arguments:
            expected = f"{len(self.sizes)} axes and {extra_arguments} outs"
            raise VerifyException(f"{self.name} has {expected}, but its body has {len(arguments)} arguments")
        if any(argument.type != _INDEX for argument in self.induction_variables):
            raise VerifyException(f"{self.name}: induction variables are of type index")
        for size in self.sizes:
            if isinstance(size, int) and size < 0:
                raise VerifyException(f"{self.name}: the size {size} is negative")


def parse_domain(parser: Parser) -> tuple[list[Parser.Argument], list[sym.IndexExpr]]:
    """Parses `(%i : 4, %j : s0)`: the induction variables and the sizes."""
    arguments: list[Parser.Argument] = []
    sizes: list[sym.IndexExpr] = []

    def axis() -> None:
        arguments.append(parser.parse_argument(expect_type=False).resolve(_INDEX))
        parser.parse_punctuation(":")
        sizes.append(parse_size(parser))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis, " in a domain")
    return arguments, sizes


def print_domain(printer: Printer, op: DomainOp) -> None:
    """Prints what `parse_domain` reads."""
    printer.print_string(" (")
    for position, (variable, size) in enumerate(zip(op.induction_variables, op.sizes, strict=True)):
        printer.print_string(", " if position else "")
        printer.print_ssa_value(variable)
        printer.print_string(f" : {sym.format_expr(size)}")
    printer.print_string(")")


def print_body(printer: Printer, op: DomainOp) -> None:
    """Prints the body, whose arguments stand before it."""
    printer.print_string(" ")
    printer.print_region(op.regions[0], print_entry_block_args=False, print_empty_block=False)


def _block_of(sizes: Sequence[sym.IndexExpr], extra_types: Sequence[Attribute] = ()) -> Block:
    return PlainBlock(arg_types=[_INDEX] * len(sizes) + list(extra_types))


class NestOp(DomainOp):
    """A parallel nest, one future kernel. Its results are its outs: every element of each is stored exactly once.

    The operands are what the last outs hold from the start: the nest `updates` them, and takes over their memory.
    """

    name = "loops.nest"

    @classmethod
    def build(
        cls, sizes: Sequence[sym.IndexExpr], outs: Sequence[Attribute], updates: Sequence[SSAValue] = ()
    ) -> NestOp:
        """A nest with an empty body; fill `nest.body`, with arguments `nest.induction_variables` and `nest.handles`.
        The last outs hold `updates` from the start.
        """
        return cls.create(
            operands=updates,
            result_types=outs,
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes))},
            regions=[Region(_block_of(sizes, outs))],
        )

    @property
    def handles(self) -> tuple[BlockArgument, ...]:
        """The body's names for the outs."""
        return self.body.args[len(self.sizes) :]

    @property
    def updated(self) -> tuple[BlockArgument, ...]:
        """The last handles, one for each operand: what is there from the start."""
        handles = self.handles
        return handles[len(handles) - len(self.operands) :]

    @property
    def choices(self) -> dict[str, int]:
        """How it is to run, as far as that is said."""
        schedule = self.properties.get("schedule")
        return schedule.choices if isinstance(schedule, ScheduleAttr) else {}

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        """Parses `(%i : 4) outs(%o : tensor<4xf32>) updates(%x) schedule #loops.schedule<warps = 8> { … }`; `updates`
        and the schedule may be left out.
        """
        arguments, sizes = parse_domain(parser)
        parser.parse_keyword("outs")
        outs = parse_arguments(parser)
        taken_over: list[SSAValue] = []
        if parser.parse_optional_keyword("updates"):
            names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            if len(names) > len(outs):
                parser.raise_error(f"updates {len(names)} values, but there are {len(outs)} outs to hold them")
            for name, out in zip(names, outs[len(outs) - len(names) :], strict=True):
                taken_over.append(parser.resolve_operand(name, out.type))
        properties: dict[str, Attribute] = {"sizes": sym.MapAttr.get(0, tuple(sizes))}
        if parser.parse_optional_keyword("schedule"):
            properties["schedule"] = parser.parse_attribute()
        region = parse_body(parser, [*arguments, *outs])
        return cls.create(
            operands=taken_over,
            result_types=[out.type for out in outs],
            properties=properties,
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        """Prints the domain, the outs, what they update, the schedule and the body."""
        printer.enter_scope()
        print_domain(printer, self)
        printer.print_string(" outs")
        print_arguments(printer, self.handles)
        if self.operands:
            printer.print_string(" updates(")
            printer.print_list(self.operands, printer.print_ssa_value)
            printer.print_string(")")
        if "schedule" in self.properties:
            printer.print_string(" schedule ")
            printer.print_attribute(self.properties["schedule"])
        print_body(printer, self)
        printer.exit_scope()

    def verify_(self) -> None:
        """Checks the domain, that the handles have the results' tensor types, and what is updated."""
        self.verify_domain(len(self.results))
        for handle, result in zip(self.handles, self.results, strict=True):
            handle_type, result_type = handle.type, result.type
            if handle_type != result_type or not isinstance(result_type, TensorType):
                raise VerifyException(f"loops.nest: a handle of type {handle_type} for a result of type {result.type}")
        if not isinstance(self.properties.get("schedule", None), ScheduleAttr | None):
            raise VerifyException("loops.nest: its schedule is a #loops.schedule")
        if len(self.operands) > len(self.results):
            raise VerifyException(f"loops.nest updates {len(self.operands)} values, but has {len(self.results)} outs")
        for operand, handle in zip(self.operands, self.updated, strict=True):
            if operand.type != handle.type:
                raise VerifyException(
                    f"loops.nest: an out of type {handle.type} updates a value of type {operand.type}"
                )


class StatementOp(DomainOp):
    """An inner domain that gives no value: what its body does is all."""

    @classmethod
    def build(cls, sizes: Sequence[sym.IndexExpr]) -> Self:
        """A loop with an empty body."""
        return cls.create(properties={"sizes": sym.MapAttr.get(0, tuple(sizes))}, regions=[Region(_block_of(sizes))])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `(%j : 1024) { … }`."""
        arguments, sizes = parse_domain(parser)
        return cls.create(
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes))}, regions=[parse_body(parser, arguments)]
        )

    def print(self, printer: Printer) -> None:
        """Prints the domain and the body."""
        printer.enter_scope()
        print_domain(printer, self)
        print_body(printer, self)
        printer.exit_scope()

    def verify_(self) -> None:
        """Checks the domain."""
        self.verify_domain()
        if self.results or self.operands:
            raise VerifyException(f"{self.name} has neither operands nor results")


class ForOp(StatementOp):
    """An inner domain; its points are independent of one another."""

    name = "loops.for"


class ReduceOp(DomainOp, ReductionOp):
    """Reduces the value that the body yields over an inner domain."""

    name = "loops.reduce"
    traits = traits_def()

    @classmethod
    def build(cls, kind: str, sizes: Sequence[sym.IndexExpr], value_type: Attribute) -> ReduceOp:
        """A reduction with an empty body, which must come to end in `loops.yield` of a `value_type`."""
        return cls.create(
            result_types=REDUCTIONS[kind].results(value_type),
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes)), "kind": StringAttr(kind)},
            regions=[Region(_block_of(sizes))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parses `maximum (%j : 1024) { … loops.yield %v : f32 } : f32`."""
        kind = parse_kind(parser)
        arguments, sizes = parse_domain(parser)
        region = parse_body(parser, arguments)
        return cls.create(
            result_types=parse_result_types(parser),
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes)), "kind": StringAttr(kind)},
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        """Prints the kind, the domain, the body and the result types."""
        printer.print_string(f" {self.kind}")
        printer.enter_scope()
        print_domain(printer, self)
        print_body(printer, self)
        printer.exit_scope()
        self.print_result_types(printer)

    def verify_(self) -> None:
        """Checks the domain, the kind, and that the results follow from what is yielded."""
        self.verify_domain()
        self.verify_kind(YieldOp)
        self.verify_results(REDUCTIONS[self.kind].results(self.yielded.type))


class YieldOp(ValueYieldOp):
    """Ends the body of a `loops.reduce` and gives the value of one point."""

    name = "loops.yield"

    def verify_(self) -> None:
        """Checks that it yields one value, from a reduction."""
        if len(self.operands) != 1 or not isinstance(self.parent_op(), ReduceOp):
            raise VerifyException("loops.yield gives one value, at the end of a loops.reduce")


def enclosing_nest(op: Operation) -> NestOp:
    """The nest that an op inside a body belongs to.

    Errors: VerifyException when there is none.
    """
    current: Operation | None = op
    while current is not None and not isinstance(current, NestOp):
        current = current.parent_op()
    if current is None:
        raise VerifyException(f"{op.name} stands outside of a loops.nest")
    return current


def enclosing_domains(op: Operation) -> list[DomainOp]:
    """The domains around an op, from inside out."""
    found: list[DomainOp] = []
    current = op.parent_op()
    while isinstance(current, DomainOp):
        found.append(current)
        current = current.parent_op()
    return found


def enclosing_sizes(op: Operation) -> dict[SSAValue, sym.IndexExpr]:
    """The size of every induction variable in scope at `op`: what range-aware simplification needs."""
    found: dict[SSAValue, sym.IndexExpr] = {}
    for domain in enclosing_domains(op):
        found.update(zip(domain.induction_variables, domain.sizes, strict=True))
    return found
