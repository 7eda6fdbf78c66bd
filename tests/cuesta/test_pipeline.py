"""The stages: what they are called, and which options leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from cuesta import pipeline
from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.machine import devices_of
from cuesta.opt import run_captured
from cuesta.pipeline import STAGES, Stage, default_stages, run_pipeline
from tests.support.levels import capture

PROGRAM = """
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %unused = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}"""


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, set[str]()),
        ({"relax_accuracy": False}, {"relax-accuracy", "shorten-walks"}),
        ({"emulate_precision_casts": True}, {"elide-roundings", "relax-accuracy", "shorten-walks"}),
    ],
)
def test_options_about_accuracy(options: dict[str, Any], left_out: set[str]) -> None:
    names = {stage.name for stage in default_stages(**options)}
    for stage in ("elide-roundings", "relax-accuracy"):
        assert (stage in names) == (stage not in left_out)


def test_every_stage_has_a_label_of_its_own() -> None:
    labels = [stage.label for stage in STAGES]
    assert len(set(labels)) == len(labels)
    assert [stage.label for stage in STAGES if stage.name == "cse"] == ["cse", "cse-2"]
    assert Stage("fuse-nests{explain=true}", "").label == "fuse-nests"


def test_the_list_is_printed_with_whys_and_levels() -> None:
    status, text, _ = run_captured(["--list-stages"])
    assert status == 0
    lines = text.splitlines()
    for stage in STAGES:
        assert any(line.split() == [stage.label, *stage.why.split()] for line in lines)
    position = next(k for k, line in enumerate(lines) if line.startswith("loops-to-kernel"))
    assert lines[position + 1].strip() == "-- here begins: kernel"


def test_a_wrong_machine_is_a_wrong_command() -> None:
    status, _, errors = run_captured(["--machine", "lane=8"])
    assert status == 2
    assert "a machine has no lane; it has lanes" in errors


def test_only_what_a_stage_has_touched_is_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = CuestaParser(make_context(), PROGRAM, "<test>").parse_module()
    stages = [stage for stage in STAGES if stage.label in ("cse", "dce", "eliminate-views")]
    verified: list[str] = []
    monkeypatch.setattr(pipeline, "verify_module", lambda module: verified.append(print_text(module)))
    run_pipeline(make_context(), module, stages, verify_each=True)
    assert len(stages) == 3 and len(verified) == len(set(verified)) == 2  # at first, and without what nobody uses
    run_pipeline(make_context(), module, stages, verify_each=True)
    assert verified[2:] == verified[1:2]


def _norms_and_products(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    rows = torch.nn.functional.layer_norm(x @ weight, (6,)).relu() @ weight.T
    counts = torch.zeros(8).index_add(0, (rows[:, 0] > 0).long(), rows.sum(-1))
    return rows.softmax(-1).sum() + counts.cumsum(0).sum()


def _images(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    convolved = torch.nn.functional.conv2d(x, weight, weight.sum((1, 2, 3)), padding=1)
    return torch.nn.functional.max_pool2d(torch.nn.functional.instance_norm(convolved).relu(), 2).mean((2, 3))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that pipelines look up."""
    found: list[str] = []
    parse = pipeline.parse_passes
    monkeypatch.setattr(pipeline, "parse_passes", lambda text: found.append(text) or parse(text))
    return found


def _texts(module: ModuleOp, stages: Sequence[Stage]) -> list[str]:
    """The program after each stage."""
    found: list[str] = []
    run_pipeline(make_context(), module, stages, after_stage=lambda _, now, __: found.append(print_text(now)))
    return found


@pytest.mark.parametrize(
    ("function", "shapes"),
    [(_norms_and_products, ((5, 4), (4, 6))), (_images, ((2, 3, 8, 8), (4, 3, 3, 3)))],
)
def test_what_is_left_out_on_the_cpu_would_have_done_nothing(
    function: Callable[..., torch.Tensor], shapes: tuple[tuple[int, ...], ...], asked: list[str]
) -> None:
    """The same text after every stage, whether passes that need a GPU run or not; they are not even looked up."""
    stages = default_stages()
    left_out = {stage.name for stage in stages if stage.where}
    assert len(left_out) == 18
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    for captured in capture(function, *inputs, backward=True):
        every = _texts(captured.module.clone(), [replace(stage, where="") for stage in stages])
        asked.clear()
        assert _texts(captured.module.clone(), stages) == every and len(every) == len(stages)
        assert asked and left_out.isdisjoint(asked)


def test_a_gpu_among_the_devices_has_all_stages(asked: list[str]) -> None:
    text = PROGRAM.replace("tensor<4xf32>", 'tensor<4xf32, #aten.layout<device = "cuda:0">>')
    mixed = PROGRAM.replace("func.func @main(", 'func.func @main(%g : tensor<f32, #aten.layout<device = "cuda:1">>, ')
    for source, devices in ((text, ["cuda:0"]), (mixed, ["cuda:1", "cpu"])):
        module = CuestaParser(make_context(), source, "<test>").parse_module()
        assert devices_of(module) == devices
        asked.clear()
        stages = [stage for stage in STAGES if stage.where]
        run_pipeline(make_context(), module, stages)
        assert asked == [stage.name for stage in stages]


def test_a_pass_that_is_told_its_target_runs(asked: list[str]) -> None:
    module = CuestaParser(make_context(), PROGRAM, "<test>").parse_module()
    run_pipeline(make_context(), module, [Stage("spread-rows{target=cuda}", "", where="blocks")])
    run_pipeline(make_context(), module, [Stage("spread-rows", "", where="blocks")])
    assert asked == ["spread-rows{target=cuda}"]
