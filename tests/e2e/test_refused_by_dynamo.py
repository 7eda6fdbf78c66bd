"""What Dynamo refused before any backend was asked: compiled, and as in eager."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.scope import Joined


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "split",
    [lambda x: x.split(2), lambda x: torch.split(x, 2, 1), lambda x: x.unsafe_split(3), lambda x: x.split([0, 0])],
)
def test_pieces_of_nothing(split: Callable[[Tensor], Any], dynamic: bool) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [one * 2 for one in split(x)]

    x = torch.ones(0, 4)
    actual, expected = torch.compile(function, backend="cuesta", dynamic=dynamic)(x), function(x)
    assert [one.shape for one in actual] == [one.shape for one in expected]


def test_an_update_of_a_piece_of_nothing() -> None:
    def function(x: Tensor) -> Tensor:
        x.split(2)[0].mul_(3)
        return x + 1

    compiled = torch.compile(function, backend="cuesta")
    for size in (0, 5, 2):
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x.clone()), function(x.clone()))


def test_a_split_of_something_is_pytorchs() -> None:
    """Also of a size that is a symbol."""
    function = lambda x: x.split(2)  # noqa: E731
    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for size in (5, 6, 7):
        x = torch.arange(float(size))
        for one, other in zip(compiled(x), function(x), strict=True):
            assert torch.equal(one, other)


def test_a_subclass_whose_size_is_that_of_its_parts_together() -> None:
    """Each of which has a symbol of its own."""

    def function(x: Any) -> Any:
        return x * 2 + 1

    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for sizes in ((4, 3), (7, 5)):
        x = Joined(*(torch.randn(size, 2) for size in sizes))
        actual, expected = compiled(x), function(x)
        assert type(actual) is type(expected) and actual.shape == (sum(sizes), 2)
        torch.testing.assert_close(actual, expected)


def test_who_imported_the_backend_before_dynamo_gets_it_too() -> None:
    """When torch asks for the backend by its name, Dynamo is there, whenever this module was imported."""
    text = (
        "import cuesta.backend, sys; assert 'torch._dynamo' not in sys.modules; import torch._dynamo; "
        "from torch._dynamo.output_graph import SubgraphTracer as tracer; "
        "assert not hasattr(tracer._lift_basic_symbols, 'of_parts'); "
        "torch._dynamo.lookup_backend('cuesta'); assert hasattr(tracer._lift_basic_symbols, 'of_parts')"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_effect_beside_inputs_that_share_memory_runs_in_eager() -> None:
    """AOTAutograd forgets the token of the check that `inv` ends with: the call raised, with every backend."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        torch.relu_(y)
        return torch.linalg.inv(torch.eye(2) * (2 + x.sum()))

    def inputs() -> tuple[Tensor, Tensor]:
        x = torch.arange(3.0) - 1
        return x, x[...]

    compiled = torch.compile(function, backend="cuesta")
    with pytest.warns(UserWarning, match="an operator has an effect, beside inputs that share memory"):
        actual = compiled(*inputs())
    torch.testing.assert_close(actual, function(*inputs()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.ones(3), torch.ones(3))  # near miss: memory of its own
