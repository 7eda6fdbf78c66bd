"""Operators of a user's, for programs to call: with and without a gradient, that write, one of an unknown size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

library: Any = torch.library


@library.custom_op("fuzz::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    """2 · x."""
    return x * 2


@doubled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


doubled.register_autograd(lambda ctx, gradient: gradient * 2)


@library.custom_op("fuzz::sums", mutates_args=())
def sums(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of two tensors, which no gradient goes through."""
    return x.sum(), y.sum(0, keepdim=True)


@sums.register_fake
def _(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(), y.sum(0, keepdim=True)


@library.custom_op("fuzz::shift_", mutates_args=("x",))
def shift_(x: Tensor, by: float) -> None:
    """Adds a number in place."""
    x.add_(by)


@library.custom_op("fuzz::swap_", mutates_args=("x", "y"))
def swap_(x: Tensor, y: Tensor) -> Tensor:
    """Swaps what two tensors of one size hold, and gives their sum."""
    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError("what is swapped is of one size and type")
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x + y


@swap_.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)


@library.custom_op("fuzz::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    """The numbers above 0: how many, only the data knows."""
    return x[x > 0]


@positive.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


fuzz: Any = torch.ops.fuzz
"""These operators, as programs call them."""
