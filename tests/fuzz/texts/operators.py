"""Operators that programs of the corpus call, as a user adds them: who runs their texts imports this first."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("cuesta_fuzz::bump", mutates_args=("cache",))
def bump(cache: Tensor, x: Tensor) -> None:
    """cache[:, 5:6] += x"""
    cache[:, 5:6].add_(x)


@torch.library.custom_op("cuesta_fuzz::bump_and_sum", mutates_args=("cache", "other"))
def bump_and_sum(cache: Tensor, other: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """cache[:, 5:6] += x and other *= 2; sums of both."""
    cache[:, 5:6].add_(x)
    other.mul_(2)
    return cache.sum(), other.sum()


@bump_and_sum.register_fake
def _(cache: Tensor, other: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cache.new_empty(()), other.new_empty(())
