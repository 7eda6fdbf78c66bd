"""What the ops of `loops` and of `kernel` that touch elements have in common: index operands, masks, bounds.

The two levels differ in what is indexed (a tensor along its axes, or flat memory) and in lanes; each checks its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import property_of, verify_counts
from cuesta.dialects.elem import with_scalar
from cuesta.dialects.sym.syntax import parse_indices, parse_size, print_indices

INDEX = IndexType()


class IndexedOp(PlainOperation):
    """An op with a `map` property whose dims are some of its `index` operands."""

    first_index: int
    """The position of the first index operand."""
    most_rest = 0
    """How many operands may come after the indices."""
    result_count = 1
    """How many results there are."""

    @property
    def map(self) -> sym.MapAttr:
        """The map from the index operands (its dims) to what is read or written."""
        found = self.properties.get("map")
        if type(found) is sym.MapAttr:
            return found
        return property_of(self, "map", sym.MapAttr)

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The `index` operands, one per dim of the map."""
        return self.operand_values[self.first_index : self.first_index + self.map.num_dims]

    @property
    def rest(self) -> Sequence[SSAValue]:
        """The operands after the indices: the mask, and what stands in for masked elements."""
        return self.operand_values[self.first_index + self.map.num_dims :]

    def verify_dims(self) -> None:
        """Checks that there is an index operand for every dim of the map: the first thing to check."""
        least = self.first_index + self.map.num_dims
        verify_counts(self, operands=least, at_most=least + self.most_rest, results=self.result_count)

    def print_access(self, printer: Printer, accessed: Attribute) -> None:
        """Prints ` %v, %x[%i, %j + 1] if %c else %u : tensor<4x8xf32>`, as much of it as the op has operands."""
        printer.print_string(" ")
        printer.print_list(self.operands[: self.first_index], printer.print_ssa_value)
        print_indices(printer, self.indices, self.map.results)
        for word, value in zip((" if ", " else "), self.rest, strict=False):
            printer.print_string(word)
            printer.print_ssa_value(value)
        printer.print_string(" : ")
        printer.print_attribute(accessed)


class ElementReadOp(IndexedOp):
    """Reads memory at its indices. Masked: reads nothing where the mask is false, and gives `other` there."""

    traits = traits_def()
    first_index = 1
    most_rest = 2

    @property
    def result(self) -> SSAValue:
        """What is read."""
        return self.results[0]

    @property
    def mask(self) -> SSAValue | None:
        """Where it is false nothing is read."""
        rest = self.rest
        return rest[0] if rest else None

    @property
    def other(self) -> SSAValue | None:
        """The value where the mask is false."""
        return self.rest[1] if self.rest else None


class ElementWriteOp(IndexedOp):
    """Writes memory at its indices, where the mask, if it has one, is true."""

    traits = traits_def()
    first_index = 2
    most_rest = 1
    result_count = 0

    @property
    def value(self) -> SSAValue:
        """What is written."""
        return self.operand(0)

    @classmethod
    def build_write(
        cls,
        value: SSAValue,
        memory: SSAValue,
        place: Any,
        indices: Sequence[SSAValue],
        mask: SSAValue | None,
        properties: Mapping[str, Attribute],
        /,
    ) -> Self:
        """Writes `value` to `memory[place]`, where dim k of the place is `indices[k]`."""
        raise TypeError(f"{cls.name} does not say where it writes")

    @classmethod
    def parse_write(cls, parser: Parser, properties: Mapping[str, Attribute], /) -> Self:
        """Parses the value, the memory with its place, the mask and the type."""
        raise TypeError(f"{cls.name} does not say where it writes")

    @property
    def mask(self) -> SSAValue | None:
        """Where it is false nothing is written."""
        rest = self.rest
        return rest[0] if rest else None


class IndexValueOp(IndexedOp):
    """The value of one index expression, as data."""

    first_index = 0

    @property
    def result(self) -> SSAValue:
        """The integer, or integers."""
        return self.results[0]

    def print(self, printer: Printer) -> None:
        """Prints ` [%i * 2 + 1] : i64`."""
        self.print_access(printer, self.result.type)


