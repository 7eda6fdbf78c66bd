"""`roi_align` in PyTorch's own operators: gathers by four indices, weighted, and a mean over samples.

torchvision's operator is one of a library's, which eager runs; it is not installed here, and nothing is compared with
it.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow


def roi_align(x: Tensor, boxes: Tensor, size: int, scale: float, samples: int) -> Tensor:
    """Means of `samples`² bilinear samples of each of size² parts of boxes, which are rows of an image's number and two
    corners.

    Shapes: images × channels × height × width; boxes × 5; the result boxes × channels × size × size.
    """
    height, width = x.shape[2:]
    low, high = boxes[:, 1:3] * scale - 0.5, boxes[:, 3:5] * scale - 0.5
    steps = (torch.arange(size * samples, device=x.device) + 0.5) / samples
    places = low[:, :, None] + (high - low)[:, :, None] / size * steps
    image = boxes[:, 0].long()[:, None, None]

    def neighbours(place: Tensor, length: int) -> tuple[tuple[Tensor, Tensor], ...]:
        inside = (place > -1) & (place < length)
        place = place.clamp(0, length - 1)
        first = place.long()
        part = place - first
        return (first, (1 - part) * inside), ((first + 1).clamp(max=length - 1), part * inside)

    total = x.new_zeros(())
    for row, down in neighbours(places[:, 1], height):
        for column, right in neighbours(places[:, 0], width):
            found = x[image, :, row[:, :, None], column[:, None, :]]
            total = total + found * (down[:, :, None] * right[:, None, :])[..., None]
    samples_of_parts = total.unflatten(1, (size, samples)).unflatten(3, (size, samples))
    return samples_of_parts.mean((2, 4)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_generated_with_its_gradient(dynamic: bool) -> None:
    torch.manual_seed(0)
    cuesta.clear_records()
    compiled = compiled_of(lambda x, boxes: roi_align(x, boxes, 7, 0.5, 2), dynamic=dynamic)
    for count in (5, 3):
        corners = torch.rand(count, 2) * 30 - 4  # some lie outside
        boxes = torch.cat([torch.arange(count)[:, None] % 2, corners, corners + torch.rand(count, 2) * 20 + 1], 1)
        x = torch.randn(2, 3, 16, 20, requires_grad=True)
        expected, found = roi_align(x, boxes, 7, 0.5, 2), compiled(x, boxes)
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(one.sin().sum(), x)[0] for one in (found, expected)]
        torch.testing.assert_close(*gradients)
        assert gradients[0].abs().sum() > 0
    assert cuesta.records and not cuesta.statistics().fallbacks
