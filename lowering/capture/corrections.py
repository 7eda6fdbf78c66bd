"""Decompositions in the place of PyTorch's own, where those, or the metadata of the operator, are not as in eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch._ops import OpOverload


def take(self: Tensor, index: Tensor) -> Tensor:
    """PyTorch's ends in `self.reshape(-1)[index]`, which asks an index without dims for its number."""
    import torch

    return torch.ops.aten.index.Tensor(self.reshape(-1), [index])


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements of what `self` is as one row, whose places an index of any shape gives."""
    import torch

    if index.numel() != source.numel() or self.dtype != source.dtype or self.numel() == 0:
        return NotImplemented  # eager says what is wrong
    given, row = [index.reshape(-1)], self.reshape(-1)
    result = torch.ops.aten.index_put.default(row, given, source.reshape(-1), accumulate).reshape(self.shape)
    return result if self.is_contiguous() else torch.ops.aten.copy.default(torch.empty_like(self), result)


def vector_norm(
    self: Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The same of dims that are counted from the first: of torch 2.11 the metadata of a norm over a dim of one element
    that is counted from the last keep that dim.
    """
    if dim is None or all(one >= 0 for one in dim):
        return NotImplemented
    import torch

    dims = [one % max(self.ndim, 1) for one in dim]
    return torch.ops.aten.linalg_vector_norm.default(self, ord, dims, keepdim, dtype=dtype)


def select(self: Tensor, dim: int, index: int) -> Tensor:
    """The same of a place that there is. PyTorch's metadata do not ask (torch 2.11), and what lies beside the tensor
    would be read.

    Errors: eager's IndexError.
    """
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    sizes = list(self.shape)
    if sizes and -len(sizes) <= dim < len(sizes):
        size = sizes[dim]
        if guard_or_false(index >= size) or guard_or_false(index < -size):
            place = dim % len(sizes)
            raise IndexError(f"select(): index {index} out of range for tensor of size {sizes} at dimension {place}")
    return NotImplemented


def int_mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The same of matrices whose rows or columns lie one after the other: of others, as those of one column that is
    transposed or of windows, eager's library on a CPU gives what lay in memory (oneDNN, torch 2.13).
    """
    import torch

    given = (self, mat2)
    laid = [one if _lies_plainly(one) else one.clone(memory_format=torch.contiguous_format) for one in given]
    if self.ndim != 2 or mat2.ndim != 2 or all(one is other for one, other in zip(given, laid, strict=True)):
        return NotImplemented
    return torch.ops.aten._int_mm.default(*laid)


def _lies_plainly(matrix: Tensor) -> bool:
    """Whether the rows or the columns of a matrix are known to lie apart, each in one piece."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if matrix.ndim != 2:
        return True
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    in_rows = guard_or_false(right == 1) and guard_or_false(down >= columns)
    return in_rows or (guard_or_false(down == 1) and guard_or_false(right >= rows) and guard_or_false(right > 1))


def index_fill(self: Tensor, dim: int, index: Tensor, value: float | Tensor) -> Tensor:
    """PyTorch's of torch 2.11 copies in place where results do not lie as `self`: AOTAutograd refuses the graph."""
    import torch

    if self.ndim == 0 or index.ndim > 1 or isinstance(value, torch.Tensor):
        return NotImplemented
    shape = [*self.shape]
    shape[dim] = index.numel()
    filling = torch.ops.aten.full.default(shape, value, dtype=self.dtype, device=self.device)
    result = torch.ops.aten.index_copy.default(self.contiguous(), dim, index.reshape(-1), filling)
    if self.is_contiguous():
        return result
    return torch.ops.aten.copy.default(torch.empty_like(self), result)


def in_rows(overload: OpOverload) -> Callable[..., Any]:
    """The same of tensors that lie row-major, as do what eager draws for them, whatever they lie like, and its result.
    PyTorch's metadata say that the result lies as the first of them.
    """

    def decomposition(*arguments: Any, **named: Any) -> Any:
        import torch

        given = [one.contiguous() if isinstance(one, torch.Tensor) else one for one in arguments]
        if all(one is other for one, other in zip(arguments, given, strict=True)):
            return NotImplemented
        return overload(*given, **named)

    return decomposition


def row_major(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula whose result lies row-major, as eager's does whatever its arguments lie like."""

    def decomposition(*arguments: Any, **named: Any) -> Any:
        return formula(*arguments, **named).contiguous()

    return decomposition


def unless_eager_refuses(overload: OpOverload, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of what is given tensors of one type; of several, where eager takes those: else it is a call,
    and raises as in eager.
    """
    import torch
    from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

    def apply(*arguments: Any, **named: Any) -> Any:
        types = {one.dtype for one in arguments if isinstance(one, torch.Tensor)}
        if len(types) > 1:
            with _disable_current_modes():
                try:
                    overload(*(_without_elements(one) for one in arguments), **named)
                except RuntimeError:
                    return NotImplemented
        return formula(*arguments, **named)

    return apply


def _without_elements(value: Any) -> Any:
    import torch

    return torch.empty(0, dtype=value.dtype) if isinstance(value, torch.Tensor) else value


__all__ = ["in_rows", "index_fill", "put", "row_major", "select", "take", "unless_eager_refuses", "vector_norm"]
