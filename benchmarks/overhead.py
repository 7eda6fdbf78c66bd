"""What costs time while nobody looks: labels, the guard for profilers, topics, structured traces and progress.

Of a call: the wrapper of a program that adds one to one number, with its guard and without, in turns; of that, what the
guard adds, beside what the user's whole call takes, Dynamo's guards included. Of a compilation: the time in all
functions that are there for who looks on, of the compiler's own time, for a model of the demo.
"""

from __future__ import annotations

import argparse
import functools
import inspect
from collections.abc import Callable
from time import perf_counter
from types import FunctionType
from typing import Any

import torch

import cuesta
from cuesta import backend, compiler, staging
from cuesta.targets.host import labels, runtime
from cuesta.targets.host.profiled import GUARD
from examples import models

ROUNDS = 600
CALLS = 300
"""Calls of a round, a few milliseconds: less than others have a processor for before it is ours again. Source: with
5000 calls in each of 41 rounds no round was undisturbed while others were at work, and 0.8 µs were found for 15 ns.
"""
MOST = 0.01
"""Source: issue 13."""


def smallest_program() -> tuple[Callable[[torch.Tensor], torch.Tensor], FunctionType]:
    """A compiled function that adds one, and its wrapper."""
    found: list[FunctionType] = []
    define = runtime.define

    def kept(text: str, kind: str, namespace: dict[str, Any]) -> None:
        define(text, kind, namespace)
        if kind == "wrapper":
            found.append(namespace["call"])

    runtime.define = kept
    try:
        compiled = torch.compile(lambda x: x + 1, backend="cuesta", options={"cache": False})
        compiled(torch.ones(1))
    finally:
        runtime.define = define
    return compiled, found[-1]


def of_a_call() -> tuple[float, float]:
    """Microseconds: what the guard adds, and a whole call. The least of many rounds, in turns."""
    whole, guarded = smallest_program()
    text = inspect.getsource(guarded)
    assert GUARD in text
    namespace = dict(guarded.__globals__)
    exec(compile(text.replace(f"    {GUARD}\n", ""), "<plain>", "exec"), namespace)
    plain, x = namespace["call"], torch.ones(1)
    sides: tuple[Callable[[], object], ...] = (lambda: guarded([x]), lambda: plain([x]), lambda: whole(x))
    times = [min(column) for column in zip(*(map(_microseconds, sides) for _ in range(ROUNDS)), strict=True)]
    return times[0] - times[1], times[2]


def _microseconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - start) / CALLS * 1e6


def of_a_compilation(name: str) -> tuple[float, float]:
    """Milliseconds in what is there for who looks on, and the compiler's own."""
    spent = 0.0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal spent
            start = perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                spent += perf_counter() - start

        return call

    places = ((backend, "tell_graph"), (backend, "trace_record"), (compiler, "trace_program"), (compiler, "trace_code"),
              (staging, "topics"), (staging, "observing"), (compiler, "observing"), (backend, "observing"),
              (labels.Labels, "add"), (labels.Labels, "all"))  # fmt: skip
    plain = [getattr(owner, one) for owner, one in places]
    model, inputs = models.MODELS[name].inference()
    torch.compile(model, backend="cuesta", options={"cache": False})(**inputs)  # imports
    torch._dynamo.reset()
    cuesta.clear_records()
    for owner, one in places:
        setattr(owner, one, counted(getattr(owner, one)))
    try:
        torch.compile(model, backend="cuesta", options={"cache": False})(**inputs)
    finally:
        for (owner, one), function in zip(places, plain, strict=True):
            setattr(owner, one, function)
    return spent * 1e3, cuesta.statistics().own_seconds * 1e3


def main() -> None:
    """Measures, and says what falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt2", choices=list(models.MODELS))
    chosen = parser.parse_args()
    tell("a call", *of_a_call(), "µs")
    tell("compile", *of_a_compilation(chosen.model), "ms")


def tell(what: str, more: float, whole: float, unit: str) -> None:
    """Prints a row."""
    share = more / whole
    print(f"{what:8} {more:8.3f} of {whole:9.3f} {unit}: {share:.2%}{'' if share <= MOST else '  FALLS SHORT'}")


if __name__ == "__main__":
    main()
