"""The two ways in which images lie: channels first, and channels last."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from cuesta.dialects.layout import (
    contiguous_strides,
    device_of,
    is_contiguous,
    is_tensor,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
)


def has_choice(value: SSAValue) -> bool:
    """Whether it is an image, channels first, that would lie otherwise channels last."""
    if not is_tensor(value) or not is_contiguous(value.type):
        return False
    sizes = sizes_of(value.type)
    return len(sizes) in (4, 5) and 0 not in sizes and sizes[1] != 1 and any(size != 1 for size in sizes[2:])


def is_last(value: SSAValue) -> bool:
    """Whether it is an image that is channels last, and would lie otherwise channels first."""
    if not is_tensor(value) or len(sizes_of(value.type)) not in (4, 5):
        return False
    kind = tensor_type_of(value)
    return not is_contiguous(kind) and strides_of(kind) == strides_of(channels_last(kind))


def channels_last(tensor: TensorType) -> TensorType:
    """The type of an image, channels last."""
    sizes = sizes_of(tensor)
    batch, *places, channel = contiguous_strides((sizes[0], *sizes[2:], sizes[1]))
    return tensor_type(sizes, tensor.element_type, (batch, channel, *places), device_of(tensor))


def channels_first(tensor: TensorType) -> TensorType:
    """The type of an image, channels first."""
    return tensor_type(sizes_of(tensor), tensor.element_type, device=device_of(tensor))


__all__ = ["channels_first", "channels_last", "has_choice", "is_last"]
