"""What `cuesta validate` says of a program."""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.bisecting.judging import inputs_for, run
from cuesta.bisecting.kernels import differing, run_compiled
from cuesta.bisecting.stages import first_wrong_stage, walk
from cuesta.bisecting.subjects import Subject
from cuesta.dialects import kernel
from cuesta.validating.bounds import Bounds, bounds_of


@dataclass(frozen=True)
class Report:
    """What was compared, and what is wrong."""

    name: str
    stages: int
    changed: int
    """How many of the stages changed the program, so that it was interpreted before and after."""
    kernels: int
    bounds: Bounds | None
    problem: str | None

    def __str__(self) -> str:
        lines = [f"{self.name}: {'right' if self.problem is None else 'WRONG'}"]
        lines.append(f"  stages: {self.stages}, of which {self.changed} change the program and were interpreted around")
        if self.problem is not None:
            lines.append(f"  {self.problem}")
        if self.bounds is not None:
            lines.append(f"  kernels: {self.kernels}")
            lines += [f"  {line}" for line in str(self.bounds).splitlines()]
        return "\n".join(lines)


def validated(subject: Subject) -> Report:
    """Interprets a program around every stage, runs its machine code beside the interpreter, and proves what it can of
    its accesses.
    """
    inputs = inputs_for(subject.module, subject.inputs)
    walked = walk(subject.module, subject.stages)
    wrong = first_wrong_stage(subject, inputs, walked)
    changed = len(walked.programs) - 1
    if wrong is not None:
        return Report(subject.name, len(subject.stages), changed, 0, None, f"{wrong.stage.label}: {wrong.problem}")
    last = walked.last
    expected, truth = run(last, inputs), run(last, inputs, precise=True)
    problem: str | None = None
    if expected.error is None:
        try:
            problem = differing((subject.machine or run_compiled)(last, inputs), expected, truth)
        except Exception as error:  # noqa: BLE001  # what machine code raises is what is wrong
            problem = f"{type(error).__name__}: {error}"
        problem = problem and f"the machine code: {problem}"
    count = sum(isinstance(op, kernel.FuncOp) for op in last.body.ops)
    return Report(subject.name, len(subject.stages), changed, count, bounds_of(last), problem)


__all__ = ["Report", "validated"]
