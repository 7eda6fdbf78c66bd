"""Max pooling's index on a CUDA device, through Triton's interpreter: several NaN in a window, windows of -inf."""

from __future__ import annotations

import pytest
import torch

from tests.e2e.test_pooling import MAX_POOL, image
from tests.support.triton_interpreter import interpreted_cuda

pytestmark = pytest.mark.slow

pytest.importorskip("triton")


@pytest.mark.parametrize(
    ("rank", "window"),
    [
        (2, (3, 2, 1, 1)),
        pytest.param(1, (3, 2, 1, 2), marks=pytest.mark.slow),
        pytest.param(2, (3, 1, 1, 2), marks=pytest.mark.slow),
        pytest.param(2, (5, 1, 2, 1), marks=pytest.mark.slow),
        pytest.param(2, (7, 2, 3, 1), marks=pytest.mark.slow),
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
