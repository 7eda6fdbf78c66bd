"""Subclasses that eager makes between graphs: Dynamo of torch 2.11 fails to compile their constructors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.scope import Pair

pytestmark = pytest.mark.slow
A = torch.arange(6.0).view(2, 3)


def test_what_eager_makes_between_graphs() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        return y.argmax(1).unique() + 1

    expected, found = function(Pair(A, A + 1)), torch.compile(function, backend="cuesta")(Pair(A, A + 1))
    assert torch.equal(*(torch.cat(leaves(one)) for one in (found, expected)))


@pytest.mark.filterwarnings("ignore:cuesta leaves a function to Python")
def test_what_a_function_makes_that_is_left_to_python() -> None:
    def function(x: Tensor) -> Tensor:
        torch._foreach_lerp_([x, x], [x, x], 0.5)  # pyright: ignore[reportPrivateImportUsage]
        return -x

    for parts in ((A, A + 1), (Pair(A, A + 1), Pair(A + 2, A + 3))):
        expected = function(Pair(*map(torch.clone, parts)))
        found = torch.compile(function, backend="cuesta")(Pair(*map(torch.clone, parts)))
        assert torch.equal(*(torch.cat(leaves(one)) for one in (found, expected)))


@pytest.mark.filterwarnings("ignore:cuesta leaves a function to Python")
def test_what_such_a_function_does_with_parts_of_sizes_that_are_symbols() -> None:
    """130001735"""

    def function(x: Tensor) -> Tensor:
        torch._foreach_lerp_([x, x], [x, x], 0.5)  # pyright: ignore[reportPrivateImportUsage]
        y = x.reshape(x.shape[0], -1)
        y[1:].copy_(y[:-1].clone())
        return y[1:] * y[:-1]

    parts = [torch.arange(8.0).view(4, 2) + part for part in range(4)]
    for make in (lambda: Pair(*parts[:2]), lambda: Pair(Pair(*parts[:2]), Pair(*parts[2:]))):
        torch._dynamo.reset()
        given, pair = make().clone(), make().clone()
        found = torch.compile(function, backend="cuesta", dynamic=True)(given)
        assert torch.equal(*(torch.cat(leaves(one)) for one in (found, function(pair))))
        assert torch.equal(*(torch.cat(leaves(one)) for one in (given, pair)))


def leaves(value: Tensor) -> list[Tensor]:
    return [*leaves(value.a), *leaves(value.b)] if isinstance(value, Pair) else [value]
