"""Regions of interest: written in plain PyTorch all of it is compiled; torchvision's operator is one of a library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import cuesta


def _ends(place: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The elements on both sides of a place along an axis, and how far it is from the first."""
    place = place.clamp(min=0)
    low = place.floor().long().clamp(max=size - 1)
    return low, (low + 1).clamp(max=size - 1), torch.where(low == size - 1, 0.0, place - low)


def roi_align(
    x: Tensor, rois: Tensor, scale: float, size: tuple[int, int], samples: int, aligned: bool = False
) -> Tensor:
    """Of each region (image, x0, y0, x1, y1) the means of `samples`² bilinear samples in each of its parts.

    Shapes: x [n, c, h, w], rois [k, 5] → [k, c, *size].
    Source: He et al., "Mask R-CNN" (2017), section 3; torchvision's documentation of `roi_align`.
    """
    high, wide = x.shape[-2:]
    image = rois[:, 0].long()
    left, top, right, bottom = (rois[:, 1:] * scale - (0.5 if aligned else 0.0)).unbind(1)
    least = -torch.inf if aligned else 1.0

    def places(start: Tensor, extent: Tensor, parts: int) -> Tensor:
        inner = (torch.arange(samples, device=x.device) + 0.5) / samples
        steps = torch.arange(parts, device=x.device)[:, None] + inner
        return start[:, None, None] + steps * (extent.clamp(min=least) / parts)[:, None, None]

    y, z = places(top, bottom - top, size[0]), places(left, right - left, size[1])
    (y0, y1, down), (z0, z1, along) = _ends(y, high), _ends(z, wide)
    inside = ((y >= -1) & (y <= high))[:, :, :, None, None] & ((z >= -1) & (z <= wide))[:, None, None]
    down, along = down[:, :, :, None, None, None], along[:, None, None, :, :, None]

    def at(row: Tensor, column: Tensor) -> Tensor:
        return x[image[:, None, None, None, None], :, row[:, :, :, None, None], column[:, None, None]]

    above = (1 - along) * at(y0, z0) + along * at(y0, z1)
    below = (1 - along) * at(y1, z0) + along * at(y1, z1)
    value = torch.where(inside[..., None], (1 - down) * above + down * below, 0.0)
    return value.mean((2, 4)).permute(0, 3, 1, 2)


ROIS = torch.tensor([[0, 1.0, 2, 30, 40], [1, -4, -3, 20, 30], [1, 5, 5, 5, 5], [0, 40, 30, 80, 70], [1, 0, 0, 3, 2]])


def test_of_one_channel_by_hand() -> None:
    """A plane, of which bilinear samples are exact: the mean of a part is its value in the middle."""
    x = (torch.arange(10.0)[:, None] * 10 + torch.arange(12.0)).expand(1, 1, 10, 12).contiguous()
    found = torch.compile(roi_align, backend="cuesta", fullgraph=True)(
        x, torch.tensor([[0, 2.0, 1, 8, 7]]), 1.0, (2, 3), 2
    )
    middles = torch.tensor([2.5, 5.5])[:, None] * 10 + torch.tensor([3.0, 5.0, 7.0])
    torch.testing.assert_close(found[0, 0], middles)


@pytest.mark.parametrize("aligned", [False, True])
def test_it_is_compiled_whole(aligned: bool) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    x = torch.randn(2, 6, 25, 30, requires_grad=True)

    def pooled(x: Tensor, rois: Tensor) -> Tensor:
        return roi_align(x * 2, rois, 0.8, (7, 5), 2, aligned).relu()

    actual, expected = torch.compile(pooled, backend="cuesta", fullgraph=True)(x, ROIS), pooled(x, ROIS)
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(expected)
    (gradient,), (wanted,) = (torch.autograd.grad((one * weights).sum(), x) for one in (actual, expected))
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-5)
    forward, backward = cuesta.records[-2:]
    assert not forward.fallbacks and not backward.fallbacks and not forward.library_calls
    with torch.no_grad():
        torch.compile(lambda x: pooled(x, ROIS), backend="cuesta", fullgraph=True)(x)
    assert not cuesta.records[-1].fallbacks and not cuesta.records[-1].library_calls


@pytest.fixture
def operator() -> Iterator[None]:
    """torchvision's, as far as a compiler sees it, where torchvision is not there: its name and what it gives."""
    if hasattr(torch.ops.torchvision, "roi_align"):
        yield
        return
    library = torch.library.Library("torchvision", "DEF")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    )

    def run(x: Tensor, rois: Tensor, scale: float, high: int, wide: int, samples: int, aligned: bool) -> Tensor:
        return roi_align(x, rois, scale, (high, wide), samples, aligned).contiguous()

    def fake(x: Tensor, rois: Tensor, scale: float, high: int, wide: int, samples: int, aligned: bool) -> Tensor:
        return x.new_empty(rois.shape[0], x.shape[1], high, wide)

    library.impl("roi_align", run, "CPU")
    library._register_fake("roi_align", fake)
    yield
    library._destroy()


@pytest.mark.usefixtures("operator")
def test_the_operator_of_torchvision_is_called() -> None:
    """What is around it is compiled; the record says so."""
    torch._dynamo.reset()
    cuesta.clear_records()

    def pooled(x: Tensor, rois: Tensor) -> Tensor:
        return torch.ops.torchvision.roi_align(x * 2, rois, 0.8, 7, 5, 2, True).relu() + 1

    x = torch.randn(2, 6, 25, 30)
    actual = torch.compile(pooled, backend="cuesta", fullgraph=True)(x, ROIS)
    torch.testing.assert_close(actual, pooled(x, ROIS))
    torch.testing.assert_close(actual, roi_align(x * 2, ROIS, 0.8, (7, 5), 2, True).relu() + 1)
    (record,) = cuesta.records
    assert dict(record.fallbacks) == {"torchvision::roi_align.default": 1} and record.kernels == 2
