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


def test_strides_that_pytorch_foretells_wrongly_are_not_ours() -> None:
    """What fake tensors say of `heaviside` of a number and a transposed matrix is not what eager does."""

    def right(one: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.heaviside(one, x.t())

    def as_foretold(one: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return right(one, x).contiguous()

    inputs = (torch.ones(()), X)
    assert right(*inputs).stride() == (1, 6)
    found, captured = differences(Call(right, inputs, False), as_foretold, captured_only(right))
    assert not found and [one.name for one in captured] == ["output"]
    assert problems(lambda one, x: as_foretold(one, x) + 1, right, *inputs) == ["output"]


def test_a_wrong_gradient_is_named() -> None:
    x = X.clone().requires_grad_()
    assert problems(torch.square, torch.square, x, gradients=True) == []
    assert problems(lambda x: x * x.detach(), torch.square, x, gradients=True) == ["gradient of input[0]"]


def test_a_lost_gradient_is_an_error() -> None:
    with pytest.raises(AssertionError, match="gradient of"):
        problems(lambda x: (x * x).detach(), torch.square, X.clone().requires_grad_(), gradients=True)


def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    total = x[0]
    for term in x[1:]:
        total = total + term
    return total


def test_a_sum_that_cancels_may_be_taken_in_any_order() -> None:
    """Terms whose sum eager gets right by luck, and no order worse than by 1e-6."""
    x = torch.randn(6, generator=torch.Generator().manual_seed(7)) * 8
    x[-1] = 0.01 - x[:-1].sum()
    truth = x.double().sum()
    assert x.sum() == truth
    assert abs(one_after_the_other(x) - truth) > 9e-7
    assert problems(one_after_the_other, torch.sum, x) == []
    assert problems(lambda x: one_after_the_other(x) + 4e-6, torch.sum, x) == ["output"]


def test_a_sum_that_the_program_spells_out_keeps_its_order() -> None:
    x = torch.randn(6, generator=torch.Generator().manual_seed(7)) * 8
    x[-1] = 0.01 - x[:-1].sum()
    assert problems(one_after_the_other, lambda x: x.double().sum().float(), x) == ["output"]


def test_an_input_is_not_rounded() -> None:
    """x − y is exact where they are close: what an input that is a rounding off would give is wrong."""
    x = torch.tensor([1.0 / 3.0, 1e4 / 7.0])
    y = x.nextafter(torch.tensor(torch.inf)).nextafter(torch.tensor(torch.inf))
    assert problems(lambda x, y: x.nextafter(y) - y, torch.sub, x, y) == ["output"]
