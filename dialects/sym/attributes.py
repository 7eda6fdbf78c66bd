"""The other attributes of the `sym` dialect, the type `!sym.int`, and the op `sym.value`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Data, Dialect, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, result_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cuesta.dialects.sym.expr import IndexExpr, format_expr, is_symbol_name
from cuesta.dialects.sym.map import MapAttr
from cuesta.dialects.sym.syntax import dim_names, parse_expr

Ranges = tuple[tuple[str, int | None, int | None], ...]


@irdl_attr_definition
class ExprAttr(Data[IndexExpr]):
    """`#sym.expr<s0 * 2 + 1>`: an index expression as an attribute."""

    name = "sym.expr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> IndexExpr:
        """Reads `<s0 * 2 + 1>`."""
        with parser.in_angle_brackets():
            return parse_expr(parser, dim_names)

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<s0 * 2 + 1>`."""
        printer.print_string(f"<{format_expr(self.data)}>")


@irdl_attr_definition
class IntType(Data[IndexExpr], TypeAttribute):
    """`!sym.int<s0 * 2>`: the type of an integer that is known to equal the expression."""

    name = "sym.int"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> IndexExpr:
        """Reads `<s0 * 2>`."""
        with parser.in_angle_brackets():
            return parse_expr(parser, {})

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<s0 * 2>`."""
        printer.print_string(f"<{format_expr(self.data)}>")


@irdl_attr_definition
class SymbolsAttr(Data[Ranges]):
    """`#sym.symbols<s0 in [2, 4096], s1 in [0, inf]>`: the symbols of a program, in order, with inclusive ranges."""

    name = "sym.symbols"

    @classmethod
    def get(cls, ranges: Mapping[str, tuple[int | None, int | None]]) -> SymbolsAttr:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The symbols in the mapping's order; None is an infinite end."""
        return cls(tuple([(name, low, high) for name, (low, high) in ranges.items()]))

    @property
    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """Each symbol's inclusive range, as `simplify` wants it."""
        return {name: (low, high) for name, low, high in self.data}

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols, in order."""
        return tuple([name for name, _, _ in self.data])

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Ranges:
        """Reads `<s0 in [2, 4096], s1 in [0, inf]>`."""

        def parse_range() -> tuple[str, int | None, int | None]:
            position = parser.pos
            name = parser.parse_identifier()
            if not is_symbol_name(name):
                parser.raise_error(f"'{name}' cannot name a symbol", position, parser.pos)
            parser.parse_keyword("in")
            with parser.in_square_brackets():
                low = _parse_end(parser, "-")
                parser.parse_punctuation(",")
                high = _parse_end(parser, "")
            return name, low, high

        ranges = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_range)
        if len({name for name, _, _ in ranges}) < len(ranges):
            parser.raise_error("a symbol is declared twice")
        return tuple(ranges)

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<s0 in [2, 4096], s1 in [0, inf]>`."""
        parts = [
            f"{name} in [{'-inf' if low is None else low}, {'inf' if high is None else high}]"
            for name, low, high in self.data
        ]
        printer.print_string(f"<{', '.join(parts)}>")


def _parse_end(parser: AttrParser, sign: str) -> int | None:
    negative = parser.parse_optional_characters("-") is not None
    if ("-" if negative else "") == sign and parser.parse_optional_keyword("inf"):
        return None
    number = parser.parse_integer(allow_boolean=False, allow_negative=False)
    return -number if negative else number


@irdl_op_definition
class ValueOp(IRDLOperation):
    """`%n = sym.value : !sym.int<s0 * 2>`: the value of an expression over symbols."""

    name = "sym.value"
    result = result_def(IntType)
    traits = traits_def(Pure())

    def __init__(self, e: IndexExpr):
        super().__init__(result_types=(IntType(e),))

    @property
    def expression(self) -> IndexExpr:
        """The expression, as the result's type says it."""
        return self.result.type.data

    @classmethod
    def parse(cls, parser: Parser) -> ValueOp:
        """Reads `: !sym.int<s0 * 2>`."""
        parser.parse_punctuation(":")
        position = parser.pos
        result_type = parser.parse_type()
        if not isinstance(result_type, IntType):
            parser.raise_error("sym.value gives a !sym.int", position, parser.pos)
        return cls.create(result_types=(result_type,))

    def print(self, printer: Printer) -> None:
        """Prints ` : !sym.int<s0 * 2>`."""
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)


SYM = Dialect("sym", [ValueOp], [MapAttr, ExprAttr, SymbolsAttr, IntType])
