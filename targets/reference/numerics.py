"""Types as torch sees them: dtypes, and memory laid out as a tensor type declares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import torch
from torch import Tensor
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute

from cuesta.dialects.aten.dtypes import type_to_dtype
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel import PointerType
from cuesta.dialects.layout import is_tensor_type

_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@cache
def dtype_named(name: str) -> torch.dtype:
    """The dtype of a torch name, such as `float32`."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


@lru_cache(maxsize=4096)
def dtype_of(value_type: Attribute) -> torch.dtype:
    """The dtype of a scalar type, or of the elements of a vector, tensor or pointer type."""
    if isinstance(value_type, PointerType) or is_tensor_type(value_type):
        return dtype_of(value_type.element_type)
    scalar = scalar_of(value_type)
    return torch.int64 if isinstance(scalar, IndexType) else dtype_named(type_to_dtype(scalar))


def as_tensor_type(value_type: Attribute) -> TensorType | None:
    """The type, if it is one of tensors."""
    return value_type if is_tensor_type(value_type) else None


@struct
class Numerics:
    """In which dtypes the program's values are held.

    `precise` holds every floating-point value in float64 and rounds nothing: the truth that results are measured by.
    """

    precise: bool = False

    def adjust(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype in which values of `dtype` are held."""
        if self.precise and dtype.is_complex:
            return torch.complex128
        return torch.float64 if self.precise and dtype.is_floating_point else dtype

    def dtype(self, value_type: Attribute) -> torch.dtype:
        """The dtype in which values of a type are held."""
        return self.adjust(dtype_of(value_type))

    def hold(self, tensor: Tensor) -> Tensor:
        """The tensor in the dtype in which its values are held, with its strides."""
        dtype = self.adjust(tensor.dtype)
        return tensor if dtype is tensor.dtype else restride(tensor.to(dtype), tuple(tensor.stride()))


def bits(tensor: Tensor) -> Tensor:
    """The same memory as integers that torch can index and compare: its wider unsigned dtypes, and floats of 8 bits,
    cannot.
    """
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        return tensor.view(torch.uint8)
    if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return tensor.view(_SIGNED[tensor.element_size()])
    return tensor


def words_of(tensor: Tensor, dtype: torch.dtype, axis: int, strides: Sequence[int]) -> Tensor:
    """The words of a tensor along an axis, of its numbers as `dtype` holds them, laid out with these strides: a copy,
    which is only read.
    """
    words = tensor.to(dtype).movedim(axis, -1).contiguous().view(torch.int32).movedim(-1, axis)
    return restride(words, strides)


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a tensor spans, from its first to its last."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two indices may name one element of memory (exact for a dense tensor, permuted and sliced)."""
    reached = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1):
        if stride < reached:
            return True
        reached = (size - 1) * stride + reached
    return False


def offsets_of(sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The position in memory of every element."""
    result = torch.zeros(tuple(sizes), dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        result += (torch.arange(size) * stride).reshape((size,) + (1,) * (len(sizes) - axis - 1))
    return result


def same_layout(tensor: Tensor, strides: Sequence[int]) -> bool:
    """Whether the tensor has these strides; strides of axes with one element do not matter."""
    if tensor.numel() == 0:
        return True
    return all(
        size <= 1 or ours == theirs for size, ours, theirs in zip(tensor.shape, tensor.stride(), strides, strict=True)
    )


def restride(tensor: Tensor, strides: Sequence[int]) -> Tensor:
    """The same values in memory of these strides; the tensor itself when it has them.

    Errors: ValueError when the strides let two elements that differ share memory.
    """
    if same_layout(tensor, strides):
        return tensor
    sizes = tuple(tensor.shape)
    memory = torch.empty(extent(sizes, strides), dtype=tensor.dtype)
    result = memory.as_strided(sizes, tuple(strides))
    if not overlaps(sizes, strides):
        result.copy_(tensor)
        return result
    bits(memory)[offsets_of(sizes, strides).reshape(-1)] = bits(tensor).reshape(-1)
    if not torch.equal(torch.nan_to_num(result), torch.nan_to_num(tensor)):
        raise ValueError(f"elements that differ share memory under the strides {list(strides)}")
    return result


def first_point(condition: Tensor) -> tuple[int, ...]:
    """The indices of the first element that is true. Requires: there is one."""
    return tuple(int(index) for index in condition.nonzero()[0])


def flat(tensor: Tensor) -> Tensor:
    """The memory a tensor spans, from the element with index 0 on, as a pointer to it sees it."""
    return tensor.as_strided((extent(tuple(tensor.shape), tensor.stride()),), (1,), tensor.storage_offset())
