"""The five demo models: inference and training are as close to float64 as eager is, in one graph each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.testing import assert_close_to_float64

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
"""Of these also the program without a backward pass; of the others, and of a second with dropout, by
`make test-thorough`.
"""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, "training") for name in NAMES),
        *(pytest.param(name, "inference", marks=() if name in ALONE else pytest.mark.thorough) for name in NAMES),
    ],
)
def test_model(name: str, step: str, models: Any) -> None:
    torch._dynamo.reset()
    model, inputs = getattr(models.MODELS[name], step)()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    with torch.set_grad_enabled(step == "training"):
        assert_close_to_float64(compiled, model, inputs)


@pytest.mark.parametrize("name", ["bert", pytest.param("gpt2", marks=pytest.mark.thorough)])
def test_training_with_dropout_and_the_same_seed(name: str, models: Any) -> None:
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
