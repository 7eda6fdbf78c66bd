"""A dump goes on to the kernels it was made with, byte for byte, at every one of the stages.

The demo's models are as small as they go here; `make reload` takes them as they are, inference too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, randn
from torch.nn import functional as F

from examples import models
from tests.support.demo_models import make_models_small
from tests.support.reload import check_dump

pytestmark = pytest.mark.slow

WHOLE = os.environ.get("RELOAD") == "whole"


def compiled(function: Any, root: Path, **options: Any) -> Any:
    torch._dynamo.reset()
    dynamic = options.pop("dynamic", None)
    return torch.compile(function, backend="cuesta", dynamic=dynamic, options={"dump": str(root), **options})


def changes_its_input(x: Tensor) -> Tensor:
    x.mul_(2)
    return F.pad(x, (1, 1)).sum(0).softmax(-1)


class HoldsTensors(nn.Module):
    """A graph with constants, a number that it returns, a call that eager runs, and names of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(7)

    def forward(self, x: Tensor) -> tuple[Tensor, int, Tensor]:
        return self.norm(x) @ torch.tensor([[1.0], [2.0]] * 3 + [[0.5]]), x.shape[0], x.sort()[0].exp()


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Tensor, ...]], dict[str, Any]]] = {
    "writes": (lambda: changes_its_input, lambda: (randn(8, 5),), {}),
    "constants": (HoldsTensors, lambda: (randn(4, 7),), {"dynamic": True}),
    "options": (
        lambda: lambda x: F.dropout(F.gelu(x.bfloat16()), 0.5, True).float().sum(-1),
        lambda: (randn(8, 40),),
        {"random": "philox", "emulate_precision_casts": True},
    ),
    "layers": (
        lambda: nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(3)]),
        lambda: (randn(4, 6),),
        {},
    ),
}


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, 3) for name in PROGRAMS),
        *(pytest.param(name, 1, marks=pytest.mark.thorough) for name in PROGRAMS),
    ],
)
@pytest.mark.every(2)
def test_programs(name: str, every: int, tmp_path: Path) -> None:
    """From every third text, each time from others; from all by `make test-thorough`."""
    make, inputs, options = PROGRAMS[name]
    with torch.no_grad():
        compiled(make(), tmp_path, **options)(*inputs())
    assert check_dump(tmp_path, every, list(PROGRAMS).index(name)) > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"),
    [(name, step) for name in models.MODELS for step in ("inference", "training")]
    if WHOLE
    else [pytest.param(*one, marks=pytest.mark.thorough) for one in (("resnet", "inference"), ("gpt2", "training"))],
)
def test_demo_model(name: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    if not WHOLE:
        make_models_small(monkeypatch)
    model, inputs = getattr(models.MODELS[name], step)()
    if name == "resnet" and not WHOLE:
        inputs["pixel_values"] = inputs["pixel_values"][..., :24, :24].contiguous()
    run = models.inference_step if step == "inference" else models.training_step
    run(compiled(model, tmp_path), inputs)
    kinds = [folder.name.partition("_")[2] for folder in sorted(tmp_path.iterdir())]
    assert kinds == (["inference"] if step == "inference" else ["forward", "backward"])
    print(f"\n{name}, {step}: {check_dump(tmp_path)} texts")
