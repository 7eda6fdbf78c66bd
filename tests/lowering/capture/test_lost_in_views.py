"""What AOTAutograd loses is found, and what only looks like it is compiled. That results are right then:
`tests/fuzz/test_calls.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta.lowering.capture.lost_in_views import lost
from tests.fuzz.calls import scope
from tests.fuzz.calls.operators import fuzz

Program = Callable[[Tensor], Any]


@pytest.fixture
def group() -> Iterator[None]:
    """What DTensors need; the group of processes is gone afterwards."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    scope.mesh.cache_clear()


def reason_of(program: Program, x: Tensor, **settings: Any) -> str | None:
    """Why eager is to run the graph of a program."""
    found: list[str | None] = []

    def backend(gm: Any, _: Any) -> Any:
        found.append(lost(gm))
        return gm.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(program, backend=backend, fullgraph=True, **settings)(x)
    (reason,) = found
    return reason


def shifted(x: Tensor, *, updated: bool) -> Tensor:
    if updated:
        x.add_(1)
    fuzz.shift_(x[1:], 0.5)
    return x * 2


def of_no_grad(x: Tensor, *, recorded: bool) -> Tensor:
    with torch.no_grad():
        view = x[1:]
        if not recorded:
            return view.sum() + x.sum()
    return view * 2


def is_set(x: Tensor, view: Callable[[Tensor], Tensor], source: Callable[[Tensor], Tensor]) -> Tensor:
    made = view(x.sin())
    made.set_(source(x.cos()))  # pyright: ignore[reportArgumentType]
    return made


@pytest.mark.parametrize("dtype", (torch.float32, torch.complex64))
def test_a_bit_of_what_is_set(dtype: torch.dtype) -> None:
    x = torch.ones(2, 2, dtype=dtype)
    negated: Any = torch.ops.aten._neg_view.default
    flips: Any = [negated, torch.conj] if dtype.is_complex else [negated]
    for view in (torch.clone, *flips):
        for source in (torch.clone, *flips):
            reason = reason_of(lambda x, view=view, source=source: is_set(x, view, source), x)
            assert (reason is not None) == (view is not source), reason
            assert reason is None or "another negative or conjugate bit" in reason


@pytest.mark.parametrize("updated, strided, is_lost", [(True, True, True), (True, False, False), (False, True, False)])
def test_a_view_of_what_was_updated(updated: bool, strided: bool, is_lost: bool) -> None:
    x = torch.arange(12.0).view(6, 2)[:, 1] if strided else torch.arange(6.0)
    reason = reason_of(lambda x: shifted(x, updated=updated), x)
    assert (reason is not None and "does not fill its memory" in reason) == is_lost


@pytest.mark.parametrize("dim, is_lost", [(0, True), (1, False)])
def test_a_dim_of_which_only_the_data_knows(dim: int, is_lost: bool) -> None:
    reason = reason_of(lambda x: (x > 0).nonzero().squeeze(dim), torch.ones(3))
    assert (reason is not None and "only the data knows" in reason) == is_lost


def test_a_dim_that_is_guarded() -> None:
    assert reason_of(lambda x: x.squeeze(0) * 2, torch.ones(3, 2), dynamic=True) is None


@pytest.mark.parametrize("recorded", [True, False])
def test_a_view_made_without_gradients(recorded: bool) -> None:
    reason = reason_of(lambda x: of_no_grad(x * 2, recorded=recorded), torch.ones(3, requires_grad=True))
    assert (reason is not None and "made without gradients" in reason) == recorded


@pytest.mark.parametrize("used", ["returned", "used", "detached", "read"])
def test_a_view_made_without_gradients_of_a_view_that_alone_has_one(used: str) -> None:
    """94000541: it has no gradient in eager, and AOTAutograd gave it one, in silence."""

    def function(x: Tensor) -> Any:
        with torch.no_grad():
            view = x.view(-1) if used != "detached" else x.detach().view(-1)
            read = view.sin()
        return view if used in ("returned", "detached") else x * 2, view.flip(0) if used == "used" else read

    x = torch.arange(6.0)[1:].requires_grad_()
    reason = reason_of(function, x)
    assert (reason is not None and "made without gradients" in reason) == (used in ("returned", "used"))
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = torch.compile(function, backend="cuesta")(x)
    assert [one.requires_grad for one in results] == [one.requires_grad for one in function(x)]


