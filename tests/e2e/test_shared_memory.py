"""Functions that write to an argument, called with arguments that share memory otherwise than in the first call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta import shared_memory
from tests.fuzz.calls.scope import Pair

Program = Callable[[Tensor, Tensor], Any]
Inputs = Callable[[], list[Tensor]]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def cut(*starts: int, size: int = 3) -> Inputs:
    """Parts of one tensor, or, where they begin below 0, tensors of their own."""

    def inputs() -> list[Tensor]:
        z = torch.arange(20.0)
        return [z[start : start + size] if start >= 0 else torch.arange(float(size)) + start for start in starts]

    return inputs


PROGRAMS: dict[str, Program] = {
    "reads the other after": lambda x, y: (x.add_(1), y * 2)[1],
    "reads the other before": lambda x, y: (r := y * 2, x.add_(1), r)[2],
    "sums": lambda x, y: (x.add_(y.sum()), y.sum())[1],
    "writes both": lambda x, y: (x.mul_(2), y.add_(1), x + y)[2],
    "moves": lambda x, y: (x.copy_(y.roll(1)), y.roll(1))[1],
    "by a view": lambda x, y: (x[1:].mul_(3), y * 5)[1],
    "gives what has the negative bit": lambda x, y: (r := torch.ops.aten._neg_view(y.exp()), x.add_(1), r)[2],
}
CALLS: dict[str, list[Inputs]] = {
    "apart, then one": [cut(-1, -2), cut(4, 4)],
    "apart, then in part": [cut(-1, -2), cut(4, 5), cut(5, 3)],
    "in part, then apart": [cut(4, 5), cut(-1, -2)],
    "in part, then elsewhere": [cut(4, 5), cut(7, 8), cut(5, 4), cut(0, 2)],
    "in one tensor, apart, then in part": [cut(0, 3), cut(10, 4), cut(6, 4)],
    "one, then in part": [cut(2, 2), cut(2, 2), cut(2, 3)],
}


def check(function: Callable[..., Any], calls: list[Inputs], dynamic: bool | None = None) -> list[str]:
    """That each call gives and leaves behind what it does in eager; and what was said."""
    compiled = torch.compile(function, backend="cuesta", dynamic=dynamic, options={"cache": False})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for inputs in calls:
            ours, eagers = inputs(), inputs()
            made, meant = compiled(*ours), function(*eagers)
            torch.testing.assert_close([made, *ours], [meant, *eagers], rtol=0, atol=0)
    return [text for one in said if "cuesta runs a graph in eager" in (text := str(one.message))]


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.covering(2)
def test_inputs_share_memory_as_the_call_says(program: str, name: str, dynamic: bool) -> None:
    """The program for two tensors did not see the update of one by the other; that for two views wrote elsewhere."""
    said = check(PROGRAMS[program], CALLS[name], dynamic)
    assert dynamic or len(said) == 1, "a warning, once"


def test_what_is_gathered_for_a_graph_is_a_view_where_eager_runs_it() -> None:
    """A view from a place on that a tensor says is captured as a copy, where it is of no memory that is written to."""

    def function(x: Tensor, y: Tensor, place: Tensor) -> Tensor:
        view = y.narrow(0, place, 2)
        x.add_(1)
        return view * 2

    calls: list[Inputs] = [lambda made=made: [*made(), torch.tensor(1)] for made in (cut(-1, -2), cut(4, 5))]
    assert len(check(function, calls)) == 1


def test_a_view_that_was_given_other_data_lies_where_these_do() -> None:
    """120000974: after a break the two inputs were made anew in the memory that x had left."""

    def function(x: Tensor) -> Tensor:
        x.data = x.data * 2
        turned = x.T
        torch._dynamo.graph_break()
        turned.add_(1)
        return x * 1

    def view() -> list[Tensor]:
        return [torch.arange(10.0).view(1, 5, 2)[..., 1]]

    assert len(check(function, [view, view])) == 1


def test_a_part_of_a_subclass_that_is_shared_later() -> None:
    def pairs(shared: bool) -> Inputs:
        def inputs() -> list[Tensor]:
            x = torch.arange(3.0)
            return [Pair(x, x + 1), x[:] if shared else x + 2]

        return inputs

    def function(x: Any, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    compiled = torch.compile(function, backend="cuesta", options={"cache": False})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for shared in (False, True):
            assert torch.equal(compiled(*pairs(shared)()), function(*pairs(shared)()))
    assert len([one for one in said if "share memory otherwise" in str(one.message)]) == 1


@pytest.mark.parametrize("name", ["tensors of their own", "parts apart", "one by the other"])
def test_what_shares_nothing_that_is_written_to_is_compiled(name: str) -> None:
    """Wherever it lies: nothing is said."""
    calls = {
        "tensors of their own": [cut(-1, -2), cut(-1, -2), cut(-3, -1)],
        "parts apart": [cut(-1, -2), cut(0, 3), cut(12, 4)],
        "one by the other": [cut(0, 1), cut(4, 4), cut(-1, -2)],
    }[name]
    function: Program = (lambda x, y: x * 2 + y) if name == "one by the other" else PROGRAMS["writes both"]
    assert not check(function, calls)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("count", [40, 700])
def test_a_call_for_many_tensors(count: int, dynamic: bool) -> None:
    """However many there are: PyTorch itself does not look (docs/differences.md)."""
    function: Callable[..., Any] = lambda *given: (given[0].add_(1), given[-1] * 2)[1]  # noqa: E731
    many = [-1] * (count - 2)
    apart, one = cut(-1, *many, -2), cut(5, *many, 4)
    if count == 40:
        theirs = torch.compile(function, backend="aot_eager", dynamic=dynamic)
        theirs(*apart())
        x = torch.zeros(3)
        given = [x, *cut(*many)(), x[:]]
        assert not theirs(*given).any(), "PyTorch sees to it itself: there need be no module of ours"
        torch._dynamo.reset()
    assert len(check(function, [apart, apart, one, apart, one], dynamic)) == 1


def test_places_that_were_right_are_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a size is a symbol, and where inputs share memory: what is known is of these sizes and beginnings."""
    looked: list[Sequence[int]] = []
    look = shared_memory._lie_apart

    def counted(addresses: Sequence[int], sizes: Sequence[int]) -> bool:
        looked.append(addresses)
        return look(addresses, sizes)

    monkeypatch.setattr(shared_memory, "_lie_apart", counted)
    compiled = torch.compile(PROGRAMS["writes both"], backend="cuesta", dynamic=True, options={"cache": False})
    z = torch.arange(40.0)
    first, second = [z[:3], z[10:13]], [z[20:24], z[30:34]]
    for inputs in (first, second, first, second):
        compiled(*inputs)
    assert len(looked) == 2
