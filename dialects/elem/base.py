"""What the ops of `elem` have in common: kinds of types, `ElementwiseOp`, and `TableOp`, which a row describes."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    StringAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import verify_counts
from cuesta.dialects.core.value_syntax import print_values_of_type
from cuesta.dialects.elem.table import Row

FLOATS = (Float32Type, Float64Type, BFloat16Type, Float16Type)
_STORED = (Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType, Float8E5M2FNUZType, Float8E8M0FNUType)


def scalar_of(value_type: Attribute) -> Attribute:
    """The element type of a vector, or the scalar type itself."""
    return cast("VectorType", value_type).element_type if isinstance(value_type, VectorType) else value_type


@lru_cache(maxsize=4096)
def with_scalar(value_type: Attribute, scalar: Attribute) -> Attribute:
    """`value_type` with its scalar type replaced: the shape of `value_type`, the element of `scalar`."""
    return VectorType(scalar, value_type.get_shape()) if isinstance(value_type, VectorType) else scalar


def bool_like(value_type: Attribute) -> Attribute:
    """i1, or the vector of i1 that has the shape of `value_type`."""
    return with_scalar(value_type, i1)


@lru_cache(maxsize=4096)
def kind_of(value_type: Attribute) -> str:
    """The operand kind of a type: `f`, `i`, `u`, `b`; `s` for floats of 8 bits, which are only moved and converted; `x`
    for index values; `?` for anything else.
    """
    scalar = scalar_of(value_type)
    if isinstance(scalar, _STORED):
        return "s"
    if isinstance(scalar, FLOATS):
        return "f"
    if isinstance(scalar, IndexType):
        return "x"
    if isinstance(scalar, IntegerType):
        if scalar.bitwidth == 1:
            return "b"
        if scalar.bitwidth not in (8, 16, 32, 64):
            return "?"
        return "u" if cast("IntegerType", scalar).signedness.data == Signedness.UNSIGNED else "i"
    return "?"


def width_of(scalar: Attribute) -> int | None:
    """The bits of an integer type, 1 for bools; None for other types."""
    return cast("IntegerType", scalar).bitwidth if isinstance(scalar, IntegerType) else None


class ElementwiseOp(PlainOperation):
    """A pure elementwise op with one result."""

    traits = traits_def(Pure())

    @property
    def result(self) -> SSAValue:
        """The value computed."""
        return self.results[0]


class TableOp(ElementwiseOp):
    """An op that a row of the table describes: operands of one type, a result of that type or its bool.

    With `precision`, the result may be as far off as the row's approximation for that type says. With `rounded`, eager
    rounds the result to that type before anybody uses it; this program need not, and what it means does not change.
    """

    row: ClassVar[Row]

    def __init_subclass__(cls, *, row: Row) -> None:
        cls.row = row
        cls.name = f"elem.{row.name}"

    @property
    def precision(self) -> str | None:
        """`bf16` or `f16`: the type for which the result is good enough; None when it is to be exact."""
        precision = self.properties.get("precision")
        return precision.data if isinstance(precision, StringAttr) else None

    @property
    def rounded(self) -> str | None:
        """`bf16` or `f16`, where eager rounds the result to that."""
        rounded = self.properties.get("rounded")
        return rounded.data if isinstance(rounded, StringAttr) else None

    @classmethod
    def parse(cls, parser: Parser) -> TableOp:
        """Parses `%a, %b : type rounded bf16 precision bf16`; both may be left out."""
        unresolved = [parser.parse_unresolved_operand()]
        while parser.parse_optional_punctuation(","):
            unresolved.append(parser.parse_unresolved_operand())
        parser.parse_punctuation(":")
        operand_type = parser.parse_type()
        operands = [parser.resolve_operand(operand, operand_type) for operand in unresolved]
        result = bool_like(operand_type) if cls.row.result == "bool" else operand_type
        properties: dict[str, Attribute] = {}
        for name in ("rounded", "precision"):
            if parser.parse_optional_keyword(name):
                properties[name] = StringAttr(parser.parse_identifier())
        return cls.create(operands=operands, result_types=(result,), properties=properties)

    def print(self, printer: Printer) -> None:
        """Prints `%a, %b : type rounded bf16 precision bf16`."""
        print_values_of_type(printer, self.operands, self.operands[0].type)
        if self.rounded is not None:
            printer.print_string(f" rounded {self.rounded}")
        if self.precision is not None:
            printer.print_string(f" precision {self.precision}")

    def verify_(self) -> None:
        """Checks the arity, the operand kind and the result type against the row."""
        verify_counts(self, operands=self.row.arity, results=1)
        row = self.row
        operands = self.operands
        operand_type = operands[0].type
        if any(operand.type != operand_type for operand in operands):
            raise VerifyException(
                f"{self.name} takes operands of one type, got {', '.join(str(o.type) for o in operands)}"
            )
        if kind_of(operand_type) not in row.kinds:
            raise VerifyException(f"{self.name} is not defined on {operand_type} (kinds: {row.kinds})")
        expected = bool_like(operand_type) if row.result == "bool" else operand_type
        if self.results[0].type != expected:
            raise VerifyException(f"{self.name} on {operand_type} gives {expected}, not {self.results[0].type}")
        if "precision" in self.properties:
            self._verify_precision()
        if "rounded" in self.properties and self.rounded not in ("bf16", "f16"):
            raise VerifyException(f"{self.name} is rounded to bf16 or f16, not to {self.properties['rounded']}")

    def _verify_precision(self) -> None:
        known = self.row.approximations
        if self.precision not in known:
            there_are = f"only for {', '.join(known)}" if known else "of no precision"
            raise VerifyException(f"{self.name} has approximations {there_are}, not {self.properties['precision']}")
        if not isinstance(scalar_of(self.operands[0].type), Float32Type):
            raise VerifyException(f"{self.name} has a precision on f32 only, not on {self.operands[0].type}")
