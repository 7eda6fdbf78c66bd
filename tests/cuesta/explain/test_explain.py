"""`cuesta.explain` on small programs: what it finds, and what it says where it cannot."""

from __future__ import annotations

import functools
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as functional

import cuesta
from cuesta.explain.explaining import explain
from cuesta.explain.model import Explanation, Graph, SourceLine
from cuesta.observing import observing
from cuesta.record import CompileRecord

HERE = Path(__file__).name
LEVELS = ["fx", "aten", "loops", "fused", "kernel", "host", "llvm", "wrapper"]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 16)
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.first(x))
        return self.norm(self.second(hidden) + x)


@pytest.fixture(scope="module")
def trained() -> tuple[Block, Explanation]:
    model = Block()
    return model, explain(model, torch.randn(8, 16), training=True)


def said(graph: Graph, sources: tuple[int, ...]) -> list[SourceLine]:
    return [graph.sources[one] for one in sources]


def test_a_training_step_is_two_graphs(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    assert [(one.kind, one.outcome, one.unseen) for one in found.graphs] == [
        ("forward", "compiled", ()),
        ("backward", "compiled", ()),
    ]
    assert found.unseen == ()
    assert found.compile_seconds is not None and found.whole_us is not None and found.eager_us is not None


def test_every_kernel_and_call_has_lines_of_the_model(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    for graph in found.graphs:
        assert graph.kernels and graph.calls
        for one in (*graph.kernels, *graph.calls):
            lines = said(graph, one.sources)
            assert lines and all(Path(line.file).name == HERE for line in lines), one
            assert all(line.text for line in lines)
    gelu = next(one for one in found.graphs[1].kernels if "aten.gelu_backward.default" in one.operators)
    assert [line.text for line in said(found.graphs[1], gelu.sources)] == ["hidden = functional.gelu(self.first(x))"]


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm, self.relu = torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x))
        y += x
        return self.relu(y)


@pytest.mark.slow
def test_a_residual_network_is_known_by_lines_backward_too() -> None:
    lines = explained_lines(torch.nn.Sequential(Residual(), Residual()))
    assert {Path(one.file).name for one in lines} == {HERE}
    assert {one.text for one in lines} == {"y = self.norm(self.convolution(x))", "y += x", "return self.relu(y)"}


def test_modules_of_pytorch_alone_are_known_by_where_they_begin() -> None:
    lines = explained_lines(torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()))
    assert {Path(one.file).name for one in lines} == {"conv.py", "batchnorm.py", "activation.py"}
    assert all(one.text.startswith("def forward(self") for one in lines)


def explained_lines(model: torch.nn.Module) -> set[SourceLine]:
    """Of all launches and calls of a step of training, each of which has some."""
    found = explain(model, torch.randn(2, 4, 8, 8), training=True, time=False, texts=False)
    assert [one.kind for one in found.graphs] == ["forward", "backward"] and not found.unseen
    steps = [(graph, one) for graph in found.graphs for one in graph.steps if one.kind in ("launch", "call")]
    assert all(one.sources for _, one in steps)
    assert all(one.sources for graph in found.graphs for one in (*graph.kernels, *graph.calls))
    return {line for graph, one in steps for line in said(graph, one.sources)}


