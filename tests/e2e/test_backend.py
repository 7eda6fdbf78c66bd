"""The hook: torch finds it, checks what it is told, and records what it compiled."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import cuesta
from cuesta import backend
from cuesta.backend import Compilers, drop_aliases
from cuesta.options import OptionError, Options
from cuesta.testing import assert_close_to_float64


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def test_torch_lists_the_backend() -> None:
    assert "cuesta" in torch.compiler.list_backends()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"options": {"verfy": "each"}}, "unknown option 'verfy'; did you mean 'verify'?"),
        ({"mode": "fast"}, "unknown mode 'fast'"),
        ({"options": {"trace": "yes"}}, "option 'trace' must be True or False, not 'yes' of type str"),
    ],
)
def test_wrong_options_reach_the_user(chosen: dict, message: str) -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(torch.sin, backend="cuesta", **chosen)(torch.ones(2))
    assert isinstance(caught.value.inner_exception, OptionError)
    assert message in str(caught.value)


def test_the_module_is_the_backend() -> None:
    """What is at hand under the name `cuesta.backend` is the module; torch is content with it, and hands on options."""
    module: Any = cuesta.backend
    compiled = torch.compile(torch.sin, backend=module, fullgraph=True)
    assert_close_to_float64(compiled, torch.sin, [torch.randn(8)])
    assert [record.kind for record in cuesta.records] == ["inference"]
    with pytest.raises(BackendCompilerFailed, match="unknown mode 'fast'"):
        torch.compile(torch.sin, backend=module, mode="fast")(torch.ones(2))


def test_inference_is_one_record() -> None:
    compiled = torch.compile(lambda x: x.sin() + 1, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, lambda x: x.sin() + 1, [torch.randn(8)])
    (record,) = cuesta.records
    assert (record.kind, record.aten_ops) == ("inference", 2)
    assert record.capture_seconds > 0


def test_training_is_two_records() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.sin() * y).sum()

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    inputs = [torch.randn(4, 4, requires_grad=True) for _ in range(2)]
    assert_close_to_float64(compiled, function, inputs)
    assert [record.kind for record in cuesta.records] == ["forward", "backward"]


def sines(count: int) -> torch.fx.GraphModule:
    """So many sines of sines, as AOTAutograd hands them over."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x: torch.Tensor) -> tuple[torch.Tensor]:
        for _ in range(count):
            x = x.sin()
        return (x,)

    with FakeTensorMode() as mode:
        return make_fx(function)(mode.from_tensor(torch.ones(4)))


def test_no_python_code_is_made_when_a_backward_graph_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """AOTAutograd copies the graph then, and nobody calls the copy."""
    made: list[torch.fx.Graph] = []
    python_code = torch.fx.Graph.python_code

    def noted(graph: torch.fx.Graph, *arguments: Any, **options: Any) -> Any:
        made.append(graph)
        return python_code(graph, *arguments, **options)

    monkeypatch.setattr(torch.fx.Graph, "python_code", noted)
    x = torch.randn(3, requires_grad=True)
    y = torch.compile(lambda x: (x.sin() * x).sum(), backend="cuesta", options={"cache": False})(x)
    assert made  # of Dynamo's graph
    made.clear()
    y.backward()
    assert [record.kind for record in cuesta.records] == ["forward", "backward"]
    assert made == []


def test_what_two_threads_compile_at_once_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward pass is compiled in another thread, whatever this one compiles. Here one waits for all of another."""
    options = Options.parse(None, {"cache": False, "cuda_graphs": True})
    begun, other_done = threading.Event(), threading.Event()

    def drop(gm: torch.fx.GraphModule) -> None:
        if threading.current_thread().name == "first":
            begun.set()
            assert other_done.wait(60)

    monkeypatch.setattr(backend, "drop_aliases", drop)
    functions: dict[str, Any] = {}

    def compile_in(name: str, count: int) -> threading.Thread:
        compilers, gm = Compilers(options), sines(count)
        thread = threading.Thread(target=lambda: functions.update({name: compilers.of("inference")(gm, [])}), name=name)
        thread.start()
        return thread

    first = compile_in("first", 2)
    assert begun.wait(60)
    compile_in("second", 3).join()
    (second_record,) = cuesta.records
    spent = dict(second_record.seconds)
    other_done.set()
    first.join()
    assert [record.aten_ops for record in cuesta.records] == [3, 2]
    assert second_record.seconds == spent
    for record in cuesta.records:
        assert record.seconds["load-compiler"] >= 0
        assert record.cuda_graph == "not captured: nothing of it runs on a CUDA device"
    assert len(functions) == 2


def test_same_options_do_not_recompile() -> None:
    for _ in range(2):
        torch.compile(torch.cos, backend="cuesta", options={"trace": False})(torch.ones(3))
    assert len(cuesta.records) == 1


def test_mutated_inputs_are_written_back() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(y)
        return x.relu()

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, function, [torch.randn(5), torch.randn(5)])


def test_an_output_may_alias_an_input_or_another_output() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return x.view(6), x, y, y.t(), y.detach()

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, function, [torch.randn(2, 3, requires_grad=True)])
    x = torch.randn(2, 3)
    assert compiled(x)[1] is x


def test_dropout_draws_from_the_stream_of_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x * 2, 0.3) + torch.rand_like(x)

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    for requires_grad in (False, True):
        x = torch.randn(64, 64, requires_grad=requires_grad)
        torch.manual_seed(7)
        expected = function(x)
        torch.manual_seed(7)
        torch.testing.assert_close(compiled(x), expected)


def test_drop_aliases_keeps_those_that_are_outputs() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    aten = torch.ops.aten
    graph_module = make_fx(lambda x: aten.alias(aten.alias(aten.detach(x.sin()))))(torch.ones(2))
    drop_aliases(graph_module)
    targets = [node.target for node in graph_module.graph.nodes if node.op == "call_function"]
    assert targets == [aten.sin.default, aten.alias.default]
    graph_module.graph.lint()
