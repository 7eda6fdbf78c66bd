"""Random convolutions with what comes before and after, for hypothesis, and tiles in which they may be products: any
windows, steps, margins and gaps, of images in one to three dimensions that lie channels last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
MOST = 1 << 21
"""Multiplications of one.

Source: a bound: the interpreters do so many in a second.
"""
CALLS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
BEFORE: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nothing": lambda x, s, g: x,
    "a norm": lambda x, s, g: F.relu(x * s + s) + 1,
    "a gate": lambda x, s, g: x * torch.sigmoid(g),
}
"""Of images, a number for each channel, and one for each channel of each image."""
AFTER: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor | tuple[Tensor, ...]]] = {
    "relu": lambda y, s, r: F.relu(y),
    "a scale and a residual": lambda y, s, r: r + y * s,
    "two results": lambda y, s, r: (y, torch.tanh(y)),
}
"""Of the convolution, a number for each channel, and something as large."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution, and what is around it."""

    images: int
    channels: int
    made: int
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    steps: tuple[int, ...]
    margins: tuple[int, ...]
    gaps: tuple[int, ...]
    before: str
    after: str
    bias: bool
    tile: tuple[int, int, int]
    """Rows, columns and depth."""

    @property
    def places(self) -> list[int]:
        """The sizes of the results."""
        axes = zip(self.sizes, self.window, self.steps, self.margins, self.gaps, strict=True)
        return [(size + 2 * margin - gap * (length - 1) - 1) // step + 1 for size, length, step, margin, gap in axes]

    @property
    def products(self) -> int:
        """Its multiplications."""
        return self.images * math.prod(self.places) * self.made * self.channels * math.prod(self.window)

    def function(self, x: Tensor, w: Tensor, b: Tensor, s: Tensor, t: Tensor, g: Tensor, r: Tensor) -> Any:
        """The program."""
        x = BEFORE[self.before](x, s, g)
        bias = b if self.bias else None
        y = CALLS[len(self.sizes)](x, w, bias, self.steps, self.margins, self.gaps)
        return AFTER[self.after](y, t, r)

    def inputs(self) -> list[Tensor]:
        """Its arguments, random and always the same ones."""
        generator = torch.Generator().manual_seed(0)

        def last(*sizes: int, scale: float = 1.0) -> Tensor:
            drawn = (torch.randn(sizes, generator=generator) * scale).bfloat16()
            return drawn.movedim(1, -1).contiguous().movedim(-1, 1)

        ones = [1] * len(self.sizes)
        small = (self.channels * math.prod(self.window)) ** -0.5
        return [
            last(self.images, self.channels, *self.sizes),
            last(self.made, self.channels, *self.window, scale=small),
            torch.randn(self.made, generator=generator).bfloat16(),
            torch.randn(self.channels, *ones, generator=generator).bfloat16(),
            torch.randn(self.made, *ones, generator=generator).bfloat16(),
            last(self.images, self.channels, *ones),
            last(self.images, self.made, *self.places),
        ]


@st.composite
def convolutions(draw: Draw) -> Convolution:
    """Some windows lie in the margin wholly; some margins are larger than images."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(strategy: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(strategy) for _ in range(rank))

    window, steps = each(st.integers(1, 4)), each(st.sampled_from([1, 1, 1, 2, 3]))
    margins, gaps = each(st.sampled_from([0, 1, 1, 2, 4])), each(st.sampled_from([1, 1, 1, 2, 3]))
    least = [gap * (length - 1) + 1 - 2 * margin for length, margin, gap in zip(window, margins, gaps, strict=True)]
    sizes = tuple(max(1, one) + draw(st.integers(0, 7)) for one in least)
    channels = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 40, 64]))
    tile = tuple(draw(st.sampled_from(every)) for every in ([16, 32, 64], [16, 32], [16, 32, 64, 128]))
    found = Convolution(
        draw(st.integers(1, 3)),
        channels,
        draw(st.sampled_from([2, 7, 8, 16, 24, 40])),
        sizes,
        window,
        steps,
        margins,
        gaps,
        draw(st.sampled_from(sorted(BEFORE))),
        draw(st.sampled_from(sorted(AFTER))),
        draw(st.booleans()),
        tile,
    )
    assume(found.products <= MOST)
    return found


__all__ = ["AFTER", "BEFORE", "Convolution", "convolutions"]
