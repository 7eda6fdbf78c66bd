"""Norms behind convolutions whose results lie channels last: their statistics are of columns."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("layers", "sizes"),
    [
        ((nn.Conv2d(8, 64, 3), nn.InstanceNorm2d(64)), (2, 8, 20, 20)),
        ((nn.Conv2d(8, 48, 3), nn.InstanceNorm2d(48)), (3, 8, 20, 20)),  # where a warp's columns end within an image
        ((nn.ConvTranspose3d(8, 64, 4, 2, 1), nn.LayerNorm(16), nn.GELU()), (2, 8, 4, 8, 8)),
    ],
    ids=["instance norm", "of 48 channels", "layer norm"],
)
def test_nothing_is_stored_for_statistics(layers: tuple[nn.Module, ...], sizes: tuple[int, ...]) -> None:
    model = nn.Sequential(*layers)
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    with torch.no_grad(), interpreted_cuda() as programs:
        assert_close_to_float64(compiled, model, [torch.randn(sizes)], gradients=False)
    kernels = texts_of(programs[0])
    assert len(kernels) == 3, "the input's layout; statistics; points, which transpose"
    assert_compiles(kernels)


class _Means(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(3, 16, 3), nn.GroupNorm(4, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(nn.functional.hardswish(self.conv(x))).mean((2, 3, 4))


def test_what_reads_a_norm_of_groups_computes_its_points() -> None:
    """They are as many as the channels, whatever the groups: they are not stored for a mean of them."""
    model = _Means()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    with torch.no_grad(), interpreted_cuda() as programs:
        assert_close_to_float64(compiled, model, [torch.randn(2, 3, 6, 10, 10)], gradients=False)
    kernels = texts_of(programs[0])
    assert len(kernels) == 3, "the input's layout; what is normalised, with its statistics; means"
    read = [name for kernel in kernels for name, _ in kernel.signature]
    assert read.count("convolution") == 2 and "div" not in read, "so little is computed again, and nothing of it stored"
    assert_compiles(kernels)
