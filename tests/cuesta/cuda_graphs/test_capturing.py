"""Captures: what is copied, what is read where it lies, what is handed out, and when there is a new one.

The device here is a fake: it captures a function by keeping what it is given, and replays it by calling it again and
writing what comes of it into the memory of the first results, as a CUDA graph does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import cuesta
from cuesta.cuda_graphs.captured_function import MOST_CAPTURES, Capture, CapturedFunction, Refused
from cuesta.cuda_graphs.capturing import captured
from cuesta.record import CompileRecord
from tests.support.tensors import FakeOn

Function = Callable[[list[Any]], Any]


class FakeDevice:
    def __init__(self) -> None:
        self.at: int | None = 0
        self.log: list[str] = []
        self.waits = False
        self.share = 0.0
        self.constants: list[torch.Tensor] = []
        self.error: str | None = None

    def stream(self) -> int | None:
        return self.at

    def warm_up(self, function: Function, args: list[Any]) -> Any:
        self.log.append("as it is")
        results = function(args)
        if self.waits:
            raise Refused("it waits", results)
        return results

    def capture(self, function: Function, args: list[Any]) -> Capture:
        self.log.append("capture")
        if self.error is not None:
            raise Refused(self.error)
        inside = list(args)
        written = [value.clone() if isinstance(value, torch.Tensor) else value for value in inside]
        results = function(list(inside))
        fresh = _fresh(results, [*inside, *self.constants])
        for value, before in zip(inside, written, strict=True):  # a capture runs nothing
            # Memory that nobody has filled may hold NaN, which is no change.
            if isinstance(value, torch.Tensor) and not torch.allclose(value, before, rtol=0, atol=0, equal_nan=True):
                value.copy_(before)
        for position in fresh:
            results[position].fill_(-1)

        def replay() -> None:
            self.log.append("replay")
            again = function(list(inside))
            for position in fresh:
                results[position].untyped_storage().copy_(again[position].untyped_storage())

        return Capture(replay, results, self.share)


def _fresh(results: Sequence[Any], inside: Sequence[Any]) -> list[int]:
    known = {value.untyped_storage().data_ptr() for value in inside if isinstance(value, torch.Tensor)}
    return [
        position
        for position, value in enumerate(results)
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in known
    ]


class Graph:
    """A captured function, and how it comes to its results: plain calls, captures, replays."""

    def __init__(self, function: Callable[..., Sequence[Any]], **options: Any) -> None:
        self.device = FakeDevice()
        self.told: list[str] = []
        self.plain = 0

        def boxed(args: list[Any]) -> list[Any]:
            self.plain += 1
            values = list(args)
            args.clear()
            return list(function(*values))

        self.captured = CapturedFunction(boxed, self.device, tell=self.told.append, **options)

    def __call__(self, *values: Any) -> list[Any]:
        args = list(values)
        results = self.captured(args)
        assert not args, "the inputs are taken"
        return results

    def log(self) -> list[str]:
        """What the device did since the last time."""
        found, self.device.log = self.device.log, []
        return found


W = torch.arange(4.0)


def test_the_first_call_runs_the_second_is_captured_then_it_replays() -> None:
    graph = Graph(lambda w, x: [w * x + 1])
    inputs = [torch.randn(4) for _ in range(5)]  # all alive: they lie apart
    for x in inputs:
        assert torch.equal(graph(W, x)[0], W * x + 1)
    assert graph.log() == ["as it is", "capture", "replay", "replay", "replay", "replay"]
    (entry,) = graph.captured.entries.values()
    assert set(entry.buffers.by_place) == {1}, "what does not move is not copied"


def test_a_result_that_is_alive_at_the_next_call_lies_elsewhere_than_that_of_it() -> None:
    graph = Graph(lambda x: [x + 1])
    addresses: list[int] = []
    for number in range(8):
        (result,) = graph(torch.full((4,), float(number)))
        assert torch.equal(result, torch.full((4,), number + 1.0))
        addresses.append(result.data_ptr())
    assert graph.log().count("capture") == 2
    assert len(set(addresses[1::2])) == len(set(addresses[2::2])) == 1, "two captures in turns, and no copies"


def test_results_that_pile_up_are_copied() -> None:
    graph = Graph(lambda x: [x + 1, x * 2])
    inputs = [torch.full((4,), float(number)) for number in range(12)]
    results = []
    for x in inputs:
        kept, dropped = graph(x)
        assert torch.equal(dropped, x * 2)
        results.append(kept)
        del kept, dropped
    assert graph.log().count("capture") == 4, "three to hand out, and one to copy from"
    for x, result in zip(inputs, results, strict=True):
        assert torch.equal(result, x + 1), "no result was overwritten by a later call"
        result.fill_(0)
    (entry,) = graph.captured.entries.values()
    assert [output.copied for output in entry.generations[0].outputs] == [True, False]


def test_a_capture_that_takes_much_memory_is_the_only_one() -> None:
    graph = Graph(lambda x: [x + 1])
    graph.device.share = 0.5
    held = [graph(torch.full((4,), float(number)))[0] for number in range(6)]
    assert graph.log().count("capture") == 2, "the second one to copy from"
    assert [result[0].item() for result in held] == [1, 2, 3, 4, 5, 6]


def test_a_constant_is_not_handed_out() -> None:
    constant = torch.ones(4)
    graph = Graph(lambda x: [constant.view(2, 2), x + constant])
    graph.device.constants = [constant]
    for _ in range(5):
        view, more = graph(torch.ones(4))
        assert torch.equal(more, torch.full((4,), 2.0))
        if graph.captured.captures:
            view.zero_()
        del view, more
    assert torch.equal(constant, torch.ones(4))


def test_a_result_that_is_the_next_input() -> None:
    graph = Graph(lambda x: [x * 2])
    x = torch.ones(4)
    for _ in range(9):
        (x,) = graph(x)
    assert torch.equal(x, torch.full((4,), 512.0))


def test_an_input_that_moves_after_all_is_copied_from_then_on() -> None:
    graph = Graph(lambda w, x: [w * x])
    x, y = torch.randn(4), torch.randn(4)
    assert [torch.equal(graph(W, one)[0], W * one) for one in (x, x, x, y, x, y)] == [True] * 6
    assert graph.log() == ["as it is", "capture", "replay", "replay", "capture", "replay", "replay", "replay"]


def test_an_input_that_comes_to_rest_is_no_longer_copied() -> None:
    graph = Graph(lambda w, x: [w * x])
    x, y = torch.randn(4), torch.randn(4)
    for one in (x, y, y, y, y, y, y):
        assert torch.equal(graph(W, one)[0], W * one)
    (entry,) = graph.captured.entries.values()
    assert not entry.buffers.by_place and graph.log().count("capture") == 2
    for one in (x, y, y, y, y, y, y, y):  # it does not settle a second time
        assert torch.equal(graph(W, one)[0], W * one)
    assert set(entry.buffers.by_place) == {1} and graph.log().count("capture") == 1


def test_every_combination_of_sizes_and_every_stream_has_its_own() -> None:
    graph = Graph(lambda size, x: [x * size], sized=[1])
    for _ in range(3):
        for size in (3, 5):
            x = torch.randn(size)
            assert torch.equal(graph(size, x)[0], x * size)
    x = torch.randn(3, 2).t()
    for _ in range(2):
        assert torch.equal(graph(3, x)[0], x * 3)
    assert graph.log().count("capture") == 3
    graph.device.at = 1
    graph(3, torch.randn(3))
    assert graph.log() == ["as it is"]
    graph.device.at = None  # somebody else captures this stream
    graph(3, torch.randn(3))
    assert graph.log() == []


def test_too_many_sizes() -> None:
    graph = Graph(lambda size, x: [x * size])
    for size in range(MOST_CAPTURES + 3):
        graph(size, W)
    assert len(graph.captured.entries) == MOST_CAPTURES
    assert graph.told == [f"it was called with more than {MOST_CAPTURES} combinations of sizes and streams"]
    graph.log()
    graph(0, W)
    assert graph.log() == ["capture", "replay"], "those there are stay"


def test_results_that_are_inputs_or_views_of_them_are_the_callers() -> None:
    graph = Graph(lambda x: [x, x.view(2, 2)[1], 7, x + 1])
    for _ in range(4):
        x = torch.randn(4)
        same, view, number, more = graph(x)
        assert same is x and number == 7
        assert view.data_ptr() == x[2:].data_ptr() and torch.equal(view, x[2:])
        assert torch.equal(more, x + 1)


def test_inputs_of_several_types_that_move_together() -> None:
    """Dense ones of one type are copied at once, the others one by one; each into its own memory."""
    device = FakeDevice()

    def function(args: list[Any]) -> list[torch.Tensor]:
        a, b, c, d, e, f = args
        return [a + 1, b * 2, c - d, e.sum()[None], f + 0]

    wrapped = CapturedFunction(function, device)
    for call in range(6):
        wide = torch.arange(12.0).view(3, 4) + call
        args: list[Any] = [torch.full((2, 3), 1.0 + call), torch.full((3, 2), 2.0 + call).t(), torch.tensor([call, 7])]
        args += [torch.tensor([3 * call, 1]), wide[:, :2], torch.zeros(0)]
        expected = function(list(args))
        for one, other in zip(wrapped(list(args)), expected, strict=True):
            assert torch.equal(one, other)
    assert device.log.count("capture") < 4


def test_an_input_whose_elements_share_memory() -> None:
    graph = Graph(lambda x: [x + 1], sized=[0])
    kept = []
    for _ in range(3):
        x = torch.randn(1, 3).expand(4, 3)
        kept.append(x)
        assert torch.equal(graph(x)[0], x + 1)
        for strides in ((10, 1), (0, 5), (1, 1), (1, 4)):
            y = torch.randn(40).as_strided((4, 3), strides, 2)
            kept.append(y)
            assert torch.equal(graph(y)[0], y + 1)
    empty = Graph(lambda x: [x + 1])
    for _ in range(3):
        kept.append(torch.empty(0, 3))
        assert empty(kept[-1])[0].shape == (0, 3)


def test_an_input_that_is_written_to() -> None:
    graph = Graph(lambda state, x: [state.add_(x)], written=[0])
    state = torch.zeros(4)
    for _ in range(5):
        (result,) = graph(state, torch.ones(4))
    assert torch.equal(state, torch.full((4,), 5.0)) and result is state
    assert graph.log().count("replay") == 4


def test_an_input_that_is_written_to_and_moves_cannot_be_captured() -> None:
    graph = Graph(lambda state, x: [state.add_(x)], written=[0])
    for _ in range(3):
        state = torch.zeros(4)
        kept = torch.empty(4)  # takes the memory that the state leaves
        graph(state, torch.ones(4))
        assert torch.equal(state, torch.ones(4))
        kept = state
    del kept
    assert graph.told == ["it writes to its input number 0, which lies elsewhere from call to call"]


def test_what_waits_for_the_device_runs_once_and_is_refused() -> None:
    graph = Graph(lambda x: [x + 1])
    graph.device.waits = True
    assert torch.equal(graph(W)[0], W + 1)
    assert graph.plain == 1 and graph.told == ["it waits"]
    assert torch.equal(graph(W)[0], W + 1)
    assert graph.log() == ["as it is"]


def test_a_capture_that_fails() -> None:
    graph = Graph(lambda x: [x + 1])
    graph.device.error = "operation not permitted when stream is capturing"
    assert all(torch.equal(graph(W)[0], W + 1) for _ in range(4))
    assert graph.told == ["operation not permitted when stream is capturing"]
    assert graph.log() == ["as it is", "capture"]


# -- what one graph saves for another ----------------------------------------------------------------------------------


def test_what_is_saved_is_not_copied_while_nobody_holds_it() -> None:
    graph = Graph(lambda x: [x + 1, x * 2], visible=1)
    addresses = []
    for number in range(5):
        x = torch.full((4,), float(number))
        user, saved = graph(x)
        assert torch.equal(user, x + 1) and torch.equal(saved, x * 2)
        addresses.append(saved.data_ptr())
        del saved  # what the user sees may live on
    assert len(set(addresses[1:])) == 1
    assert graph.log().count("capture") == 1
    assert graph.plain == 1 + 1 + 4, "one call as it is; the fake runs the function to capture and to replay"


@pytest.mark.parametrize("hold", [lambda saved: saved, lambda saved: saved[1:], lambda saved: saved.detach().view(4)])
def test_what_is_saved_and_held_is_never_overwritten(hold: Callable[[torch.Tensor], torch.Tensor]) -> None:
    graph = Graph(lambda x: [x + 1, x * 2, x * 3], visible=1)
    inputs = [torch.full((4,), float(number)) for number in range(8)]
    held: list[torch.Tensor] = []
    for x in inputs:
        _, saved, dropped = graph(x)
        assert torch.equal(dropped, x * 3)
        del dropped
        held.append(hold(saved))
        del saved
    for x, kept in zip(inputs, held, strict=True):
        assert torch.equal(kept, hold(x * 2))
    assert graph.log().count("capture") == 4, "in other memory, and copied once it is seen to be held for long"


def test_gradients_that_accumulate() -> None:
    graph = Graph(lambda x: [x * 2], visible=0)
    total = None
    for number in range(6):
        (gradient,) = graph(torch.full((4,), float(number)))
        total = gradient if total is None else total.add_(gradient)
    assert total is not None and torch.equal(total, torch.full((4,), 30.0))


# -- through torch.compile, on a machine without a GPU -----------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{"mode": "reduce-overhead"}, {"options": {"mode": "reduce-overhead"}}, {"options": {"cuda_graphs": True}}]
)
def test_without_a_device_there_is_nothing_to_capture(how: dict[str, Any]) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    compiled = torch.compile(lambda x: (x * 2).softmax(-1), backend="cuesta", fullgraph=True, **how)
    x = torch.randn(4, 5)
    assert torch.allclose(compiled(x), (x * 2).softmax(-1))
    (record,) = cuesta.records
    assert record.cuda_graph == "not captured: nothing of it runs on a CUDA device"


def traced(device: str, *nodes: tuple[str, Any, str]) -> torch.fx.GraphModule:
    """A graph of one input on a device, and calls of overloads on it whose results lie on devices."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = FakeOn(device)
    for name, overload, place in nodes:
        node = graph.call_function(overload, (x,))
        node.name = name
        node.meta["val"] = FakeOn(place)
    graph.output((x,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


ATEN = torch.ops.aten


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (
            [("a", ATEN.neg.default, "cuda:0"), ("b", ATEN._to_copy.default, "cpu")],
            "the result of aten._to_copy.default is on the CPU",
        ),
        (
            [("a", ATEN.nonzero.default, "cuda:0")],
            "aten.nonzero.default is one of the operators that cannot be captured (dynamic_output_shape)",
        ),
        ([("a", ATEN.neg.default, "cuda:1")], "it runs on several devices: cuda:0, cuda:1"),
    ],
)
def test_why_a_graph_cannot_be_captured(graph: list[tuple[str, Any, str]], reason: str) -> None:
    record = CompileRecord(kind="inference")

    def function(args: list[Any]) -> Any:
        return args

    with pytest.warns(UserWarning, match="is not captured as a CUDA graph"):
        assert captured(function, traced("cuda:0", *graph), "inference", record) is function
    assert record.cuda_graph == f"not captured: {reason}"


def test_an_index_of_integers_is_no_obstacle() -> None:
    """`index` is said to have dynamic shapes, which it has of masks only."""
    record = CompileRecord(kind="inference")
    graph = traced("cuda:0", ("a", ATEN.index.Tensor, "cuda:0"))
    assert captured(lambda args: args, graph, "inference", record) is not None
    assert record.cuda_graph == "captured"
