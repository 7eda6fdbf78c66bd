"""Products of matrices that are given the type of their results, made of the others.

Torch has them on a GPU alone, and what it says of tensors without memory is an error for some (`addmm.dtype` in torch
2.11, `baddbmm.dtype` in 2.13 as well).

    mm.dtype(a, b, f32) = mm(f32(a), f32(b))
    addmm.dtype_out(m, a, b, f32, out = m): the same, written to m
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor


def _widened(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def wide(*given: Any, out_dtype: torch.dtype | None = None, out: Tensor | None = None, **scales: Any) -> Tensor:
        factors = [one for one in given if isinstance(one, Tensor)]
        dtype = next((one for one in given if isinstance(one, torch.dtype)), out_dtype)
        result = product(*(one.to(dtype) for one in factors), **scales)
        return result if out is None else out.copy_(result)

    return wide


_aten = torch.ops.aten
WIDE_PRODUCTS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(
    {
        "aten.mm.dtype": _widened(_aten.mm.default),
        "aten.bmm.dtype": _widened(_aten.bmm.default),
        "aten.addmm.dtype": _widened(_aten.addmm.default),
        "aten.baddbmm.dtype": _widened(_aten.baddbmm.default),
        "aten.addmm.dtype_out": _widened(_aten.addmm.default),
        "aten.baddbmm.dtype_out": _widened(_aten.baddbmm.default),
    }
)
"""By overload, a function with the same arguments."""
