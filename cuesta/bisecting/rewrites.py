"""The first change within a stage after which a program computes something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting.judging import Outcome, how_they_differ, is_exact, is_well_formed, run
from cuesta.bisecting.states import Frame, State, states_of, who
from cuesta.context import make_context
from cuesta.pipeline import Stage, run_pipeline

_SECONDS = 20.0
"""So long states are interpreted, from the last one backwards; then by halves."""


@dataclass(frozen=True)
class Rewrite:
    """A change of a program: who made it."""

    name: str
    """A pattern or a law, a function of a pass, or the overload whose lowering it is."""
    place: str
    """Its file and line."""
    number: int = 0
    """Which of the changes that the stage makes it is, from 1 on."""
    of: int = 0
    """How many there are."""
    callers: tuple[Frame, ...] = ()
    """The functions of the pass that were being called, the innermost first."""

    def __str__(self) -> str:
        counted = f", change {self.number} of {self.of}" if self.of else ""
        return f"{self.name} ({self.place}{counted})"


def wrong_rewrite(before: ModuleOp, stage: Stage, inputs: Sequence[Any]) -> Rewrite | None:
    """The change of a stage that makes a program wrong: the first after the last state in which it computes what it did
    before the stage. None when the stage makes only one change, or none that can be told apart.
    """
    module = before.clone()
    states = states_of(lambda one: run_pipeline(make_context(), one, [stage]), module)
    if not states:
        return None
    expected = run(before, inputs)
    truth = None if is_exact(stage.name, before) else run(before, inputs, precise=True)
    number = _first_wrong(states, lambda state: _is_right(state, inputs, expected, truth))
    return rewrite_of(states, number)


def rewrite_of(states: Sequence[State], number: int) -> Rewrite | None:
    """The change that led to a state, by its position."""
    state = states[number]
    callers = tuple(one for one in state.frames if not one.file.startswith(("dialects/", "cuesta/")))
    at_fault = _step_of(callers) or who(state.frames)
    if at_fault is None:
        return None
    name, place = at_fault.function, f"{at_fault.file}:{at_fault.line}"
    if state.pattern is not None:
        name, place = state.pattern[0], state.pattern[1] or place
    return Rewrite(name, place, number + 1, len(states), callers)


def _step_of(callers: Sequence[Frame]) -> Frame | None:
    """The step of a pass that makes a change: of one that is written in several files of a folder, as fusion and its
    moves are, the function of another file than the pass's that the pass called; else the innermost function of the
    pass's own file. (Functions of other folders do as they are told.)
    """
    if not callers:
        return None
    own = callers[-1].file
    folder = own.rpartition("/")[0]
    beside = [one for one in callers if one.file != own and one.file.rpartition("/")[0] == folder]
    if beside:
        return beside[-1]
    return next((one for one in callers if one.file == own), None)


def raised_in(error: BaseException) -> Rewrite | None:
    """The function of the compiler that raised an error, which decides something."""
    from cuesta.bisecting.states import known_file

    frames: list[Frame] = []
    trace = error.__traceback__
    pattern: tuple[str, str] | None = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if file := known_file(code):
            if file == "dialects/core/rewriting.py" and code.co_name == "rewrite":
                from cuesta.dialects.core.tracing import pattern_name, pattern_source

                applied = trace.tb_frame.f_locals["pattern"]
                pattern = pattern_name(applied), pattern_source(applied)
            frames.append(Frame(code.co_qualname.replace(".<locals>", ""), file, trace.tb_lineno))
        trace = trace.tb_next
    frames.reverse()
    inner = tuple(one for one in frames if not one.file.startswith("cuesta/"))
    at_fault = _step_of([one for one in inner if not one.file.startswith("dialects/")]) or who(inner)
    if at_fault is None:
        return None
    if pattern is not None:
        return Rewrite(pattern[0], pattern[1], callers=inner)
    return Rewrite(at_fault.function, f"{at_fault.file}:{at_fault.line}", callers=inner)


def _is_right(state: State, inputs: Sequence[Any], expected: Outcome, truth: Outcome | None) -> bool:
    if state.module is None or not is_well_formed(state.module):
        return False
    return how_they_differ(expected, run(state.module, inputs), truth) is None


def _first_wrong(states: Sequence[State], is_right: Callable[[State], bool]) -> int:
    """The position after the last state that is right. (In between a pass may leave a program wrong for a moment.)"""
    until = perf_counter() + _SECONDS
    for number in range(len(states) - 2, -1, -1):
        if is_right(states[number]):
            return number + 1
        if perf_counter() > until:
            break
    else:
        return 0
    low, high = -1, number
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_right(states[middle]) else (low, middle)
    return high


__all__ = ["Rewrite", "raised_in", "rewrite_of", "wrong_rewrite"]
