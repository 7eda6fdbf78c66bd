"""Numbers in words: three digits, and a unit that suits."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.explain.model import Candidate


def _scaled(value: float, units: Sequence[str], step: float = 1000.0) -> str:
    for unit in units[:-1]:
        if abs(value) < step * 0.9995:
            return f"{_digits(value)}{unit}"
        value /= step
    return f"{_digits(value)}{units[-1]}"


def _digits(value: float) -> str:
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def bytes_of(value: float | None) -> str:
    """`16.4 kB`; empty where it is not known."""
    return "" if value is None else _scaled(value, (" B", " kB", " MB", " GB", " TB"))


def count_of(value: float | None) -> str:
    """`20.5 k`."""
    return "" if value is None else _scaled(value, ("", " k", " M", " G", " T"))


def time_of(microseconds: float | None) -> str:
    """`4.72 µs`."""
    return "" if microseconds is None else _scaled(microseconds, (" µs", " ms", " s"))


def share_of(value: float | None) -> str:
    """`74 %`."""
    return "" if value is None else f"{value * 100:.0f} %"


def cost_of(candidate: Candidate, unit: str) -> str:
    """The predicted time of a schedule, or its cost in the chooser's unit."""
    if candidate.predicted_us is not None:
        return time_of(candidate.predicted_us)
    return "" if candidate.cost is None else f"{count_of(candidate.cost)} {unit}"
