"""A dropout that drops nothing gives what it is given, and not a copy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from cuesta.lowering.capture.dropout_of_nothing import give_what_is_not_dropped
from cuesta.lowering.capture.dynamo_graph import value_of
from cuesta.lowering.capture.memory_ranges import memory_of
from tests.fuzz.calls import scope


@pytest.fixture
def group() -> Iterator[None]:
    """What DTensors need; the group of processes is gone afterwards."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    scope.mesh.cache_clear()


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


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("kind", ["plain", "a subclass", "a DTensor"])
def test_views_of_what_was_not_dropped_are_known_as_views_of_the_argument(kind: str) -> None:
    """300019736: a part of what PyTorch took for a copy was made anew by strides, which a DTensor does not take."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.dropout(x, 0.0, True)
        first, second = y[1:3].chunk(2)
        second.mul_(2)
        return y, y[1:3], first.t()

    def example() -> Tensor:
        x = torch.arange(8.0).view(4, 2)
        return {"plain": x, "a subclass": scope.Pair(x, x + 1), "a DTensor": scope.distributed(x.clone(), 0)}[kind]

    def backend(gm: GraphModule, _: Any) -> Any:
        (dropout,) = gm.graph.find_nodes(op="call_function", target=torch.dropout)
        copy: Any = value_of(dropout)
        give_what_is_not_dropped(gm)
        values = [one for node in gm.graph.nodes for one in tree_leaves(value_of(node)) if isinstance(one, Tensor)]
        assert len(values) > 4 and memory_of(copy) not in map(memory_of, values)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(example())
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.compile(function, backend="cuesta")(x := example())
    expected = function(other := example())
    for one, another in zip((*found, x), (*expected, other), strict=True):
        assert type(one) is type(another) and torch.equal(*map(_plain, (one, another)))


def _plain(value: Any) -> Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else getattr(value, "b", value)
