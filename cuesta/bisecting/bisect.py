"""Who made a program wrong: the stage, the rewrite, or the kernel; and a program of a few ops that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting import programs
from cuesta.bisecting.finding import Finding, Report
from cuesta.bisecting.judging import how_they_differ, inputs_for, is_exact, run
from cuesta.bisecting.kernels import wrong_kernel
from cuesta.bisecting.reducing import Reducer, reduced_through
from cuesta.bisecting.rewrites import Rewrite, raised_in, wrong_rewrite
from cuesta.bisecting.stages import WrongStage, first_wrong_stage, run_stage, walk
from cuesta.bisecting.subjects import Subject
from cuesta.bisecting.suspects import Spectrum
from cuesta.context import make_context
from cuesta.dialects.core.contracts import Contract, check_level
from cuesta.pipeline import Stage, level_of, run_pipeline

SECONDS = 40.0
"""So long a program is made smaller, unless somebody says otherwise."""


def bisect(subject: Subject, *, seconds: float = SECONDS, told: Report = lambda _: None) -> Finding | None:
    """Finds who makes a program wrong, or fails; None when all stages are right by the interpreter, and the machine
    code agrees with it. The search for a smaller program takes at most so many seconds.

    Errors: InputsError when no inputs can be made.
    """
    start = perf_counter()
    inputs = inputs_for(subject.module, subject.inputs)
    told(f"{subject.name}: {len(subject.stages)} stages, one after the other")
    walked = walk(subject.module, subject.stages)
    found = first_wrong_stage(subject, inputs, walked)
    if found is not None:
        told(f"after {found.stage.label}: {found.problem}")
        return reduced_stage(subject, found, seconds=seconds, start=start, told=told)
    told("all stages are right by the interpreter; the machine code, kernel by kernel")
    return wrong_kernel(subject, walked, inputs, seconds=seconds, start=start, told=told)


def reduced_stage(
    subject: Subject,
    found: WrongStage,
    *,
    seconds: float = SECONDS,
    start: float | None = None,
    told: Report = lambda _: None,
) -> Finding:
    """The finding about a stage that is known to be at fault: the smaller program, and the rewrite."""
    start = perf_counter() if start is None else start
    spectrum = Spectrum()
    shows = _Shows(found, _contract_before(found.before, subject.stages[: found.position]), spectrum)
    before, inputs, tried = found.before, subject.inputs, 0
    if level_of(before) != level_of(subject.module):
        # There are fewer ops, and whole ones, where the program comes from.
        before, inputs, tried = reduced_through(
            subject.module, subject.stages[: found.position], inputs, shows, seconds=seconds / 2
        )
    reducer = Reducer(before, inputs, shows, seconds=seconds - (perf_counter() - start) / 2)
    module, inputs = reducer.reduce()
    told(f"{programs.size_of(module)[1]} ops of {programs.size_of(found.before)[1]} show it")
    given = inputs_for(module, inputs)
    error = _error_of(module, found.stage) if found.kind == "crash" else None
    rewrite = raised_in(error) if error is not None else wrong_rewrite(module, found.stage, given)
    rewrite = _by_rule(module, found.stage) or rewrite
    return Finding(
        found.kind,
        found.stage.label,
        found.problem,
        rewrite,
        module,
        inputs,
        programs.size_of(module)[1],
        suspects=spectrum.likeliest(),
        seconds=perf_counter() - start,
        tried=tried + reducer.tried,
    )


class _Shows:
    """Whether a stage still does to a program what it is accused of."""

    def __init__(self, found: WrongStage, contract: Contract | None, spectrum: Spectrum) -> None:
        self.stage = found.stage
        self.kind = found.kind
        self.contract = contract
        self.level = level_of(found.before)
        self.error = found.error
        self.raised = raised_in(found.error) if found.error is not None else None
        self.fails_after = found.kind == "wrong" and not found.problem.startswith("result")
        self.spectrum = spectrum

    def __call__(self, module: ModuleOp, inputs: Sequence[Any]) -> bool:
        if level_of(module) != self.level:
            return False
        if self.contract is not None:
            try:
                check_level(module, self.contract, established_by="")
            except Exception:  # noqa: BLE001  # rules look at programs that are cut to pieces
                return False
        before = module.clone()
        expected = run(before, inputs)
        if expected.error is not None and self.kind != "crash":
            return False
        with self.spectrum.of_run() as noted:
            try:
                run_stage(module, self.stage)
            except Exception as error:  # noqa: BLE001  # what a stage raises is what is asked
                noted.shows = self.kind == "crash" and self._is_same(error) and expected.error is None
                return noted.shows
            if self.kind == "crash":
                return False
            truth = None if is_exact(self.stage.name, before) else run(before, inputs, precise=True)
            outcome = run(module, inputs)
            problem = how_they_differ(expected, outcome, truth)
            noted.shows = problem is not None and (outcome.error is not None) == self.fails_after
            return noted.shows

    def _is_same(self, error: Exception) -> bool:
        raised = raised_in(error)
        names = [None if one is None else one.name for one in (raised, self.raised)]
        return type(error) is type(self.error) and names[0] == names[1]


def _contract_before(module: ModuleOp, stages: Sequence[Stage]) -> Contract | None:
    """What holds of a program after these stages: the contract that was established last, if it is of its level."""
    last = next((stage.begins for stage in reversed(stages) if stage.begins is not None), None)
    return last if last is not None and last.level.partition(",")[0] == level_of(module) else None


def _error_of(module: ModuleOp, stage: Stage) -> Exception | None:
    """What the stage itself raises; None when it ends, and leaves a program that does not verify."""
    try:
        run_pipeline(make_context(), module.clone(), [stage])
    except Exception as error:  # noqa: BLE001  # it is what is asked for
        return error
    return None


def _by_rule(module: ModuleOp, stage: Stage) -> Rewrite | None:
    """Of the lowering of calls, which takes all of them down in one go: the rule of the only call that is left."""
    if stage.name.partition("{")[0] != "aten-to-loops":
        return None
    from cuesta.bisecting.lowerings import rule_of

    return rule_of(module)


__all__ = ["bisect", "reduced_stage"]
