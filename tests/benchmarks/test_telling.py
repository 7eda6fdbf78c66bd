"""Sums, verdicts and exponents follow from the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.compile_time_growth import Point, fitted_exponent, steepest_exponent, steepest_stages
from benchmarks.plot import draw
from benchmarks.report import cells_of, line, summary, troubles_of


def row(set_name: str, eager: float, inductor: float, cuesta: float, copy: float | None = None) -> dict[str, Any]:
    run: dict[str, Any] = {"eager_ms": eager, "inductor_ms": inductor, "cuesta_ms": cuesta, "problem": None}
    if copy is not None:
        run["copy_ms"] = copy
    return {"set": set_name, "sides": ["inductor", "cuesta"], "run": run}


ROWS = {"one": row("fused", 8.0, 4.0, 1.0, copy=0.5), "two": row("fused", 2.0, 1.0, 1.0, copy=0.25)}


def said(rows: dict[str, Any], what: str) -> str:
    (found,) = [told for told in summary(rows) if told.startswith(what)]
    return found


def test_run_time_is_summed_by_geometric_mean() -> None:
    told = said(ROWS, "run time against TorchInductor, fused")
    assert told.endswith("2.00x (geometric mean of 2), worst 1.00x [two]; must be ≥ 1.5: yes")


def test_a_missed_goal_is_told() -> None:
    slow = {"one": row("fused", 8.0, 4.0, 8.0)}
    assert said(slow, "run time against TorchInductor, worst").endswith("0.50x (worst of 1) [one]; must be ≥ 0.8: NO")


def test_fraction_of_copy_is_of_those_bound_by_memory() -> None:
    told = said({**ROWS, "three": row("fused", 1.0, 1.0, 1.0)}, "fraction of copy bandwidth")
    assert "0.35 (geometric mean of 2), worst 0.25 [two]; must be ≥ 0.6: NO" in told


def test_the_largest_of_our_shares_counts() -> None:
    def models(seconds: float) -> dict[str, Any]:
        return {"set": "models", "cold": {"cuesta": {"cold": {"own_seconds": seconds, "first_call_seconds": 2.0}}}}

    told = said({"bert": models(0.5), "t5": models(1.5)}, "our share of cold compile, models")
    assert told.endswith("1.50 s (worst of 2) [t5]; must be ≤ 1: NO")


def test_run_times_of_a_busy_machine_are_left_out_and_told() -> None:
    rows = {**ROWS, "two": {**ROWS["two"], "run": {**ROWS["two"]["run"], "busy": True}}}
    assert "4.00x (geometric mean of 1)" in said(rows, "run time against TorchInductor, fused")
    assert said(rows, "run times left out").endswith("busy (1): two")


def test_what_was_not_measured_is_not_told() -> None:
    assert not [told for told in summary(ROWS) if told.startswith(("peak memory", "cold compile"))]


def test_every_trouble_is_counted() -> None:
    rows: dict[str, Any] = {name: {**ROWS["one"], "run": dict(ROWS["one"]["run"])} for name in ("a", "b", "c", "d")}
    rows["a"]["run"]["problem"] = "wrong: 1 of 2 results are off"
    rows["b"]["run"]["errors"] = {"cuesta": "BackendCompilerFailed", "inductor": "not ours"}
    rows["c"]["cold"] = {"cuesta": {"cold": {"error": "the process died"}}}
    assert [name for name, _ in troubles_of(rows)] == ["a", "b", "c"]
    assert "refused, wrong or failed: 3" in summary(rows)


@pytest.mark.parametrize("kind", ["run", "cold", "memory"])
def test_columns_stand_still(kind: str) -> None:
    """A row with nothing in it has the columns of one that is full."""
    sides = ("inductor", "cuesta")
    full = cells_of(kind, {**ROWS["one"], "cold": {"capture": {"cold": {"first_call_seconds": 1.0}}}}, sides)
    empty = cells_of(kind, {}, sides)
    assert [name for name, _ in full] == [name for name, _ in empty]
    assert len(line("x", full, heading=True, width=8)) >= 8


def test_exponents() -> None:
    points = [(x, 3.0 * x**1.5) for x in (100.0, 1000.0, 5000.0)]
    assert fitted_exponent(points) == pytest.approx(1.5)
    bent = [(100.0, 1.0), (1000.0, 1.0), (5000.0, 25.0)]
    assert steepest_exponent(bent) == pytest.approx(2.0)
    assert fitted_exponent(bent) < 1.0


def test_steep_stages_are_named() -> None:
    small = Point(100, 2.0, {"linear": 1.0, "square": 1.0, "nothing": 1e-6})
    large = Point(1000, 110.0, {"linear": 10.0, "square": 100.0, "nothing": 1.0})
    assert [(stage, round(exponent, 6)) for stage, exponent, _ in steepest_stages([large, small])] == [
        ("square", 2.0),
        ("linear", 1.0),
    ]


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "chart.png"
    assert draw(ROWS, file) == f"plot: {file}"
    assert file.read_bytes().startswith(b"\x89PNG")
    assert draw({}, tmp_path / "none.png") == "no plot: nothing to draw"
