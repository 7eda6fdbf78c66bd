"""Pooling whose windows differ in size, upsampling, and their derivatives, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16]


def rounded_once(function: Callable[..., torch.Tensor], *arguments: Any) -> list[torch.Tensor]:
    """What eager gives, but of bf16 computed in f32: eager rounds the weights, and every sum of two."""
    dtype = arguments[0].dtype
    wide = [a.float() if isinstance(a, torch.Tensor) and dtype is torch.bfloat16 else a for a in arguments]
    return [function(*wide).to(dtype)]


@pytest.mark.parametrize("sizes", [(4, 6), (3, 5), (1, 1), (7, 9), (5, 12), (13, 20)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_adaptive_pooling(lower, sizes, dtype):
    x, gradient = torch.randn(2, 3, 8, 12).to(dtype), torch.randn(2, 3, *sizes).to(dtype)
    lower.call("_adaptive_avg_pool2d.default", x, sizes, expected=rounded_once(aten._adaptive_avg_pool2d, x, sizes))
    expected = rounded_once(aten._adaptive_avg_pool2d_backward, gradient, x)
    lower.call("_adaptive_avg_pool2d_backward.default", gradient, x, expected=expected)
    lower.call("adaptive_max_pool2d.default", x, sizes)
    _, indices = torch.ops.aten.adaptive_max_pool2d(x, sizes)
    expected = rounded_once(lambda gradient, x: aten.adaptive_max_pool2d_backward(gradient, x, indices), gradient, x)
    lower.call("adaptive_max_pool2d_backward.default", gradient, x, indices, expected=expected)


def test_adaptive_pooling_of_infinities(lower):
    x = torch.full((1, 5, 5), -torch.inf)
    x[0, 4, 4] = torch.nan
    lower.call("adaptive_max_pool2d.default", x, (3, 3))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include_padding", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 3), (1, 1)), ((3, 3), (1, 1), (1, 0)), ((2, 3), (3, 4), (0, 1))],
    ids=str,
)
def test_average_pooling_backward(lower, kernel, stride, padding, include_padding, ceil_mode):
    x = torch.randn(2, 3, 8, 9)
    arguments = (kernel, stride, padding, ceil_mode, include_padding)
    y = torch.nn.functional.avg_pool2d(x, *arguments)
    for divisor in (None, 3):
        lower.call("avg_pool2d_backward.default", torch.randn(y.shape), x, *arguments, divisor)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((2, 2, 2), (2, 2, 2), (0, 0, 0)), ((3, 2, 1), (2, 3, 1), (1, 1, 0)), ([3], [], [1])],
    ids=str,
)
def test_pooling_of_volumes(lower, kernel, stride, padding):
    x = torch.randn(2, 3, 6, 7, 5)
    average = (kernel, stride, padding, True, False, None)
    lower.call("avg_pool3d.default", x, *average)
    lower.call("avg_pool3d_backward.default", torch.randn(aten.avg_pool3d(x, *average).shape), x, *average)
    for dilation in ([1], [2]):
        maximum = (kernel, stride, padding, dilation, False)
        lower.call("max_pool3d_with_indices.default", x, *maximum)
        y, indices = aten.max_pool3d_with_indices(x, *maximum)
        lower.call("max_pool3d_with_indices_backward.default", torch.randn(y.shape), x, *maximum, indices)


@pytest.mark.parametrize("sizes", [(3, 7, 5), (1, 1, 1), (4, 5, 2)], ids=str)
def test_adaptive_pooling_of_volumes(lower, sizes):
    x, gradient = torch.randn(2, 3, 6, 7, 5), torch.randn(2, 3, *sizes)
    lower.call("_adaptive_avg_pool3d.default", x, sizes)
    lower.call("_adaptive_avg_pool3d_backward.default", gradient, x)
    lower.call("adaptive_max_pool3d.default", x, sizes)
    lower.call("adaptive_max_pool3d_backward.default", gradient, x, aten.adaptive_max_pool3d(x, sizes)[1])


def test_dilated_max_pooling_backward(lower):
    x = torch.randn(2, 7, 8)
    arguments = ((2, 2), (2, 1), (1, 0), (2, 3), False)
    y, indices = torch.ops.aten.max_pool2d_with_indices(x, *arguments)
    lower.call("max_pool2d_with_indices_backward.default", torch.randn(y.shape), x, *arguments, indices)


SIZES = [(8, 10), (12, 15), (5, 7), (2, 3), (4, 5), (9, 11), (1, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["upsample_nearest2d", "_upsample_nearest_exact2d"])
def test_nearest(lower, name, sizes):
    for dtype in (torch.float32, torch.uint8):
        lower.call(f"{name}.default", (torch.randn(2, 3, 4, 5) * 9).abs().to(dtype), sizes)
    lower.call(f"{name}_backward.default", torch.randn(2, 3, *sizes), sizes, (2, 3, 4, 5))


@pytest.mark.parametrize("scale", [2.0, 1.5, 0.7, 3.3])
def test_nearest_of_a_scale(lower, scale):
    x = torch.randn(1, 2, 7, 9)
    sizes = (int(7 * scale), int(9 * scale))
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        lower.call(f"{name}.default", x, sizes, scale, scale)
        lower.call(f"{name}_backward.default", torch.randn(1, 2, *sizes), sizes, x.shape, scale, scale)


def test_nearest_of_other_ranks(lower):
    lower.call("upsample_nearest1d.default", torch.randn(2, 3, 5), [15])
    lower.call("upsample_nearest3d.default", torch.randn(1, 2, 2, 3, 4), [4, 3, 9])
    lower.call("upsample_nearest3d_backward.default", torch.randn(1, 2, 4, 6, 8), [4, 6, 8], [1, 2, 2, 3, 4])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["upsample_bilinear2d", "upsample_bicubic2d"])
def test_interpolation(lower, name, sizes, corners):
    for dtype in FLOATS:
        x = torch.randn(2, 3, 4, 5).to(dtype)
        lower.call(f"{name}.default", x, sizes, corners, expected=rounded_once(getattr(aten, name), x, sizes, corners))
    lower.call(f"{name}_backward.default", torch.randn(2, 3, *sizes), sizes, (2, 3, 4, 5), corners)


def test_interpolation_of_other_ranks_and_scales(lower):
    lower.call("upsample_linear1d.default", torch.randn(2, 3, 5), [13], False)
    lower.call("upsample_trilinear3d.default", torch.randn(1, 2, 2, 3, 4), [5, 3, 7], True)
    lower.call("upsample_trilinear3d_backward.default", torch.randn(1, 1, 3, 4, 5), [3, 4, 5], [1, 1, 2, 3, 4], False)
    lower.call("upsample_bilinear2d.default", torch.randn(1, 2, 7, 9), (12, 15), False, 1.75, 1.75)


def test_what_is_left_to_eager(lower):
    x = torch.randint(0, 255, (1, 2, 4, 4), dtype=torch.uint8)
    lower.call("upsample_bilinear2d.default", x, (7, 7), False, externs=("aten.upsample_bilinear2d.default",))


@pytest.mark.parametrize("name", ["reflection", "replication"])
def test_padding(lower, name):
    for rank, pad in ((1, (2, 3)), (2, (1, 0, 2, 3)), (3, (1, 2, 0, 1, 2, 0)), (2, (-1, 2, 1, -2))):
        x = torch.randn(2, *(5, 6, 4)[:rank])
        if name == "replication" or min(pad) >= 0:
            lower.call(f"{name}_pad{rank}d.default", x, pad)
    lower.call(f"{name}_pad2d.default", torch.randint(0, 9, (2, 1, 5, 5)), (1, 1, 1, 1))


@pytest.mark.parametrize("name", ["reflection", "replication"])
def test_padding_backward(lower, name):
    for rank, pad in ((1, (2, 3)), (2, (1, 0, 2, 3)), (3, (1, 2, 0, 1, 2, 0))):
        x = torch.randn(1, 2, *(5, 6, 4)[:rank])
        y = getattr(aten, f"{name}_pad{rank}d")(x, pad)
        lower.call(f"{name}_pad{rank}d_backward.default", torch.randn(y.shape), x, pad)
