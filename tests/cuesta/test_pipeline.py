"""The stages that options leave out."""

from __future__ import annotations

from typing import Any

import pytest

from cuesta.pipeline import default_stages


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
