"""What passes know of devices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cuesta.dialects.core.devices import CPU, GPU, device_type, traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError

ROOT = Path(__file__).resolve().parents[3]


def test_a_device_has_the_facts_of_its_type() -> None:
    assert traits_of_device("cpu") is CPU and traits_of_device("cuda") is GPU and traits_of_device("cuda:3") is GPU
    assert device_type("cuda:3") == "cuda"


def test_a_device_that_no_target_is_for_is_named() -> None:
    with pytest.raises(CuestaError, match="no target is for the device xpu:1; there are some for cpu, cuda"):
        traits_of_device("xpu:1")


@pytest.mark.parametrize("folder", ["transforms", "lowering"])
def test_nobody_below_the_targets_asks_which_device_it_is(folder: str) -> None:
    """They ask for facts of it."""
    asks = re.compile(
        r"""(device\w*|device_of\(.*\)|target) *(==|!=) *["']|\.startswith\(["']cuda|["']cuda["'] *(==|!=)"""
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if asks.search(line)
    ]
    assert not found
    assert asks.search('if device_of(t) == "cpu":') and asks.search('x.device.startswith("cuda")')
