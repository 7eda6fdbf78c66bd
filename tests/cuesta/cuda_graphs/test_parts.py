"""Graphs that are captured in parts: which parts there are, and that they compute what the whole does.

The device is the fake of `test_capturing.py`, and the CPU stands for what can be captured. What cannot is named.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
from torch import Tensor
from torch.fx import GraphModule

import cuesta
from cuesta.cuda_graphs import capturing
from cuesta.cuda_graphs.parts import LEAST_CALLS, MOST_PARTS, divided, joined, move_numbers
from tests.cuesta.cuda_graphs.test_capturing import FakeDevice

ATEN = torch.ops.aten


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[FakeDevice]:
    """The devices of what is captured; on them everything can be, but for `erf`."""
    made: list[FakeDevice] = []

    def device(index: int) -> FakeDevice:
        made.append(FakeDevice())
        return made[-1]

    def unsafe(node: torch.fx.Node) -> str:
        return "erf cannot be captured" if node.target is ATEN.erf.default else ""

    monkeypatch.setattr(capturing, "_can_capture", lambda device: device.type == "cpu")
    monkeypatch.setattr(capturing, "CudaDevice", device)
    monkeypatch.setattr(capturing, "_unsafe", unsafe)
    torch._dynamo.reset()
    cuesta.clear_records()
    return made


def three(x: Tensor) -> Tensor:
    """Calls enough for a part of their own."""
    return ((x + 1) * x - 2).cos()


def graph_of(function: Callable[..., Any], *inputs: Tensor) -> GraphModule:
    """The graph that AOTAutograd makes of a function, with the updates of inputs at its end."""
    found: list[GraphModule] = []

    def keep(gm: GraphModule, example_inputs: object) -> Callable[..., Any]:
        found.append(gm)
        return make_boxed_func(gm.forward)

    aot_function(function, keep, keep_inference_input_mutations=True)(*[one.clone() for one in inputs])
    return found[0]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", options={"cuda_graphs": True, "cache": False})


def said() -> list[str]:
    return [str(record.cuda_graph) for record in cuesta.records]


def test_what_can_be_captured_is_captured_around_the_rest(devices: list[FakeDevice]) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, int]:
        first = three(x)
        return three(first.erf() + y), first, 7

    run = compiled(function)
    y = torch.randn(8)
    for _ in range(5):
        x = torch.randn(8)
        for ours, theirs in zip(run(x, y), function(x, y), strict=True):
            torch.testing.assert_close(ours, theirs)
    assert said() == [
        "captured (part 1 of 3)",
        "not captured: erf cannot be captured (part 2 of 3)",
        "captured (part 3 of 3)",
    ]
    assert [device.log.count("replay") for device in devices] == [4, 4]


def test_training(devices: list[FakeDevice]) -> None:
    def function(x: Tensor) -> Tensor:
        return three(three(x).erf() * x).sum()

    run = compiled(function)
    for _ in range(4):
        x = torch.randn(8, requires_grad=True)
        (ours,), (theirs,) = (torch.autograd.grad(each(x), x) for each in (run, function))
        torch.testing.assert_close(ours, theirs)
    assert [record.kind for record in cuesta.records].count("forward") == 3
    assert any("replay" in device.log for device in devices)


def test_updates_of_inputs_come_after_all_that_reads_them(devices: list[FakeDevice]) -> None:
    def function(state: Tensor, x: Tensor) -> Tensor:
        late = (state[1:] * 2).sum() * three(x).erf()
        state.add_(three(x))
        return three(late)

    run, ours, theirs = compiled(function), torch.zeros(8), torch.zeros(8)
    for _ in range(4):
        x = torch.randn(8)
        torch.testing.assert_close(run(ours, x), function(theirs, x))
        torch.testing.assert_close(ours, theirs)
    assert len(cuesta.records) > 1


def test_a_part_that_is_too_short_joins_the_others(devices: list[FakeDevice]) -> None:
    run = compiled(lambda x: three((x.erf() + 1).erf()))
    x = torch.randn(8)
    for _ in range(3):
        torch.testing.assert_close(run(x), three((x.erf() + 1).erf()))
    assert said() == ["not captured: erf cannot be captured (part 1 of 2)", "captured (part 2 of 2)"]
    assert LEAST_CALLS > 1


@pytest.mark.parametrize("way", ["many parts", "sizes of the call", "short"])
def test_what_stays_whole(devices: list[FakeDevice], way: str) -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range({"many parts": MOST_PARTS, "sizes of the call": 1, "short": 0}[way]):
            x = three(x).erf()
        return x.erf()

    run = torch.compile(
        function, backend="cuesta", dynamic=way == "sizes of the call", options={"cuda_graphs": True, "cache": False}
    )
    x = torch.randn(8)
    with pytest.warns(UserWarning, match="is not captured as a CUDA graph"):
        torch.testing.assert_close(run(x), function(x))
    assert said() == ["not captured: erf cannot be captured"] and not devices


def test_numbers_on_the_cpu_are_moved_once() -> None:
    gm = graph_of(lambda x, step: (x * step + step, step + 1), torch.randn(4), torch.tensor(3.0))
    number, device = gm.graph.find_nodes(op="placeholder")[1], torch.device("meta")
    for node in gm.graph.nodes:
        if isinstance(node.meta.get("val"), Tensor) and node.meta["val"].dim():
            node.meta["val"] = torch.empty(4, device=device)
    move_numbers(gm, device)
    gm.graph.lint()
    (moved,) = gm.graph.find_nodes(op="call_function", target=ATEN._to_copy.default)
    assert moved.kwargs == {"device": device} and moved.meta["val"].device == device and len(moved.users) == 2
    assert len(number.users) == 2, "the other number is made where it was"


STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda one, other: one + other,
    lambda one, other: one - other,
    lambda one, other: one.abs(),
    lambda one, other: one.flip(0),
    lambda one, other: one[::2].repeat(2),
    lambda one, other: one.view(6),
]


@pytest.mark.slow
def test_random_graphs() -> None:
    """Whatever cannot be captured: the parts compute what the graph does. Those beside each other are of two sorts."""
    divisions = 0
    for seed in range(60):
        draw = random.Random(seed)
        gm, inputs = _graph(draw)
        left = {node for node in gm.graph.nodes if draw.random() < 0.15}
        parts = divided(gm, lambda node, left=left: "left" if node in left else "")
        if parts is None:
            continue
        divisions += 1
        assert all(one.captured != other.captured for one, other in pairwise(parts))
        assert not any(set(part.gm.graph.nodes) & left for part in parts)
        function = joined(gm, parts, [make_boxed_func(part.gm.forward) for part in parts])
        ours, theirs = [one.clone() for one in inputs], [one.clone() for one in inputs]
        for one, other in zip(function(list(ours)), gm(*theirs), strict=True):
            assert torch.equal(one, other)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other), "the updates of inputs"
    assert divisions > 20


def _graph(draw: random.Random) -> tuple[GraphModule, list[Tensor]]:
    """A graph of operators, views and results of several tensors, which ends with updates of its inputs."""
    inputs = [torch.randint(-9, 9, (6,)).float() for _ in range(3)]

    def function(*given: Tensor) -> list[Tensor]:
        values = list(given)
        for _ in range(draw.randrange(8, 40)):
            one, other = draw.choice(values[-6:]), draw.choice(values)
            values.append(draw.choice(STEPS)(one, other))
            if draw.random() < 0.1:
                values.extend(one.sort())
        for one in given:
            if draw.random() < 0.5:
                one.copy_(draw.choice(values))
        return [draw.choice(values[3:]).clone() for _ in range(3)]

    return graph_of(function, *inputs), inputs
