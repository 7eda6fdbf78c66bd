"""What the generated wrapper says of tensors and of places, as text."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import Operation

from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.locations import format_location, location_of
from cuesta.dialects.layout import device_of, sizes_of, strides_of
from cuesta.targets.host.python_text import tuple_text


def metadata_check(name: str, kind: TensorType, operator: str) -> str:
    """The statement that holds what an operator gave to what was promised."""
    dtype = dtypes.type_to_dtype(kind.element_type)
    return f"check_metadata({name}, {tuple_text(sizes_of(kind))}, torch.{dtype}, {device_of(kind)!r}, {operator!r})"


def layout_text(kind: TensorType) -> str:
    """Sizes, strides, dtype and device, as `check_result` takes them."""
    sizes, strides = tuple_text(sizes_of(kind)), tuple_text(strides_of(kind))
    return f"{sizes}, {strides}, torch.{dtypes.type_to_dtype(kind.element_type)}, {device_of(kind)!r}"


def place_of(op: Operation) -> str:
    """The line of the text that an op stands on."""
    return format_location(location_of(op))


def is_complex(kind: TensorType) -> bool:
    """Whether a tensor has complex numbers."""
    return isinstance(kind.element_type, ComplexType)


def allocator_of(device: str) -> str:
    """The wrapper's name for the function that makes tensors on a device: `empty_cuda_1`."""
    return f"empty_{device.replace(':', '_')}"


__all__ = ["allocator_of", "is_complex", "layout_text", "metadata_check", "place_of"]
