"""Inputs that share parts of tensor subclasses, of which one is written to; and what only looks like it is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls import scope
from tests.fuzz.calls.operators import fuzz
from tests.fuzz.calls.scope import Pair, Shard, distributed

Inputs = Callable[[], list[Tensor]]
Program = Callable[[Tensor, Tensor], Any]


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """What DTensors need; the group of processes is gone afterwards."""
    torch._dynamo.reset()
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    scope.mesh.cache_clear()


def dtensor() -> Any:
    return distributed(torch.arange(1.0, 5), None)


def pairs_of_one() -> list[Tensor]:
    x = torch.arange(4.0)
    return [Pair(x, x + 1), Pair(x + 2, x)]


def a_pair_and_its_part() -> list[Tensor]:
    x = torch.arange(4.0)
    return [Pair(x, x + 1), x]


def a_pair_of_one() -> list[Tensor]:
    x = torch.arange(4.0)
    return [Pair(x, x), torch.ones(4)]


def tensors_of_one() -> list[Tensor]:
    x = torch.arange(4.0)
    return [distributed(x, None), distributed(x[:], None)]


def parameters_in_one_buffer() -> list[Tensor]:
    x = torch.arange(8.0)
    return [distributed(x[:4], None), distributed(x[4:], None)]


SHARED: dict[str, Inputs] = {
    "distributed alike": lambda: [x := dtensor(), x.redistribute(placements=[Shard(0)])],
    "a part": lambda: [x := dtensor(), x.to_local()],
    "two of one": tensors_of_one,
    "pairs of one": pairs_of_one,
    "a pair and its part": a_pair_and_its_part,
    "a pair of one": a_pair_of_one,
}
APART: dict[str, Inputs] = {
    "in one buffer": parameters_in_one_buffer,
    "of their own": lambda: [dtensor(), dtensor()],
}
WRITING: dict[str, Program] = {
    "before it is read": lambda x, y: (x.add_(1), y * 2)[1],
    "the other": lambda x, y: (y.mul_(2), x + 1)[1],
    "by another name": lambda x, y: (x.detach().add_(1), y * 2)[1],
}


def parts(value: Any) -> list[Tensor]:
    if hasattr(value, "__tensor_flatten__"):
        return [part for name in value.__tensor_flatten__()[0] for part in parts(getattr(value, name))]
    return [value] if type(value) is Tensor else []


def check(program: Program, inputs: Inputs) -> list[str]:
    """That a program gives and leaves behind what it does in eager; and what was said."""
    found: list[list[Tensor]] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for call in (program, torch.compile(program, backend="cuesta", options={"cache": False})):
            given = inputs()
            result = call(*given)
            found.append([part for one in (result, *given) for part in parts(one)])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    return [text for one in said if "cuesta runs a graph in eager" in (text := str(one.message))]


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("writing", WRITING)
def test_inputs_that_share_a_part_see_what_is_written_to_it(writing: str, name: str) -> None:
    """113000317: y stayed as it was, in silence, with every backend."""
    said = check(WRITING[writing], SHARED[name])
    assert name == "a pair of one" or "a tensor subclass that another input lies in" in said[0]


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("writing", WRITING)
def test_parts_that_lie_apart_are_compiled(writing: str, name: str) -> None:
    assert not check(WRITING[writing], APART[name])


@pytest.mark.parametrize("name", SHARED)
def test_what_is_only_read_is_compiled(name: str) -> None:
    assert not check(lambda x, y: (x * 2, y + 1), SHARED[name])


WRITTEN: dict[str, Callable[[Tensor], Any]] = {
    "real": lambda x: (fuzz.shift_(x.real, 0.5), x * 1)[1],
    "imaginary, in a row": lambda x: (y := (x * 1).imag, fuzz.shift_(y.view(-1), 0.5), y)[2],
    "both": lambda x: (y := torch.view_as_real(x * 1), fuzz.shift_(y[..., 1], 0.5), y)[2],
    "another type": lambda x: (fuzz.shift_(x.view(torch.float32), 0.5), x * 1)[1],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_operator_writes_to_parts_of_complex_numbers(name: str) -> None:
    """120002215, 121001709, 121002728, 121002794: raised, with every backend, or wrote elsewhere."""
    found: list[Any] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for call in (WRITTEN[name], torch.compile(WRITTEN[name], backend="cuesta", options={"cache": False})):
            x = torch.complex(torch.arange(24.0), torch.arange(24.0) + 1).view(4, 6)[:2, :3]
            found.append([call(x), x])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    assert any("parts of complex numbers" in str(one.message) for one in said) == (name != "another type")
