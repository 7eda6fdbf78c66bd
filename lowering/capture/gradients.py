"""Formulas of gradients that PyTorch has kernels for, and no decomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """The gradients of v and g in w = v · g / ‖v‖, the norm over all dims but one:
    dg = Σ dw · v / ‖v‖ and dv = g / ‖v‖ · (dw − v · Σ dw · v / ‖v‖²)

    Source: aten/src/ATen/native/cpu/WeightNormKernel.cpp, which adds up in f32 at least.
    """
    import torch

    halves = (torch.float16, torch.bfloat16)
    wide = torch.float32 if saved_v.dtype in halves else saved_v.dtype
    slope, v, g, norms = (one.to(wide) for one in (grad_w, saved_v, saved_g, saved_norms))
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (slope * v).sum(others, keepdim=True) if others else slope * v
    grad_v = g / norms * (slope - v * (along / (norms * norms)))
    return grad_v.to(saved_v.dtype), (along / norms).to(saved_g.dtype)


def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Sequence[int | torch.SymInt]) -> Tensor:
    """The gradient of the source of `masked_scatter`, of these sizes: the elements where the mask holds, one after the
    other in row-major order, and zeros after them.
    """
    import torch

    chosen = mask.expand_as(grad_output).reshape(-1)
    count = cast("int", math.prod(sizes))
    # Where nothing is chosen, to a place after the last; so are elements that the source did not have.
    places = torch.where(chosen, chosen.to(torch.int64).cumsum(0) - 1, count).clamp_max(count)
    found = grad_output.new_zeros([count + 1]).scatter(0, places, grad_output.reshape(-1))
    return found[:count].reshape(sizes)
