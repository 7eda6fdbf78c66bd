"""The stages: what they are called, and which options leave out."""

from __future__ import annotations

from typing import Any

import pytest

from cuesta import pipeline
from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.opt import run_captured
from cuesta.pipeline import STAGES, Stage, default_stages, run_pipeline

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
        ({"relax_accuracy": False}, {"relax-accuracy"}),
        ({"emulate_precision_casts": True}, {"elide-roundings", "relax-accuracy"}),
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
