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


OTHER_TYPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a view": lambda x: x.view(torch.int32).as_strided((2,), (1,), 0) + 1,
    "a wider one": lambda x: x.view(torch.int64).as_strided((2,), (1,), 1) + 1,
    "a narrower one, of a view": lambda x: x.view(3, 4)[1:].view(torch.int16).as_strided((2, 2), (1, 3), 1) + 1,
    "a copy": lambda x: torch.ops.aten.copy(x.view(torch.int32), x.int()).as_strided((4,), (1,), 0),
    "a copy of nothing": lambda x: torch.ops.aten.copy(x[:0].view(torch.int32), x[:0].int()).as_strided((1,), (1,), 0),
    "an insertion": lambda x: torch.slice_scatter(x.view(torch.int32), x[:1].int(), 0, 0, 1).as_strided((4,), (1,), 0),
    "an insertion by addresses": lambda x: torch.as_strided_scatter(
        x.view(torch.uint8), torch.ones(2, dtype=torch.uint8), (2,), (1,), 8
    ) + 1,
    "of what is computed": lambda x: (x * 2)[1:].view(torch.int32).as_strided((2,), (1,), 0) + 1,
    "of parts of complex numbers": lambda x: torch.view_as_real(torch.view_as_complex(x.view(-1, 2))).view(
        torch.int32
    ).as_strided((2,), (1,), 0) + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_addresses_in_what_is_read_as_another_type(name: str) -> None:
    """66015217: it is a view of the storage, of which it may be a part anywhere, and no tensor of its own."""
    function = compiled(OTHER_TYPES[name])
    for begin in (0, 6, 28):
        x = BASE[begin : begin + 12]
        assert torch.equal(function(x), OTHER_TYPES[name](x)), begin


def test_addresses_in_a_nest_of_its_own_that_is_read_as_another_type_are_generated() -> None:
    function, count = compiled(lambda x: (x * 2).view(torch.int32).as_strided((2,), (1,), 1) + 1), len(cuesta.records)
    assert torch.equal(function(BASE), (BASE * 2).view(torch.int32)[1:3] + 1)
    assert len(cuesta.records) == count + 1 and not cuesta.records[-1].fallbacks


LOST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "an update before": lambda x: x.add_(1).as_strided((2,), (1,), 0) * 2,
    "an update after": lambda x: (x.as_strided((4,), (1,), 0), x.add_(1))[0] * 2,
    "an update of it": lambda x: (x.as_strided((4,), (1,), 0).add_(1), x * 2)[1],
    "beyond the end": lambda x: x[:4].add_(1).as_strided((2,), (1,), 4) * 2,
    "a copy": lambda x: torch.as_strided_copy(x.add_(1), (2,), (1,), 0),
    "an insertion": lambda x: torch.as_strided_scatter(x.add_(1), x[:2] * 3, (2,), (1,), 0).as_strided((4,), (1,), 0),
    "what is computed, beyond it": lambda x: (x * 2)[:4].add_(1).as_strided((2,), (1,), 6),
    "of a tensor with gaps": lambda x: (x * 2)[::2].as_strided((2,), (1,), 1).add_(1),
    "the negative bit": lambda x: torch.ops.aten._neg_view(x).as_strided((2,), (1,), 0) + 1,
    "the negative bit, computed": lambda x: torch.ops.aten._neg_view((x * 2)[1:]).as_strided((2,), (1,), 0) + 1,
    "the negative bit of complex numbers": lambda x: torch.view_as_complex(x.view(-1, 2)).conj().imag.as_strided(
        (2,), (1,), 0
    ) + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
@pytest.mark.filterwarnings(
    "ignore:cuesta runs a graph in eager. as_strided", "ignore:cuesta runs a graph in eager. AOTAutograd cannot"
)
def test_addresses_of_what_a_functional_graph_does_not_know(name: str) -> None:
    function = compiled(LOST[name])
    for begin in (0, 6, 20):
        ours, theirs = BASE.clone(), BASE.clone()
        found, expected = function(ours[begin : begin + 12]), LOST[name](theirs[begin : begin + 12])
        assert torch.equal(found, expected) and torch.equal(ours, theirs), begin


@pytest.mark.filterwarnings("error:cuesta runs a graph in eager")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).add_(1).as_strided((2,), (1,), 3),
        lambda x: (x * 2)[1:].add_(1).as_strided((2,), (1,), 3),
        lambda x: x.add_(1) * x[:1].clone().as_strided((2,), (0,), 0)[0],
    ],
    ids=["computed", "a part of it", "another memory"],
)
def test_what_is_computed_and_holds_all_that_is_addressed_is_compiled(function: Callable[..., Any]) -> None:
    x = BASE.clone()
    assert torch.equal(compiled(function)(x[2:14]), function(BASE.clone()[2:14]))


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. as_strided counts")
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
