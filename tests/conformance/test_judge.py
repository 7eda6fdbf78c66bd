"""The judge itself: it passes what is right, and fails what is subtly wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.conformance.harness import captured_only
from tests.conformance.judge import Call, differences

Function = Callable[..., Any]


def problems(wrong: Function, right: Function, *tensors: torch.Tensor, gradients: bool = False) -> list[str]:
    found, _ = differences(Call(right, tensors, gradients), wrong, captured_only(right))
    return [one.name for one in found]


X = torch.linspace(-2.0, 3.0, 24).reshape(4, 6)


@pytest.mark.parametrize(
    ("wrong", "right", "name"),
    [
        (lambda x: x.exp() * (1 + 1e-5), torch.exp, "output"),
        (lambda x: x.sum(1) + 1e-5, lambda x: x.sum(1), "output"),
        (lambda x: (x > 0.1).logical_xor(x == x.max()), lambda x: x > 0.1, "output"),
        (lambda x: x.argsort(descending=True), torch.argsort, "output"),
        (lambda x: (x + 1).t().contiguous().t(), lambda x: x + 1, "output"),
        (lambda x: (x + 1).double(), lambda x: x + 1, "output"),
        (lambda x: x, torch.clone, "shared memory"),
        (lambda x: x[0].clone(), lambda x: x[0], "shared memory"),
        (lambda x: x + 1, lambda x: x.add_(1), "input[0] afterwards"),
        (lambda x: torch.rand_like(x).sqrt(), torch.rand_like, "output"),
    ],
    ids=lambda value: "" if callable(value) else None,
)
def test_what_is_wrong_is_named(wrong: Function, right: Function, name: str) -> None:
    assert problems(right, right, X) == []
    assert name in problems(wrong, right, X)


def test_a_wrong_gradient_is_named() -> None:
    x = X.clone().requires_grad_()
    assert problems(torch.square, torch.square, x, gradients=True) == []
    assert problems(lambda x: x * x.detach(), torch.square, x, gradients=True) == ["gradient of input[0]"]


def test_a_lost_gradient_is_an_error() -> None:
    with pytest.raises(AssertionError, match="gradient of"):
        problems(lambda x: (x * x).detach(), torch.square, X.clone().requires_grad_(), gradients=True)


def test_a_sum_that_cancels_may_round_as_it_pleases() -> None:
    """1 + a − 1 − a, in an order that is exact by luck and in one that is not."""
    x = torch.tensor([1.0 / 3.0, 1e4 / 7.0, -1e4 / 7.0, -1.0 / 3.0])

    def lucky(x: torch.Tensor) -> torch.Tensor:
        return (x[1] + x[2]) + (x[0] + x[3])

    def unlucky(x: torch.Tensor) -> torch.Tensor:
        return ((x[0] + x[1]) + x[2]) + x[3]

    assert lucky(x) == 0.0
    assert unlucky(x) != 0.0
    assert problems(unlucky, lucky, x) == []
    assert problems(lambda x: unlucky(x) + 0.01, lucky, x) == ["output"]
