"""`validate: "stages"`: the interpreter around every stage, on the inputs of the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cuesta.validating.errors import ValidationError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.bisecting.finding import Finding
    from cuesta.options import Options
    from cuesta.pipeline import Stage

SECONDS = 20.0
"""So long a program that goes wrong is made smaller before the error is raised. Source: a definition."""


def checked_at_first(
    function: Callable[[list[Any]], Any], before: ModuleOp, options: Options
) -> Callable[[list[Any]], Any]:
    """The compiled function of a program; its first call runs the stages again on a copy of the program as it was
    `before` them, and interprets it after each on a copy of the arguments. What is right is not looked at again.

    Errors, of the first call: ValidationError.
    """
    left = [before]

    def call(arguments: list[Any]) -> Any:
        if left:
            check_stages(left[0], options, arguments)
            left.clear()
        return function(arguments)

    return call


def check_stages(module: ModuleOp, options: Options, inputs: Sequence[Any]) -> None:
    """Runs all stages on a program that has none behind it. Errors: ValidationError at the first that is wrong."""
    from cuesta.bisecting.bisect import reduced_stage
    from cuesta.bisecting.judging import copied
    from cuesta.bisecting.stages import first_wrong_stage
    from cuesta.bisecting.subjects import Subject
    from cuesta.dialects.core.machine import state_machine
    from cuesta.machine import machine_for
    from cuesta.staging import stages_for

    state_machine(module, machine_for(module))
    subject = Subject("the graph", module, tuple(stages_for(module, options)), copied(inputs))
    found = first_wrong_stage(subject, copied(inputs))
    if found is not None:
        raise error_of(reduced_stage(subject, found, seconds=SECONDS), found.stage)


def error_of(found: Finding, stage: Stage) -> ValidationError:
    """A finding as an error: the line of the model, the op, how results differ, and a file that shows it."""
    from cuesta.bisecting.programs import ops_in
    from cuesta.bisecting.report import text_of
    from cuesta.dialects.core.diagnostics import Diagnostic
    from cuesta.dialects.core.locations import format_origin, location_of
    from cuesta.pipeline import repeat_command
    from cuesta.targets.reports import kept

    ops = ops_in(found.reduced)
    place = next((text for op in reversed(ops) if (text := format_origin(location_of(op)))), "")
    folder = kept({"wrong.mlir": text_of(found, stage, "wrong.mlir")})
    rewrite = f"; the rewrite is {found.rewrite}" if found.rewrite is not None else ""
    return ValidationError(
        Diagnostic(
            f"{stage.label} changes what the program computes: {found.problem}{rewrite}",
            place=place,
            op_name=ops[-1].name if ops else "",
            stage=stage.label,
            repeat=repeat_command(str(folder / "wrong.mlir"), stage.name),
            note=f"{found.ops} ops that show it: cuesta bisect {folder / 'wrong.mlir'}",
        )
    )


__all__ = ["check_stages", "checked_at_first", "error_of"]
