"""From `loops`, ready to schedule, to `kernel`: the stages of the pipeline there, as a test asks for them."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects.core.machine import REFERENCE, Machine, state_machine
from cuesta.passes import ALL_PASSES
from cuesta.pipeline import STAGES, Stage, run_pipeline


def stages_to_kernel(target: str | None = None) -> list[Stage]:
    """The stages after `tune-kernels` and up to `hint-loads`; with a `target`, for that in the place of the device."""
    labels = [stage.label for stage in STAGES]
    stages = STAGES[labels.index("tune-kernels") + 1 : labels.index("hint-loads") + 1]
    if target is None:
        return list(stages)
    return [
        replace(stage, name=f"{stage.name}{{target={target}}}") if "target" in _options(stage) else stage
        for stage in stages
    ]


def _options(stage: Stage) -> set[str]:
    return set(getattr(ALL_PASSES[stage.name](), "__dataclass_fields__", ()))


def to_kernel(
    module: ModuleOp, target: str | None = None, *, machine: Machine = REFERENCE, verify_each: bool = True
) -> ModuleOp:
    """Takes a program down, in place."""
    state_machine(module, machine)
    run_pipeline(make_context(), module, stages_to_kernel(target), verify_each=verify_each)
    return module
