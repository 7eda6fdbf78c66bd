"""Pooling on a CUDA device, through Triton's interpreter: max pooling's index, and what is made of what is pooled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from cuesta.testing import assert_close_to_float64
from tests.e2e.test_pooling import MAX_POOL, image
from tests.support.triton_interpreter import interpreted_cuda
from tests.support.triton_kernels import assert_compiles, texts_of

pytestmark = pytest.mark.slow

pytest.importorskip("triton")


@pytest.mark.parametrize(
    ("rank", "window"),
    [
        (2, (3, 2, 1, 1)),
        pytest.param(1, (3, 2, 1, 2), marks=pytest.mark.slow),
        pytest.param(2, (3, 1, 1, 2), marks=pytest.mark.slow),
        pytest.param(2, (5, 1, 2, 1), marks=pytest.mark.slow),
        pytest.param(2, (7, 2, 3, 1), marks=pytest.mark.thorough),
        pytest.param(3, (3, 2, 1, 1), marks=pytest.mark.slow),
    ],
)
def test_of_several_nan_the_last_counts(rank: int, window: tuple[int, int, int, int]) -> None:
    x = image(rank, torch.float32)[:, 2:6].contiguous().requires_grad_()  # of the channels those with -inf and NaN too

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return MAX_POOL[rank](x, *window, return_indices=True)

    found: list[list[torch.Tensor]] = []
    with interpreted_cuda():
        for call in (torch.compile(pooled, backend="cuesta", fullgraph=True), pooled):
            values, index = call(x)
            weight = torch.arange(values.numel()).remainder(7).view_as(values).to(values.dtype)
            found.append([values, index, *torch.autograd.grad(values, x, weight)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("window", [(3, 2, 0), (3, 2, 1), (2, 2, 0)])
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_what_is_pooled_is_computed_in_the_windows(
    pool: Callable[..., torch.Tensor], window: tuple[int, int, int]
) -> None:
    """Also where windows overlap, or reach beyond the image, where nothing is what it would be made of."""

    def function(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return pool(torch.relu(x + bias), *window)

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    with interpreted_cuda() as programs:
        assert_close_to_float64(compiled, function, [torch.randn(2, 40, 11, 13), torch.ones(40, 1, 1)])
    kernels = texts_of(programs[0])
    assert len(kernels) == 1
    assert_compiles(kernels)
