"""Gradients of gradients that a compiled backward pass gave: there are none, and whoever asks is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.outcomes import donated_buffers
from tests.fuzz.calls.scope import Joined, Pair
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow

W = torch.arange(9.0).view(3, 3).cos()
MADE: dict[str, Callable[[Tensor], Any]] = {
    "plain": lambda x: x,
    "a pair": lambda x: Pair(x, x + 1),
    "joined": lambda x: Joined(x, x + 1),
}
CURVED: dict[str, Callable[[Tensor], Tensor]] = {
    "what is saved is given": lambda x: x * x.sin(),
    "what is saved is computed": lambda x: (x @ W).tanh() @ W,
    "what is saved is the result": lambda x: x.tanh() * 2,
}
STRAIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: (x * 2) @ W,
    "a mask": lambda x: (x @ W).relu() * 3,
}


def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with donated_buffers(False):
        (found,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    return found


def leaf(kind: str) -> Any:
    return MADE[kind]((torch.arange(9.0).view(3, 3) + 1).sin()).requires_grad_()


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.covering
def test_a_gradient_of_a_gradient_is_refused(kind: str, name: str) -> None:
    """It was left out of sums, in silence: `gradient.sum() + x.sum()` had the gradient of `x.sum()`."""
    function = CURVED[name]
    x, y = leaf(kind), leaf(kind)
    expected, found = gradient(function, x), gradient(compiled_of(function), y)
    assert expected.requires_grad and found.requires_grad and type(found) is type(expected)
    if kind == "plain":
        torch.testing.assert_close(found, expected)
    for loss in (found.sum(), found.sum() + y.sum()):
        with pytest.raises(RuntimeError, match="does not currently support double backward"):
            torch.autograd.grad(loss, y, retain_graph=True)


@pytest.mark.parametrize("kind", ("plain", "a pair"))
def test_who_has_no_gradient_of_a_gradient_asks_for_none(kind: str) -> None:
    """Of a function that reads it and has no gradient of it: that was refused as well."""
    x = leaf(kind)
    first = gradient(compiled_of(lambda x: x * x.sin()), x)

    def function(x: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp(), first.sin().detach()

    result = compiled_of(function)(x, first)[0]
    with torch.no_grad():
        expected = x.exp()
    (found,) = torch.autograd.grad(result, x, torch.ones_like(result), retain_graph=True)
    for part in ("a", "b") if kind == "a pair" else ("data",):
        torch.testing.assert_close(getattr(found, part), getattr(expected, part))
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(compiled_of(lambda x, first: x.exp() + first)(x, first).sum(), x)


def test_it_is_refused_of_what_leads_to_it() -> None:
    """Of an input that was computed, and of a leaf behind it."""
    x = leaf("plain")
    found = gradient(compiled_of(CURVED["what is saved is computed"]), h := x.exp())
    for wanted in (x, [x, h]):
        with pytest.raises(RuntimeError, match="does not currently support double backward"):
            torch.autograd.grad(found.sum() + h.sum(), wanted, retain_graph=True)


@pytest.mark.parametrize("name", STRAIGHT)
def test_a_gradient_that_is_no_function_of_inputs_asks_for_nothing(name: str) -> None:
    """With torch 2.13 every gradient was refused a gradient."""
    function = STRAIGHT[name]
    x, y = leaf("plain"), leaf("plain")
    expected, found = gradient(function, x), gradient(compiled_of(function), y)
    torch.testing.assert_close(found, expected)
    losses = expected.square().sum() + x.exp().sum(), found.square().sum() + y.exp().sum()
    (theirs,), (ours,) = (torch.autograd.grad(loss, of) for loss, of in zip(losses, (x, y), strict=True))
    torch.testing.assert_close(ours, theirs)


def test_a_gradient_of_what_it_is_given_is_refused() -> None:
    """A linear function's gradient is one of the gradient it is given."""
    x = leaf("a pair")
    with donated_buffers(False):
        result = compiled_of(lambda x: x * 2)(x)
        (found,) = torch.autograd.grad(result.square().sum(), x, create_graph=True)
    assert found.requires_grad
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        found.sum().backward()
