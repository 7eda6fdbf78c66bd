"""What calls take: all sides compute the same, and each leaves out what it says."""

from __future__ import annotations

import pytest
import torch

from benchmarks import calls
from cuesta import short_calls
from cuesta.targets.cpu import python_calls
from cuesta.targets.cpu.target import CpuTarget


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALLS", 2)
    torch._dynamo.reset()


def test_a_row_has_all_sides() -> None:
    sides = ["eager", calls.FLOOR, "before", "ours", *(calls.WITHOUT + one for one in calls.LEFT_OUT)]
    found = calls.measured("16 numbers", sides, 2)
    assert list(found) == sides and all(0 < least <= median for median, least in found.values())


def test_a_side_leaves_out_what_it_says() -> None:
    assert short_calls.READ and python_calls.has_python() and CpuTarget.scratch
    with calls.without(*calls.LEFT_OUT):
        assert not short_calls.READ and not python_calls.has_python() and not CpuTarget.scratch
    with calls.without(calls.LEFT_OUT[2]):
        assert short_calls.READ and python_calls.has_python() and not CpuTarget.scratch
    assert short_calls.READ and python_calls.has_python() and CpuTarget.scratch


def test_the_parts_of_a_call_hold_each_other() -> None:
    names = list(calls.parts(3))
    assert names[0] == "the run, checks and copies" and names[-1] == "the user's call"


@pytest.mark.parametrize("side", ["eager", calls.FLOOR, "ours"])
def test_sides_compute_the_same(side: str) -> None:
    torch.manual_seed(0)
    call = calls.of_pointwise(side)
    torch.manual_seed(0)
    result = call()
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, torch.sin(torch.randn(16)) * 2 + 1)
