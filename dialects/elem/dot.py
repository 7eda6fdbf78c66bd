"""`elem.dot`: sums of a few products of narrow numbers, as processors add them up in one instruction."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import StringAttr, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.typed import property_of, verify_counts
from cuesta.dialects.core.value_syntax import print_values_of_type
from cuesta.dialects.elem.base import ElementwiseOp, scalar_of, with_scalar

PARTS: Mapping[str, tuple[int, Attribute]] = MappingProxyType({"bf16": (2, f32), "i8": (4, i32)})
"""By what the parts of a word are, how many it has, and the type of their sums."""


class DotOp(ElementwiseOp):
    """Σ a[e] · b[e] over the parts of two words of 32 bits, the first in the lowest bits.

    `bf16`: two numbers each; a sum of f32, which may be rounded in any order, with what it is added to as well, and
    where denormal numbers may count as 0. `i8`: four each, those of a without a sign and those of b with one; an i32,
    exact.
    """

    name = "elem.dot"

    @classmethod
    def build(cls, parts: str, a: SSAValue, b: SSAValue) -> DotOp:
        """The sum for two words, both i32, whose parts are `bf16` or `i8`."""
        result = with_scalar(a.type, PARTS[parts][1])
        return cls.create(operands=(a, b), result_types=(result,), properties={"parts": StringAttr(parts)})

    @property
    def parts(self) -> str:
        """What the parts of a word are: `bf16` or `i8`."""
        return property_of(self, "parts", StringAttr).data

    @classmethod
    def parse(cls, parser: Parser) -> DotOp:
        """Parses `bf16 of %a, %b : i32`."""
        position = parser.pos
        parts = parser.parse_identifier()
        if parts not in PARTS:
            parser.raise_error(f"elem.dot is of {' or '.join(PARTS)}, not of {parts}", position, parser.pos)
        parser.parse_keyword("of")
        first = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        second = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        return cls.build(parts, parser.resolve_operand(first, kind), parser.resolve_operand(second, kind))

    def print(self, printer: Printer) -> None:
        """Prints `bf16 of %a, %b : i32`."""
        printer.print_string(f" {self.parts} of")
        print_values_of_type(printer, self.operands, self.operands[0].type)

    def verify_(self) -> None:
        """Checks what the parts are, and the types."""
        verify_counts(self, operands=2, results=1)
        parts = property_of(self, "parts", StringAttr).data
        if parts not in PARTS:
            raise VerifyException(f"elem.dot is of {' or '.join(PARTS)}, not of {parts}")
        a, b = self.operands[0].type, self.operands[1].type
        if a != b or scalar_of(a) != i32 or self.results[0].type != with_scalar(a, PARTS[parts][1]):
            raise VerifyException(f"elem.dot {parts} is of words of i32, not {a} and {b} to {self.results[0].type}")


__all__ = ["PARTS", "DotOp"]
