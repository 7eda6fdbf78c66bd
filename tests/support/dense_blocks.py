"""Dense blocks: every layer normalises all that came before, in training, and adds to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DenseBlock(nn.Module):
    """Layers of batch norm, ReLU and a convolution of `growth` channels, each of the concatenation of all before.
    When `grown`, that is made of the one before it, and not of its parts.
    """

    def __init__(self, layers: int, growth: int, *, grown: bool = False) -> None:
        super().__init__()
        widths = [growth * (1 + layer) for layer in range(layers)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.convolutions = nn.ModuleList(nn.Conv2d(width, growth, 3, padding=1, bias=False) for width in widths)
        self.grown = grown

    def forward(self, x: Tensor) -> Tensor:
        features, whole = [x], x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            new = convolution(torch.relu(norm(whole)))
            features.append(new)
            whole = torch.cat([whole, new] if self.grown else features, 1)
        return whole


__all__ = ["DenseBlock"]
