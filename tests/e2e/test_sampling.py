"""Pooling, upsampling and padding with their gradients, compiled against eager and float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import cuesta
from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.lowering.aten.aten_to_loops import AtenToLoopsPass
from tests.support.differential import check, compiled_of
from tests.support.levels import capture
from tests.support.triton_interpreter import interpreted_cuda

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


WITH_SUITE = {
    *(("bilinear", "zeros", True), ("bilinear", "border", False), ("nearest", "reflection", True)),
    ("bicubic", "reflection", False),
}
"""Paddings and corners are the same question to all modes: every value of each, and of bicubic ones, which take five
seconds each, one; the others by `make test-thorough`. `tests/lowering/aten/test_grid_sampling.py` has all of them.
"""
OF_A_GRID = [
    pytest.param(*one, marks=() if one in WITH_SUITE else pytest.mark.thorough)
    for one in product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False))
]


@pytest.mark.parametrize(("mode", "padding", "corners"), OF_A_GRID)
def test_the_places_of_a_grid(mode: str, padding: str, corners: bool) -> None:
    """With gradients, which are a library's, and what stands around the sampling."""

    def function(image: Tensor, grid: Tensor) -> Tensor:
        sampled = functional.grid_sample(image * 2, grid, mode=mode, padding_mode=padding, align_corners=corners)
        return sampled * 0.5 + 1

    image, grid = torch.randn(2, 3, 9, 8, requires_grad=True), (torch.randn(2, 7, 6, 2) * 0.7).requires_grad_()
    check(function, image, grid)
    torch._dynamo.reset()  # or else sizes become symbols, with which torch takes seconds to take the call apart
    check(function, image.detach()[..., ::2], grid.detach().flip(2))
    compiled = compiled_of(function, dynamic=True)
    for size in (5, 6):  # laid out alike: one program
        there = grid.detach()[:, :size]
        torch.testing.assert_close(compiled(image.detach(), there), function(image.detach(), there))
    with interpreted_cuda():
        torch.testing.assert_close(compiled_of(function)(image.detach(), there), function(image.detach(), there))


def test_where_channels_lie_together_a_library_samples() -> None:
    """Unless the places are bicubic, on a processor; on a GPU never."""

    def function(image: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            functional.grid_sample(image, grid, mode=mode, align_corners=True) for mode in ("nearest", "bicubic")
        )

    image, grid = torch.randn(2, 3, 9, 8).to(memory_format=torch.channels_last), torch.randn(2, 7, 6, 2) * 0.7
    check(function, image, grid)
    (program,) = capture(function, image, grid)
    for module, left in ((program.module, 1), (on_cuda(program.module), 0)):
        AtenToLoopsPass().apply(make_context(), module)
        assert sum(isinstance(op, loops.ExternOp) for op in module.walk()) == left
