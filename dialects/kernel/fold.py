"""`kernel.fold`: a loop whose points come in order and hand values on, and `kernel.carry`, which says what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import ValuesYieldOp, parse_arguments, parse_body, print_arguments
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.value_syntax import print_types
from cuesta.dialects.elem import kind_of
from cuesta.dialects.kernel.structure import LoopOp, parse_axes, print_head


class FoldOp(LoopOp):
    """Runs its body for the points of one axis, in order, and gives what the last of them carries.

    The first point is given the initial values, each later one what the one before it carries; without a point the
    results are the initial values. The axis has no lanes; what is carried may be vectors of the lanes around.
    """

    name = "kernel.fold"
    traits: ClassVar = traits_def()

    @property
    def bound_operands(self) -> Sequence[SSAValue]:
        """What the bounds are over; the initial values come after."""
        return self.operands[: len(self.operands) - len(self.results)]

    @property
    def initials(self) -> Sequence[SSAValue]:
        """The initial values."""
        return self.operands[len(self.operands) - len(self.results) :]

    @property
    def induction_variables(self) -> tuple[BlockArgument, ...]:
        """The axis."""
        return self.body.args[:1]

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """What a point is given."""
        return self.body.args[1:]

    @property
    def handed_on(self) -> Sequence[SSAValue]:
        """What a point carries to the next."""
        terminator = self.body.last_op
        assert isinstance(terminator, CarryOp)
        return terminator.operands

    @classmethod
    def build(
        cls,
        lower: sym.IndexExpr,
        upper: sym.IndexExpr,
        operands: Sequence[SSAValue],
        initials: Sequence[SSAValue],
    ) -> FoldOp:
        """A fold with an empty body, which must come to end in `kernel.carry` of values of the initial ones' types;
        dim k of the bounds is `operands[k]`.
        """
        used, properties = cls.loop_properties([lower], [upper], operands, 1)
        types = [value.type for value in initials]
        return cls.create(
            operands=[*used, *initials],
            result_types=types,
            properties=properties,
            regions=[Region(PlainBlock(arg_types=[*cls.variable_types(1, 1), *types]))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> FoldOp:
        """Parses `(%c = 0 to 4) from (%a) carries (%b : f32) { …; kernel.carry %d : f32 } : f32`."""
        axes, used, properties = parse_axes(parser)
        parser.parse_keyword("from")
        names: list[UnresolvedOperand] = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_keyword("carries")
        carried = parse_arguments(parser)
        if len(names) != len(carried):
            parser.raise_error(f"kernel.fold carries {len(carried)} values, from {len(names)}")
        initials = parser.resolve_operands(names, [one.type for one in carried], parser.pos)
        region = parse_body(parser, [*axes, *carried])
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(operands=[*used, *initials], result_types=types, properties=properties, regions=[region])

    def print(self, printer: Printer) -> None:
        """Prints the axis, the initial values, what is carried, the body and the results' types."""
        printer.enter_scope()
        print_head(printer, self)
        printer.print_string(" from (")
        printer.print_list(self.initials, printer.print_ssa_value)
        printer.print_string(") carries ")
        print_arguments(printer, self.carried)
        printer.print_string(" ")
        printer.print_region(self.regions[0], print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()
        printer.print_string(" : ")
        print_types(printer, self.results)

    def verify_(self) -> None:
        """Checks the loop, and that initial values, what is carried, and results have the same types."""
        if not self.results or len(self.operands) < len(self.results):
            raise VerifyException("kernel.fold carries a value at least, each from an initial one")
        if len(self.lowers.results) != 1 or self.lanes > 1:
            raise VerifyException("kernel.fold has one axis, without lanes: its points come in order")
        self.verify_loop()
        types: list[Attribute] = [result.type for result in self.results]
        if not isinstance(self.body.last_op, CarryOp):
            raise VerifyException("kernel.fold: the body must end in kernel.carry")
        for what, values in (
            ("begins with", self.initials),
            ("carries", self.carried),
            ("hands on", self.handed_on),
        ):
            if [value.type for value in values] != types:
                found = ", ".join(str(value.type) for value in values)
                raise VerifyException(f"kernel.fold gives {', '.join(map(str, types))}, but {what} {found}")
        if any(kind_of(one) not in "biuf" for one in types):
            raise VerifyException(f"kernel.fold carries numbers, not {', '.join(map(str, types))}")


class CarryOp(ValuesYieldOp):
    """Ends the body of a `kernel.fold`: what the next point is given, or else the results."""

    name = "kernel.carry"

    def verify_(self) -> None:
        """Checks that it ends a fold."""
        if not isinstance(self.parent_op(), FoldOp):
            raise VerifyException("kernel.carry stands at the end of a kernel.fold")


__all__ = ["CarryOp", "FoldOp"]
