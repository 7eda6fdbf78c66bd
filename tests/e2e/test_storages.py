"""Addresses in the storage of an argument (`as_strided` with an offset), wherever the argument begins in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from cuesta.finishing import make_boxed
from cuesta.values_of_inputs import addressed, given_memory
from tests.support.levels import capture, check_levels

BASE = torch.arange(40.0)


def views() -> list[torch.Tensor]:
    """Tensors of one type that begin in different places."""
    return [BASE[begin : begin + 12].view(3, 4) for begin in (0, 5, 28)]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", fullgraph=True)


def windows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    copy = torch.as_strided_copy(x, (4,), (2,), 1)
    return x.as_strided((3, 2), (2, 1), 5) * 2, x.as_strided((2, 2), (1, 3), 0) + 1, copy


def test_arguments_that_begin_anywhere() -> None:
    """One program, which is generated."""
    function, count = compiled(windows), len(cuesta.records)
    for x in views():
        torch.testing.assert_close(function(x), windows(x), rtol=0, atol=0)
    assert len(cuesta.records) == count + 1
    assert not cuesta.records[-1].fallbacks and not cuesta.records[-1].library_calls


def test_a_view_of_the_storage_is_one() -> None:
    function = compiled(lambda x: x.as_strided((2, 3), (4, 1), 1))
    for x in views():
        y = function(x)
        assert y.untyped_storage().data_ptr() == BASE.untyped_storage().data_ptr()
        assert torch.equal(y, x.as_strided((2, 3), (4, 1), 1)) and y.storage_offset() == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x.as_strided((3, 4), (1, 2), 3),
        lambda x: x[1:].as_strided((3, 4), (1, 2), 3) * 2,
        lambda x: x.as_strided((2, 4), (1, 10), 3) * 2,
    ],
    ids=["read itself too", "by a view", "beyond its own extent"],
)
def test_what_is_left_to_eager(function: Callable[..., Any]) -> None:
    for x in views():
        assert torch.equal(compiled(function)(x), function(x))


def test_what_is_written_by_addresses() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((2, 2), (1, 3), 1).mul_(2)
        return x.as_strided((3,), (1,), 0) + 1

    ours, theirs = BASE.clone(), BASE.clone()
    assert torch.equal(compiled(function)(ours[:12]), function(theirs[:12]))
    assert torch.equal(ours, theirs)


def test_every_level_means_it() -> None:
    for x in views():
        (graph,) = capture(windows, x)
        check_levels(graph)


def test_gradients() -> None:
    x = views()[1]
    assert torch.equal(*(_gradient(function, x) for function in (compiled(windows), windows)))


def _gradient(function: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.cat([y.square().flatten() for y in function(leaf)]).sum(), leaf)
    return gradient


def test_who_copies_an_argument_takes_it_from_its_start_before() -> None:
    """As captures of a CUDA device do."""
    graph = make_fx(lambda x, y: x.as_strided((3,), (1,), 2) + y, tracing_mode="fake")(*views()[:1], torch.ones(3))
    found = addressed(graph)
    assert [position for position, _ in found] == [0]
    for x in views():
        (taken, _) = given_memory(make_boxed(lambda args: [*args]), found)([x, torch.ones(3)])
        assert torch.equal(taken, BASE[:12].view(3, 4)) and taken.data_ptr() == BASE.data_ptr()
