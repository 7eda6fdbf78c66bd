"""Tensor types with what MLIR's builtin type cannot say: symbolic sizes, strides, device.

All strides are in elements. A static integer is a Python int; a symbolic size or stride is a `sym.Expr`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, TensorType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.devices import DeviceTraits, traits_of_device
from cuesta.dialects.core.interning import Interned, Memo
from cuesta.dialects.sym.expr import IndexExpr, coefficient, dim, format_expr
from cuesta.dialects.sym.map import MapAttr
from cuesta.dialects.sym.simplify import SymbolRanges, simplify
from cuesta.dialects.sym.syntax import parse_size

LayoutData: TypeAlias = "tuple[tuple[IndexExpr, ...] | None, tuple[IndexExpr, ...] | None, str]"

_NONE = NoneAttr()
_HOST = "cpu"


@irdl_attr_definition
class LayoutAttr(Data[LayoutData]):
    """`#aten.layout<sizes = [s0, 256], strides = [1, s0], device = "cuda:0">`; fields only when they say something."""

    name = "aten.layout"

    @property
    def sizes(self) -> tuple[IndexExpr, ...] | None:
        """All sizes, when some are symbolic."""
        return self.data[0]

    @property
    def strides(self) -> tuple[IndexExpr, ...] | None:
        """All strides, in elements, when they are not `contiguous_strides`."""
        return self.data[1]

    @property
    def device(self) -> str:
        """As PyTorch writes it: `cpu`, `cuda:0`."""
        return self.data[2]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LayoutData:
        """Reads the fields, in order, between angle brackets."""
        sizes: tuple[IndexExpr, ...] | None = None
        strides: tuple[IndexExpr, ...] | None = None
        device = _HOST

        def parse_field() -> None:
            nonlocal sizes, strides, device
            position = parser.pos
            field = parser.parse_identifier()
            parser.parse_punctuation("=")
            if field == "sizes":
                sizes = _parse_list(parser)
            elif field == "strides":
                strides = _parse_list(parser)
            elif field == "device":
                device = parser.parse_str_literal()
            else:
                parser.raise_error(f"'{field}' is not one of sizes, strides, device", position, position + len(field))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        return sizes, strides, device

    def print_parameter(self, printer: Printer) -> None:
        """Prints what `parse_parameter` reads."""
        fields: list[str] = []
        if self.sizes is not None:
            fields.append(f"sizes = [{', '.join([format_expr(e) for e in self.sizes])}]")
        if self.strides is not None:
            fields.append(f"strides = [{', '.join([format_expr(e) for e in self.strides])}]")
        if self.device != _HOST:
            fields.append(f'device = "{self.device}"')
        printer.print_string(f"<{', '.join(fields)}>")


def _parse_list(parser: AttrParser) -> tuple[IndexExpr, ...]:
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_size(parser)))


_types = Interned[tuple[object, ...], TensorType]()


def tensor_type(
    sizes: Sequence[IndexExpr],
    dtype: Attribute,
    strides: Sequence[IndexExpr] | None = None,
    device: str = _HOST,
) -> TensorType:
    """The type of a tensor; equal arguments give one object. No strides means contiguous.

    The strides are kept exactly as given, also where they do not matter (sizes 0 and 1): graph outputs must have
    eager's.
    Errors: ValueError when there is not one stride per size.
    """
    sizes = tuple(sizes)
    if strides is not None:
        strides = tuple(strides)
        if len(strides) != len(sizes):
            raise ValueError(f"{len(sizes)} sizes but {len(strides)} strides")
    key = (sizes, dtype, strides, device)
    reference = _types.find(key)
    found = None if reference is None else reference()
    if found is None:
        if strides is not None and strides == contiguous_strides(sizes):
            found = tensor_type(sizes, dtype, None, device)
        else:
            symbolic = not all(isinstance(size, int) for size in sizes)
            plain = not symbolic and strides is None and device == _HOST
            encoding = _NONE if plain else LayoutAttr((sizes if symbolic else None, strides, device))
            shape = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
            found = TensorType(dtype, shape, encoding)
        found = _types.add(key, found)
    return found


def is_tensor_type(t: Attribute) -> TypeGuard[TensorType]:
    """Whether it is a tensor type. (A plain isinstance leaves the type checker with an unknown element type.)"""
    return isinstance(t, TensorType)


def is_tensor(value: SSAValue) -> TypeGuard[SSAValue[TensorType]]:
    """Whether the value is a tensor; a type checker then knows its type."""
    return isinstance(value.type, TensorType)


def tensor_type_of(value: SSAValue) -> TensorType:
    """The type of a tensor value. Errors: VerifyException when it has another type."""
    found: Any = value.type
    if type(found) is not TensorType:
        raise VerifyException(f"expected a tensor, got a value of type {found}")
    return found


def element_type_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value. Errors: as `tensor_type_of`."""
    return tensor_type_of(value).element_type


def _layout(t: TensorType) -> LayoutAttr | None:
    encoding = t.encoding
    return encoding if type(encoding) is LayoutAttr else None  # what it is not, an abstract class says slowly


