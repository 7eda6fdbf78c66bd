"""Backward passes where nobody asked for the gradients of some results: eager does not run what only those need."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

import cuesta
from tests.fuzz.calls.outcomes import donated_buffers
from tests.support.differential import compiled_autograd, compiled_of

pytestmark = pytest.mark.slow


class OneMore(Function):
    """A gradient that is none of zero's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * 3 + 1


class Slope(Function):
    """A gradient that reads none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return torch.zeros_like(gradients[0]) + ctx.saved_tensors[0].cos()


class Both(Function):
    """Two results, and gradients that are none of zeros'."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return gradients[0] * 3 + 1 + gradients[1] * x, x.exp()


def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return Both.apply(x, y)


def hooked(x: Tensor) -> Tensor:
    h = x * 2
    h.register_hook(lambda gradient: gradient * 2 + 1)
    return h * 3


def checked(x: Tensor) -> Tensor:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda x: (x * 0).sqrt(), x, use_reentrant=False)


Program = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def joined(x: Tensor) -> Tensor:
    """x, and zeros below it."""
    longer = x.new_zeros(5, 4)
    longer[:3].copy_(x)
    return longer


PROGRAMS: dict[str, Program] = {
    "a root": lambda x, y: (x.sin(), (x * 0).sqrt()),
    "a norm": lambda x, y: (x.sin(), (x - x.detach()).norm(), x * y),
    "a hook": lambda x, y: (x.sin(), hooked(x)),
    "a function": lambda x, y: (x.sin(), OneMore.apply(x.cos())),
    "a function that reads no gradient": lambda x, y: (Slope.apply(x), x.sin(), Slope.apply(y.exp()).cos()),
    "functions of functions": lambda x, y: (OneMore.apply(Slope.apply(x)) * 2, x.sin(), Slope.apply(OneMore.apply(x))),
    "a function of two results": lambda x, y: ((v := both(x.sin(), y))[0].cos(), v[1] * 2, (x * y).exp()),
    "one result of a function": lambda x, y: (both(x, y)[1].sin(), (x * y).exp(), Slope.apply(both(y, x)[0])),
    "functions of two results": lambda x, y: ((v := both(*both(x, y)))[0], v[1].sin(), (x * 0).sqrt()),
    "parts": lambda x, y: (x.cos(), (v := x.unbind(0))[0] * v[1], (v[0] * 0).sqrt()),
    "an input alone": lambda x, y: (x.sin(), (y * 0).sqrt(), y * 2),
    "an update": lambda x, y: ((z := x * 1).mul_(2), (z * 0).log(), y.sin()),
    "views": lambda x, y: (x.T, (w := (y * 0).sqrt()).view(-1), w.T, x * y),
    "a softmax": lambda x, y: (functional.cross_entropy(x, y.softmax(-1)), x * 2, (y * 0).rsqrt()),
    "a checkpoint": lambda x, y: (x.sin(), checked(x)),
    "a gradient of nothing": lambda x, y: ((x**0).sin(), x.maximum(x.T.reshape(3, 4)) - x, (y * x.round()).cos()),
    "a gradient of nothing, twice": lambda x, y: ((x**0).sin(), x.exp(), (x**0).cos(), x.where(x > 0, 0.0) * y),
    "a gradient of nothing, copied": lambda x, y: (joined(x) ** 0, x.exp() * y),
    "one of several results": lambda x, y: (*x.max(0)[:1], *torch.var_mean(x - x.detach(), 0), x.exp()),
}


def inputs() -> tuple[Tensor, Tensor]:
    x = torch.arange(12.0).view(3, 4).sin().requires_grad_()
    return x, torch.arange(12.0).view(3, 4).cos().requires_grad_()


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.covering
def test_gradients_of_some_results(name: str, dynamic: bool | None) -> None:
    """Zeros in the place of those that there are not gave NaN, and what hooks and functions make of a zero."""
    program, given, ours = PROGRAMS[name], inputs(), inputs()
    with donated_buffers(False):  # the pass runs several times
        expected, results = program(*given), compiled_of(program, dynamic=dynamic)(*ours)
        places = range(len(expected))
        counts = (1, 2, len(places))
        for some in itertools.chain.from_iterable(itertools.combinations(places, count) for count in counts):
            theirs, mine = (
                torch.autograd.grad(
                    [of[k] for k in some], wanted, [torch.ones_like(of[k]) * (k + 2) for k in some],
                    retain_graph=True, allow_unused=True,
                )
                for of, wanted in ((expected, given), (results, ours))
            )  # fmt: skip
            torch.testing.assert_close(mine, theirs, equal_nan=True)


def test_a_part_is_compiled_once_and_only_where_it_differs() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        logits = x @ y.T
        return functional.cross_entropy(logits, logits.detach().softmax(-1)), logits

    def passes(call: Program, backward: int, times: int) -> int:
        for _ in range(times):
            x, y = inputs()
            call(x, y)[backward].sum().backward()
        return sum(record.kind == "backward" for record in cuesta.records)

    cuesta.clear_records()
    compiled = compiled_of(program)
    assert passes(compiled, 0, 3) == 1, "zeros are added to what the loss gives: nothing to compile"
    assert passes(compiled, 1, 3) == 2


def test_a_gradient_that_there_is_not_is_none() -> None:
    x, y = inputs()
    results = compiled_of(lambda x, y: (x.sin(), y.cos()))(x, y)
    results[0].sum().backward()
    assert x.grad is not None and y.grad is None


def test_a_part_of_a_pass_that_is_differentiated_again_is_refused_as_the_whole() -> None:
    x, y = inputs()
    results = compiled_of(PROGRAMS["a root"])(x, y)
    (gradient,) = torch.autograd.grad(results[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


def test_compiled_autograd_is_given_zeros() -> None:
    """It takes the graph of the whole pass to pieces, and knows no undefined gradient."""
    program: Program = lambda x, y: (x.sin(), hooked(y))  # noqa: E731
    results: list[Any] = []
    for call in (program, compiled_of(program)):
        x, y = inputs()
        with compiled_autograd(call is not program):
            call(x, y)[0].sum().backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)
