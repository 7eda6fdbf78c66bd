"""`make bench-gpu-schedules`: what it does with the results of its workers."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_schedules
from benchmarks.gpu_schedules import bound_asked, gathered, report


class Every:
    """Results of which one comes each half second."""

    def __init__(self) -> None:
        self.now = 0.0

    def next(self, timeout: float) -> list[dict[str, Any]]:
        if timeout < 0.5:
            self.now += timeout
            raise multiprocessing.TimeoutError
        self.now += 0.5
        return [{"line": f"{self.now}"}]


def test_it_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as results came within a second each, it went on, and was killed before it wrote what it had."""
    results = Every()
    monkeypatch.setattr(gpu_schedules, "perf_counter", lambda: results.now)
    assert len(gathered(results, 100, 10.2)) == 20
    assert results.now == pytest.approx(10.2)
    results.now = 0.0
    assert len(gathered(results, 3, 10.0)) == 3, "near miss: all that there are"


def test_what_was_measured_is_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"line": "one", "nest": "", "choices": [{}, {"warps": 4}], "times": [3.0, 2.0]},
        {"line": "two", "error": "it failed"},
    ]
    report(rows, tmp_path / "folder" / "rows.json")
    assert json.loads((tmp_path / "folder" / "rows.json").read_text()) == rows
    told = capsys.readouterr().out
    assert "1.50  3.0 µs, 2.0 with {'warps': 4}: one" in told and "it failed: two" in told
    assert "1 nests of 2; chosen next to best: 1.500 (geometric mean), 1.50 at most" in told


def test_what_a_nest_has_when_parts_and_then_tilings_were_asked_about() -> None:
    parts, tiling = {"part": 512}, {"along": 1, "rows": 4, "lanes": 64, "warps": 2}
    row = {"choices": [{}, parts, tiling], "times": [9.0, 6.0, 3.0], "asked": [tiling], "asked_in_parts": [parts]}
    assert bound_asked(row) == 2.0, "in parts it has a schedule, and its tilings are not asked about"
    assert bound_asked({**row, "times": [9.0, 9.5, 3.0]}) == 1.0
    assert bound_asked({**row, "asked_in_parts": [parts, tiling]}) == 1.0
    assert bound_asked({**row, "asked": [], "asked_in_parts": []}) == 3.0
