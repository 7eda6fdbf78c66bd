"""The first stage after which a program computes something else, or that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting.judging import Outcome, how_they_differ, is_exact, run
from cuesta.bisecting.subjects import Subject
from cuesta.context import make_context
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.pipeline import Stage, run_pipeline
from cuesta.programs.inputs_of import InputsError
from cuesta.targets.reference.errors import InterpreterError

_SECONDS = 20.0
"""So long the programs after all stages may be interpreted, one after the other; what would take longer is searched in
halves, which is right where what has become wrong stays wrong.
"""

Kind = Literal["wrong", "crash"]


@dataclass(frozen=True)
class WrongStage:
    """A stage that is at fault: the program before it, and what is wrong after it."""

    stage: Stage
    position: int
    before: ModuleOp
    problem: str
    kind: Kind
    error: Exception | None = None


@dataclass(frozen=True)
class Walked:
    """A program that went through its stages: what it was before the first, and after each that changed it."""

    programs: Sequence[tuple[int, ModuleOp]]
    """After how many stages, and the program then."""
    failed: tuple[int, Exception] | None
    """The stage that raised an error, and the error."""

    @property
    def last(self) -> ModuleOp:
        """The program after the last stage that was right enough to end."""
        return self.programs[-1][1]


def run_stage(module: ModuleOp, stage: Stage) -> None:
    """Runs one stage in place, and verifies what it gives. Errors: whatever the stage raises."""
    run_pipeline(make_context(), module, [stage], verify_each=True)


def walk(module: ModuleOp, stages: Sequence[Stage]) -> Walked:
    """Runs the stages on a copy of the program, and keeps it after each that changed it."""
    current = module.clone()
    programs = [(0, current.clone())]
    for position, stage in enumerate(stages):
        try:
            run_stage(current, stage)
        except Exception as error:  # noqa: BLE001  # what a stage raises is what is asked
            return Walked(programs, (position, error))
        if not structurally_equal(programs[-1][1], current):
            programs.append((position + 1, current.clone()))
    return Walked(programs, None)


def first_wrong_stage(subject: Subject, inputs: Sequence[Any], walked: Walked | None = None) -> WrongStage | None:
    """The first stage after which the interpreter gives something else than before, or which raises an error; None when
    all are right.

    Errors: InputsError for inputs that the program cannot be run on.
    """
    walked = walk(subject.module, subject.stages) if walked is None else walked
    start = perf_counter()
    outcomes = {0: run(walked.programs[0][1], inputs)}
    if isinstance(outcomes[0].error, InterpreterError):
        raise InputsError(f"{subject.name} cannot be run on its inputs: {outcomes[0].error}")
    seconds = perf_counter() - start
    if seconds * len(walked.programs) > _SECONDS:
        number = _searched(walked, inputs, outcomes, subject.stages)
        pairs = range(number, number + 1) if number is not None else range(0)
    else:
        pairs = range(1, len(walked.programs))
    for number in pairs:
        position = walked.programs[number][0] - 1
        problem = _changes(walked, number, inputs, outcomes, subject.stages[position])
        if problem is not None:
            return WrongStage(subject.stages[position], position, walked.programs[number - 1][1], problem, "wrong")
    if walked.failed is not None:
        position, error = walked.failed
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return WrongStage(subject.stages[position], position, walked.last, problem, "crash", error)
    return None


def _changes(
    walked: Walked, number: int, inputs: Sequence[Any], outcomes: dict[int, Outcome], stage: Stage
) -> str | None:
    for one in (number - 1, number):
        if one not in outcomes:
            outcomes[one] = run(walked.programs[one][1], inputs)
    truth = (
        None
        if is_exact(stage.name, walked.programs[number - 1][1])
        else run(walked.programs[number - 1][1], inputs, precise=True)
    )
    return how_they_differ(outcomes[number - 1], outcomes[number], truth)


def _searched(
    walked: Walked, inputs: Sequence[Any], outcomes: dict[int, Outcome], stages: Sequence[Stage]
) -> int | None:
    """The first of the programs that is wrong, by halves; None when the last is right."""
    truth = run(walked.programs[0][1], inputs, precise=True)

    def wrong(number: int) -> bool:
        if number not in outcomes:
            outcomes[number] = run(walked.programs[number][1], inputs)
        return how_they_differ(outcomes[0], outcomes[number], truth) is not None

    low, high = 0, len(walked.programs) - 1
    if high == 0 or not wrong(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong(middle) else (middle, high)
    return high


__all__ = ["Walked", "WrongStage", "first_wrong_stage", "run_stage", "walk"]
