"""What `CUESTA_LOG` asks to be told, on stderr: `CUESTA_LOG=fusion,time`. Each topic is a word of `TOPICS`.

Nothing is collected that nobody asks for. What a topic tells is no interface: for that there are `cuesta.records` and
`cuesta.explain`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cuesta.options import OptionError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.core.tracing import RewriteTrace
    from cuesta.record import CompileRecord

VARIABLE: Final = "CUESTA_LOG"
FALLBACKS, FUSION, SCHEDULE, RECOMPILES, TIME = "fallbacks", "fusion", "schedule", "recompiles", "time"
TOPICS: Final = (FALLBACKS, FUSION, SCHEDULE, RECOMPILES, TIME)
"""Operators that eager runs and what they cost; pairs of nests that stay apart, and why; how each kernel runs; why a
function is compiled again; and where compile time goes.
"""
MOST_STAGES: Final = 4
"""That the topic `time` names, the slowest. Source: a definition."""


def topics() -> frozenset[str]:
    """What the environment asks to be told of.

    Errors: OptionError for a topic that there is not.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return frozenset()
    asked = frozenset(word.strip() for word in given.split(",")) - {""}
    if unknown := sorted(asked - set(TOPICS)):
        raise OptionError(f"the environment variable {VARIABLE} names {', '.join(TOPICS)}, not {', '.join(unknown)}")
    return asked


def say(text: str) -> None:
    """Writes a line for whoever asked."""
    print(f"cuesta: {text}", file=sys.stderr)


def tell_stage(name: str, module: ModuleOp, trace: RewriteTrace | None) -> None:
    """Tells what a stage did, of the topics that are about stages."""
    asked, short = topics(), name.partition("{")[0]
    if FUSION in asked and trace is not None:
        for line in _apart(trace):
            say(line)
    if SCHEDULE in asked and short == "loops-to-kernel":
        for line in _schedules(module):
            say(line)


def _apart(trace: RewriteTrace) -> Iterator[str]:
    """The pairs that are still apart when the stage is over, each once."""
    from cuesta.dialects.core.locations import format_origin

    told = set[tuple[str, str, str]]()
    for one in trace.apart:
        names = one.names[0] or "a nest", one.names[1] or "a nest"
        if one.consumer.parent is None or one.producer.parent is None or (*names, one.reason) in told:
            continue
        told.add((*names, one.reason))
        where = ", ".join(filter(None, (format_origin(op.location) for op in (one.consumer, one.producer))))
        size = "" if one.bytes is None else f", {one.bytes} bytes between them"
        yield f"fusion: {names[0]} and {names[1]} stay apart: {one.reason}{size}{where and f' ({where})'}"


def _schedules(module: ModuleOp) -> Iterator[str]:
    from cuesta.dialects import kernel
    from cuesta.dialects.core.locations import format_origin

    for op in module.walk():
        if isinstance(op, kernel.FuncOp):
            where = format_origin(op.location)
            yield f"schedule: {op.sym_name} {op.schedule}{where and f' ({where})'}"


def tell_graph(record: CompileRecord) -> None:
    """Tells of a graph that was compiled just now, of the topics that are about graphs.

    Errors: OptionError.
    """
    asked = topics()
    if RECOMPILES in asked and (reason := _recompiled()) is not None:
        say(f"recompiles: a function is compiled again ({record.kind}): {reason}")
    if TIME in asked:
        how = "from the cache" if record.from_cache else "eager" if record.in_eager else f"{record.kernels} kernels"
        slowest = sorted(record.seconds.items(), key=lambda item: -item[1])[:MOST_STAGES]
        stages = ", ".join(f"{name} {seconds * 1e3:.0f}" for name, seconds in slowest)
        say(f"time: {record.kind}, {how}: {record.own_seconds * 1e3:.0f} ms of ours ({stages})")


def _recompiled() -> str | None:
    """Why Dynamo compiles the present function again; None where it does so for the first time, or nobody knows.

    Source: `metrics_context` of torch/_dynamo/utils.py, where convert_frame.py leaves the reason.
    """
    from torch._dynamo.utils import get_metrics_context

    context = get_metrics_context()
    reason = getattr(context, "_metrics", {}).get("recompile_reason") if context.in_progress() else None
    return None if reason is None else " ".join(str(reason).split())
