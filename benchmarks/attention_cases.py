"""Attention as people write it in plain PyTorch: what may be done to the scores, and sizes that fit no tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

CAP = 2.0
"""The greatest score of `capped`."""

Score = Callable[[Tensor, "Case"], Tensor]
"""What is done to the scores, which are (batch, heads, queries, keys)."""


def softmax(scores: Tensor) -> Tensor:
    """The weights of attention."""
    return scores.softmax(-1)


@dataclass(frozen=True)
class Dropped:
    """The weights of attention, with dropout."""

    p: float
    mask: Tensor | None = None
    """What to keep, where it is not drawn."""

    def __call__(self, scores: Tensor) -> Tensor:
        """A softmax, and dropout."""
        weights = scores.softmax(-1)
        if self.mask is None:
            return functional.dropout(weights, self.p, training=True)
        return weights * self.mask.to(weights.dtype) * (1 / (1 - self.p) if self.p < 1 else 0.0)


@dataclass(frozen=True)
class Case:
    """An attention: its sizes, what is done to the scores, and what makes weights of them."""

    score: Score
    batch: int = 1
    heads: int = 2
    queries: int = 96
    keys: int = 96
    width: int = 32
    values: int = 0
    """The columns of values; as many as those of keys where it is 0."""
    dtype: torch.dtype = torch.bfloat16
    weights: Callable[[Tensor], Tensor] = softmax
    near: int = 20
    """How many keys a query sees of `window`."""
    shared: int = 1
    """How many heads share keys and values."""

    def inputs(self, device: str = "cpu") -> list[Tensor]:
        """Queries, keys and values."""
        groups = self.heads // self.shared
        shapes = (
            (self.batch, self.heads, self.queries, self.width),
            (self.batch, groups, self.keys, self.width),
            (self.batch, groups, self.keys, self.values or self.width),
        )
        return [torch.randn(shape, device=device).to(self.dtype) for shape in shapes]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The attention."""
        if self.shared > 1:
            k, v = (one.repeat_interleave(self.shared, 1) for one in (k, v))
        scores = self.score(q @ k.transpose(-2, -1) * self.width**-0.5, self)
        return self.weights(scores) @ v


def _points(scores: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = scores.shape[-2:]
    return torch.arange(rows, device=scores.device)[:, None], torch.arange(columns, device=scores.device)


def plain(scores: Tensor, case: Case) -> Tensor:
    """Nothing."""
    return scores


def causal(scores: Tensor, case: Case) -> Tensor:
    """No key after the query."""
    i, j = _points(scores)
    return scores.masked_fill(j > i, float("-inf"))


def window(scores: Tensor, case: Case) -> Tensor:
    """Keys that are near, and not after the query."""
    i, j = _points(scores)
    return torch.where((j <= i) & (j > i - case.near), scores, float("-inf"))


def slopes(scores: Tensor, case: Case) -> Tensor:
    """ALiBi: a slope for each head."""
    i, j = _points(scores)
    head = torch.arange(1, case.heads + 1, device=scores.device)[:, None, None]
    return scores + (j - i) * torch.exp2(-8.0 * head / case.heads).to(scores.dtype)


def capped(scores: Tensor, case: Case) -> Tensor:
    """Soft capping."""
    return torch.tanh(scores / CAP) * CAP


def filled(scores: Tensor, case: Case) -> Tensor:
    """A large negative number where there is nothing to see."""
    i, j = _points(scores)
    return scores.masked_fill(j > i, -1e4)


def padded(scores: Tensor, case: Case) -> Tensor:
    """The last keys are padding, of each of a batch as many more."""
    _, j = _points(scores)
    lengths = case.keys - 3 * torch.arange(case.batch, device=scores.device)[:, None, None, None]
    return scores.masked_fill(j >= lengths, float("-inf"))


def wholly_masked(scores: Tensor, case: Case) -> Tensor:
    """The first rows see nothing at all: eager's NaN."""
    i, j = _points(scores)
    return scores.masked_fill((j > i) | (i < 5), float("-inf"))


@dataclass(frozen=True)
class Table:
    """A bias for each head and distance, looked up in a table: for each distance, or, of more than `far`, for all."""

    far: int

    def __call__(self, scores: Tensor, case: Case) -> Tensor:
        """The bias is added."""
        i, j = _points(scores)
        distances = (j - i).clamp(-self.far, self.far) + self.far
        return scores + self.values(scores, case)[:, distances]

    def values(self, scores: Tensor, case: Case) -> Tensor:
        """Numbers that nobody can compute where they are read: a running sum."""
        steps = torch.arange(case.heads * (2 * self.far + 1), device=scores.device, dtype=torch.float32)
        return torch.cumsum(torch.cos(steps), 0).view(case.heads, -1).to(scores.dtype)


def _of_whole_numbers(scores: Tensor) -> Tensor:
    """Weights whose sum is one of truncated numbers: no sum that is linear in exponentials."""
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponentials / (exponentials * 20).int().float().sum(-1, keepdim=True)


CASES: dict[str, Case] = {
    "plain": Case(plain),
    "causal": Case(causal, queries=130, keys=130, dtype=torch.float16),
    "window": Case(window, queries=96, keys=96),
    "slopes": Case(slopes, batch=2, heads=2),
    "capped": Case(capped, width=64, values=16),
    "filled": Case(filled, width=48, queries=77, keys=201),
    "wholly masked": Case(wholly_masked),
    "few queries": Case(plain, queries=3, keys=160),
    "shared keys": Case(causal, heads=4, shared=2),
    "sigmoid": Case(plain, weights=lambda scores: torch.sigmoid(scores.float() - 1).to(scores.dtype)),
    "whole numbers": Case(plain, weights=lambda scores: (scores.float().softmax(-1) * 50).int().to(scores.dtype)),
    "of whole numbers": Case(plain, weights=lambda scores: _of_whole_numbers(scores.float()).to(scores.dtype)),
    "a table": Case(Table(200), batch=2, queries=100, keys=90),
    "a table that ends": Case(lambda scores, case: causal(Table(30)(scores, case), case), queries=130, keys=130),
    "in f32": Case(causal, weights=lambda scores: scores.float().softmax(-1).to(scores.dtype)),
}
"""By name."""
