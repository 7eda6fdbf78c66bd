"""`loops.join`: a tensor whose parts are written each by itself."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property
from cuesta.dialects.core.value_syntax import parse_types_of, print_types
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of, tensor_type, tensor_type_of


class JoinOp(PlainOperation):
    """The tensor whose parts along an axis the operands are, one after the other. Nothing is computed: the operands are
    written where they belong in the result's memory.

    Requires: each operand is the result of a nest, for this op alone, with the strides of the result.
    """

    name = "loops.join"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, parts: Sequence[SSAValue], axis: int, result: TensorType) -> JoinOp:
        """Joins parts of these types (`part_type`)."""
        properties = {"axis": integer_attribute(axis)}
        return cls.create(operands=parts, result_types=(result,), properties=properties)

    @property
    def axis(self) -> int:
        """The axis along which the parts follow one another."""
        return integer_property(self, "axis")

    @property
    def result(self) -> SSAValue:
        """The whole."""
        return self.results[0]

    @property
    def offsets(self) -> list[sym.IndexExpr]:
        """Where each part begins in the whole. Units: elements."""
        stride = strides_of(tensor_type_of(self.result))[self.axis]
        found: list[sym.IndexExpr] = []
        first: sym.IndexExpr = 0
        for part in self.operands:
            found.append(first * stride)
            first = first + sizes_of(tensor_type_of(part))[self.axis]
        return found

    @classmethod
    def parse(cls, parser: Parser) -> JoinOp:
        """Parses `%h, %t along 0 : tensor<4x8xf32>, tensor<2x8xf32> to tensor<6x8xf32>`."""
        parts = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("along")
        axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        values = parse_types_of(parser, parts)
        parser.parse_keyword("to")
        result = parser.parse_type()
        return cls.create(operands=values, result_types=(result,), properties={"axis": integer_attribute(axis)})

    def print(self, printer: Printer) -> None:
        """Prints the parts, the axis and all types."""
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(f" along {self.axis} : ")
        print_types(printer, self.operands)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """Checks that the parts are together what the result is."""
        if len(self.results) != 1 or len(self.operands) < 2:
            raise VerifyException("loops.join makes a tensor of two parts or more")
        if not all(is_tensor_type(value.type) for value in (*self.operands, *self.results)):
            raise VerifyException("loops.join makes a tensor of tensors")
        whole, axis = tensor_type_of(self.result), self.axis
        if axis >= len(sizes_of(whole)):
            raise VerifyException(f"loops.join: {whole} has no axis {axis}")
        total: sym.IndexExpr = 0
        for part in self.operands:
            sizes = sizes_of(tensor_type_of(part))
            if len(sizes) <= axis or part.type != part_type(whole, axis, sizes[axis]):
                raise VerifyException(f"loops.join: {part.type} is no part of {whole} along axis {axis}")
            total = total + sizes[axis]
        if total != sizes_of(whole)[axis]:
            raise VerifyException(f"loops.join: the parts have {sym.format_expr(total)} of the elements along {axis}")


def part_type(whole: TensorType, axis: int, size: sym.IndexExpr) -> TensorType:
    """The type of a part of a tensor: other sizes, and the whole's strides."""
    sizes = list(sizes_of(whole))
    sizes[axis] = size
    return tensor_type(sizes, whole.element_type, strides_of(whole), device_of(whole))


__all__ = ["JoinOp", "part_type"]
