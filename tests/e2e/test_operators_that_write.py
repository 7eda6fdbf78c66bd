"""Operators of users that change an argument change the argument itself, where nobody can tell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.operators import fuzz
from tests.support.differential import check, compiled_of

pytestmark = pytest.mark.slow
CACHE = 4 * 64 * 32
addresses: list[int] = []
"""Where what `bump` was given lies."""


@torch.library.custom_op("cuesta_test::bump", mutates_args=("cache",))
def bump(cache: Tensor, x: Tensor) -> None:
    addresses.append(cache.data_ptr())
    cache[:, 5:6].add_(x)


@torch.library.custom_op("cuesta_test::bump_and_sum", mutates_args=("cache", "other"))
def bump_and_sum(cache: Tensor, other: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    addresses.append(cache.data_ptr())
    addresses.append(other.data_ptr())
    cache[:, 5:6].add_(x)
    other.mul_(2)
    return cache.sum(), other.sum()


@bump_and_sum.register_fake
def _(cache: Tensor, other: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cache.new_empty(()), other.new_empty(())


def alone(cache: Tensor, x: Tensor) -> None:
    bump(cache, x * 2)


def read_after(cache: Tensor, x: Tensor) -> Tensor:
    bump(cache, x)
    return cache[:, 5].exp().sum()


def read_before_and_after(cache: Tensor, x: Tensor) -> Tensor:
    before = cache.sum()
    bump(cache, x)
    return before + cache[:, 5].exp().sum()


def twice(cache: Tensor, x: Tensor) -> Tensor:
    bump(cache, x)
    bump(cache, x * 3)
    return cache[:, 4:6] + 1


def of_a_view(cache: Tensor, x: Tensor) -> None:
    bump(cache[1:3], x[1:3])


def two_at_once(cache: Tensor, x: Tensor) -> Tensor:
    first, second = bump_and_sum(cache, x, x + 1)
    return first + second


def kept(cache: Tensor, x: Tensor) -> Tensor:
    old = cache.clone()
    bump(cache, x)
    return old + 1


def between(cache: Tensor, x: Tensor) -> Tensor:
    bump(cache, x)
    middle = cache * 2
    bump(cache, x)
    return middle


LENT: tuple[Callable[..., Any], ...] = (
    alone,
    read_after,
    read_before_and_after,
    twice,
    of_a_view,
    two_at_once,
    kept,
    between,
)


def changed_afterwards(cache: Tensor, x: Tensor) -> None:
    bump(cache, x)
    cache.mul_(2)


def turned(cache: Tensor, x: Tensor) -> None:
    y = cache.clone()
    bump(y, x)
    cache.copy_(y.flip(0))


def of_another(cache: Tensor, x: Tensor) -> Tensor:
    y = cache * 2
    bump(y, x)
    return y


@pytest.mark.parametrize("function", [*LENT, changed_afterwards, turned, of_another])
def test_results_and_arguments_are_as_in_eager(function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    check(function, torch.randn(4, 64, 32), torch.randn(4, 1, 32), truth=False)


@pytest.mark.parametrize("function", LENT)
def test_the_argument_itself_is_changed(function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    cache, x = torch.randn(4, 64, 32), torch.randn(4, 1, 32)
    compiled = compiled_of(function)
    compiled(cache, x)
    addresses.clear()
    compiled(cache, x)
    first, last = cache.data_ptr(), cache.data_ptr() + 4 * cache.numel()
    expected = {x.data_ptr()} if function is two_at_once else set[int]()
    assert addresses and all(first <= one < last or one in expected for one in addresses)


def shifted(x: Tensor, view: Callable[[Tensor], Tensor]) -> Tensor:
    fuzz.shift_(view(x), 1)
    return x + 1


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "a slice": lambda x: x[1:],
    "a column": lambda x: x[:, 1],
    "across": lambda x: x.t()[1:],
    "of a view": lambda x: x.view(-1)[4:][1:],
    "all of it": lambda x: x,
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. an operator writes to a (view|slice) of an input")
@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.covering
def test_an_operator_writes_to_an_input_that_begins_anywhere(name: str, dynamic: bool | None) -> None:
    """81002389: AOTAutograd counts from the start of the memory, or from where it began when it was traced."""
    function = functools.partial(shifted, view=VIEWS[name])
    for begins in ((0, 4), (4, 0), (2, 4), (3, 1), (4, 4)):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="cuesta", dynamic=dynamic, fullgraph=True)
        for begin in begins:
            whole, expected = torch.arange(20.0), torch.arange(20.0)
            result = compiled(whole[begin : begin + 12].view(3, 4))
            assert torch.equal(result, function(expected[begin : begin + 12].view(3, 4))), (begins, begin)
            assert torch.equal(whole, expected), (begins, begin)


def test_a_slice_of_an_input_that_begins_elsewhere_is_compiled() -> None:
    torch._dynamo.reset()
    compiled = compiled_of(functools.partial(shifted, view=VIEWS["a slice"]))
    for begin in (4, 0, 8):  # a warning would be an error
        whole, expected = torch.arange(20.0), torch.arange(20.0)
        compiled(whole[begin : begin + 12].view(3, 4))
        expected[begin + 4 : begin + 12] += 1
        assert torch.equal(whole, expected)


def test_what_becomes_something_else_is_not_changed_on_the_way() -> None:
    torch._dynamo.reset()
    cache, x = torch.randn(4, 64, 32), torch.randn(4, 1, 32)
    addresses.clear()
    compiled_of(turned)(cache, x)
    assert addresses and cache.data_ptr() not in addresses
