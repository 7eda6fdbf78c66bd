"""Updates in place that Dynamo writes as other operators, of tensors that overlap in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow

Update = Callable[[Any, Any], Any]


def lerp(tensors: list[Tensor], ends: list[Tensor], weight: float) -> None:
    torch._foreach_lerp_(tensors, ends, weight)  # pyright: ignore[reportPrivateImportUsage]


OVERLAPPING: dict[str, Update] = {
    "addcmul": lambda x, y: x.addcmul_(x, y, value=0.5),
    "addcmul of others": lambda x, y: x.addcmul_(y, y, value=0.5),
    "addcdiv": lambda x, y: x.addcdiv_(x, y, value=0.5),
    "add": lambda x, y: x.add_(x, alpha=2),
    "add, with a tensor": lambda x, y: x.add_(x, alpha=y.sum()),
    "lerp": lambda x, y: lerp([x], [y], 0.5),
    "lerp, of a little": lambda x, y: lerp([x], [y], 0.25),
}
"""Of windows, of which eager writes elements one after the other."""
PARTS: dict[str, Update] = {
    "addcmul": lambda x, y: x[1:].addcmul_(x[:-1], x[:-1], value=0.5),
    "addcdiv": lambda x, y: x[1:].addcdiv_(x[:-1], x[1:], value=0.5),
}
"""Which eager refuses: they read another part of what they write."""
APART: dict[str, Update] = {
    "addcmul": lambda x, y: x.addcmul_(x, y, value=0.5),
    "addcdiv": lambda x, y: x.addcdiv_(y, x, value=0.5),
    "add": lambda x, y: x.add_(x, alpha=y[0, 0]),
    "lerp": lambda x, y: lerp([x, y], [x * 3, y * 2], 0.5),
}


def of(update: Update) -> Callable[[Tensor, Tensor], Tensor]:
    def function(x: Tensor, y: Tensor) -> Tensor:
        update(x, y)
        return x + 1

    return function


def run(function: Callable[[Tensor, Tensor], Tensor], size: int) -> tuple[Tensor, Tensor]:
    base = torch.arange(1.0, 1 + size * (size + 1)).view(size + 1, size)
    return function(base.as_strided((size, size), (1, 1)), torch.full((size, size), 2.0)), base


@pytest.mark.filterwarnings("ignore:cuesta leaves a function to Python", "ignore:cuesta runs a graph in eager")
@pytest.mark.parametrize("name", OVERLAPPING)
def test_elements_are_read_when_their_turn_comes(name: str) -> None:
    """Dynamo's graph reads all of them before: other numbers, in silence, also where eager ran that graph."""
    function = of(OVERLAPPING[name])
    compiled = compiled_of(function, fullgraph=False)
    for size in (0, 3, 5):
        for found, expected in zip(run(compiled, size), run(function, size), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.filterwarnings("ignore:cuesta leaves a function to Python")
@pytest.mark.parametrize("name", PARTS)
def test_an_update_of_a_part_by_another_is_refused_as_in_eager(name: str) -> None:
    function = of(PARTS[name])
    for one in (function, compiled_of(function, fullgraph=False)):
        with pytest.raises(RuntimeError, match="single memory location"):
            one(torch.ones(4, 3), torch.ones(4, 3))


@pytest.mark.filterwarnings("error:cuesta")
@pytest.mark.parametrize("name", APART)
def test_what_does_not_overlap_is_compiled(name: str) -> None:
    function = of(APART[name])
    x, y = torch.arange(1.0, 13).view(4, 3), torch.full((4, 3), 2.0)
    torch.testing.assert_close(compiled_of(function)(x.clone(), y.clone()), function(x, y))


def test_what_is_left_to_python_has_its_gradients() -> None:
    """Of a caller of `jacrev` that is not compiled Dynamo compiles the inside, which asks for the gradient of an
    argument of a graph: AOTAutograd gave zeros.
    """

    def f(y: Tensor) -> Tensor:
        v = torch.stack([y, y * 2])
        lerp([v, v], [y, v], 0.1)
        return torch.func.jacrev(lambda x: x.sin().sum(0))(v)  # pyright: ignore

    y = torch.tensor(0.7, requires_grad=True)
    with pytest.warns(UserWarning, match="leaves a function to Python"):
        found = torch.compile(f, backend="cuesta")(y)
    assert torch.equal(found, f(y)) and found.abs().min() > 0.1
