"""The stages: what they are called, and which options leave out."""

from __future__ import annotations

from typing import Any

import pytest

from cuesta.opt import run_captured
from cuesta.pipeline import STAGES, Stage, default_stages


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
