"""The types of words: neighbours of 16 or 8 bits in memory, seen as integers of 32 bits."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i32

from cuesta.dialects.elem import bits_of
from cuesta.dialects.layout import device_of, sizes_of, strides_of, tensor_type


def words_type(kind: TensorType, axis: int) -> TensorType | str:
    """The type of a tensor's words along an axis; or why it has none."""
    sizes, strides = list(sizes_of(kind)), list(strides_of(kind))
    bits = bits_of(kind.element_type)
    if bits not in (8, 16):
        return f"its elements of type {kind.element_type} are no 8 or 16 bits"
    count = 32 // bits
    if not 0 <= axis < len(sizes) or strides[axis] != 1:
        return f"it has no axis {axis} along which elements are neighbours"
    if not all(isinstance(one, int) for one in (*sizes, *strides)):
        return "a size or a stride is known when it runs only"
    for place, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        assert isinstance(size, int) and isinstance(stride, int)
        if (size if place == axis else stride if size != 1 else 0) % count:
            return f"its {size} elements along axis {place}, {stride} apart, are no whole words"
        sizes[place] = size // count if place == axis else size
        strides[place] = 1 if place == axis else stride // count
    return tensor_type(sizes, i32, strides, device_of(kind))


def axis_of_words(kind: TensorType, words: TensorType) -> int | None:
    """The axis of a tensor along which `words` is the type of its words; None where it is not."""
    return next((axis for axis in range(len(sizes_of(kind))) if words_type(kind, axis) == words), None)


__all__ = ["axis_of_words", "words_type"]
