"""The chart of a report, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]


def draw(rows: Rows, file: Path) -> str:
    """Draws the report; says where to, or why not."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed (pip install -e '.[dev]' has it)"
    matplotlib.use("agg")
    from matplotlib import pyplot

    run = {name: row["run"] for name, row in rows.items() if row.get("run", {}).get("cuesta_ms")}
    cold = {name: row["cold"] for name, row in rows.items() if row.get("cold", {}).get("cuesta", {}).get("cold")}
    panels = [panel for panel, wanted in ((_speeds, run), (_fractions, run), (_compiling, cold)) if wanted]
    if not panels:
        return "no plot: nothing to draw"
    height = 1.5 + 0.28 * max(len(run), len(cold))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), height), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        panel(axis, cold if panel is _compiling else run)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    return f"plot: {file}"


COLOURS = {"eager": "#888888", "inductor": "#d08030", "cuesta": "#2060a0"}


def _speeds(axis: Any, run: Mapping[str, Any]) -> None:
    names = list(run)[::-1]
    for offset, side in ((0.2, "inductor"), (-0.2, "cuesta")):
        values = [run[name]["eager_ms"] / run[name][f"{side}_ms"] if f"{side}_ms" in run[name] else 0 for name in names]
        if any(values):
            axis.barh([place + offset for place in range(len(names))], values, 0.4, label=side, color=COLOURS[side])
    axis.axvline(1.0, color=COLOURS["eager"], label="eager")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_yticks(range(len(names)), names)
    axis.set_title("speed, eager = 1")
    axis.legend()


def _fractions(axis: Any, run: Mapping[str, Any]) -> None:
    names = [name for name in run if "copy_ms" in run[name]][::-1]
    for offset, side in ((0.2, "inductor"), (-0.2, "cuesta")):
        values = [run[name]["copy_ms"] / run[name][f"{side}_ms"] if f"{side}_ms" in run[name] else 0 for name in names]
        if any(values):
            axis.barh([place + offset for place in range(len(names))], values, 0.4, label=side, color=COLOURS[side])
    axis.axvline(1.0, color=COLOURS["eager"])
    axis.set_yticks(range(len(names)), names)
    axis.set_title("speed, copy of as many bytes = 1")


def _compiling(axis: Any, cold: Mapping[str, Any]) -> None:
    names = list(cold)[::-1]
    for offset, side in ((0.2, "inductor"), (-0.2, "cuesta")):
        values = [cold[name].get(side, {}).get("cold", {}).get("first_call_seconds", 0) for name in names]
        if any(values):
            axis.barh([place + offset for place in range(len(names))], values, 0.4, label=side, color=COLOURS[side])
    own = [cold[name]["cuesta"]["cold"].get("own_seconds", 0) for name in names]
    axis.barh([place - 0.2 for place in range(len(names))], own, 0.4, label="of it Cuesta's own share", color="#102030")
    axis.set_yticks(range(len(names)), names)
    axis.set_title("cold compile, seconds")
    axis.legend()
