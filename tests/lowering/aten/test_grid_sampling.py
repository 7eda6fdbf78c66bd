"""`grid_sampler_2d`, at the level `loops`, against torch."""

from __future__ import annotations

import pytest
import torch

aten = torch.ops.aten
MODES = [(interpolation, padding) for interpolation in range(3) for padding in range(3)]


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize(("interpolation", "padding"), MODES, ids=str)
def test_modes(lower, interpolation, padding, corners):
    """Places far beyond the border, too; of bf16 as f32 gives it, rounded once."""
    for size in ((2, 3, 5, 7), (1, 2, 1, 4), (1, 0, 3, 3), (0, 1, 3, 3)):
        image, grid = torch.randn(size), torch.randn(size[0], 3, 4, 2) * 1.5
        settings = interpolation, padding, corners
        lower.call("grid_sampler_2d.default", image, grid, *settings, rtol=1e-4, atol=1e-5)
        image = image.transpose(2, 3).contiguous().transpose(2, 3)
        lower.call("grid_sampler_2d.default", image.double(), grid.double().flip(1), *settings)
        half, there = image.bfloat16(), grid.bfloat16()
        expected = [aten.grid_sampler_2d(half.float(), there.float(), *settings).bfloat16()]
        lower.call("grid_sampler_2d.default", half, there, *settings, expected=expected)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize(("interpolation", "padding"), MODES, ids=str)
def test_borders_and_what_lies_beyond(lower, interpolation, padding, corners):
    """The border itself, halfway between two elements, and far away."""
    steps = torch.tensor([-1.0, -0.75, -0.5, 0.0, 0.25, 1.0, 1.25, -3.0, 1e3])
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None]
    lower.call("grid_sampler_2d.default", torch.randn(1, 1, 4, 4), grid, interpolation, padding, corners)


def test_symbolic_sizes_of_the_grid(lower):
    def function(image, grid):
        return aten.grid_sampler_2d(image, grid, 0, 0, False)

    lower(function, torch.randn(2, 3, 4, 5), torch.randn(2, 6, 7, 2), rtol=1e-4, atol=1e-5)
