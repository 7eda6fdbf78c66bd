"""Pooling, upsampling and padding with their gradients, compiled against eager and float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import cuesta
from tests.support.differential import check

pytestmark = pytest.mark.slow

INTERPOLATIONS: list[dict[str, Any]] = [
    {"scale_factor": 2.0},
    {"size": (9, 4), "mode": "nearest-exact"},
    {"scale_factor": 1.5, "mode": "bilinear"},
    {"size": (4, 11), "mode": "bilinear", "align_corners": True},
    {"size": (9, 8), "mode": "bicubic"},
]


@pytest.mark.parametrize("options", INTERPOLATIONS, ids=str)
def test_interpolation(options: dict[str, Any]) -> None:
    torch._dynamo.reset()  # or else sizes become symbols, for which some of these stay calls
    cuesta.clear_records()
    x = torch.randn(2, 3, 6, 7, requires_grad=True)
    check(lambda x: functional.interpolate(x * 2, **options).relu(), x)
    assert not any(record.fallbacks for record in cuesta.records)


def test_pooling() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = functional.avg_pool2d(x, 3, 2, 1) + functional.adaptive_avg_pool2d(x, (4, 4))
        return y.exp(), functional.adaptive_max_pool2d(x, (3, 5)), functional.max_pool2d(x, 2, 2, dilation=2)

    check(function, torch.randn(2, 3, 8, 8, requires_grad=True))


def test_pooling_of_volumes() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = functional.avg_pool3d(x, 3, 2, 1) + functional.adaptive_avg_pool3d(x, (3, 4, 3))
        return y.exp(), functional.adaptive_max_pool3d(x, (2, 5, 3)), functional.max_pool3d(x * 2, 2)

    check(function, torch.randn(2, 3, 5, 8, 6, requires_grad=True))
    assert not any(record.fallbacks for record in cuesta.records)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding(mode: str) -> None:
    torch._dynamo.reset()  # or else sizes become symbols, for which some of these stay calls
    cuesta.clear_records()
    check(lambda x: functional.pad(x * 2, (1, 2, 2, 0), mode=mode).exp(), torch.randn(2, 3, 5, 6, requires_grad=True))
    assert not any(record.fallbacks for record in cuesta.records)
