"""`kernel.pick`: programs of one kernel that work on tensors of their own."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property, verify_counts
from cuesta.dialects.core.value_syntax import print_values_of_type
from cuesta.dialects.kernel.function import FuncOp
from cuesta.dialects.kernel.types import PointerType


class PickOp(PlainOperation):
    """One of the kernel's pointers: the one whose number is the program's coordinate along an axis of the grid.

    There is one for each coordinate, all of one type, all inputs or all outs.
    """

    name = "kernel.pick"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, axis: int, pointers: Sequence[SSAValue]) -> PickOp:
        """Of `pointers`, the one that the coordinate along `axis` says."""
        return cls.create(
            operands=pointers, result_types=(pointers[0].type,), properties={"axis": integer_attribute(axis)}
        )

    @property
    def axis(self) -> int:
        """The axis of the grid."""
        return integer_property(self, "axis")

    @property
    def result(self) -> SSAValue:
        """The pointer."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> PickOp:
        """Parses `0 of %x, %y : !kernel.ptr<f32>`."""
        axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("of")
        pointers = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        pointer = parser.parse_type()
        return cls.build(axis, parser.resolve_operands(pointers, [pointer] * len(pointers), parser.pos))

    def print(self, printer: Printer) -> None:
        """Prints the axis, the pointers and their type."""
        printer.print_string(f" {self.axis} of")
        print_values_of_type(printer, self.operands, self.result.type)

    def verify_(self) -> None:
        """Checks the pointers against each other, and their number against the grid."""
        verify_counts(self, operands=max(1, len(self.operands)), results=1)
        func = self.parent_op()
        if not isinstance(func, FuncOp):
            raise VerifyException("kernel.pick stands at the top of a kernel.func")
        grid = func.schedule.grid
        if not 0 <= self.axis < len(grid) or grid[self.axis] != len(self.operands):
            count = len(self.operands)
            raise VerifyException(f"kernel.pick {self.axis} has {count} pointers; the grid is {list(grid)}")
        if not isinstance(self.result.type, PointerType):
            raise VerifyException(f"kernel.pick gives a !kernel.ptr, not {self.result.type}")
        if any(pointer.type != self.result.type for pointer in self.operands):
            raise VerifyException("kernel.pick takes pointers of one type")
        if not (set(self.operands) <= set(func.inputs) or set(self.operands) <= set(func.outs)):
            raise VerifyException("kernel.pick takes inputs of the kernel, or outs of it")


def picked(pointer: SSAValue) -> tuple[SSAValue, ...]:
    """Which pointers a pointer may be."""
    return tuple(pointer.owner.operands) if isinstance(pointer.owner, PickOp) else (pointer,)