_sizes = Memo[int, tuple[TensorType, tuple[IndexExpr, ...]]](50_000)
_strides = Memo[int, tuple[TensorType, tuple[IndexExpr, ...]]](50_000)
"""By the ids of the types, which stay taken as long as the types are held here."""


def sizes_of(t: TensorType) -> tuple[IndexExpr, ...]:
    """The sizes. Errors: ValueError when a size is dynamic and the layout does not name it."""
    known = _sizes.get(id(t))
    if known is not None:
        return known[1]
    found = _sizes_of(t)
    return _sizes.keep(id(t), (t, found))[1]


def _sizes_of(t: TensorType) -> tuple[IndexExpr, ...]:
    layout = _layout(t)
    if layout is not None and layout.sizes is not None:
        return layout.sizes
    shape = t.get_shape()
    if DYNAMIC_INDEX in shape:
        raise ValueError(f"{t} does not say what its dynamic sizes are")
    return shape


def strides_of(t: TensorType) -> tuple[IndexExpr, ...]:
    """The strides, in elements, also when the type leaves them out."""
    known = _strides.get(id(t))
    if known is not None:
        return known[1]
    layout = _layout(t)
    found = None if layout is None else layout.strides
    if found is None:
        found = contiguous_strides(sizes_of(t))
    return _strides.keep(id(t), (t, found))[1]


def device_of(t: TensorType) -> str:
    """The device, as PyTorch writes it."""
    layout = _layout(t)
    return _HOST if layout is None else layout.device


def traits_of(value: SSAValue) -> DeviceTraits:
    """What holds on the device that a tensor lies on. Errors: CuestaError when no target is for it."""
    return traits_of_device(device_of(tensor_type_of(value)))


def contiguous_strides(sizes: Sequence[IndexExpr]) -> tuple[IndexExpr, ...]:
    """PyTorch's row-major strides: a size of 0 counts as 1."""
    strides: list[IndexExpr] = []
    stride: IndexExpr = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride = stride * (max(size, 1) if isinstance(size, int) else size)
    return tuple(reversed(strides))


def is_contiguous(t: TensorType) -> bool:
    """Whether elements lie in row-major order without gaps. Strides of size-1 dimensions do not matter, nor do those of
    an empty tensor.
    """
    layout = _layout(t)
    if layout is None or layout.strides is None:
        return True
    sizes = sizes_of(t)
    if 0 in sizes:
        return True
    wanted = contiguous_strides(sizes)
    return all(size == 1 or a == b for size, a, b in zip(sizes, layout.strides, wanted, strict=True))


def element_count(t: TensorType) -> IndexExpr:
    """The number of elements."""
    count: IndexExpr = 1
    for size in sizes_of(t):
        count = count * size
    return count


def storage_size(t: TensorType) -> IndexExpr:
    """The number of elements from the first to the last in memory, both included.

    Requires: symbolic sizes are not 0.
    """
    sizes = sizes_of(t)
    if 0 in sizes:
        return 0
    last: IndexExpr = 0
    for size, stride in zip(sizes, strides_of(t), strict=True):
        last = last + (size - 1) * stride
    return last + 1


def strided_view(
    map: MapAttr,
    source: TensorType,
    result_sizes: Sequence[IndexExpr],
    symbol_ranges: SymbolRanges | None = None,
) -> tuple[tuple[IndexExpr, ...], IndexExpr] | None:
    """The strides and the offset of the view result[d] = source[map(d)], when it is one that strides can say.

    address(d) = Σ map_k(d) · stride_k must come out as offset + Σ c_k · d_k, without negative c, which PyTorch refuses.
    A dimension of size 1 has the stride 0 here.
    """
    if symbol_ranges:
        return _strided_view(map, source, result_sizes, symbol_ranges)
    key = id(map), id(source), tuple(result_sizes)
    known = _views.get(key)
    if known is None:
        known = _views.keep(key, (map, source, _strided_view(map, source, result_sizes, None)))
    return known[2]


_View: TypeAlias = "tuple[tuple[IndexExpr, ...], IndexExpr] | None"
_views = Memo[tuple[int, int, tuple[IndexExpr, ...]], tuple[MapAttr, TensorType, _View]](50_000)


def _strided_view(
    map: MapAttr, source: TensorType, result_sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None
) -> _View:
    address: IndexExpr = 0
    for index, stride in zip(map.results, strides_of(source), strict=True):
        address = address + index * stride
    # An index that is read is one of the source: neither has a dimension of size 0 where the other has a point.
    address = simplify(address, (*result_sizes, *sizes_of(source)), symbol_ranges)
    strides: list[IndexExpr] = []
    offset = address
    for k in range(map.num_dims):
        stride = coefficient(offset, k)
        if stride is None or _is_negative(stride):
            return None
        if stride != 0:
            offset = offset - dim(k) * stride
            strides.append(stride)
        else:
            strides.append(0)
    if not isinstance(offset, int) and offset.dims:
        return None
    if any(not isinstance(stride, int) and stride.dims for stride in strides):
        return None
    return tuple(strides), offset


def _is_negative(stride: IndexExpr) -> bool:
    if isinstance(stride, int):
        return stride < 0
    return stride.constant <= 0 and all(c < 0 for _, c in stride.terms)
