"""Which stage makes a program slower: the program is timed with all stages, and without each that changes it.

The least of many calls counts: what else the machine does makes them longer, never shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting.judging import copied, inputs_for
from cuesta.bisecting.stages import walk
from cuesta.bisecting.subjects import Subject
from cuesta.pipeline import Stage

WORTH_TELLING = 0.9
"""Of the time with a stage, what it takes without it, for the stage to be named. Source: a definition."""
_SECONDS, _LEAST_CALLS = 0.3, 5
_WARM_CALLS = 2


@dataclass(frozen=True)
class Timed:
    """A program with all stages but one. Units: µs."""

    stage: str
    """The stage that was left out."""
    least: float


def slowing_stages(subject: Subject) -> tuple[float, list[Timed]]:
    """How long a program takes, in µs, and how long without each stage that may be left out, the fastest first. A stage
    without which the others fail, or give no machine code, is not there.

    Errors: whatever compiling the program as it is raises.
    """
    inputs = inputs_for(subject.module, subject.inputs)
    whole = _time(subject.module, subject.stages, inputs)
    walked = walk(subject.module, subject.stages)
    found: list[Timed] = []
    for count, _ in walked.programs[1:]:
        position = count - 1
        stage = subject.stages[position]
        if stage.begins is not None:
            continue
        rest = (*subject.stages[:position], *subject.stages[position + 1 :])
        try:
            found.append(Timed(stage.label, _time(subject.module, rest, inputs)))
        except Exception:  # noqa: BLE001  # what relies on the stage fails in whatever way it likes
            continue
    return whole, sorted(found, key=lambda one: one.least)


def _time(module: ModuleOp, stages: Sequence[Stage], inputs: Sequence[Any]) -> float:
    from cuesta.bisecting.kernels import compiled
    from cuesta.context import make_context
    from cuesta.pipeline import run_pipeline

    program = module.clone()
    run_pipeline(make_context(), program, stages)
    call = compiled(program)
    seconds: list[float] = []
    until = perf_counter() + _SECONDS
    while len(seconds) < _LEAST_CALLS + _WARM_CALLS or perf_counter() < until:
        arguments = copied(inputs)
        start = perf_counter()
        call(arguments)
        seconds.append(perf_counter() - start)
    return min(seconds[_WARM_CALLS:]) * 1e6


__all__ = ["WORTH_TELLING", "Timed", "slowing_stages"]
