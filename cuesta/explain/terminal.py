"""An explanation in the terminal, by `rich`: a summary, then tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TextIO

from cuesta.explain import numbers as words
from cuesta.explain.model import Call, Explanation, Graph, Kernel, Refusal, SourceLine
from cuesta.explain.summary import summary_of

if TYPE_CHECKING:
    from rich.console import Console

ROWS: Final = 12
"""Of a table that may be long; what is left out is counted."""
BARS: Final = "▁▂▃▄▅▆▇█"


class TerminalError(ValueError):
    """What the terminal needs is not there."""


def require_rich() -> None:
    """Errors: TerminalError where `rich` is not installed, which says what to install."""
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise TerminalError(
            "tables are printed by rich, which is not installed: pip install 'cuesta[explain]', or ask for --json -"
        ) from error


def show(explanation: Explanation, to: TextIO, width: int | None = None) -> None:
    """Prints an explanation. Errors: TerminalError."""
    require_rich()
    from rich.console import Console

    console = Console(file=to, width=width, highlight=False)
    for line in summary_of(explanation):
        console.print(line, markup=False, soft_wrap=False)
    for graph in explanation.graphs:
        _Tables(console, graph, len(explanation.graphs) > 1).show()


class _Tables:
    def __init__(self, console: Console, graph: Graph, named: bool) -> None:
        self.console = console
        self.graph = graph
        self.named = named

    def show(self) -> None:
        graph = self.graph
        if self.named or graph.outcome != "compiled":
            why = f": {graph.why}" if graph.why else ""
            self.console.rule(f"graph {graph.number}, {graph.kind}, {graph.outcome}{why}", align="left")
        self.kernels()
        self.calls()
        self.apart()
        self.schedules()
        self.layouts()
        self.memory()
        self.compilation()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], total: int = 0) -> None:
        """One table; columns whose names begin with `>` are numbers. Nothing where there are no rows."""
        if not rows:
            return
        from rich import box
        from rich.table import Table

        more = total - len(rows)
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for column in columns:
            justify: Any = "right" if column.startswith(">") else "left"
            table.add_column(column.lstrip(">"), justify=justify, overflow="fold", no_wrap=column.startswith(">"))
        for row in rows:
            table.add_row(*map(_escaped, row))
        if more > 0:
            table.add_row(f"… {more} more")
        self.console.print(table)

    def lines(self, sources: Sequence[int], most: int = 3) -> str:
        """`model.py:42, 45`."""
        return lines_text([self.graph.sources[one] for one in sources], most)

    def kernels(self) -> None:
        kernels = sorted(self.graph.kernels, key=_weight, reverse=True)
        predicted = any(kernel.predicted_us is not None for kernel in kernels)
        rows = [
            (
                kernel.name + _times(kernel.steps),
                self.lines(kernel.sources),
                _operators(kernel.operators),
                words.bytes_of(_sum(kernel.bytes_read, kernel.bytes_written)),
                words.count_of(kernel.flops),
                *((words.time_of(kernel.predicted_us),) if predicted else ()),
                words.time_of(kernel.measured_us),
                words.share_of(kernel.roofline),
                kernel.bound,
            )
            for kernel in kernels
        ]
        times = (*((">predicted",) if predicted else ()), ">measured", ">of roofline", "bound by")
        columns = ("kernel", "lines", "fused", ">moved", ">flops", *times)
        self.table("Kernels, by the time of all their launches", columns, rows[: 2 * ROWS], len(rows))
        self.predictions(kernels)

    def predictions(self, kernels: Sequence[Kernel]) -> None:
        """By what times are predicted, and why there is none."""
        for why in dict.fromkeys(one.predicted_by for one in kernels if one.predicted_us is not None):
            self.console.print(f"  predicted by {why}", markup=False)
        for why in dict.fromkeys(one.predicted_by for one in kernels if one.predicted_us is None and one.predicted_by):
            self.console.print(f"  no prediction: {why}", markup=False)

    def calls(self) -> None:
        alike: dict[tuple[object, ...], list[Call]] = {}
        for call in self.graph.calls:
            key = call.overload, call.kind, call.why, call.sources, call.bytes_read, call.bytes_written, call.flops
            alike.setdefault(key, []).append(call)
        groups = sorted(alike.values(), key=lambda calls: -sum(one.measured_us or 0 for one in calls))
        rows = [
            (
                one.overload.removeprefix("aten.").removesuffix(".default") + _times(calls),
                one.kind,
                self.lines(one.sources),
                words.bytes_of(_sum(one.bytes_read, one.bytes_written)),
                words.count_of(one.flops),
                words.time_of(one.predicted_us),
                words.time_of(_median(one.measured_us for one in calls)),
                words.share_of(_median(one.roofline for one in calls)),
                one.why if one.kind != "library" else "",
            )
            for calls in groups
            for one in calls[:1]
        ]
        times = (">predicted", ">measured", ">of roofline")
        columns = ("call", "kind", "lines", ">moved", ">flops", *times, "why no kernel")
        self.table("Calls of a library, and of eager", columns, rows[:ROWS], len(rows))

    def apart(self) -> None:
        alike: dict[tuple[object, ...], list[Refusal]] = {}
        for one in self.graph.refusals:
            if one.final:
                alike.setdefault((one.sources, one.producer_sources, one.reason, one.bytes), []).append(one)
        groups = sorted(alike.values(), key=lambda pairs: -sum(one.bytes or 0 for one in pairs))
        rows = [
            (
                _named(one.nodes, one.consumer) + _times(pairs),
                self.lines(one.sources),
                _named(one.producer_nodes, one.producer),
                self.lines(one.producer_sources),
                words.bytes_of(one.bytes),
                one.reason,
            )
            for pairs in groups
            for one in pairs[:1]
        ]
        columns = ("this", "lines", "did not fuse with", "lines", ">between", "because")
        self.table("Pairs that stayed apart", columns, rows[:ROWS], len(rows))

    def schedules(self) -> None:
        rows: list[tuple[str, ...]] = []
        for kernel in sorted(self.graph.kernels, key=_weight, reverse=True)[:ROWS]:
            schedule = kernel.schedule
            if schedule is None or not (schedule.rejected or schedule.chosen.why):
                continue
            chosen, cost = schedule.chosen, words.cost_of(schedule.chosen, schedule.unit)
            rows.append((kernel.name, chosen.why or chosen.schedule, cost, f"chosen by {schedule.chooser}"))
            for one in schedule.rejected[:2]:
                rows.append(("", one.schedule, words.cost_of(one, schedule.unit), one.why or "rejected"))
        self.table("Schedules, and the best of those rejected", ("kernel", "schedule", ">cost", ""), rows)

    def layouts(self) -> None:
        rows = [(one.value, self.lines(one.sources), one.chosen, one.why) for one in self.graph.layouts]
        self.table("Layouts of images", ("value", "lines", "lies", "because"), rows[:ROWS], len(rows))

    def memory(self) -> None:
        memory = self.graph.memory
        if memory is None or not memory.points or memory.peak_step is None:
            return
        step = self.graph.steps[memory.peak_step]
        what = f"{step.kind} {step.name}" if step.kind in ("launch", "call") else step.kind
        where = self.lines(step.sources)
        peak = f"Memory: at most {words.bytes_of(memory.peak_bytes)} of its own, at step {memory.peak_step} ({what}"
        self.console.print(f"{peak}{where and f', {where}'})", markup=False)
        self.console.print(f"  {bars([point.own for point in memory.points])}  over the program", markup=False)
        own = [self.graph.values[one] for one in memory.alive_at_peak]
        alive = [f"{one.name} {one.type} {words.bytes_of(one.bytes)}" for one in own if one.born is not None][:6]
        if alive:
            self.console.print(f"  alive then: {', '.join(alive)}", markup=False)
        if memory.measured_peak_bytes is not None:
            said = words.bytes_of(memory.measured_peak_bytes)
            self.console.print(f"  the device's allocator counted {said} above what was there", markup=False)

    def compilation(self) -> None:
        stages = sorted(self.graph.stages, key=lambda one: -one.seconds)
        rows = [
            (
                one.name,
                words.time_of(one.seconds * 1e6),
                "" if one.ops_before is None else f"{one.ops_before} → {one.ops_after}",
                one.why,
            )
            for one in stages
            if one.seconds > 1e-4
        ]
        title = f"Compilation: {words.time_of(self.graph.own_seconds * 1e6)}, and PyTorch's capture"
        captured = words.time_of(self.graph.capture_seconds * 1e6)
        self.table(f"{title} {captured}", ("stage", ">time", ">ops", "what for"), rows[:ROWS], len(rows))
        rules = sorted(self.graph.rewrites, key=lambda one: (-one.seconds, -one.tried))
        rows = [
            (
                one.rule,
                one.stage,
                one.place,
                str(one.fired),
                str(one.tried),
                words.time_of(one.seconds * 1e6) if one.seconds else "",
                "; ".join(f"{reason} (×{count})" for reason, count in one.refusals[:1]),
            )
            for one in rules
            if one.fired or one.refusals
        ]
        columns = ("rule", "stage", "at", ">fired", ">tried", ">time", "nearly matched, but")
        self.table("Rewrites", columns, rows[:ROWS], len(rows))
        for one in self.graph.unseen:
            self.console.print(f"not seen: {one.what}: {one.why}", markup=False)


def lines_text(sources: Sequence[SourceLine], most: int = 3) -> str:
    """`model.py:42, 45, other.py:7`; what is more than `most` is counted."""
    return ", ".join(_lines(sources, most))


def _lines(sources: Sequence[SourceLine], most: int) -> Iterator[str]:
    before = ""
    for source in sources[:most]:
        name = PurePath(source.file).name
        yield str(source.line) if name == before else f"{name}:{source.line}"
        before = name
    if len(sources) > most:
        yield f"… {len(sources) - most} more"


def bars(values: Sequence[int], columns: int = 60) -> str:
    """A line of bars, each the most of its share of the values."""
    if not values:
        return ""
    count = min(columns, len(values))
    shares = [values[k * len(values) // count : max(k * len(values) // count + 1, (k + 1) * len(values) // count)]
              for k in range(count)]  # fmt: skip
    most = max(values) or 1
    return "".join(BARS[max(share) * (len(BARS) - 1) // most] for share in shares)


def _weight(kernel: Kernel) -> float:
    """By what kernels are sorted: the time of all launches, or what they move."""
    each = kernel.measured_us or kernel.predicted_us
    return each * len(kernel.steps) if each else _sum(kernel.bytes_read, kernel.bytes_written) or 0


def _times(alike: Sequence[object]) -> str:
    return f" ×{len(alike)}" if len(alike) > 1 else ""


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _operators(operators: Sequence[str], most: int = 5) -> str:
    short = list(dict.fromkeys(one.removeprefix("aten.").partition(".")[0] for one in operators))
    return ", ".join(short[:most]) + (f", … {len(short) - most} more" if len(short) > most else "")


def _named(nodes: Sequence[str], name: str) -> str:
    """The last node of a nest, and how many there are."""
    if not nodes:
        return name
    return nodes[-1] + (f" (+{len(nodes) - 1})" if len(nodes) > 1 else "")


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


__all__ = ["TerminalError", "bars", "lines_text", "require_rich", "show"]
