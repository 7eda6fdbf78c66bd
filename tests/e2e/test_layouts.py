"""Random networks of convolutions: whatever layouts their images get, values and strides are eager's."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cuesta
from cuesta.testing import assert_close_to_float64

pytestmark = pytest.mark.slow


def side_by_side(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 1)


class Network(nn.Module):
    """Images from which, step by step, another is made; some are given out."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.rank = self.chance.choice([2, 2, 2, 3])
        self.layers = nn.ModuleList()
        self.steps: list[tuple[Callable[..., Tensor], tuple[int, ...]]] = []
        self.channels = [self.chance.choice([3, 8])]
        self.size = self.channels[0]
        for _ in range(self.chance.randint(3, 8)):
            self.add()
        self.given = sorted({len(self.steps), *self.chance.sample(range(1, len(self.steps) + 1), 2)})

    def layer(self, layer: nn.Module) -> nn.Module:
        self.layers.append(layer)
        return layer

    def add(self) -> None:
        """Another step, from one or two images that there are."""
        chance, source = self.chance, self.chance.randrange(len(self.channels))
        channels = self.channels[source]
        convolution = nn.Conv2d if self.rank == 2 else nn.Conv3d
        transposed = nn.ConvTranspose2d if self.rank == 2 else nn.ConvTranspose3d
        pool = nn.AvgPool2d if self.rank == 2 else nn.AvgPool3d
        norm = nn.BatchNorm2d if self.rank == 2 else nn.BatchNorm3d
        alike = [k for k, count in enumerate(self.channels) if count == channels]
        step: Callable[..., Tensor]
        sources = (source,)
        match chance.choice(["plain", "plain", "depthwise", "grouped", "transposed", "pool", "norm", "sum", "cat"]):
            case "plain":
                made = chance.choice([4, 8, 16])
                step = self.layer(convolution(channels, made, chance.choice([1, 3]), padding="same"))
            case "depthwise":
                made = channels
                step = self.layer(convolution(channels, made, 3, padding=1, groups=channels, bias=False))
            case "grouped" if channels % 4 == 0:
                made = 8
                step = self.layer(convolution(channels, made, 3, padding=1, groups=4))
            case "transposed":
                made = 8
                step = self.layer(transposed(channels, made, 3, padding=1))
            case "pool":
                made = channels
                step = self.layer(pool(3, 1, 1))
            case "norm":
                made = channels
                step = nn.Sequential(self.layer(norm(channels)), nn.SiLU())
            case "sum":
                made, sources = channels, (source, chance.choice(alike))
                step = torch.add
            case "cat":
                other = chance.randrange(len(self.channels))
                made, sources = channels + self.channels[other], (source, other)
                step = side_by_side
            case _:
                made, step = channels, F.relu
        self.steps.append((step, sources))
        self.channels.append(made)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        images = [x]
        for step, sources in self.steps:
            images.append(step(*(images[k] for k in sources)))
        last = images[-1]
        return (*(images[k] for k in self.given), last.flatten(1), last.mean(tuple(range(2, last.dim()))))


def check(seed: int) -> None:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model = Network(seed).eval()
    chance = random.Random(-seed)
    x = torch.randn(2, model.size, *[chance.choice([5, 6, 12])] * model.rank)
    if chance.random() < 0.3:
        x = x.contiguous(memory_format=torch.channels_last if model.rank == 2 else torch.channels_last_3d)
    compiled = torch.compile(model, backend="cuesta", fullgraph=True, options={"cache": False})
    with torch.no_grad():
        for ours, eagers in zip(compiled(x), model(x), strict=True):
            assert ours.stride() == eagers.stride(), f"seed {seed}"
        assert_close_to_float64(compiled, model, (x,), gradients=False)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 13), marks=pytest.mark.slow)], ids=str)
def test_random_networks(seeds: range) -> None:
    for seed in seeds:
        check(seed)


def test_a_network_like_those_of_phones_is_channels_last_throughout() -> None:
    """Pointwise, depthwise, pointwise: nothing is copied but the input, and all that lies between is channels last."""
    block = nn.Sequential(
        nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU6(), nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.ReLU6(),
        nn.Conv2d(32, 16, 1),
    ).eval()  # fmt: skip
    cuesta.clear_records()
    x = torch.randn(2, 16, 20, 20)
    with torch.no_grad():
        found = torch.compile(block, backend="cuesta", options={"cache": False})(x.relu())
        torch.testing.assert_close(found, block(x.relu()))
    assert found.is_contiguous()
    # The copy of the input, two activations, and the copy of what is given out.
    assert cuesta.records[0].kernels <= 4 and cuesta.records[0].library_calls == 3
