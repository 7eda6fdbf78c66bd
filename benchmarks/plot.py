"""The charts of a report, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]


def draw(rows: Rows, file: Path) -> str:
    """Draws the report of the CPU; says where to, or why not."""
    run = {name: row["run"] for name, row in rows.items() if row.get("run", {}).get("cuesta_ms")}
    cold = {name: row["cold"] for name, row in rows.items() if row.get("cold", {}).get("cuesta", {}).get("cold")}
    return _draw([(_speeds, run), (_fractions, run), (_compiling, cold)], file)


def draw_fractions(rows: Rows, file: Path) -> str:
    """Draws a report of kernels on a device: fraction of the copy bandwidth, and speed against TorchInductor."""
    run = {name: row for name, row in rows.items() if row.get("cuesta_ms")}
    compared = {name: row for name, row in run.items() if row.get("inductor_ms")}
    return _draw([(_fractions, run), (_against_inductor, compared)], file)


def _draw(panels: Sequence[tuple[Callable[[Any, Rows], None], Rows]], file: Path) -> str:
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed (pip install -e '.[dev]' has it)"
    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = [(panel, rows) for panel, rows in panels if rows]
    if not panels:
        return "no plot: nothing to draw"
    height = 1.5 + 0.28 * max(len(rows) for _, rows in panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), height), squeeze=False)
    for axis, (panel, rows) in zip(axes[0], panels, strict=True):
        panel(axis, rows)
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


def _against_inductor(axis: Any, run: Mapping[str, Any]) -> None:
    names = list(run)[::-1]
    values = [run[name]["inductor_ms"] / run[name]["cuesta_ms"] for name in names]
    axis.barh(range(len(names)), values, 0.6, color=COLOURS["cuesta"])
    axis.axvline(1.0, color=COLOURS["inductor"])
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_yticks(range(len(names)), names)
    axis.set_title("speed, TorchInductor = 1")


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
