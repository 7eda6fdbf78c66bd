"""Variances of complex numbers: those of their real and of their imaginary parts, added.

Source: `std_var_out` of aten/src/ATen/native/ReduceOps.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Of variances; those of real numbers are left whole. (Deviations are PyTorch's roots of variances.)"""
    import torch

    aten = torch.ops.aten
    return {aten.var.correction: _variance, aten.var_mean.correction: _with_mean}


def _variance(self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    import torch

    if not self.is_complex():
        return NotImplemented
    parts = torch.view_as_real(self.resolve_conj())
    given = {"correction": correction, "keepdim": keepdim}
    return torch.ops.aten.var.correction(parts[..., 0], dim, **given) + torch.ops.aten.var.correction(
        parts[..., 1], dim, **given
    )


def _with_mean(
    self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    variance = _variance(self, dim, correction=correction, keepdim=keepdim)
    if variance is NotImplemented:
        return NotImplemented
    return variance, self.mean(list(range(self.dim())) if dim is None else dim, keepdim)


__all__ = ["decompositions"]