@pytest.mark.parametrize(
    ("name", "make", "is_lost"),
    [
        ("a DTensor", lambda: scope.distributed(torch.ones(3, 2), None), True),
        ("parts that lie alike", lambda: scope.Pair(torch.ones(3, 2), torch.zeros(3, 2)), False),
        (
            "parts that begin elsewhere",
            lambda: scope.Pair(torch.ones(6).view(3, 2), torch.zeros(7)[1:].view(3, 2)),
            True,
        ),
        (
            "parts that are not numbers of the whole",
            lambda: scope.Weight(torch.ones(3, 2).char(), torch.ones(())),
            True,
        ),
    ],
)
@pytest.mark.usefixtures("group")
def test_views_of_subclasses_that_take_no_strides(name: str, make: Callable[[], Tensor], is_lost: bool) -> None:
    x = make()
    reason = reason_of(lambda x: (x.t(), x * 2), x)
    assert (reason is not None) == is_lost, name
    assert reason is None or "which takes no strides" in reason
    assert reason_of(lambda x: x.t() * 2, x) is None, "no view is returned"
    assert reason_of(lambda x: x, x) is None, "it is the input itself"


@pytest.mark.usefixtures("group")
def test_a_view_whose_gradient_takes_strides() -> None:
    """92001188: a DTensor gives itself for its own strides, and raises in a backward pass."""
    for recorded in (False, True):
        x = scope.distributed(torch.ones(()), None).requires_grad_(recorded)
        assert (reason_of(lambda x: (x.t(), x * 2), x) is not None) == recorded
    assert reason_of(lambda x: (x.t(), x * 2), scope.Pair(torch.ones(3, 2), torch.ones(3, 2)).requires_grad_()) is None


@pytest.mark.usefixtures("group")
def test_gradients_of_complex_subclasses() -> None:
    def function(x: Tensor) -> Tensor:
        return x * x

    def pair(dtype: torch.dtype, recorded: bool = True) -> Tensor:
        return scope.Pair(torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)).requires_grad_(recorded)

    assert "of which a part has the conjugate bit" in str(reason_of(function, pair(torch.complex64)))
    assert reason_of(function, pair(torch.complex64, False)) is None
    assert reason_of(function, pair(torch.float32)) is None
    assert reason_of(function, scope.distributed(torch.ones(3, dtype=torch.complex64), None).requires_grad_()) is None


@pytest.mark.parametrize(
    ("program", "is_lost"),
    [
        (lambda x: x.add_(1).as_strided((2,), (1,), 0), True),
        (lambda x: (x.as_strided((2,), (1,), 0), x.add_(1)), True),
        (lambda x: torch.ops.aten._neg_view(x).as_strided((2,), (1,), 0), True),
        (lambda x: (x * 2).add_(1).as_strided((2,), (1,), 5), False),
        (lambda x: (x * 2)[::2].add_(1).as_strided((2,), (1,), 1), False),
        (lambda x: (x.as_strided((2,), (1,), 0), (x * 2).add_(1)), False),
    ],
)
def test_addresses_in_memory_that_is_written_to(program: Program, is_lost: bool) -> None:
    assert ("addresses" in str(reason_of(program, torch.arange(7.0)))) == is_lost


@pytest.mark.parametrize(
    ("program", "is_lost"),
    [
        (lambda x: x.data.view(-1), True),
        (lambda x: x.data.mul_(2)[0].t(), True),
        (lambda x: (y := x * 2, y.data), True),
        (lambda x: (x * 2).data, False),
        (lambda x: (y := (x * 2).data, y[0]), False),
        (lambda x: x.data, False),
        (lambda x: (x.data * 2, x.detach()), False),
        (lambda x: (y := x * 2, y.data + y), False),
    ],
    ids=["a view", "updated", "beside it", "alone", "one counter", "what Dynamo gives", "only read", "not returned"],
)
def test_changes_of_data_are_counted_apart(program: Program, is_lost: bool) -> None:
    reason = reason_of(program, torch.ones(3, 4))
    assert ("counted apart" in (reason or "")) == is_lost, reason


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("program", "is_lost"),
    [
        (lambda x: x.to_local()[None], True),
        (lambda x: x.full_tensor().view(-1), True),
        (lambda x: (x * 2, x.redistribute(placements=[scope.Shard(0)])), True),
        (lambda x: (x * 2).to_local(), False),
        (lambda x: x.to_local() * 2, False),
        (lambda x: (y := x * 2, y.to_local()), False),
    ],
    ids=["a part", "all of it", "distributed alike", "what is computed", "only read", "beside what is computed"],
)
def test_results_that_lie_in_parts_of_subclasses(program: Program, is_lost: bool) -> None:
    x = scope.distributed(torch.ones(3, 4), None)
    assert ("lies in a part" in (reason_of(program, x) or "")) == is_lost
    torch._dynamo.reset()
    made: Any = torch.compile(program, backend="cuesta", options={"cache": False})
    outcomes: list[Tensor] = []
    for call in (program, lambda x: ignoring(made, x)):
        x = scope.distributed(torch.ones(3, 4), None)
        results = call(x)
        for one in results if isinstance(results, tuple) else (results,):
            one.add_(1)
        outcomes.append(x.to_local())  # pyright: ignore[reportAttributeAccessIssue]
    assert torch.equal(*outcomes), "who writes to a result writes to what it lies in"


def ignoring(call: Program, x: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cuesta runs a graph in eager: .* lies in a part")
        return call(x)
