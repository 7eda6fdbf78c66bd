"""What is put in the place of a view, `select_scatter` and its kin: of the view's size, as eager wants it.

PyTorch's fakes do not ask, so that a tensor of another size would be read beside its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def slice_scatter(
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | torch.SymInt | None = None,
    end: int | torch.SymInt | None = None,
    step: int | torch.SymInt = 1,
) -> Tensor:
    """Itself, where `src` has the size of the slice, and no elements of `self` lie on one another.

    Errors: eager's RuntimeError.
    """
    import torch

    within: Any = tuple(self.shape[dim : dim + 1] if dim >= 0 else self.shape[dim:][:1])
    numbers = (*within, *(bound for bound in (start, end) if bound is not None), step)
    if within and step > 0 and all(type(number) is int for number in numbers):
        expected: Sequence[Any] = list(self.shape)
        expected[dim] = len(range(within[0])[start:end:step])
    else:
        expected = torch.ops.aten.slice.Tensor(self, dim, start, end, step).shape
    _need_size(src, expected)
    whole = _with_a_place_each(self)
    return NotImplemented if whole is self else torch.ops.aten.slice_scatter.default(whole, src, dim, start, end, step)


def diagonal_scatter(self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Itself, where `src` has the size of the diagonal.

    Errors: eager's RuntimeError.
    """
    import torch

    _need_size(src, torch.ops.aten.diagonal.default(self, offset, dim1, dim2).shape)
    return NotImplemented


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A slice of one. PyTorch's own decomposition, a choice by comparison, would forget of which storage `self` is a
    part, broadcast what is inserted, and write nothing where there is no such place. Where only the data knows the
    place, or whether there is one, itself: eager looks.

    Errors: eager's IndexError and RuntimeError.
    """
    import torch
    from torch._prims_common import canonicalize_dim

    aten = torch.ops.aten
    if not self.dim():
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    place = canonicalize_dim(self.dim(), dim)
    size = self.shape[place]
    if is_only_known_to_data(index) or _may_be_beside(index, size):
        _need_size(src, [extent for axis, extent in enumerate(self.shape) if axis != place])
        whole = _with_a_place_each(self)
        return NotImplemented if whole is self else aten.select_scatter.default(whole, src, dim, index)
    if not -size <= index < size:
        sizes = list(self.shape)
        raise IndexError(f"select(): index {index} out of range for tensor of size {sizes} at dimension {place}")
    _need_size(src, [extent for axis, extent in enumerate(self.shape) if axis != place])
    start = index + size if index < 0 else index
    whole = _with_a_place_each(self)
    return aten.slice_scatter.default(whole, aten.unsqueeze.default(src, place), place, start, start + 1)


def is_only_known_to_data(number: int | torch.SymInt) -> bool:
    """Whether a number is one that Python does not know before a program runs."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return type(number) is not int and bool(free_unbacked_symbols(number))


def _may_be_beside(index: int | torch.SymInt, size: int | torch.SymInt) -> bool:
    """Whether the data may say of a place that it is not one of so many."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    is_there = statically_known_true(index < size) and statically_known_true(index >= -size)
    return is_only_known_to_data(size) and not is_there


def _with_a_place_each(self: Tensor) -> Tensor:
    """A tensor of whose elements none lie on one another: eager copies one of which some do (`clone_preserve_strides`).
    PyTorch's fake gives the result its strides all the same (torch 2.11), so that insertions would be read everywhere.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import guard_or_true

    if any(type(size) is int and size == 0 for size in self.shape):
        return self
    laid = zip(self.stride(), self.shape, strict=True)
    overlaps = any(type(stride) is int and stride == 0 and guard_or_true(size != 1) for stride, size in laid)
    return torch.ops.aten.clone.default(self) if overlaps else self


def _need_size(src: Tensor, expected: Sequence[Any]) -> None:
    found = list(src.shape)
    if len(found) != len(expected) or any(_differ(a, b) for a, b in zip(found, expected, strict=True)):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {found}, slice size = {list(expected)}"
        )


def _differ(size: Any, other: Any) -> bool:
    """Whether two sizes are unlike; where they are not, that is guarded. Of a size made of several symbols it is not
    guarded as an equation: PyTorch would put one of them in the place of another from here on (`s0 + s1 = 10`: `10 -
    s0` for `s1`), when it has counted already which sizes of a tensor subclass a graph gives back (torch 2.11, 2.13).
    """
    from torch.fx.experimental.symbolic_shapes import free_symbols, guard_or_false

    if all(len(free_symbols(one)) < 2 for one in (size, other)):
        return guard_or_false(size != other)
    return guard_or_false(size < other) or guard_or_false(size > other)


def of_aten() -> Mapping[Any, Any]:
    """The decompositions, by overload."""
    import torch

    aten = torch.ops.aten
    return {
        aten.diagonal_scatter.default: diagonal_scatter,
        aten.select_scatter.default: select_scatter,
        aten.slice_scatter.default: slice_scatter,
    }
