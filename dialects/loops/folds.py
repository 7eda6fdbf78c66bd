"""`loops.fold`: a domain whose points come in order; each makes new values of those that the one before gave."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import ValuesYieldOp, parse_arguments, parse_body, print_arguments
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.value_syntax import print_types
from cuesta.dialects.loops.structure import DomainOp, parse_domain, print_body, print_domain


class FoldOp(DomainOp):
    """Values that go from point to point of an inner domain, in row-major order; the results are what the last point
    carries on, or the operands where there is no point.

    The block arguments are the induction variables, and then what is carried.
    """

    name = "loops.fold"
    traits = traits_def()

    @classmethod
    def build(cls, sizes: Sequence[sym.IndexExpr], initial: Sequence[SSAValue]) -> FoldOp:
        """A fold with an empty body, which must come to end in `loops.carry` of values of the types of `initial`."""
        types = [value.type for value in initial]
        return cls.create(
            operands=initial,
            result_types=types,
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes))},
            regions=[Region(PlainBlock(arg_types=[*[IndexType()] * len(sizes), *types]))],
        )

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """What the point before carried on, in the body."""
        return self.body.args[len(self.sizes) :]

    @property
    def handed_on(self) -> tuple[SSAValue, ...]:
        """What a point carries on, in the body."""
        terminator = self.body.last_op
        assert isinstance(terminator, CarryOp)
        return tuple(terminator.operands)

    @classmethod
    def parse(cls, parser: Parser) -> FoldOp:
        """Parses `(%c : 4) from (%a, %b) carries (%x: f32, %y: i64) { … loops.carry %z, %w : f32, i64 } : f32, i64`."""
        arguments, sizes = parse_domain(parser)
        parser.parse_keyword("from")
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("carries")
        carried = parse_arguments(parser)
        if len(names) != len(carried):
            parser.raise_error(f"carries {len(carried)} values, but begins with {len(names)}")
        operands = [parser.resolve_operand(name, argument.type) for name, argument in zip(names, carried, strict=True)]
        region = parse_body(parser, [*arguments, *carried])
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(
            operands=operands,
            result_types=types,
            properties={"sizes": sym.MapAttr.get(0, tuple(sizes))},
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        """Prints the domain, what it begins with, what is carried, the body and the types of the results."""
        printer.enter_scope()
        print_domain(printer, self)
        printer.print_string(" from (")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(") carries ")
        print_arguments(printer, self.carried)
        print_body(printer, self)
        printer.exit_scope()
        printer.print_string(" : ")
        print_types(printer, self.results)

    def verify_(self) -> None:
        """Checks the domain, and that all that is carried has the types of what the fold begins with."""
        self.verify_domain(len(self.operands))
        if not self.operands:
            raise VerifyException("loops.fold carries at least one value")
        if not isinstance(self.body.last_op, CarryOp):
            raise VerifyException("loops.fold: the body must end in loops.carry")
        expected = [operand.type for operand in self.operands]
        for what, values in (
            ("arguments", self.carried),
            ("results", self.results),
            ("carried values", self.handed_on),
        ):
            found: list[Attribute] = [value.type for value in values]
            if found != expected:
                told = f"{', '.join(map(str, expected))}, not {', '.join(map(str, found))}"
                raise VerifyException(f"loops.fold: {what} are of the types it begins with, {told}")


class CarryOp(ValuesYieldOp):
    """Ends the body of a `loops.fold` and says what the next point begins with."""

    name = "loops.carry"

    def verify_(self) -> None:
        """Checks that it ends a fold."""
        if not isinstance(self.parent_op(), FoldOp):
            raise VerifyException("loops.carry stands at the end of a loops.fold")


__all__ = ["CarryOp", "FoldOp"]
