"""Tracing of rewrites: which rule fired, where, what it cost, and why another did not.

with trace_rewrites() as trace:
    EliminateViewsPass().apply(context, module)
print(trace.summary())
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern

from cuesta.dialects.core.locations import format_location, location_of
from cuesta.dialects.core.setting import setting
from cuesta.dialects.core.structs import struct


@struct
class Rewrite:
    """One rule that fired."""

    pattern: str
    source: str
    """The rule's own file and line."""
    place: str
    """The model's line."""
    before: str
    after: str
    seconds: float


@struct
class Refusal:
    """One rule that nearly matched, and why it did not."""

    pattern: str
    place: str
    op_name: str
    reason: str
    location: LocationAttr = field(default=UNKNOWN_LOC, compare=False)


@struct
class Choice:
    """What a pass chose to do with an op, and why."""

    place: str
    op_name: str
    reason: str


@struct(frozen=False)
class Statistics:
    """Of one pattern."""

    tried: int = 0
    fired: int = 0
    seconds: float = 0.0
    source: str = ""
    """The rule's own file and line, once it was tried."""

    def add(self, seconds: float, fired: bool) -> None:
        """Count one try."""
        self.tried += 1
        self.fired += fired
        self.seconds += seconds


@struct
class Apart:
    """Two nests that fusion left apart, and why. Of siblings, which are given the same, the second is the earlier one.

    Units: bytes, of what the second gives the first, or of what both are given; None where only a call knows.
    """

    consumer: Operation
    producer: Operation
    reason: str
    bytes: int | None
    names: tuple[str, str]
    """What the two are called; empty for one that has no name."""
    locations: tuple[tuple[LocationAttr, ...], tuple[LocationAttr, ...]]
    """What is in them comes from there."""


@struct
class Laid:
    """Which way an image was laid out, and what the other way would have cost.

    Units: bytes, as `assign-layouts` weighs them.
    """

    value: str
    last: bool
    """Whether channels last."""
    more: float
    """What the other layout would cost more, copies and nests around it included."""
    op: Operation
    """Which makes it."""


@struct(frozen=False)
class RewriteTrace:
    """What happened, in order."""

    texts: bool = True
    """Whether every rewrite is kept, with what was there before and after; otherwise they are only counted."""
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    choices: list[Choice] = field(default_factory=list[Choice])
    statistics: defaultdict[str, Statistics] = field(default_factory=lambda: defaultdict(Statistics))
    apart: list[Apart] = field(default_factory=list[Apart])
    layouts: list[Laid] = field(default_factory=list[Laid])
    current_pattern: str = ""

    def summary(self) -> str:
        """A table of the patterns, the dearest first, then what was chosen, then the refusals."""
        rows = sorted(self.statistics.items(), key=lambda row: -row[1].seconds)
        lines = [f"{'pattern':40} {'fired':>7} {'tried':>7} {'ms':>9}"]
        lines += [f"{name:40} {one.fired:7} {one.tried:7} {one.seconds * 1e3:9.3f}" for name, one in rows]
        for choice in dict.fromkeys(self.choices):
            place = f"{choice.place}  " if choice.place else ""
            lines.append(f"{place}{choice.op_name}: {choice.reason}")
        for refusal in dict.fromkeys(self.refusals):
            place = f"{refusal.place}  " if refusal.place else ""
            lines.append(f"{place}{refusal.op_name}: {refusal.pattern or 'a pattern'} did not fire: {refusal.reason}")
        return "\n".join(lines)


_ACTIVE: ContextVar[RewriteTrace | None] = ContextVar("active_trace", default=None)


def active_trace() -> RewriteTrace | None:
    """The trace that is being recorded, if any."""
    return _ACTIVE.get()


@contextmanager
def trace_rewrites(*, texts: bool = True) -> Generator[RewriteTrace, None, None]:
    """Record every rewrite in the block, with its op before and after (printing them is much slower), or only count
    them.
    """
    trace = RewriteTrace(texts)
    with setting(_ACTIVE, trace):
        yield trace


@contextmanager
def untraced() -> Generator[None, None, None]:
    """In the `with` block nothing is recorded: what is compiled to be timed is not the program."""
    with setting(_ACTIVE, None):
        yield


def no_match(op: Operation, reason: str) -> None:
    """Say why a pattern refuses an op that it nearly matched.

    A pattern ends by it: `return no_match(op, "the producer has two users")`.
    """
    trace = _ACTIVE.get()
    if trace is not None:
        location = location_of(op)
        trace.refusals.append(Refusal(trace.current_pattern, format_location(location), op.name, reason, location))


def chose(op: Operation, reason: str) -> None:
    """Say what was chosen for an op, and why: `chose(op, "is one nest with …: predicted 12 µs, and 17 apart")`."""
    trace = _ACTIVE.get()
    if trace is not None:
        trace.choices.append(Choice(format_location(location_of(op)), op.name, reason))


def pattern_name(pattern: RewritePattern) -> str:
    """The name of a pattern in traces and errors: its `label`, if it has one, or its class's."""
    label = getattr(pattern, "label", None)
    return label if isinstance(label, str) else type(pattern).__name__


def pattern_source(pattern: RewritePattern) -> str:
    """File and line of a pattern: its `source`, if it says one, or its class's."""
    source = getattr(pattern, "source", None)
    if isinstance(source, str):
        return source
    try:
        file = inspect.getsourcefile(type(pattern))
        _, line = inspect.getsourcelines(type(pattern))
    except (OSError, TypeError):  # made at a prompt: it has no source file
        return ""
    return f"{Path(file).name}:{line}" if file else ""
