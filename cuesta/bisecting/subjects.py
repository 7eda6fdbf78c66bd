"""What is bisected: one graph's program, the stages before it, and what it is run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cuesta.programs.inputs_of import InputsError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.pipeline import Stage

Machine: TypeAlias = "Callable[[ModuleOp, Sequence[Any]], Sequence[Any]]"


@dataclass(frozen=True)
class Subject:
    """A program with the stages that are still before it. `inputs` None are random ones."""

    name: str
    module: ModuleOp
    stages: tuple[Stage, ...]
    inputs: Sequence[Any] | None = None
    machine: Machine | None = None
    """What runs a program at `host` as machine code, in place of this machine; see `kernels.run_compiled`."""

    def of(self, module: ModuleOp, stages: Sequence[Stage], inputs: Sequence[Any] | None) -> Subject:
        """Another program of the same name."""
        return replace(self, module=module, stages=tuple(stages), inputs=inputs)


def read_subjects(path: str, inputs: str | None = None, *, training: bool = False) -> list[Subject]:
    """The programs that a path stands for: of a model's file (`*.py`) the graphs that are captured, on what the model
    calls them with; of a folder of a dump its first program, or the program in a text, on the inputs that were kept
    beside it, if any were, or those of another folder, `inputs`; on random ones else.

    Errors: those of `cuesta.lower`, of `cuesta.load`, of `read_inputs` and of `text_in`.
    """
    if path.endswith(".py"):
        if inputs is not None:
            raise InputsError(f"{path} defines its inputs itself: --inputs is for texts and dumps")
        return _captured(path, training)
    return [_of_text(path, inputs)]


def _captured(path: str, training: bool) -> list[Subject]:
    from cuesta.model_files import read_model_file
    from cuesta.programs.capturing import lower

    defined = read_model_file(path)
    kwargs = defined.kwargs or {}
    model = (lambda *inputs: defined.model(*inputs, **kwargs)) if kwargs else defined.model
    lowered = lower(model, *defined.inputs, training=training)
    kinds = ("forward", "backward") if len(lowered.graphs) == 2 else ("inference",)
    return [
        Subject(f"{path} ({kind})", one.module, one.stages, one.arguments())
        for kind, one in zip(kinds, lowered.graphs, strict=True)
    ]


def _of_text(path: str, kept: str | None) -> Subject:
    from cuesta.programs.kept_inputs import FOLDER, INDEX, read_inputs
    from cuesta.programs.stages import Program
    from cuesta.replaying.replay import text_in

    text = text_in(path)
    program = Program.read(text)
    beside = text.parent / FOLDER
    if kept is None and (beside / INDEX).is_file():
        kept = str(beside)
    return Subject(str(text), program.module, program.stages, None if kept is None else read_inputs(kept).values)


__all__ = ["Machine", "Subject", "read_subjects"]
