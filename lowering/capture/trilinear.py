"""`aten::_trilinear`, which `nn.Bilinear` calls, as a sum of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The sum over `sumdim` of the product, each with dims of size one at its `expand`: what `nn.Bilinear` calls.

    A dim that all three expand has no elements in eager, which loops over `unroll_dim` and sums over the others.
    """
    import torch
    from torch._prims_common import canonicalize_dims

    rank = i1.dim() + len(expand1)
    if not 0 <= unroll_dim < rank:
        raise RuntimeError(f"unroll_dim must be in [0,{rank - 1}]")
    expanded = [set(canonicalize_dims(rank, tuple(dims))) for dims in (expand1, expand2, expand3)]
    summed = set(canonicalize_dims(rank, tuple(sumdim)))
    tensors = [i1, i2, i3]
    for dim in range(rank):
        tensors = [x.unsqueeze(dim) if dim in own else x for x, own in zip(tensors, expanded, strict=True)]
    sizes: list[Any] = []
    for dim in range(rank):
        own = [x.shape[dim] for x, dims in zip(tensors, expanded, strict=True) if dim not in dims]
        nobody = not own and (dim == unroll_dim or dim not in summed)
        sizes.append(0 if nobody else own[-1] if own else 1)
    kept = [size for dim, size in enumerate(sizes) if dim not in summed]
    if any(type(size) is int and size == 0 for x in tensors for size in (*x.shape, *sizes)):
        return torch.ops.aten.new_zeros.default(i1, kept)
    product = tensors[0] * tensors[1] * tensors[2]
    return product.sum(sorted(summed), dtype=product.dtype) if summed else product


__all__ = ["trilinear"]
