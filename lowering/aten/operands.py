"""What a call's tensors and dims are: sizes, element types, normalized dims, and torch's type promotion."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerType,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import aten, sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import is_tensor_type, sizes_of
from cuesta.lowering.aten.builder import AtenCall, decline, is_integer
from cuesta.lowering.aten.scalar import Number

Sizes = tuple[sym.IndexExpr, ...]


def tensor_type_of(value: SSAValue) -> TensorType:
    """The type of a value that must be a tensor."""
    own = value.type
    if not is_tensor_type(own):
        decline(f"an operand of type {own} is not a tensor")
    return own


def sizes_of_value(value: SSAValue) -> Sizes:
    """The sizes of a tensor value."""
    return tuple(sizes_of(tensor_type_of(value)))


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return tensor_type_of(value).element_type


def normalize_dim(dim: int, rank: int) -> int:
    """A dim in [0, rank); torch counts the dims of a scalar as one."""
    return dim + max(rank, 1) if dim < 0 else dim


def normalize_dims(dims: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted dims in [0, rank); none given means all."""
    if not dims:
        return tuple(range(rank))
    return tuple(sorted({normalize_dim(dim, rank) for dim in dims} & set(range(rank))))


def dim_argument(op: AtenCall, name: str, rank: int) -> int:
    """A dim argument in [0, rank)."""
    return normalize_dim(op.integer(name), rank)


def optional_dims(op: AtenCall, name: str, rank: int) -> tuple[int, ...]:
    """A `dim` argument that may be absent, None, one dim or a list; normalized, empty and None mean all."""
    if not op.has_argument(name) or op.argument(name) is None:
        return tuple(range(rank))
    return normalize_dims(op.integers(name), rank)


def number_argument(op: AtenCall, name: str) -> Number:
    """A number argument: Python's, or symbolic."""
    value = op.argument(name)
    if not isinstance(value, bool | int | float | sym.Expr):
        decline(f"the argument {name} is not a real number")
    return value


def index_of_value(value: SSAValue) -> sym.IndexExpr | None:
    """The expression of a value of type `!sym.int`."""
    return value.type.data if isinstance(value.type, sym.IntType) else None


# -- type promotion ----------------------------------------------------------------------------------------------------


def promote(a: Attribute, b: Attribute) -> Attribute:
    """torch.promote_types."""
    if a == b:
        return a
    kinds = kind_of(a) + kind_of(b)
    if kinds[0] == "b":
        return b
    if kinds[1] == "b":
        return a
    if kinds == "ff":
        return _promote_floats(a, b)
    if "f" in kinds:
        return a if kinds[0] == "f" else b
    assert is_integer(a) and is_integer(b)
    if kinds in ("ii", "uu"):
        return a if a.width.data > b.width.data else b
    signed, unsigned = (a, b) if kinds == "iu" else (b, a)
    if unsigned.width.data != 8:
        decline(f"{a} and {b} have no common type in torch")
    return signed if signed.width.data > 8 else IntegerType(16)


def _promote_floats(a: Attribute, b: Attribute) -> Attribute:
    if isinstance(a, Float64Type) or isinstance(b, Float64Type):
        return a if isinstance(a, Float64Type) else b
    small = (Float16Type, BFloat16Type)
    if isinstance(a, small) and not isinstance(b, small):
        return b
    if isinstance(b, small) and not isinstance(a, small):
        return a
    return f32  # f16 and bf16


def _combine(higher: Attribute | None, lower: Attribute | None) -> Attribute | None:
    # Tensors with dims count first, then 0-d tensors, then numbers: a lower one decides only by a higher category.
    if higher is None or lower is None:
        return higher if lower is None else lower
    if kind_of(higher) == "f":
        return higher
    return promote(higher, lower) if kind_of(higher) == "b" or kind_of(lower) == "f" else higher


def number_type(value: Number) -> Attribute:
    """The type that a Python number counts as: the default dtype for a float."""
    if isinstance(value, bool):
        return i1
    return f32 if isinstance(value, float) else i64


def common_type(operands: Sequence[SSAValue | Number]) -> Attribute:
    """torch.result_type: the type in which the operands of a comparison meet."""
    with_dims: Attribute | None = None
    without: Attribute | None = None
    numbers: Attribute | None = None
    for operand in operands:
        if not isinstance(operand, SSAValue):
            element = number_type(operand)
            numbers = element if numbers is None else promote(numbers, element)
            continue
        tensor = tensor_type_of(operand)
        element = tensor.element_type
        if len(tensor.get_shape()):
            with_dims = element if with_dims is None else promote(with_dims, element)
        else:
            without = element if without is None else promote(without, element)
    result = _combine(with_dims, _combine(without, numbers))
    assert result is not None, "an operation without operands has no common type"
    return result


def argument_value(op: AtenCall, name: str) -> SSAValue | aten.Argument:
    """An argument, with the value in the place of an operand; a symbolic integer's value becomes its expression."""
    argument = op.argument(name)
    if isinstance(argument, aten.Operand):
        value = op.operands[argument.index]
        expression = index_of_value(value)
        return value if expression is None else expression
    return argument
