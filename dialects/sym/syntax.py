"""Reading and writing index expressions in xDSL's parser and printer.

Two forms: with bare names, `(d0, d1)[s0] -> (d0 * s0 + d1)`, as in `#sym.map`; and over SSA values,
`[%i * 64 + %j, s0 - 1]`, as in loads and stores, where the dimensions are the values in order of first appearance.

A trap of the MLIR lexer: `-` may be part of an SSA name, so `%i-1` is a value called `i-1`; write `%i - 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from cuesta.dialects.sym.expr import (
    Expr,
    Function,
    IndexExpr,
    ceildiv,
    dim,
    format_expr,
    is_symbol_name,
    maximum,
    minimum,
    substitute,
    symbol,
)
from cuesta.dialects.sym.map import MapAttr
from cuesta.dialects.sym.nodes import Dim

Names: TypeAlias = "Mapping[str, IndexExpr] | Callable[[str], IndexExpr | None]"
"""What a bare identifier means; one that is not there is a symbol."""

_T = TypeVar("_T", bound=Hashable)

_FUNCTIONS: dict[str, Callable[[IndexExpr, IndexExpr], IndexExpr]] = {"min": minimum, "max": maximum}
_NO_NAMES: Mapping[str, IndexExpr] = {}


def dim_names(name: str) -> IndexExpr | None:
    """The meaning of `d0`, `d1`, … where no list of dimensions is written."""
    return dim(int(name[1:])) if name[0] == "d" and name[1:].isdecimal() else None


def parse_expr(parser: AttrParser, names: Names | list[UnresolvedOperand]) -> IndexExpr:
    """One expression. `names` gives the bare identifiers their meaning.

    With a list of operands instead, the expression is over SSA values: a value that is not in the list yet is appended,
    and its position is its dimension. Several expressions may share one list.
    """
    if callable(names) or isinstance(names, Mapping):
        return _Reader(parser, names, None, []).sum()
    if not isinstance(parser, Parser):
        parser.raise_error("an SSA value cannot stand in an attribute")
    return _Reader(parser, _NO_NAMES, parser, names).sum()


def parse_size(parser: AttrParser) -> IndexExpr:
    """An expression over symbols alone: `4096`, `s0 * 4`."""
    return parse_expr(parser, _NO_NAMES)


def parse_indices(
    parser: Parser, open: str = "[", close: str = "]"
) -> tuple[list[UnresolvedOperand], tuple[IndexExpr, ...]]:
    """Reads `[%i * 64 + %j, s0 - 1]`: the distinct SSA values, and the expressions with value k as dimension k.

    The result is canonical (see `canonical_operands`).
    """
    operands: list[UnresolvedOperand] = []
    results: list[IndexExpr] = []
    parser.parse_characters(open)
    if parser.parse_optional_characters(close) is None:
        results.append(parse_expr(parser, operands))
        while parser.parse_optional_characters(",") is not None:
            results.append(parse_expr(parser, operands))
        parser.parse_characters(close)
    order, canonical = canonical_operands(range(len(operands)), results)
    return [operands[k] for k in order], canonical


def print_indices(
    printer: Printer, operands: Sequence[SSAValue], results: Sequence[IndexExpr], open: str = "[", close: str = "]"
) -> None:
    """Prints `[%i * 64 + %j, s0 - 1]`; what `parse_indices` reads."""
    printer.print_string(open)
    for position, result in enumerate(results):
        if position:
            printer.print_string(", ")
        print_expr(printer, operands, result)
    printer.print_string(close)


def print_expr(printer: Printer, operands: Sequence[SSAValue], e: IndexExpr) -> None:
    """Prints one expression, with operand k as dimension k."""
    if isinstance(e, int):
        printer.print_string(str(e))
        return
    # Format with marks and let the printer write the names, since it allots them as it prints.
    for position, piece in enumerate(format_expr(e, [f"\0{k}\0" for k in range(len(operands))]).split("\0")):
        if position % 2:
            printer.print_ssa_value(operands[int(piece)])
        elif piece:
            printer.print_string(piece)


def canonical_operands(
    operands: Sequence[_T], results: Sequence[IndexExpr]
) -> tuple[tuple[_T, ...], tuple[IndexExpr, ...]]:
    """The same indices with unused and repeated operands dropped, and dimensions numbered as they appear in the text.

    An op whose constructor calls this parses back to itself. Works on anything hashable in the place of operands.
    """
    operands, results = tuple(operands), tuple(results)
    if len(set(operands)) != len(operands):
        first: dict[_T, int] = {}
        for operand in operands:
            first.setdefault(operand, len(first))
        images = [dim(first[operand]) for operand in operands]
        operands, results = tuple(first), tuple([substitute(e, images) for e in results])
    order, canonical = _canonical(len(operands), results)
    return (operands if order is None else tuple([operands[k] for k in order])), canonical


@lru_cache(maxsize=4096)
def _canonical(count: int, results: tuple[IndexExpr, ...]) -> tuple[tuple[int, ...] | None, tuple[IndexExpr, ...]]:
    """The operands that are used, in the order that the text has them, unless that is all as they come."""
    # Renumbering can change the order of terms, and so the order of appearance. Each round makes the sequence of
    # dimensions in the text smaller, lexicographically, so this ends; nearly always after one look.
    used: tuple[int, ...] = tuple(range(count))
    while True:
        order = _order_of_appearance(results)
        if order == list(range(len(used))):
            return (None if used == tuple(range(count)) else used), results
        images = [dim(0)] * len(used)
        for position, k in enumerate(order):
            images[k] = dim(position)
        used, results = tuple([used[k] for k in order]), tuple([substitute(e, images) for e in results])


def _order_of_appearance(results: Sequence[IndexExpr]) -> list[int]:
    seen: dict[int, None] = {}

    def visit(e: IndexExpr) -> None:
        if isinstance(e, int) or e.dims <= seen.keys():
            return
        for monomial, _ in e.terms:
            for atom in monomial.atoms:
                if isinstance(atom, Dim):
                    seen.setdefault(atom.index)
                elif isinstance(atom, Function):
                    visit(atom.left)
                    visit(atom.right)

    for e in results:
        visit(e)
    return list(seen)


def parse_map(parser: AttrParser) -> MapAttr:
    """Reads `(d0, d1)[s0] -> (d0 * s0 + d1)`. Every name must be declared."""
    dims = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier, " in dimensions")
    names: dict[str, IndexExpr] = {name: dim(k) for k, name in enumerate(dims)}
    if parser.parse_optional_punctuation("["):
        for name in parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_identifier, " in symbols"):
            if name in names:
                parser.raise_error(f"'{name}' is declared twice")
            names[name] = _symbol_at(parser, name)
        parser.parse_punctuation("]")
    if len(names) < len(dims):
        parser.raise_error("a dimension is declared twice")
    parser.parse_punctuation("->")
    reader = _Reader(parser, names, None, [], declared_only=True)
    results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, reader.sum, " in results")
    return MapAttr.get(len(dims), results)


def print_map(printer: Printer, map: MapAttr) -> None:
    """Prints `(d0, d1)[s0] -> (d0 * s0 + d1)`; what `parse_map` reads."""
    printer.print_string(map.text)


def parse_text(text: str) -> IndexExpr:
    """The expression written in `text`, with dimensions `d0`, `d1`, … Errors: ParseError."""
    parser = Parser(Context(), text)
    e = parse_expr(parser, dim_names)
    if parser.pos != len(text):
        parser.raise_error("end of expression expected")
    return e


def _symbol_at(parser: AttrParser, name: str) -> Expr:
    if not is_symbol_name(name):
        parser.raise_error(f"'{name}' cannot name a symbol here")
    return symbol(name)


class _Reader:
    """A recursive-descent reader: `*`, `floordiv`, `ceildiv`, `mod` bind alike, to the left, tighter than `+`, `-`."""

    def __init__(
        self,
        parser: AttrParser,
        names: Names,
        operand_parser: Parser | None,
        operands: list[UnresolvedOperand],
        declared_only: bool = False,
    ):
        self.parser = parser
        self.names = names
        self.operand_parser = operand_parser
        self.operands = operands
        self.declared_only = declared_only

    def sum(self) -> IndexExpr:
        parser = self.parser
        value = self.product()
        while True:
            if parser.parse_optional_characters("+"):
                value = value + self.product()
            elif parser.parse_optional_characters("-"):
                value = value - self.product()
            else:
                return value

    def product(self) -> IndexExpr:
        parser = self.parser
        value = self.primary()
        while True:
            if parser.parse_optional_characters("*"):
                value = value * self.primary()
            elif parser.parse_optional_characters("floordiv"):
                value = value // self.divisor()
            elif parser.parse_optional_characters("mod"):
                value = value % self.divisor()
            elif parser.parse_optional_characters("ceildiv"):
                value = ceildiv(value, self.divisor())
            else:
                return value

    def divisor(self) -> IndexExpr:
        position = self.parser.pos
        value = self.primary()
        if value == 0:
            self.parser.raise_error("division by zero", position, self.parser.pos)
        return value

    def primary(self) -> IndexExpr:
        parser = self.parser
        if self.operand_parser is not None:
            operand = self.operand_parser.parse_optional_unresolved_operand()
            if operand is not None:
                return self.dim_of(operand)
        position = parser.pos
        name = parser.parse_optional_identifier()
        if name is not None:
            return self.named(name, position)
        if parser.parse_optional_characters("("):
            value = self.sum()
            parser.parse_characters(")")
            return value
        if parser.parse_optional_characters("-"):
            return -self.primary()
        number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        if number is None:
            parser.raise_error("index expression expected")
        return number

    def dim_of(self, operand: UnresolvedOperand) -> Expr:
        name = operand.operand_name
        for k, known in enumerate(self.operands):
            if known.operand_name == name and known.index == operand.index:
                return dim(k)
        self.operands.append(operand)
        return dim(len(self.operands) - 1)

    def named(self, name: str, position: int) -> IndexExpr:
        parser, names = self.parser, self.names
        meaning = names(name) if callable(names) else names.get(name)
        if meaning is not None:
            return meaning
        function = _FUNCTIONS.get(name)
        if function is not None:
            first, *rest = parser.parse_comma_separated_list(parser.Delimiter.PAREN, self.sum, f" in {name}") or [None]
            if first is None:
                parser.raise_error(f"{name} of nothing", position, parser.pos)
            for value in rest:
                assert value is not None
                first = function(first, value)
            return first
        if self.declared_only:
            parser.raise_error(f"'{name}' is not declared", position, position + len(name))
        if not is_symbol_name(name):
            parser.raise_error(f"'{name}' cannot name a symbol here", position, position + len(name))
        return symbol(name)
