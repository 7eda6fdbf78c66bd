"""Tables and sums. A report is a dictionary from case to what was measured; every number printed is from there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
Cell = tuple[str, str]


def cells_of(kind: str, row: Row, sides: Sequence[str]) -> list[Cell]:
    """One line of a table, as pairs of heading and text."""
    made = {"run": _run_cells, "cold": _cold_cells, "memory": _memory_cells}
    return made[kind](row.get(kind, {}), sides)


def _run_cells(run: Row, sides: Sequence[str]) -> list[Cell]:
    cells = [("eager ms", _number(run.get("eager_ms")))]
    cells += [(f"{side} ms", _number(run.get(f"{side}_ms"))) for side in sides]
    cells.append(("vs eager", _ratio(run.get("eager_ms"), run.get("cuesta_ms"))))
    if "inductor" in sides:
        cells.append(("vs inductor", _ratio(run.get("inductor_ms"), run.get("cuesta_ms"))))
    of_copy = run["copy_ms"] / run["cuesta_ms"] if "copy_ms" in run and "cuesta_ms" in run else None
    cells.append(("of copy", "-" if of_copy is None else f"{of_copy:.2f}"))
    return [*cells, ("", _verdict(run))]


def _verdict(run: Row) -> str:
    errors = [f"{side}: {text}" for side, text in run.get("errors", {}).items()]
    busy = "the machine was busy" if run.get("busy") else None
    told = [text for text in (run.get("error"), run.get("problem"), *errors, busy) if text]
    return "ok" if not told else " | ".join(text.replace("\n", " ")[:160] for text in told)


def _cold_cells(found: Row, sides: Sequence[str]) -> list[Cell]:
    cells: list[Cell] = []
    for start in ("cold", "warm"):
        for side in sides:
            cells.append((f"{side} {start} s", _number(_start(found, side, start, "first_call_seconds"))))
    if "inductor" in sides:
        cold = [_start(found, side, "cold", "first_call_seconds") for side in ("inductor", "cuesta")]
        cells.append(("vs inductor", _ratio(*cold)))
    cells.append(("capture s", _number(_start(found, "capture", "cold", "first_call_seconds"))))
    cells.append(("own cold s", _number(_start(found, "cuesta", "cold", "own_seconds"))))
    cells.append(("own warm s", _number(_start(found, "cuesta", "warm", "own_seconds"))))
    cells.append(("aten ops", str(_start(found, "cuesta", "cold", "aten_ops") or "-")))
    errors = [
        f"{side}: {result['error']}"
        for side, starts in found.items()
        for result in starts.values()
        if "error" in result
    ]
    return [*cells, ("", " | ".join(error.replace("\n", " ")[:160] for error in errors))]


def _start(found: Row, side: str, start: str, number: str) -> float | None:
    return found.get(side, {}).get(start, {}).get(number)


def _memory_cells(found: Row, sides: Sequence[str]) -> list[Cell]:
    def peak(side: str) -> float | None:
        return found.get(side, {}).get("peak_bytes")

    def mebibytes(size: float | None) -> str:
        return "-" if size is None else f"{size / 2**20:.1f}"

    cells = [(f"{side} MiB", mebibytes(peak(side))) for side in ("eager", *sides)]
    inputs = found.get("eager", {}).get("input_bytes")
    cells.insert(0, ("inputs MiB", mebibytes(inputs)))
    cells += [(f"{side} / eager", _ratio(peak(side), peak("eager"))) for side in sides]
    errors = [f"{side}: {result['error']}" for side, result in found.items() if "error" in result]
    return [*cells, ("", " | ".join(errors))]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _ratio(one: float | None, other: float | None) -> str:
    return "-" if one is None or other is None else f"{one / other:.2f}x"


def line(first: str, cells: Sequence[Cell], *, heading: bool, width: int) -> str:
    """Headings or texts of one line, in columns."""
    texts = [(name if heading else text).rjust(max(len(name), 8)) for name, text in cells[:-1]]
    return "  ".join([first.ljust(width), *texts, "" if heading else cells[-1][1]]).rstrip()


# --- Sums -------------------------------------------------------------------------------------------------------------

Take = Callable[[Row], float | None]


def summary(rows: Rows) -> list[str]:
    """What the project must reach, and what was measured of it; then all that went wrong.

    Run times taken while the machine was busy tell little of either side (waiting makes all alike): they are left out.
    """
    busy = [name for name, row in rows.items() if row.get("run", {}).get("busy")]

    def of(*path: str) -> Take:
        def take(row: Row) -> float | None:
            found: Any = {**row, "run": {}} if row.get("run", {}).get("busy") else row
            for key in path:
                found = found.get(key) if isinstance(found, Mapping) else None
            return found

        return take

    def ratio(one: Take, other: Take) -> Take:
        def take(row: Row) -> float | None:
            a, b = one(row), other(row)
            return None if a is None or b is None else a / b

        return take

    cuesta_ms, inductor_ms, eager_ms = of("run", "cuesta_ms"), of("run", "inductor_ms"), of("run", "eager_ms")
    cold = ratio(
        of("cold", "inductor", "cold", "first_call_seconds"), of("cold", "cuesta", "cold", "first_call_seconds")
    )
    own_cold, own_warm = of("cold", "cuesta", "cold", "own_seconds"), of("cold", "cuesta", "warm", "own_seconds")
    peak = ratio(of("memory", "cuesta", "peak_bytes"), of("memory", "eager", "peak_bytes"))
    fused = {name: row for name, row in rows.items() if row["set"] == "fused"}
    models = {name: row for name, row in rows.items() if row["set"] == "models"}
    lines = [
        _told("cold compile against TorchInductor", rows, cold, "x", at_least=5),
        _told("our share of cold compile, fused", fused, own_cold, " s", worst=max),
        _told("our share of cold compile, models", models, own_cold, " s", at_most=1.0, over=max),
        _told("our share of warm compile", rows, own_warm, " s", at_most=0.3, over=max),
        _told("run time against TorchInductor, fused", fused, ratio(inductor_ms, cuesta_ms), "x", at_least=1.5),
        _told("run time against TorchInductor, models", models, ratio(inductor_ms, cuesta_ms), "x", at_least=1.0),
        _told(
            "run time against TorchInductor, worst", rows, ratio(inductor_ms, cuesta_ms), "x", at_least=0.8, over=min
        ),
        _told("run time against eager, fused", fused, ratio(eager_ms, cuesta_ms), "x"),
        _told("run time against eager, models", models, ratio(eager_ms, cuesta_ms), "x"),
        _told("run time against eager, worst", rows, ratio(eager_ms, cuesta_ms), "x", at_least=0.95, over=min),
        _told("TorchInductor's run time against eager", rows, ratio(eager_ms, inductor_ms), "x"),
        _told("fraction of copy bandwidth", rows, ratio(of("run", "copy_ms"), cuesta_ms), "", at_least=0.6),
        _told("TorchInductor's fraction of it", rows, ratio(of("run", "copy_ms"), inductor_ms), ""),
        _told("peak memory against eager", rows, peak, "x", at_most=1.05, worst=max),
    ]
    troubles = [f"  {name}: {text}" for name, text in troubles_of(rows)]
    if busy:
        lines.append(f"run times left out, because the machine was busy ({len(busy)}): {', '.join(busy)}")
    return [*filter(None, lines), f"refused, wrong or failed: {len(troubles)}", *troubles]


def troubles_of(rows: Rows) -> list[tuple[str, str]]:
    """Every case of ours that was refused, is wrong, or failed."""
    found: list[tuple[str, str]] = []
    for name, row in rows.items():
        run, cold, memory = (row.get(kind, {}) for kind in ("run", "cold", "memory"))
        told = [run.get("error"), run.get("problem"), run.get("errors", {}).get("cuesta")]
        told += [start.get("error") for start in cold.get("cuesta", {}).values()]
        told += [memory.get(side, {}).get("error") for side in ("eager", "cuesta")]
        found += [(name, text) for text in dict.fromkeys(told) if text]
    return found


def _told(
    what: str,
    rows: Rows,
    take: Take,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    over: Callable[[Iterable[float]], float] = statistics.geometric_mean,
    worst: Callable[[Iterable[float]], float] = min,
) -> str:
    """One line: the sum over all rows that have the number, the worst of them by name, and whether it is enough."""
    values = {name: value for name, row in rows.items() if (value := take(row)) is not None and value > 0}
    if not values:
        return ""
    total = over(values.values())
    if over is not statistics.geometric_mean:
        worst = over
    name = next(name for name, value in values.items() if value == worst(values.values()))
    kind = "geometric mean" if over is statistics.geometric_mean else "worst"
    text = f"{what}: {total:.2f}{unit} ({kind} of {len(values)})"
    if over is statistics.geometric_mean:
        text += f", worst {values[name]:.2f}{unit}"
    text += f" [{name}]"
    if at_least is not None:
        text += f"; must be ≥ {at_least:g}: {'yes' if total >= at_least else 'NO'}"
    if at_most is not None:
        text += f"; must be ≤ {at_most:g}: {'yes' if total <= at_most else 'NO'}"
    return text