def test_references_lead_somewhere(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    for graph in found.graphs:
        names = {node.name for node in graph.nodes}
        for kernel in graph.kernels:
            assert set(kernel.nodes) <= names
            assert all(graph.steps[step].name == kernel.name for step in kernel.steps)
        for number, call in enumerate(graph.calls):
            assert graph.steps[call.step].call == number
            assert set(call.nodes) <= names
        texts = {level.name: level.text for level in graph.levels}
        for value in graph.values:
            assert re.search(rf"%{value.name}\b", texts["host"]), value
        for level in graph.levels:
            count = level.text.count("\n")
            assert all(1 <= row.line <= count and row.sources for row in level.lines)
            assert level.language != "mlir" or "loc(" not in level.text


def test_levels_are_there_from_the_graph_to_the_code(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    names = [level.name for level in found.graphs[0].levels]
    assert names == LEVELS
    assert "tick" not in found.graphs[0].levels[-1].text


def test_steps_are_measured_one_by_one(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    for graph in found.graphs:
        measured = [step for step in graph.steps if step.measured_us is not None]
        assert {step.kind for step in measured} == {"launch", "call"}
        assert len(measured) == sum(len(kernel.steps) for kernel in graph.kernels) + len(graph.calls)
        assert [event.step for event in graph.events] == [graph.steps.index(step) for step in measured]
        assert all(one.roofline is not None and one.bound for one in graph.kernels if one.bytes_read)
    (machine,) = found.machines
    assert machine.device == "cpu" and machine.bytes_per_second and machine.flops_per_second


def test_products_are_counted(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    products = [call.flops for call in found.graphs[0].calls]
    assert products == [2 * 8 * 16 * 32, 2 * 8 * 32 * 16]


def test_the_model_is_as_it_was(trained: tuple[Block, Explanation]) -> None:
    model, _ = trained
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(model.norm.running_mean, torch.zeros(16))  # pyright: ignore[reportArgumentType]
    assert int(model.norm.num_batches_tracked) == 0  # pyright: ignore[reportArgumentType]
    assert observing() is None


def test_it_is_json(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read["schema"] == 1
    assert read["graphs"][0]["kernels"][0]["name"] == found.graphs[0].kernels[0].name


def test_stages_and_rules_are_told(trained: tuple[Block, Explanation]) -> None:
    _, found = trained
    graph = found.graphs[1]
    names = [stage.name for stage in graph.stages]
    assert names[0] == "import" and names.index("fuse-nests") < names.index("loops-to-kernel") < names.index("wrapper")
    starts = [stage.start_seconds for stage in graph.stages]
    assert starts == sorted(starts)
    rules = {rule.rule: rule for rule in graph.rewrites}
    assert rules["ComposeViews"].place.startswith("eliminate_views.py:") and rules["ComposeViews"].fired


def test_memory_at_the_peak() -> None:
    def three(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x @ w) @ w)

    (graph,) = explain(three, torch.randn(32, 64), torch.randn(64, 64), time=False).graphs
    product = 32 * 64 * 4
    # A product, and the next one made of it; the ReLU is written over its input.
    assert graph.memory is not None and graph.memory.peak_bytes == 2 * product
    step = graph.steps[graph.memory.peak_step or 0]
    assert (step.kind, step.name) == ("call", "aten.mm.default")
    alive = [graph.values[one] for one in graph.memory.alive_at_peak]
    assert sum(one.bytes or 0 for one in alive if one.born is not None) == 2 * product
    assert {one.role for one in alive} == {"argument", "result"}


def test_why_two_are_apart_is_data() -> None:
    def apart(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0), x.sum(1)

    def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.softmax(x, 1), 0)

    (graph,) = explain(one_after_the_other, torch.randn(64, 48), time=False).graphs
    refusal = next(one for one in graph.refusals if one.final)
    assert refusal.reason and refusal.bytes == 64 * 48 * 4
    assert (refusal.nodes[-1], refusal.producer_nodes[-1]) == ("cumsum", "_softmax")
    (graph,) = explain(apart, torch.randn(64, 48), time=False).graphs
    assert len(graph.kernels) == 2


def test_why_a_call_is_no_kernel() -> None:
    def calls(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.polygamma(25, x), x @ x

    (graph,) = explain(calls, torch.randn(5, 5), time=False).graphs
    kinds = {call.overload: (call.kind, call.why) for call in graph.calls}
    assert kinds["aten.polygamma.default"] == ("fallback", "the derivative 25 of digamma")
    assert kinds["aten.mm.default"][0] == "library"


def test_why_a_schedule_was_chosen() -> None:
    (graph,) = explain(lambda x: x.sum(0) * 2.0, torch.randn(64, 48), time=False).graphs
    schedule = graph.kernels[0].schedule
    assert schedule is not None and schedule.chooser == "cost" and schedule.unit == "float adds"
    costs = [schedule.chosen.cost, *(one.cost for one in schedule.rejected)]
    known = [cost for cost in costs if cost is not None]
    assert len(known) > 1 and known == sorted(known)
    assert graph.kernels[0].predicted_us is None and "CPU" in graph.kernels[0].predicted_by


@pytest.mark.usefixtures("products_are_calls")
def test_on_a_cpu_times_are_predicted_by_the_roofline() -> None:
    (graph,) = explain(lambda x, y: (x @ y).relu(), torch.randn(256, 192), torch.randn(192, 512)).graphs
    for one in (graph.kernels[0], graph.calls[0]):
        assert one.predicted_us is not None and one.measured_us is not None and one.roofline is not None
        assert "roofline" in one.predicted_by
        assert one.predicted_us == pytest.approx(one.roofline * one.measured_us)


def test_layouts_say_why() -> None:
    def convolved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = functional.conv2d(torch.relu(x), w, padding=1)
        return functional.conv2d(torch.relu(y), w, padding=1)

    (graph,) = explain(convolved, torch.randn(2, 8, 12, 12), torch.randn(8, 8, 3, 3), time=False).graphs
    assert graph.layouts
    assert all("bytes more" in one.why and one.chosen in ("channels last", "contiguous") for one in graph.layouts)


def test_a_graph_break_is_told() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    found = explain(broken, torch.randn(4), time=False)
    assert [graph.outcome for graph in found.graphs] == ["compiled", "compiled"]
    (break_,) = found.breaks
    assert break_.reason and "graph_break()" in break_.sources[0].text


def test_what_raises_is_told() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("it is wrong")

    found = explain(wrong, torch.randn(4))
    assert not found.graphs
    (unseen,) = found.unseen
    assert unseen.what == "the program" and "ValueError: it is wrong" in unseen.why


def test_half_a_program_is_shown() -> None:
    def half(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        raise ValueError(f"later: {y}")

    found = explain(half, torch.randn(4))
    assert [graph.outcome for graph in found.graphs] == ["compiled"]
    assert found.graphs[0].kernels
    assert ["later" in one.why for one in found.unseen] == [True]


def test_a_graph_in_eager_says_why() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what explain tells it does not warn of
        found = explain(lambda x: x + 1, torch.randn(4, device="meta"), time=False)
    (graph,) = found.graphs
    assert (graph.outcome, graph.why) == ("eager", "there is no target for the device meta")
    assert [node.operator for node in graph.nodes] == ["placeholder", "aten.add.Tensor", "output"]


def test_nothing_to_compile_is_said() -> None:
    found = explain(lambda x: x + 1, 3, time=False)
    assert not found.graphs and "compiled nothing" in found.unseen[0].why


def test_training_without_gradients_is_said() -> None:
    found = explain(lambda x: x + 1, torch.randn(3), training=True, time=False)
    assert [(one.what, one.why) for one in found.unseen] == [
        ("the backward pass", "no parameter or input requires a gradient")
    ]


def test_pieces_and_sizes_that_only_data_know() -> None:
    def found_only(x: torch.Tensor) -> torch.Tensor:
        return (torch.nonzero(x + 1.0 > 0) * 2).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        (graph,) = explain(found_only, torch.randn(4, 4)).graphs
    call = next(one for one in graph.calls if one.overload == "aten.nonzero.default")
    assert call.kind == "eager" and call.measured_us is not None
    assert graph.memory is not None and any("only a run knows" in note for note in graph.memory.notes)


def test_only_functions_are_explained() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="a function or a module, not int"):
        explain(wrong)
    with pytest.raises(cuesta.options.OptionError, match="unknown option"):  # pyright: ignore[reportAttributeAccessIssue]
        explain(torch.relu, torch.randn(3), options={"dumps": "here"})


def test_records_say_what_they_know(tmp_path: Path) -> None:
    cuesta.clear_records()
    torch.compile(lambda x: torch.softmax(x, 0) @ x, backend="cuesta", options={"dump": str(tmp_path)})(
        torch.ones(3, 3)
    )
    (record,) = cuesta.records
    (graph,) = record.explain().graphs
    assert [kernel.name for kernel in graph.kernels] == ["softmax_0"]
    assert graph.kernels[0].bytes_read == 36 and said(graph, graph.kernels[0].sources)
    assert [level.name for level in graph.levels] == [
        "fx",
        "aten",
        "loops",
        "fused",
        "kernel",
        "host",
        "llvm",
        "wrapper",
    ]
    assert any(one.what == "measured times" for one in graph.unseen)
    known = CompileRecord("inference", kernels=2, from_cache=True, seconds={"cache-read": 0.5})
    (graph,) = known.explain().graphs
    assert graph.outcome == "cached" and [stage.name for stage in graph.stages] == ["cache-read"]
    assert "2 launches of kernels" in graph.unseen[0].why and "dump" in graph.unseen[0].why
    gone = CompileRecord("inference", dump=str(tmp_path / "gone"))
    assert "cannot be read" in gone.explain().graphs[0].unseen[0].why


def test_a_model_with_arguments_given_in_advance_is_a_model() -> None:
    model = Block()
    before = {name: one.clone() for name, one in model.named_buffers()}
    found = explain(functools.partial(model, x=torch.randn(8, 16)), training=True, time=False)
    assert not found.unseen and [one.kind for one in found.graphs] == ["forward", "backward"]
    assert all(torch.equal(one, before[name]) for name, one in model.named_buffers())


def test_random_numbers_go_on_as_if_nothing_was_drawn() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    explain(lambda x: functional.dropout(x, 0.5), torch.ones(300))
    assert torch.equal(torch.rand(4), wanted)


def test_a_dump_of_what_is_explained_is_whole(tmp_path: Path) -> None:
    explain(lambda x: (x + 1).exp().sum(), torch.randn(8), time=False, options={"dump": str(tmp_path)})
    (folder,) = tmp_path.iterdir()
    assert "def call(args)" in (folder / "wrapper.py").read_text() and (folder / "kernels.ll").read_text()
