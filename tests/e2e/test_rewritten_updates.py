"""Updates in place that Dynamo writes as other operators: of tensors that overlap in memory, of several types."""

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
    "addcmul, with a tensor": lambda x, y: x.addcmul_(x, y, value=y.sum()),
    "addcdiv": lambda x, y: x.addcdiv_(x, y, value=0.5),
    "addcdiv, with a tensor": lambda x, y: x.addcdiv_(x, y, value=y.sum()),
    "add": lambda x, y: x.add_(x, alpha=2),
    "add, with a tensor": lambda x, y: x.add_(x, alpha=y.sum()),
    "lerp": lambda x, y: lerp([x], [y], 0.5),
    "lerp, of a little": lambda x, y: lerp([x], [y], 0.25),
}
"""Of windows, of which eager writes elements one after the other."""
PARTS: dict[str, Update] = {
    "addcmul": lambda x, y: x[1:].addcmul_(x[:-1], x[:-1], value=0.5),
    "addcmul, with a tensor": lambda x, y: x[1:].addcmul_(x[:-1], x[:-1], value=y.sum()),
    "addcdiv": lambda x, y: x[1:].addcdiv_(x[:-1], x[1:], value=0.5),
}
"""Which eager refuses: they read another part of what they write."""
APART: dict[str, Update] = {
    "addcmul": lambda x, y: x.addcmul_(x, y, value=0.5),
    "addcdiv": lambda x, y: x.addcdiv_(y, x, value=0.5),
    "addcdiv, with a tensor": lambda x, y: x.addcdiv_(y, x, value=y[0, 0]),
    "add": lambda x, y: x.add_(x, alpha=y[0, 0]),
    "lerp": lambda x, y: lerp([x, y], [x * 3, y * 2], 0.5),
}


def of(update: Update) -> Callable[[Tensor, Tensor], Tensor]:
    def function(x: Tensor, y: Tensor) -> Tensor:
        update(x, y)
        return x + 1

    torch._dynamo.reset()  # all of these are one code, which Dynamo compiles so and so often
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


MIXED: dict[str, Callable[..., Tensor]] = {
    "addcmul_": lambda x, y, z, by: x.addcmul_(y, z, value=by),
    "addcdiv_": lambda x, y, z, by: x.addcdiv_(y, z, value=by),
    "addcdiv": lambda x, y, z, by: torch.addcdiv(x, y, z, value=by),
    "add_": lambda x, y, z, by: x.add_(y, alpha=by),
}
TYPES = (
    (torch.float64, torch.float32, torch.float32),
    (torch.float32, torch.int8, torch.int8),
    (torch.float64, torch.bfloat16, torch.float32),
    (torch.float32, torch.float64, torch.float32),
    (torch.int64, torch.int8, torch.int8),
)


@pytest.mark.filterwarnings("error:cuesta")
@pytest.mark.parametrize("types", TYPES, ids=lambda types: " ".join(str(one)[6:] for one in types))
@pytest.mark.parametrize("by", [2, torch.tensor(2), 2.5, torch.tensor(2.5)], ids=repr)
@pytest.mark.parametrize("name", MIXED)
def test_factors_are_multiplied_in_the_type_of_the_result(name: str, by: Any, types: tuple[torch.dtype, ...]) -> None:
    """110000031: Dynamo's product of bytes wrapped, that of an x of f64 was one of f32, in silence."""
    x, y, z = (torch.tensor([100, -90, 7]).to(types[0]), torch.tensor([50, 90, -3]).to(types[1]), torch.tensor(3))
    z = (z + torch.arange(3)).to(types[2]) / 1 if types[2].is_floating_point else torch.tensor([50, 3, 9]).to(types[2])
    y = y / 7 if types[1].is_floating_point else y
    function = MIXED[name]
    torch._dynamo.reset()
    try:
        expected = function(x.clone(), y, z, by)
    except RuntimeError:  # it divides integers, or a fraction is to be one
        return
    is_one_graph = x.is_floating_point() or not isinstance(by, Tensor)  # whose number nobody knows before
    found = compiled_of(function, fullgraph=is_one_graph)(x.clone(), y, z, by)
    torch.testing.assert_close(found, expected, rtol=1e-15, atol=0)


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
