"""dtypes by name: PyTorch's names on one side, the element types of `tensor<…>` on the other. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.interning import Memo


@irdl_attr_definition
class DTypeType(ParametrizedAttribute, TypeAttribute):
    """`!aten.dtype<"float4_e2m1fn_x2">`: a dtype without a builtin type, which only eager ever touches."""

    name = "aten.dtype"
    dtype_name: StringAttr

    def verify(self) -> None:
        """A dtype that has a builtin type is written with it: there is one spelling per type."""
        if self.dtype_name.data in _TYPES:
            raise VerifyException(f"the dtype {self.dtype_name.data} is written {_TYPES[self.dtype_name.data]}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses `<"float4_e2m1fn_x2">`."""
        with parser.in_angle_brackets():
            return (StringAttr(parser.parse_str_literal()),)

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<"float4_e2m1fn_x2">`."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.dtype_name.data)


_TYPES: Final[dict[str, Attribute]] = {
    "bool": IntegerType(1),
    "int8": IntegerType(8),
    "int16": IntegerType(16),
    "int32": IntegerType(32),
    "int64": IntegerType(64),
    "uint8": IntegerType(8, Signedness.UNSIGNED),
    "uint16": IntegerType(16, Signedness.UNSIGNED),
    "uint32": IntegerType(32, Signedness.UNSIGNED),
    "uint64": IntegerType(64, Signedness.UNSIGNED),
    "float16": Float16Type(),
    "bfloat16": BFloat16Type(),
    "float32": Float32Type(),
    "float64": Float64Type(),
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e5m2": Float8E5M2Type(),
    "float8_e4m3fnuz": Float8E4M3FNUZType(),
    "float8_e5m2fnuz": Float8E5M2FNUZType(),
    "float8_e8m0fnu": Float8E8M0FNUType(),
    "complex64": ComplexType(Float32Type()),
    "complex128": ComplexType(Float64Type()),
}
_NAMES: Final[dict[Attribute, str]] = {element: name for name, element in _TYPES.items()}
_OTHERS: Final = Memo[str, Attribute](1000)


def dtype_to_type(name: str) -> Attribute:
    """The element type of a torch dtype, named without `torch.`: `f32` for `float32`; interned."""
    element = _TYPES.get(name) or _OTHERS.get(name)
    return _OTHERS.keep(name, DTypeType(StringAttr(name))) if element is None else element


def type_to_dtype(element: Attribute) -> str:
    """The torch dtype's name for an element type: `float32` for `f32`.

    Errors: ValueError for a type that no dtype has, such as `index` or `i7`.
    """
    if isinstance(element, DTypeType):
        return element.dtype_name.data
    name = _NAMES.get(element)
    if name is None:
        raise ValueError(f"no dtype has the element type {element}")
    return name


def has_builtin_type(name: str) -> bool:
    """Whether the dtype is one that our own code computes with, rather than one left to eager."""
    return name in _TYPES