class IndexBoundOp(PlainOperation):
    """An integer as an index: raises IndexError at run time when it is out of range.

    Without `wrap` the range is 0 ≤ v < size; with `wrap` it is −size ≤ v < size, and a negative v counts from the end.
    Where it is `checked`, another op of the program has checked this index before, or made it so that it is in range:
    it is not this one that raises.
    With `divisor`, the index is 0 unless an integer is divided by zero, and that is what the error says.
    """

    traits = traits_def()

    @classmethod
    def build(
        cls, value: SSAValue, size: sym.IndexExpr, *, wrap: bool = False, divisor: bool = False, checked: bool = False
    ) -> Self:
        """`value` as an index into an axis of `size`."""
        properties: dict[str, Attribute] = {"size": sym.MapAttr.get(0, (size,))}
        if checked:
            properties["checked"] = UnitAttr()
        if wrap:
            properties["wrap"] = UnitAttr()
        if divisor:
            properties["divisor"] = UnitAttr()
        return cls.create(operands=(value,), result_types=(with_scalar(value.type, INDEX),), properties=properties)

    @property
    def size(self) -> sym.IndexExpr:
        """The size of the axis indexed."""
        return property_of(self, "size", sym.MapAttr).results[0]

    @property
    def wrap(self) -> bool:
        """Whether negative values count from the end."""
        return "wrap" in self.properties

    @property
    def is_of_divisor(self) -> bool:
        """Whether it fails where an integer is divided by zero."""
        return "divisor" in self.properties

    @property
    def is_checked(self) -> bool:
        """Whether it cannot fail, because an equal check came before, or because of what made the number."""
        return "checked" in self.properties

    @property
    def result(self) -> SSAValue:
        """The index, or indices."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `%v, 128 wrap divisor checked : i64`; each of the words may be left out."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        size = parse_size(parser)
        wrap = parser.parse_optional_keyword("wrap") is not None
        divisor = parser.parse_optional_keyword("divisor") is not None
        is_checked = parser.parse_optional_keyword("checked") is not None
        parser.parse_punctuation(":")
        resolved = parser.resolve_operand(value, parser.parse_type())
        return cls.build(resolved, size, wrap=wrap, divisor=divisor, checked=is_checked)

    def print(self, printer: Printer) -> None:
        """Prints the value, the size, the words and the value's type."""
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        words = "".join(f" {word}" for word in ("wrap", "divisor", "checked") if word in self.properties)
        printer.print_string(f", {sym.format_expr(self.size)}{words} : ")
        printer.print_attribute(self.operands[0].type)

    def verify_bound(self) -> None:
        """Checks the number of operands and results, and the size."""
        verify_counts(self, operands=1, results=1)
        size = property_of(self, "size", sym.MapAttr)
        if size.num_dims or len(size.results) != 1:
            raise VerifyException(f"{self.name} needs one size, an expression over symbols")


@struct
class Element:
    """A place in memory as it is written, before types are known."""

    memory: UnresolvedOperand
    indices: list[UnresolvedOperand]
    results: tuple[sym.IndexExpr, ...]
    mask: UnresolvedOperand | None
    other: UnresolvedOperand | None


def parse_written(parser: Parser) -> tuple[UnresolvedOperand, Element]:
    """Parses `%v, %x[%i, %j + 1] if %c :`: the value, and the element as `parse_element` does."""
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    return value, parse_element(parser, with_other=False)


def parse_element(parser: Parser, *, with_other: bool) -> Element:
    """Parses `%x[%i, %j + 1] if %c else %v :`, up to the type; `else` only `with_other`."""
    memory = parser.parse_unresolved_operand()
    indices, results = parse_indices(parser)
    mask = other = None
    if parser.parse_optional_keyword("if"):
        mask = parser.parse_unresolved_operand()
        if with_other:
            parser.parse_keyword("else")
            other = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return Element(memory, indices, results, mask, other)
