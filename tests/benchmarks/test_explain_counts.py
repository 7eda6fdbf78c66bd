"""Counters of a device beside counts: reading them, matching launches, and saying why there are none."""

from __future__ import annotations

import pytest
import torch

from benchmarks.explain_counts import METRICS, Count, Counters, error_of, main, matched, read_counters, report

HEADER = ('"ID"', '"Process ID"', '"Kernel Name"', *(f'"{name}"' for name in METRICS))
LOG = [
    "==PROF== Connected to process 1",
    ",".join(HEADER),
    ",".join(['""', '""', '""', *['"byte"'] * len(METRICS)]),
    '"0","1","gelu_0","4,194,304","131072","0","0","1000","2000","500"',
    '"1","1","ampere_sgemm","9","9","9","9","9","9","9"',
    '"2","1","sum_1","4096","128","2","1","64","0","0"',
    "==PROF== Disconnected",
]


def _count(kernel: str, **numbers: int) -> Count:
    return Count("a case", kernel, numbers.get("read"), numbers.get("written"), numbers.get("flops"), 0, "")


def test_counters_are_read() -> None:
    found = read_counters(LOG)
    assert found == [
        Counters("gelu_0", 4194304.0, 131072.0 * 32, 4000.0),
        Counters("ampere_sgemm", 9.0, 27.0 * 32, 36.0),
        Counters("sum_1", 4096.0, 131.0 * 32, 64.0),
    ]
    assert read_counters(["==ERROR== ERR_NVGPUCTRPERM"]) == []


def test_launches_are_matched_in_order() -> None:
    counters = read_counters(LOG)
    pairs = matched([_count("gelu_0"), _count("sum_1")], counters)
    assert [(count.kernel, one.kernel) for count, one in pairs] == [("gelu_0", "gelu_0"), ("sum_1", "sum_1")]
    assert matched([_count("gelu_0")], counters) == [(_count("gelu_0"), counters[0])]
    assert matched([], counters) == []
    fewer = [_count("gelu_0"), _count("copy_9"), _count("sum_1")]
    assert [count.kernel for count, _ in matched(fewer, counters)] == ["gelu_0", "sum_1"], "the rest is not shifted"


def test_errors_are_fractions_of_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(110, 100.0) == pytest.approx(0.1)
    assert error_of(None, 100.0) is None and error_of(5, 0.0) is None
    counters = read_counters(LOG)
    counts = [
        _count("gelu_0", read=4194304, written=4194304, flops=4000),
        _count("sum_1", read=4096, written=4192, flops=80),
    ]
    found = report(matched(counts, counters))
    assert found["launches"] == 2
    assert found["bytes, median error"] == 0.0
    assert found["arithmetic, median error"] == pytest.approx(0.125)
    assert "arithmetic, median error is more than 5%" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_a_device_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "there is no CUDA device" in capsys.readouterr().err
