"""Every level of real programs is text to read back and go on from, and no stage changes what is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cuesta.dialects.core.entry import entry_function
from examples import models
from tests.support.demo_models import make_models_small, of_demo
from tests.support.levels import Captured, capture, check_levels


class Perceptron(nn.Module):
    """Layer norm, two linear layers with GELU between, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(12), nn.Linear(12, 20), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(self.narrow(functional.gelu(self.wide(self.norm(x)))), -1)


class Attention(nn.Module):
    """Causal attention written out, with its residual."""

    def __init__(self) -> None:
        super().__init__()
        self.projection, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        heads = [part.view(batch, tokens, 2, 4).transpose(1, 2) for part in self.projection(x).split(width, -1)]
        query, key, value = heads
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = (query @ key.transpose(-1, -2) * 0.5).masked_fill(future, -torch.inf).softmax(-1)
        return x + self.out((scores @ value).transpose(1, 2).reshape(batch, tokens, width))


class Convolutional(nn.Module):
    """Convolution, batch norm, ReLU, pooling, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(functional.max_pool2d(functional.relu(self.norm(self.convolution(x))), 2).mean((2, 3)))


class Language(nn.Module):
    """Embedding, a linear head and the cross entropy, with positions that are ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        scores = self.head(functional.silu(self.embedding(tokens)))
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=0)


def _tokens() -> list[Tensor]:
    return [torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5))]


PROGRAMS: dict[str, tuple[type[nn.Module], Callable[[], list[Tensor]]]] = {
    "perceptron": (Perceptron, lambda: [torch.randn(6, 12)]),
    "attention": (Attention, lambda: [torch.randn(2, 5, 8)]),
    "convolutional": (Convolutional, lambda: [torch.randn(2, 3, 6, 6)]),
    "language": (Language, _tokens),
}


def _capture(name: str, **options: bool) -> list[Captured]:
    model, inputs = PROGRAMS[name]
    torch.manual_seed(5)
    return capture(model(), *inputs(), **options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "perceptron" else pytest.mark.slow) for name in PROGRAMS]
)
@pytest.mark.every(9, also=("language", "convolutional"))
def test_inference(name: str) -> None:
    (graph,) = _capture(name)
    check_levels(graph)


def from_levels(names: Iterable[str], chosen: str, elsewhere: Sequence[str] = ()) -> list[Any]:
    """Names of programs, and whether all stages that remain run on the text of each level: of one with the suite, of
    all by `make test-thorough`, as are those that are trained `elsewhere`; `test_inference` does so for most.
    """
    found = [
        pytest.param(
            name, name == chosen, id=name, marks=[pytest.mark.slow, *[pytest.mark.thorough] * (name in elsewhere)]
        )
        for name in names
    ]
    return found + [
        pytest.param(name, True, id=f"{name}, from each level", marks=pytest.mark.thorough)
        for name in names
        if name != chosen
    ]


@pytest.mark.parametrize(("name", "from_each"), from_levels(PROGRAMS, "attention", ("perceptron", "language")))
def test_training(name: str, from_each: bool) -> None:
    """Perceptron and language: with sizes that are symbols, below."""
    graphs = _capture(name, backward=True)
    assert [graph.kind for graph in graphs] == ["forward", "backward"]
    for graph in graphs:
        check_levels(graph, reenter_at_levels=from_each)


@pytest.mark.parametrize(("name", "from_each"), from_levels(("perceptron", "language"), "perceptron"))
def test_symbolic_sizes(name: str, from_each: bool) -> None:
    for graph in _capture(name, backward=True, dynamic=True):
        assert "sym.symbols" in entry_function(graph.module).attributes
        check_levels(graph, reenter_at_levels=from_each)


@pytest.mark.slow
def test_reduced_precision() -> None:
    (graph,) = capture(
        lambda x, y: functional.softmax(functional.gelu(x) * y, -1), *torch.randn(2, 4, 10).to(torch.bfloat16)
    )
    check_levels(graph)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "step"), of_demo())
def test_demo_model(name: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    make_models_small(monkeypatch)
    model, inputs = getattr(models.MODELS[name], step)()
    if name == "resnet":
        inputs["pixel_values"] = inputs["pixel_values"][..., :24, :24].contiguous()
    graphs = capture(model, backward=step == "training", **inputs)
    assert [graph.kind for graph in graphs] == (["inference"] if step == "inference" else ["forward", "backward"])
    for graph in graphs:
        check_levels(graph, reenter_at_levels=False)
