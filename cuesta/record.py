"""What was compiled, what it became, and what that cost: one record per graph, in the order of compilation."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Literal, TypeAlias

from cuesta.dialects.core.structs import struct

if TYPE_CHECKING:
    from cuesta.explain.model import Explanation

GraphKind = Literal["inference", "forward", "backward"]
Strides: TypeAlias = "tuple[int, ...] | None"
"""Of a result; None for what is no tensor, or has strides that only a call knows."""


DUMP = "dump"
"""The stage in which a dump is written."""


def own_share(seconds: Mapping[str, float]) -> float:
    """The time of all stages that compile."""
    return sum(spent for stage, spent in seconds.items() if stage != DUMP)


_numbers: dict[str, int] = {}
"""The names of stages that there have been in this process, numbered."""
_numbering = Lock()


class Seconds(MutableMapping[str, float]):
    """Time by stage, in the order in which stages were first counted. It is kept for every graph of a process: a number
    and a time for each stage, where a dictionary has an object for every time.

    Units: seconds.
    """

    __slots__ = ("_spent", "_stages")

    def __init__(self, spent: Mapping[str, float] | None = None) -> None:
        self._stages, self._spent = array("I"), array("d")
        self.update(spent or {})

    def _place(self, name: str) -> int | None:
        number = _numbers.get(name)
        return self._stages.index(number) if number is not None and number in self._stages else None

    def __getitem__(self, name: str) -> float:
        if (place := self._place(name)) is None:
            raise KeyError(name)
        return self._spent[place]

    def __setitem__(self, name: str, spent: float) -> None:
        if (place := self._place(name)) is not None:
            self._spent[place] = spent
            return
        with _numbering:
            number = _numbers.setdefault(name, len(_numbers))
        self._stages.append(number)
        self._spent.append(spent)

    def __delitem__(self, name: str) -> None:
        if (place := self._place(name)) is None:
            raise KeyError(name)
        del self._stages[place], self._spent[place]

    def __iter__(self) -> Iterator[str]:
        names = list(_numbers)
        return iter([names[number] for number in self._stages])

    def __len__(self) -> int:
        return len(self._stages)

    def __repr__(self) -> str:
        return repr(dict(self))


@struct(frozen=False)
class CompileRecord:
    """The compilation of one graph.

    Units: seconds.
    """

    kind: GraphKind
    aten_ops: int = 0
    """ATen calls in the graph that AOTAutograd handed over."""
    kernels: int = 0
    """Launches of kernels of ours in one run of the graph."""
    library_calls: int = 0
    """Calls to a library on purpose: matrix products, convolutions, attention."""
    fallbacks: Counter[str] = field(default_factory=Counter[str])
    """Overloads that no lowering of ours takes, and how often eager runs each in one run of the graph."""
    seconds: MutableMapping[str, float] = field(default_factory=Seconds)
    """Time by stage, ours only; stages do not overlap, so they add up."""
    capture_seconds: float = 0.0
    """Time in AOTAutograd (tracing, partitioning) before this graph and its siblings; told once per capture."""
    from_cache: bool = False
    """Whether the program came from the cache on disk: no stage of ours ran."""
    in_eager: str | None = None
    """Why the graph runs in eager as a whole, if it does."""
    cuda_graph: str | None = None
    """What became of the wish for a CUDA graph: `captured`, or `not captured: ` and why; None when nobody wished."""
    extensions: tuple[str, ...] = ()
    """The extensions that were in force, each with what it put in the place of something of ours."""
    result_strides: Sequence[Strides] = ()
    """How the results lie; empty when the graph runs in eager."""
    not_kept: str | None = None
    """Why the program is not kept in the cache, when it is an extension that cannot be named there."""
    dump: str | None = None
    """The directory with the text of every level, when `options["dump"]` asked for it."""

    @property
    def own_seconds(self) -> float:
        """Everything after capture, but for writing a dump that was asked for."""
        return own_share(self.seconds)

    def explain(self) -> Explanation:
        """What became of the graph, as far as this record knows: see `cuesta.explain`."""
        from cuesta.explain.records import explain_record

        return explain_record(self)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a `with` block as the stage `name`; a name used twice accumulates."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


@struct
class Statistics:
    """Records summed up; `seconds` by stage, in the order in which the stages were first seen."""

    graphs: int
    aten_ops: int
    kernels: int
    library_calls: int
    fallbacks: Counter[str]
    seconds: dict[str, float]
    capture_seconds: float

    @property
    def own_seconds(self) -> float:
        """Everything after capture, but for writing a dump that was asked for."""
        return own_share(self.seconds)


class Records(list[CompileRecord]):
    """A list of records, which prints as a table: one row a graph."""

    def __str__(self) -> str:
        """The table; times in milliseconds."""
        rows = [("", "graph", "how", "ATen ops", "kernels", "library", "fallbacks", "ours ms", "slowest stage")]
        rows += [(str(number), *_row(record)) for number, record in enumerate(self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(record: CompileRecord) -> tuple[str, ...]:
    how = "eager" if record.in_eager else "cached" if record.from_cache else "compiled"
    spent = {name: seconds for name, seconds in record.seconds.items() if name != DUMP}
    slowest = max(spent, key=lambda name: spent[name], default="")
    counts = record.aten_ops, record.kernels, record.library_calls, record.fallbacks.total()
    stage = f"{slowest} {1e3 * spent[slowest]:.1f}" if slowest else ""
    return record.kind, how, *map(str, counts), f"{1e3 * record.own_seconds:.1f}", stage


records = Records()
"""Every graph that this process compiled. It only grows; `clear_records()` empties it."""


@contextmanager
def recorded(record: CompileRecord) -> Iterator[None]:
    """The `with` block that compiles what a record is of; a record of what was interrupted does not stay."""
    try:
        records.append(record)
        yield
    except KeyboardInterrupt:
        records[:] = [one for one in records if one is not record]
        raise


def clear_records() -> None:
    """Forget what was compiled so far. Compiled functions are not affected."""
    records.clear()


def statistics(of: Iterable[CompileRecord] | None = None) -> Statistics:
    """The sums over the given records, or over all of this process."""
    chosen = list(records if of is None else of)
    seconds: dict[str, float] = {}
    fallbacks: Counter[str] = Counter()
    for record in chosen:
        fallbacks.update(record.fallbacks)
        for stage, spent in record.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return Statistics(
        graphs=len(chosen),
        aten_ops=sum(record.aten_ops for record in chosen),
        kernels=sum(record.kernels for record in chosen),
        library_calls=sum(record.library_calls for record in chosen),
        fallbacks=fallbacks,
        seconds=seconds,
        capture_seconds=sum(record.capture_seconds for record in chosen),
    )
