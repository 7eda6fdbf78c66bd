"""Bisection of a program of `seeded_programs.py` under a fault of `seeded_faults.py`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import cuesta
from benchmarks.on_cuda import on_cuda
from cuesta.bisecting.bisect import bisect
from cuesta.bisecting.finding import Finding
from cuesta.bisecting.subjects import Subject
from cuesta.context import make_context
from cuesta.opt import parse_module, split_input
from cuesta.pipeline import default_stages, stages_of
from tests.support.seeded_programs import PROGRAMS
from tests.support.seeding import Fault


@cache
def captured(name: str) -> tuple[ModuleOp, list[Any]]:
    """A program as it is captured, without a fault, and its inputs."""
    function, inputs = PROGRAMS[name]()
    found = cuesta.lower(function, *inputs)
    return found.aten.module, found.aten.arguments()


def found_by_bisection(fault: Fault, *, seconds: float = 20.0) -> Finding | None:
    """What bisection says of the fault's program while the fault is in force."""
    if fault.program.endswith(".mlir"):
        path = Path(__file__).parents[1] / "filecheck" / "transforms" / fault.program
        first = next(split_input(path.read_text(encoding="utf-8")))
        subject = Subject(fault.program, parse_module(make_context(), first, path.name), stages_of(fault.stage))
        with fault.in_force():
            return bisect(subject, seconds=seconds)
    module, inputs = captured(fault.program)
    machine = None
    if fault.device == "cuda":
        from tests.support.triton_interpreter import seeded

        module, machine = on_cuda(module), seeded(fault.name)
    with fault.in_force():
        return bisect(Subject(fault.program, module, default_stages(), inputs, machine), seconds=seconds)


def is_right_stage(fault: Fault, found: Finding) -> bool:
    """Whether the stage, or the target, is the one that has the fault."""
    return found.stage == fault.stage.partition("{")[0]


def is_right_rewrite(fault: Fault, found: Finding) -> bool:
    """Whether what is named of the stage is the fault's."""
    return is_right_stage(fault, found) and found.rewrite is not None and found.rewrite.name in fault.rewrites
