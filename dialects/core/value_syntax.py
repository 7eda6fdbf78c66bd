"""The pieces of syntax that many ops share: values with their types, in four spellings.

%v : f32                    one value, or several of one type: `%a, %b : f32`
%a, %b : f32, i64           each value with its type
%a : f32 to bf16            a value, its type and the type of the result
@kernel(%a, %b)             a symbol and what it is given
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from cuesta.dialects.core.operation import PlainOperation


def parse_value(parser: Parser) -> SSAValue:
    """Parses `%v : f32`."""
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return parser.resolve_operand(operand, parser.parse_type())


def print_values_of_type(printer: Printer, values: Iterable[SSAValue], value_type: Attribute) -> None:
    """Prints ` %a, %b : f32`."""
    printer.print_string(" ")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_attribute(value_type)


def parse_types_of(parser: Parser, operands: Sequence[UnresolvedOperand]) -> Sequence[SSAValue]:
    """Parses ` : f32, i64`, and gives the operands these types."""
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return parser.resolve_operands(operands, types, parser.pos)


def print_types(printer: Printer, values: Iterable[SSAValue]) -> None:
    """Prints `f32, i64`, the types of the values."""
    printer.print_list(values, lambda value: printer.print_attribute(value.type))


def print_signature(printer: Printer, operands: Iterable[SSAValue], results: Iterable[SSAValue]) -> None:
    """Prints ` : (f32, i64) -> (f32)`."""
    printer.print_string(" : (")
    print_types(printer, operands)
    printer.print_string(") -> (")
    print_types(printer, results)
    printer.print_string(")")


def print_values(printer: Printer, values: Iterable[SSAValue]) -> None:
    """Prints ` %a, %b : f32, i64`."""
    printer.print_string(" ")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    print_types(printer, values)


def parse_from_to(parser: Parser, source: UnresolvedOperand) -> tuple[SSAValue, Attribute]:
    """Parses ` : f32 to bf16`: the source, and the type of the result."""
    parser.parse_punctuation(":")
    source_type = parser.parse_type()
    parser.parse_keyword("to")
    return parser.resolve_operand(source, source_type), parser.parse_type()


def print_from_to(printer: Printer, source: SSAValue, result: SSAValue) -> None:
    """Prints ` : f32 to bf16`."""
    printer.print_string(" : ")
    printer.print_attribute(source.type)
    printer.print_string(" to ")
    printer.print_attribute(result.type)


class FromToOp(PlainOperation):
    """An op that makes a value of another type of one value: `%a : f32 to bf16`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `%a : f32 to bf16`."""
        source, result_type = parse_from_to(parser, parser.parse_unresolved_operand())
        return cls.create(operands=(source,), result_types=(result_type,))

    def print(self, printer: Printer) -> None:
        """Prints `%a : f32 to bf16`."""
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        print_from_to(printer, self.operands[0], self.results[0])


def parse_symbol_and_operands(parser: Parser) -> tuple[str, list[UnresolvedOperand]]:
    """Parses `@kernel(%a, %b)`."""
    name = parser.parse_symbol_name().data
    return name, parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)


def print_symbol_and_operands(printer: Printer, name: str, operands: Iterable[SSAValue]) -> None:
    """Prints ` @kernel(%a, %b)`."""
    printer.print_string(" ")
    printer.print_symbol_name(name)
    printer.print_string("(")
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(")")
