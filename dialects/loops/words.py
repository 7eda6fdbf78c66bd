"""`loops.words`: neighbours of 16 or 8 bits, seen as words of 32 bits."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property, verify_counts
from cuesta.dialects.core.value_syntax import parse_from_to, print_from_to
from cuesta.dialects.layout import is_tensor_type, tensor_type_of
from cuesta.dialects.word_types import words_type


class WordsOp(PlainOperation):
    """A tensor's own memory as words of i32, each of the neighbours along an axis in which they lie side by side, the
    first in the lowest bits. It is only read.

    Requires: along the axis the stride is 1 and the size so many whole words; other strides are whole words as well.
    """

    name = "loops.words"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, source: SSAValue, axis: int) -> WordsOp:
        """The words of `source` along an axis. Errors: ValueError where it has none (`words_type`)."""
        found = words_type(tensor_type_of(source), axis)
        if isinstance(found, str):
            raise ValueError(found)
        return cls.create(operands=(source,), result_types=(found,), properties={"axis": integer_attribute(axis)})

    @property
    def axis(self) -> int:
        """The axis along which elements are put together."""
        return integer_property(self, "axis")

    @property
    def source(self) -> SSAValue:
        """The tensor whose memory it is."""
        return self.operand(0)

    @property
    def result(self) -> SSAValue:
        """The words."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> WordsOp:
        """Parses `%x along 1 : tensor<4x8xbf16> to tensor<4x4xi32>`."""
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("along")
        axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        value, result = parse_from_to(parser, source)
        return cls.create(operands=(value,), result_types=(result,), properties={"axis": integer_attribute(axis)})

    def print(self, printer: Printer) -> None:
        """Prints the source, the axis and both types."""
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" along {self.axis}")
        print_from_to(printer, self.source, self.result)

    def verify_(self) -> None:
        """Checks that the source has such words, and that the result's type is theirs."""
        verify_counts(self, operands=1, results=1)
        source = self.operands[0].type
        if not is_tensor_type(source):
            raise VerifyException("loops.words makes a tensor of a tensor")
        found = words_type(source, integer_property(self, "axis"))
        if isinstance(found, str):
            raise VerifyException(f"loops.words: {found}")
        if self.results[0].type != found:
            raise VerifyException(f"loops.words of {source} is {found}, not {self.results[0].type}")


__all__ = ["WordsOp"]
