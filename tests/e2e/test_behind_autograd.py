"""What a program does to its inputs behind autograd's back: other storages, and updates of which no gradient knows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.lowering.capture.behind_autograd import lost_requirement
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow
aten: Any = torch.ops.aten


def leaf(requires: bool = True) -> Tensor:
    return torch.arange(1.0, 13.0).view(3, 4).requires_grad_(requires)


def computed() -> Tensor:
    return leaf() * 2


def assign(x: Tensor, value: Tensor) -> Tensor:
    x.data = value
    return x


Program = Callable[[Tensor, Tensor], Any]
ASSIGNED: dict[str, tuple[Program, Callable[[], tuple[Tensor, Tensor]]]] = {
    "a leaf": (lambda x, y: assign(x, y.data) * 2, lambda: (leaf(), leaf(False) + 1)),
    "a computed one": (lambda x, y: assign(x, x.data + 1) * 2, lambda: (computed(), leaf(False))),
    "before a view": (lambda x, y: (x.view(-1), assign(x, x.data + 1) * 1), lambda: (leaf(), leaf(False))),
    "a view without a gradient": (
        lambda x, y: (x.view(-1), assign(x, x.data + 1) * 1), lambda: (leaf(False), leaf(False)),
    ),
    "shared memory": (
        lambda x, y: (y.mul_(3), assign(x, x.data * 2) + 1)[1],
        lambda: (lambda one: (one.expand(3, 4), one))(torch.arange(4.0)),
    ),
    "a bit": (lambda x, y: assign(x, y) * 2, lambda: (aten._neg_view(leaf(False)), leaf(False) + 1)),
    "another's bit": (lambda x, y: assign(x, y) * 2, lambda: (leaf(False) + 1, aten._neg_view(leaf(False)))),
    "updated afterwards": (lambda x, y: (assign(x, y), y.add_(1), x * 2)[2], lambda: (leaf(False), leaf(False) + 2)),
    "nobody knows what it was": (lambda x, y: assign(x, y * 2) + 1, lambda: (leaf(False), leaf(False))),
    "beside what has a bit": (
        lambda x, y: (assign(x, x.data * 2), y.copy_(x * -1.5), y * 1)[2],
        lambda: (leaf(False), aten._neg_view(leaf(False))),
    ),
}  # fmt: skip
COMPILED = ("nobody knows what it was", "beside what has a bit")


def left_behind(call: Program, made: Callable[[], tuple[Tensor, Tensor]]) -> list[Any]:
    """Results and inputs, what shares memory among them, and the gradients of both inputs."""
    inputs = made()
    outputs = call(*inputs)
    seen = [*(outputs if isinstance(outputs, tuple) else (outputs,)), *inputs]
    memory = [one.untyped_storage()._cdata for one in seen]
    roots = [one for one in seen[:-2] if one.requires_grad]
    wanted = [one for one in inputs if one.requires_grad]
    gradients: Any = ()
    if roots and wanted:
        gradients = torch.autograd.grad(roots, wanted, [torch.ones_like(one) for one in roots], allow_unused=True)
    return [[one.detach().clone() for one in seen], [memory.index(one) for one in memory], *gradients]


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*gets another storage")
@pytest.mark.parametrize("name", ASSIGNED)
def test_an_input_that_gets_another_storage(name: str) -> None:
    """AOTAutograd gives it the storage when the graph has run: what else knows of one of the two has wrong values, and
    gradients go astray; Dynamo makes a new leaf of it.
    """
    program, made = ASSIGNED[name]
    cuesta.clear_records()
    torch.testing.assert_close(left_behind(compiled_of(program), made), left_behind(program, made), rtol=0, atol=0)
    assert bool(cuesta.records) == (name in COMPILED)


def test_a_gradient_through_what_was_computed_before_an_assignment() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        v = x.T
        torch._dynamo.graph_break()
        x.data = x.data * 2
        return v * 1

    made = lambda: (leaf(), leaf(False))  # noqa: E731
    with pytest.warns(UserWarning, match="gets another storage"):
        ours = left_behind(torch.compile(program, backend="cuesta"), made)
    torch.testing.assert_close(ours, left_behind(program, made), rtol=0, atol=0)
    assert len(ours) == 3 and ours[2] is not None


@torch.no_grad()
def silently(x: Tensor) -> Tensor:
    return x.add_(1)


HIDDEN: dict[str, Program] = {
    "a part, detached": lambda x, y: (x.detach()[0].fill_(5), x * 2)[1],
    "its data": lambda x, y: (x.data.add_(1), x * x)[1],
    "without gradients": lambda x, y: (silently(x), x * 2)[1],
    "by a value with a gradient": lambda x, y: (x.detach().copy_(y.detach() * 3), x * y)[1],
    "with a gradient": lambda x, y: (x.mul_(2), x.detach() * y)[1],
}


@pytest.mark.parametrize("name", HIDDEN)
def test_an_update_of_which_no_gradient_knows(name: str) -> None:
    """AOTAutograd gave x another history: its own gradient was None, and what was computed of x later was as if it had
    been made of the update.
    """
    program, made = HIDDEN[name], lambda: (computed(), leaf())
    cuesta.clear_records()
    torch.testing.assert_close(left_behind(compiled_of(program), made), left_behind(program, made), rtol=0, atol=0)
    assert cuesta.records


@pytest.mark.parametrize("name", HIDDEN)
def test_the_history_of_what_was_updated(name: str) -> None:
    results: list[Tensor] = []
    for call in (HIDDEN[name], compiled_of(HIDDEN[name])):
        base, y = leaf(), leaf()
        x = base * 2
        call(x, y)
        results.append(torch.autograd.grad((x * x).sum(), base)[0])
    torch.testing.assert_close(*results, rtol=0, atol=0)


PARTS: dict[str, tuple[Callable[[Tensor], Any], bool]] = {
    "one of several": (lambda x: (x.detach().mul_(2), x.split([1, 3], 1)[0], x * 2)[1:], False),
    "a part of one": (lambda x: (x.data.mul_(2), x.chunk(2)[0][1:], x * 2)[1:], False),
    "beside one alone": (lambda x: (x.detach().mul_(2), x.unbind(0)[1], x[1:])[1:], True),
    "of what is computed": (lambda x: (z := x * 2, z.unbind(0)[1], z.data.mul_(2))[:2], False),
    "nothing written": (lambda x: (x.unbind(0)[1], x * 2), True),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*one of several views")
@pytest.mark.parametrize("name", PARTS)
def test_one_of_several_views_of_what_is_written_to(name: str) -> None:
    """AOTAutograd does not make it anew: it would be one of a copy of the input, and know of no later update."""
    program, is_compiled = PARTS[name]
    cuesta.clear_records()
    results: list[Any] = []
    for call in (program, compiled_of(program)):
        x = leaf()
        outputs = call(x)
        version = outputs[0]._version
        with torch.no_grad():
            (outputs[1] if "computed" in name else x).add_(1)
        results.append(([one.detach().clone() for one in outputs], x.detach(), outputs[0]._version > version))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert bool(cuesta.records) == is_compiled


OVERLAPPING: dict[str, tuple[Callable[[Tensor], Any], bool]] = {
    "the row before": (lambda x: x[1:].add_(x[:-1]), True),
    "a transposed square": (lambda x: (y := x[:2].view(-1)[:4].view(2, 2)).add_(y.T), True),
    "a list": (lambda x: aten._foreach_mul_.List([x[1:]], [x[:-1]]), True),
    "given to": (lambda x: torch.add(x[:-1], 1, out=x[1:]), True),
    "itself": (lambda x: x.mul_(x), False),
    "itself by another view": (lambda x: x.view(-1).mul_(x.view(-1)), False),
    "apart": (lambda x: x[:1].add_(x[2:]), False),
    "every other": (lambda x: x[:, ::2].mul_(x[:, 1::2]), False),
    "copied from the next column": (lambda x: x[:, :-1].copy_(x[:, 1:]), False),
    "half of each row": (lambda x: x[:, :2].mul_(x[:, 2:]), False),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*writes to")
@pytest.mark.parametrize("name", OVERLAPPING)
def test_an_update_that_reads_a_part_of_what_it_writes_to(name: str) -> None:
    """Eager refuses it; AOTAutograd reads all before it writes."""
    program, refuses = OVERLAPPING[name]
    results: list[Any] = []
    cuesta.clear_records()
    for call in (program, compiled_of(program)):
        x = leaf(False)
        if refuses:
            with pytest.raises(RuntimeError, match="single memory location"):
                call(x)
        else:
            call(x)
        results.append(x)
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert bool(cuesta.records) == (not refuses)


READ: dict[str, tuple[Callable[[Tensor], Any], bool]] = {
    "what a mask takes": (lambda x: x.masked_scatter_(torch.tensor([False, True, True, False]), x), False),
    "of another row": (lambda x: x[0].masked_scatter_(x[1] > 6, x[2]), True),
    "of a copy": (lambda x: x.masked_scatter_(torch.tensor([False, True, True, False]), x.clone()), True),
    "elements": (lambda x: x.mul_(x), True),
    "a copy": (lambda x: x.copy_(x), True),
    "the column before": (lambda x: x[:, 1:].mul_(x[:, :-1]), False),
    "a transposed square with gaps": (lambda x: x[:3, :3].add_(x[:3, :3].T), False),
    "another square with gaps": (lambda x: x[:2, :2].add_(x[2:, :2].T), True),
}


@pytest.mark.filterwarnings(
    "ignore:cuesta runs a graph in eager. .*(is no operator of single elements|writes to a part)"
)
@pytest.mark.parametrize("name", READ)
def test_an_update_that_reads_what_it_has_written(name: str) -> None:
    """Eager takes one number after the other from where it writes; AOTAutograd reads all before."""
    program, is_compiled = READ[name]
    results: list[Tensor] = []
    cuesta.clear_records()
    for call in (program, compiled_of(program)):
        x = leaf(False)
        call(x)
        results.append(x)
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert bool(cuesta.records) == is_compiled


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*shares memory with another")
def test_the_history_of_what_shares_memory() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        v = x * 2
        w = v.view(-1)
        torch._dynamo.graph_break()
        w.detach().add_(1)
        return v * v, w

    results: list[Tensor] = []
    for call in (program, torch.compile(program, backend="cuesta")):
        x = leaf()
        squares, w = call(x)
        results.append(torch.autograd.grad([squares.sum(), (w * w).sum()], x)[0])
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["leaf", "part", "computed", "none", "becomes"])
def test_an_input_that_requires_a_gradient_no_longer(kind: str) -> None:
    """210000422: `asarray` of a leaf is the leaf, with other marks; that of anything else is detached."""

    def function(x: Tensor, y: Tensor) -> Any:
        if kind == "becomes":
            x.mul_(y)
            return x + 1
        sines = x.sin()
        given = {"part": x[1:], "computed": sines}.get(kind, x)
        return torch.asarray(given, requires_grad=False), sines

    def inputs() -> list[Tensor]:
        return [torch.ones(3).requires_grad_(kind not in ("none", "becomes")), torch.ones(3).requires_grad_()]

    reasons: list[str | None] = []

    def backend(gm: torch.fx.GraphModule, given: Any) -> Any:
        reasons.append(lost_requirement(gm, given))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*inputs())
    assert [reason is not None for reason in reasons] == [kind == "leaf"]
    torch._dynamo.reset()
    ours, theirs = inputs(), inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.compile(function, backend="cuesta")(*ours)
    expected = function(*theirs)
    marks = [[one.requires_grad for one in each] for each in ((*ours, *found), (*theirs, *expected))]
    assert marks[0] == marks[1]
