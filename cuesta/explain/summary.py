"""An explanation in a few lines: the time, where it goes, the kernels farthest from the roofline, what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from cuesta.explain import numbers as words
from cuesta.explain.model import Explanation, Kernel

WORST: Final = 3
NEAR: Final = 0.8
"""Of the roofline: a kernel that is so near is not called bad."""
WORTH: Final = 0.02
"""Of all steps: a kernel that takes less is not called bad, whatever it does."""
NOT_RUN: Final = (
    "the file was not run again: nothing that it read then has changed, nor the environment, nor the machine"
)


def summary_of(explanation: Explanation) -> Iterator[str]:
    """The lines, without ends."""
    what = "training" if explanation.training else "inference"
    yield f"{explanation.name}: {what}, cuesta {explanation.cuesta}, torch {explanation.torch}"
    if explanation.kept_since:
        yield f"  found out on {explanation.kept_since}, times too, and kept since; --fresh finds it out again"
    if explanation.not_run:
        yield f"  {NOT_RUN}"
    if explanation.whole_us is not None:
        line = f"  a {'step' if explanation.training else 'call'} takes {words.time_of(explanation.whole_us)}"
        if explanation.eager_us:
            ratio = explanation.eager_us / explanation.whole_us
            line += f", in eager {words.time_of(explanation.eager_us)} ({ratio:.2f}x)"
        yield line
    if explanation.compile_seconds is not None:
        capture = sum(graph.capture_seconds for graph in explanation.graphs)
        own = sum(graph.own_seconds for graph in explanation.graphs)
        yield (
            f"  the first call took {words.time_of(explanation.compile_seconds * 1e6)}: AOTAutograd "
            f"{words.time_of(capture * 1e6)}, ours {words.time_of(own * 1e6)}, the rest is Dynamo's and the run's"
        )
    yield from _what_it_became(explanation)
    yield from _where_time_goes(explanation)
    yield from _worst(explanation)
    for machine in explanation.machines:
        if machine.bytes_per_second and machine.flops_per_second:
            yield (
                f"  {machine.device} ({machine.name}): {words.bytes_of(machine.bytes_per_second)}/s, "
                f"{words.count_of(machine.flops_per_second)}flop/s; {machine.how}"
            )
        else:
            yield f"  {machine.device} ({machine.name}): {machine.how}"
    for one in explanation.breaks:
        place = f" ({PurePath(one.sources[0].file).name}:{one.sources[0].line})" if one.sources else ""
        yield f"  graph break{place}: {one.reason.splitlines()[0] if one.reason else 'no reason is given'}"
    for one in explanation.unseen:
        yield f"  not seen: {one.what}: {one.why}"


def _what_it_became(explanation: Explanation) -> Iterator[str]:
    if not explanation.graphs:
        return
    launches = sum(len(kernel.steps) for graph in explanation.graphs for kernel in graph.kernels)
    calls = [call for graph in explanation.graphs for call in graph.calls]
    library = sum(call.kind == "library" for call in calls)
    count = len(explanation.graphs)
    eager = sum(graph.outcome == "eager" for graph in explanation.graphs)
    graphs = f"{count} graph{'s' * (count != 1)}" + (f", {eager} of them in eager" if eager else "")
    yield f"  {graphs}: {launches} launches of kernels, {library} library calls, {len(calls) - library} fallbacks"


def _where_time_goes(explanation: Explanation) -> Iterator[str]:
    parts = {"kernels": 0.0, "library": 0.0, "fallbacks": 0.0}
    for graph in explanation.graphs:
        for step in graph.steps:
            if step.measured_us is None:
                continue
            fallback = step.call is not None and graph.calls[step.call].kind != "library"
            parts["kernels" if step.kind == "launch" else "fallbacks" if fallback else "library"] += step.measured_us
    total = sum(parts.values())
    if total:
        said = [f"{name} {words.time_of(time)} ({time / total:.0%})" for name, time in parts.items() if time]
        yield f"  step by step: {', '.join(said)}"


def _worst(explanation: Explanation) -> Iterator[str]:
    total = sum(step.measured_us or 0.0 for graph in explanation.graphs for step in graph.steps)
    found: list[tuple[float, Kernel]] = []
    for graph in explanation.graphs:
        for kernel in graph.kernels:
            if kernel.roofline is None or kernel.measured_us is None:
                continue
            counts = kernel.measured_us * len(kernel.steps) >= WORTH * total and kernel.bound != "launch"
            if counts and kernel.roofline < NEAR:
                found.append((kernel.roofline, kernel))
    found.sort(key=lambda one: one[0])
    if found:
        said = [f"{kernel.name} {words.share_of(share)} ({kernel.bound})" for share, kernel in found[:WORST]]
        yield f"  farthest from the roofline: {', '.join(said)}"


__all__ = ["summary_of"]
