"""The five demo models: inference and training are as close to float64 as eager is, in one graph each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.testing import assert_close_to_float64
from tests.support.demo_models import resize_models

pytestmark = pytest.mark.slow

NAMES = ("bert", "gpt2", "llama", "resnet", "vit")


@pytest.fixture(scope="module")
def models() -> Any:
    """The module of the models; it takes a second to import what it needs."""
    pytest.importorskip("transformers")
    from examples import models

    assert sorted(models.MODELS) == sorted(NAMES)
    return models


ALONE = ("llama", "resnet")
"""Of these also the program without a backward pass; of the others, of a second with dropout, and with all layers, by
`make test-thorough`.
"""
FEW, ALL = 2, 4
"""Layers: the first and the last, or those of the demo."""


@pytest.mark.parametrize(
    ("name", "step", "layers"),
    [
        *((name, "training", FEW) for name in NAMES),
        *((name, "inference", FEW) for name in ALONE),
        *(
            pytest.param(name, step, ALL, marks=pytest.mark.thorough)
            for name in NAMES
            for step in ("inference", "training")
        ),
    ],
)
@pytest.mark.every(6, also=("llama-training-2", "resnet-training-2"))
def test_model(name: str, step: str, layers: int, models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    resize_models(monkeypatch, LAYERS=layers)
    torch._dynamo.reset()
    model, inputs = getattr(models.MODELS[name], step)()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    with torch.set_grad_enabled(step == "training"):
        assert_close_to_float64(compiled, model, inputs)


@pytest.mark.parametrize(
    ("name", "layers"), [("bert", FEW), *(pytest.param(name, ALL, marks=pytest.mark.thorough) for name in NAMES[:2])]
)
def test_training_with_dropout_and_the_same_seed(
    name: str, layers: int, models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resize_models(monkeypatch, LAYERS=layers)
    torch._dynamo.reset()
    model, inputs = models.MODELS[name].training(dropout=0.1)
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    torch.manual_seed(3)
    expected, expected_gradients = models.training_step(model, inputs)
    expected_gradients = {key: value.clone() for key, value in expected_gradients.items()}
    torch.manual_seed(3)
    actual, gradients = models.training_step(compiled, inputs)
    torch.testing.assert_close(actual, expected)
    for key, value in expected_gradients.items():
        torch.testing.assert_close(
            gradients[key], value, rtol=1e-3, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
        )
