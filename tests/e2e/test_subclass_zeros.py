"""Gradients that nobody asked for, of results that are tensor subclasses: zeros of the subclass, as eager has none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.subclass_zeros import is_undefined, zeros_of
from tests.fuzz.calls import scope
from tests.fuzz.calls.outcomes import donated_buffers
from tests.fuzz.calls.scope import Joined, Pair, distributed
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def group() -> Iterator[None]:
    """What DTensors need; the group of processes is gone afterwards."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    scope.mesh.cache_clear()


def rows(start: float, count: int = 3) -> Tensor:
    return (torch.arange(4.0 * count).view(count, 4) + start).sin()


def pair(start: float, count: int = 3) -> Tensor:
    return Pair(rows(start, count), rows(start + 1, count))


def pairs(start: float, count: int = 3) -> Tensor:
    return Pair(pair(start, count), pair(start + 2, count))


def spread(start: float, count: int = 3) -> Tensor:
    return distributed(rows(start, count), 0)


KINDS: dict[str, Callable[..., Tensor]] = {"pair": pair, "pairs": pairs, "DTensor": spread}


def updated(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    v = x * 1
    torch._dynamo.graph_break()
    v.mul_(2)
    return v + 1, v, y.sin()


def updated_alone(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return updated(x, y)[::2]


Program = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
PROGRAMS: dict[str, Program] = {
    "two": lambda x, y: (x * 2, x * 3),
    "a root": lambda x, y: (x.sin(), (x * 0).sqrt()),
    "an input alone": lambda x, y: (x.sin(), y * 2),
    "one object twice": lambda x, y: ((v := x * 1), v.add_(1), y * 2),
    "an update": updated,
    "an update, and nobody reads it": updated_alone,
}


def plain(value: Any) -> list[Tensor | None]:
    """The tensors that it is made of."""
    if not hasattr(value, "__tensor_flatten__"):
        return [value]
    parts = (getattr(value, name) for name in value.__tensor_flatten__()[0])
    return [one for part in parts if isinstance(part, Tensor) for one in plain(part)]  # no mesh


def gradients(program: Program, make: Callable[..., Tensor], count: int, some: tuple[int, ...]) -> list[Any]:
    x, y = make(0, count).requires_grad_(), make(5, count).requires_grad_()
    results = program(x, y)
    roots = [results[place] for place in some]
    found = torch.autograd.grad(roots, [x, y], [torch.ones_like(one) for one in roots], allow_unused=True)
    return [(type(one).__name__, plain(one)) for one in found]


@pytest.mark.parametrize(("name", "dynamic"), [*((name, None) for name in PROGRAMS), ("a root", True)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.covering
def test_gradients_of_some_results(name: str, kind: str, dynamic: bool | None) -> None:
    program, make = PROGRAMS[name], KINDS[kind]
    with donated_buffers(False):
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="cuesta", dynamic=dynamic)
        places = range(len(program(make(0), make(5))))
        for some in itertools.chain.from_iterable(itertools.combinations(places, count) for count in (1, len(places))):
            for count in (3, 5):
                expected, found = (gradients(run, make, count, some) for run in (program, compiled))
                for (kept, ours), (wanted, theirs) in zip(found, expected, strict=True):
                    assert kept == wanted
                    torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_only_what_there_is_is_run() -> None:
    """A part of the pass is compiled, as for plain tensors."""
    cuesta.clear_records()
    compiled = compiled_of(PROGRAMS["a root"])
    for _ in range(3):
        gradients(compiled, pair, 3, (0,))
    assert sum(record.kind == "backward" for record in cuesta.records) == 2


def test_a_loss_beside_logits() -> None:
    """As models return them, of which only the loss is differentiated."""

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        logits = x @ w
        return (logits * logits).mean(), logits

    found: list[Any] = []
    for call in (model, compiled_of(model)):
        x, w = distributed(rows(0), None), distributed(rows(1, 4), None).requires_grad_()
        call(x, w)[0].backward()
        found.append(w.grad)
    assert type(found[0]) is type(found[1]) and found[0].placements == found[1].placements
    torch.testing.assert_close(found[1].to_local(), found[0].to_local())


def test_a_gradient_of_another_kind_is_refused() -> None:
    """docs/differences.md"""
    x = Joined(rows(0), rows(1, 2)).requires_grad_()
    result = compiled_of(lambda x: -x)(x)
    with pytest.raises(RuntimeError, match="we guessed its"):
        result.sum().backward()


def test_the_kind_of_the_gradient_of_a_plain_tensor_is_that_of_what_reads_it() -> None:
    """86012498: it was that for all results together. docs/differences.md"""

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.erf(), x.minimum(y).log_softmax(-1)

    found: list[list[Any]] = []
    for call in (program, compiled_of(program)):
        results = call(x := rows(0).requires_grad_(), pair(1))
        every = ([results[0]], [results[1]], [*results])
        found.append([torch.autograd.grad(some, x, [*map(torch.ones_like, some)], retain_graph=True) for some in every])
    for (ours,), (theirs,) in zip(found[1], found[0], strict=True):
        assert type(ours) is type(theirs)
        torch.testing.assert_close(plain(ours), plain(theirs))
    assert [type(one) for (one,) in found[1]] == [Tensor, Pair, Pair]


def test_zeros_lie_as_what_they_are_zeros_of() -> None:
    for tensor in (pairs(0), spread(0), Joined(rows(0), rows(1, 2)), Pair(rows(0).T, rows(0).T), torch.ones(2, 1).T):
        made = zeros_of(tensor)()
        assert type(made) is type(tensor) and made.shape == tensor.shape and made.stride() == tensor.stride()
        for zero, one in zip(plain(made), plain(tensor), strict=True):
            assert zero is not None and one is not None and not zero.any() and is_undefined(zero)
            assert (zero.shape, zero.stride(), zero.dtype) == (one.shape, one.stride(), one.dtype)
            assert not is_undefined(one)


def test_parts_that_are_integers_are_kept() -> None:
    whole: Any = Pair(torch.ones(3), torch.ones(3))
    whole.b = torch.arange(3)
    made = zeros_of(whole)()
    assert made.b is whole.b and not made.a.any()
