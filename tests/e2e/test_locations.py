"""Every op says where it comes from: those of the model, and those that a stage made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser, format_location, format_origin, print_text
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from examples.models import MODELS, inference_step, training_step
from tests.fuzz.texts.corpus import FUNCTIONS
from tests.support.demo_models import make_models_small
from tests.support.levels import Captured, capture, captured_graphs
from tests.support.triton_interpreter import on_cuda
from tests.support.triton_kernels import texts_of

pytestmark = pytest.mark.slow


def without_location(captured: list[Captured]) -> list[str]:
    """The ops that do not say where they come from, each with the first stage that shows one."""
    found: dict[str, str] = {}

    def look(stage: str, module: ModuleOp, seconds: float = 0.0) -> None:
        for op in module.walk():
            if op is not module and isinstance(op.location, UnknownLoc):
                found.setdefault(op.name, f"{op.name} after {stage}")

    for graph in captured:
        module = graph.module.clone()
        look("import", module)
        run_pipeline(make_context(), module, STAGES, after_stage=look)
    return list(found.values())


def test_the_ops_of_small_programs() -> None:
    names = (
        "argmax",
        "scatter",
        "pool",
        "assigned",
        "writes",
        "random",
        "arena",
        "cumsum",
        "views_dynamic",
        "fallback",
    )
    for name in names:
        function, make, dynamic = FUNCTIONS[name]
        assert without_location(capture(function, *make(), dynamic=dynamic)) == [], name


def test_a_graph_without_calls() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return y.add_(1), F.gelu(x).sum(0)

    assert without_location(capture(function, torch.randn(3, 4), torch.randn(4))) == []


def test_who_has_no_line_prints_none() -> None:
    """The ops of a graph that was traced without a model's lines have a location that is a name."""
    gm = make_fx(lambda x: x.exp().sum(0), tracing_mode="fake")(torch.randn(3, 4))
    module = import_graph(gm).module
    text = print_text(module, locations=True)
    assert text.startswith('#at1 = loc("a graph of no lines")\n')
    again = CuestaParser(make_context(), text, "<text>").parse_module()
    (call, *_) = entry_block(again).ops
    assert format_origin(call.location) == "" and format_location(call.location) == "<text>:4"
    moved = on_cuda(module)
    for op in moved.walk():
        op.location = call.location
    for kernel in texts_of(moved):
        assert kernel.source.startswith("@triton.jit\n")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "llama" else pytest.mark.thorough) for name in MODELS]
)
def test_the_ops_of_the_demos_models(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_models_small(monkeypatch)
    torch._dynamo.reset()
    case: Any = MODELS[name]
    with captured_graphs() as captured:
        model, inputs = case.training()
        training_step(torch.compile(model, backend="cuesta"), inputs)
        model, inputs = case.inference()
        inference_step(torch.compile(model, backend="cuesta"), inputs)
    assert without_location(captured) == []
