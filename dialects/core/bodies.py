"""Ops with a body: one region of one block. Its syntax, and the op that yields a value from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainBlock, PlainOperation
from cuesta.dialects.core.typed import string_property
from cuesta.dialects.core.value_syntax import parse_types_of, parse_value, print_values, print_values_of_type


class BodyOp(PlainOperation):
    """An op with one region of one block."""

    @property
    def body(self) -> Block:
        """The block."""
        block = self.regions[0]._first_block  # pyright: ignore[reportPrivateUsage]  # asked for all the time
        assert block is not None
        return block

    def verify_body(self) -> None:
        """Checks that there is one region of one block; before that `body` may not be asked for."""
        if len(self.regions) != 1 or len(self.regions[0].blocks) != 1:
            raise VerifyException(f"{self.name} needs one region of one block")


class FunctionOp(BodyOp):
    """A body with a name: `@name`, a signature, and the body. Subclasses print the signature."""

    @property
    def sym_name(self) -> str:
        """The name, by which launches and the driver refer to it."""
        return string_property(self, "sym_name")

    def print(self, printer: Printer) -> None:
        """Prints the name, the signature and the body."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.enter_scope()
        self.print_signature(printer)
        printer.print_region(self.regions[0], print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()

    def print_signature(self, printer: Printer) -> None:
        """Prints all that stands between the name and the body: the arguments first."""
        print_arguments(printer, self.body.args)
        printer.print_string(" ")


class ValueYieldOp(PlainOperation):
    """Ends a body and gives one value: `%v : f32`."""

    traits = traits_def(IsTerminator())

    @classmethod
    def build(cls, value: SSAValue) -> Self:
        """Yields `value`."""
        return cls.create(operands=(value,))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `%v : f32`."""
        return cls.create(operands=(parse_value(parser),))

    def print(self, printer: Printer) -> None:
        """Prints `%v : f32`."""
        print_values_of_type(printer, self.operands, self.operands[0].type)


class ValuesYieldOp(PlainOperation):
    """Ends a body and gives one value or several: `%a, %b : f32, i64`."""

    traits = traits_def(IsTerminator())

    @classmethod
    def build(cls, values: Sequence[SSAValue]) -> Self:
        """Gives these."""
        return cls.create(operands=values)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `%a, %b : f32, i64`."""
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        return cls.create(operands=parse_types_of(parser, names))

    def print(self, printer: Printer) -> None:
        """Prints `%a, %b : f32, i64`."""
        print_values(printer, self.operands)


def parse_body(parser: Parser, arguments: Sequence[Parser.Argument]) -> Region:
    """Parses `{ … }`, in which the arguments are known. An empty body has a block, too."""
    region = parser.parse_region(arguments)
    if not region.blocks:
        region.add_block(PlainBlock(arg_types=[argument.type for argument in arguments]))
    return region


def parse_arguments(parser: Parser) -> list[Parser.Argument]:
    """Parses `(%x : f32, %y : i64)`."""
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)


def print_arguments(printer: Printer, arguments: Sequence[BlockArgument]) -> None:
    """Prints `(%x: f32, %y: i64)`, without locations: xDSL's parser reads none there."""

    def print_argument(argument: BlockArgument) -> None:
        printer.print_ssa_value(argument)
        printer.print_string(": ")
        printer.print_attribute(argument.type)

    printer.print_string("(")
    printer.print_list(arguments, print_argument)
    printer.print_string(")")
