"""The search for nests that are predicted to be slow."""

from __future__ import annotations

import pytest

from benchmarks.predicted_cliffs import main, predictions

pytestmark = pytest.mark.slow


def test_what_is_moved_once_is_near_the_least() -> None:
    found = [*predictions("f32 4096x4096 | softmax 1")]
    assert len(found) == 1 and 0.9 <= found[0].ratio < 1.5
    assert found[0].best <= found[0].chosen


def test_what_reads_across_is_far_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of elements that lie far apart, in the only tiling there is."""
    tiling = {"along": 1, "rows": 1, "lanes": 256, "warps": 1}
    monkeypatch.setattr("benchmarks.predicted_cliffs.cheapest", lambda *_: tiling)
    (found,) = predictions("f32 8192x8192 | sum 0")
    assert found.ratio > 3


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "0-1", "--kinds", "operator,neighbourhood", "--least", "0"])
    told = capsys.readouterr().out
    assert "times the least" in told and "0 programs left out" in told
