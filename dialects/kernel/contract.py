"""`kernel.contract`: a sum of products along one axis, as matrix units compute it, and what its body yields."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    StringAttr,
    f32,
)
from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.bodies import parse_body
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.value_syntax import parse_types_of, print_types, print_values
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import Shape, shape_of_type, shaped
from cuesta.dialects.kernel.structure import LoopOp, parse_axes, print_axes

Eight: TypeAlias = Float8E4M3FNType | Float8E5M2Type
"""The floats of 8 bits that matrix units multiply, any with any."""
PRECISIONS = ("tf32", "bf16x6")
"""How matrix units, which do not multiply f32, take factors of that type:

* `tf32`: rounded to TF32, 10 bits of mantissa;
* `bf16x6`: each as the sum of three pieces of bf16, which it is exactly, x = x₁ + x₂ + x₃ with 8 bits each. Of the nine
  products of pieces the six that are not below 2⁻²⁴ of the whole are added up, a tile's in matrix units and from tile
  to tile in f32. As near to the true sum as a sum of products of f32 is.
"""


def contracted_shape(left: Shape, right: Shape, lanes: int) -> Shape | None:
    """(m, 1, k) and (1, n, k) give (m, n), and (m, 1, 1, k) and (1, 1, n, k) give (m, 1, n): the last axis is
    contracted, each factor varies along one other, and the columns are further in than the rows. None when the factors
    have other shapes.
    """
    around = len(left) - 1
    if around < 1 or len(right) != around + 1 or left[-1] != lanes or right[-1] != lanes:
        return None
    rows, columns = ([axis for axis in range(around) if shape[axis] > 1] for shape in (left, right))
    if len(rows) > 1 or len(columns) > 1 or (rows or [0])[0] >= (columns or [around - 1])[0]:
        return None
    if (rows and rows[0] == around - 1) or (columns and columns[0] == 0):
        return None
    return tuple(max(sizes) for sizes in zip(left[:-1], right[:-1], strict=True))


class ContractOp(LoopOp):
    """result[m, n] = Σ_k left[m, 1, k] · right[1, n, k], in f32; it stands in two lane loops, m and n.

    It may stand in more of them, also in those of a `kernel.reduce` or of another contraction: the left factor varies
    along one of them and the right one along one that is further in. It is the same as a `kernel.reduce sum` of the
    products, which are exact for f16, bf16 and floats of 8 bits. Factors of f32 are taken as its precision says, one of
    `PRECISIONS`; of floats of 8 bits the sum of `lanes` points may have 13 bits of mantissa.
    """

    name = "kernel.contract"
    traits: ClassVar = traits_def()

    @property
    def factors(self) -> tuple[SSAValue, SSAValue]:
        """What the body yields: left and right."""
        terminator = self.body.last_op
        assert isinstance(terminator, FactorsOp)
        left, right = terminator.operands
        return left, right

    @property
    def precision(self) -> str:
        """How factors of type f32 are taken, one of `PRECISIONS`; empty where nothing is said."""
        found = self.properties.get("precision")
        return found.data if isinstance(found, StringAttr) else ""

    @property
    def result(self) -> SSAValue:
        """The sums."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> ContractOp:
        """Parses `tf32 (%k = 0 to 4096 lanes 64 dim 2) { … kernel.factors %a, %b : … } : vector<64x128xf32>`."""
        precision = next((one for one in PRECISIONS if parser.parse_optional_keyword(one) is not None), "")
        arguments, used, properties = parse_axes(parser)
        region = parse_body(parser, arguments)
        parser.parse_punctuation(":")
        result = parser.parse_type()
        if precision:
            properties["precision"] = StringAttr(precision)
        return cls.create(operands=used, result_types=(result,), properties=properties, regions=[region])

    def print(self, printer: Printer) -> None:
        """Prints the axis, the body and the result's type."""
        printer.print_string(f" {self.precision}" if self.precision else "")
        printer.enter_scope()
        print_axes(printer, self)
        printer.exit_scope()
        printer.print_string(" : ")
        print_types(printer, self.results)

    def verify_(self) -> None:
        """Checks the loop, the factors and the result."""
        self.verify_loop()
        if len(self.induction_variables) != 1 or self.lanes == 1 or self.dim < 2:
            raise VerifyException("kernel.contract has one axis with lanes, in two loops with lanes or more")
        if not isinstance(self.body.last_op, FactorsOp):
            raise VerifyException("kernel.contract: the body must end in kernel.factors")
        left, right = (factor.type for factor in self.factors)
        scalar, other = scalar_of(left), scalar_of(right)
        eights = isinstance(scalar, Eight) and isinstance(other, Eight)
        if not eights and (scalar != other or not isinstance(scalar, BFloat16Type | Float16Type | Float32Type)):
            raise VerifyException(
                f"kernel.contract multiplies f16, bf16 or f32 of one type, or floats of 8 bits, not {left} and {right}"
            )
        if self.precision not in ("", *PRECISIONS) or (self.precision and not isinstance(scalar, Float32Type)):
            raise VerifyException(f"kernel.contract {self.precision}: only factors of f32 have one of {PRECISIONS}")
        shape = contracted_shape(shape_of_type(left), shape_of_type(right), self.lanes)
        if shape is None or len(shape) != self.dim:
            raise VerifyException(f"kernel.contract: factors of types {left} and {right} do not fit {self.lanes} lanes")
        if [result.type for result in self.results] != [shaped(f32, shape)]:
            raise VerifyException(f"kernel.contract gives {shaped(f32, shape)}")


class FactorsOp(PlainOperation):
    """Ends the body of a `kernel.contract` and gives the factors of `lanes` points."""

    name = "kernel.factors"
    traits = traits_def(IsTerminator())

    @classmethod
    def build(cls, left: SSAValue, right: SSAValue) -> FactorsOp:
        """Yields both factors."""
        return cls.create(operands=(left, right))

    @classmethod
    def parse(cls, parser: Parser) -> FactorsOp:
        """Parses `%a, %b : vector<64x1x32xbf16>, vector<1x128x32xbf16>`."""
        names = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        names.append(parser.parse_unresolved_operand())
        return cls.create(operands=parse_types_of(parser, names))

    def print(self, printer: Printer) -> None:
        """Prints both factors and their types."""
        print_values(printer, self.operands)

    def verify_(self) -> None:
        """Checks that it gives two values, at the end of a contraction."""
        if len(self.operands) != 2 or not isinstance(self.parent_op(), ContractOp):
            raise VerifyException("kernel.factors gives two values, at the end of a kernel.contract")


__all__ = ["ContractOp", "Eight", "FactorsOp", "contracted_shape"]
