"""A dropout that drops nothing gives what it is given, and not a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

DROPOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "in inference": lambda x: F.dropout(x, 0.5, training=False),
    "of no chance": lambda x: F.dropout(x, 0.0),
    "in place": lambda x: F.dropout(x, 0.5, False, inplace=True),
    "of torch": lambda x: torch.dropout(x, p=0.5, train=False),
    "of torch, in place": lambda x: torch.dropout_(x, 0.5, False),
    "of ATen": lambda x: torch.ops.aten.dropout(x, 0.5, False),
    "of ATen, by its overload": lambda x: torch.ops.aten.dropout.default(x, 0.5, False),
    "a module": torch.nn.Dropout(0.5).eval(),
    "of features": lambda x: torch.feature_dropout(x, 0.5, False),
    "for SELU": lambda x: F.alpha_dropout(x, 0.5, False),
}


@pytest.mark.filterwarnings("error:cuesta")
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("is_made", [False, True], ids=["of an input", "of what is made"])
@pytest.mark.parametrize("name", DROPOUTS)
@pytest.mark.covering(2)
def test_an_update_is_seen_through_what_was_not_dropped(name: str, is_made: bool, dynamic: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x * 2 if is_made else x
        y = DROPOUTS[name](x)
        x.mul_(3)
        return y, x

    torch._dynamo.reset()
    given = torch.randn(2, 5)
    expected = function(given.clone())
    y, x = torch.compile(function, backend="cuesta", dynamic=dynamic)(given)
    assert expected[0] is expected[1], "so it is in eager"
    assert y is x and torch.equal(y, expected[0])


def test_gradients_of_what_was_not_dropped() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        z = F.dropout(y, 0.5, False)
        y.mul_(3)
        return z.sin()

    torch._dynamo.reset()
    gradients: list[Any] = []
    for call in (function, torch.compile(function, backend="cuesta")):
        x = torch.linspace(0, 1, 6, requires_grad=True)
        gradients.append(torch.autograd.grad(call(x).sum(), x)[0])
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("chance", [0.0, 0.5])
def test_a_chance_that_only_the_call_knows(chance: float) -> None:
    """Near miss: it is as with every backend. What is dropped is dropped."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, p: F.dropout(x, p) + 1, backend="cuesta", dynamic=True)
    torch.manual_seed(1)
    found = compiled(torch.ones(50), chance)
    torch.manual_seed(1)
    assert torch.equal(found, F.dropout(torch.ones(50), chance) + 1)
