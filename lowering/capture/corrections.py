"""Decompositions in the place of PyTorch's own, where those, or the metadata of the operator, are not as in eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def take(self: Tensor, index: Tensor) -> Tensor:
    """PyTorch's ends in `self.reshape(-1)[index]`, which asks an index without dims for its number."""
    import torch

    return torch.ops.aten.index.Tensor(self.reshape(-1), [index])


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


__all__ = ["take", "vector_norm"]
