"""What is bisected: one graph's program, the stages before it, and what it is run on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cuesta.inputs_of import InputsError

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
    calls them with; of a folder of a dump its first program, on the inputs that were kept in it, if any were; or the
    program in a text. `inputs` is another folder of inputs; random ones where there are none.

    Errors: those of `cuesta.lower`, of `cuesta.load` and of `read_inputs`; InputsError for a folder without a program.
    """
    if path.endswith(".py"):
        if inputs is not None:
            raise InputsError(f"{path} defines its inputs itself: --inputs is for texts and dumps")
        return _captured(path, training)
    folder = Path(path) if os.path.isdir(path) else None
    text = _first_text(folder) if folder is not None else Path(path)
    kept = inputs if inputs is not None else _kept_in(folder)
    return [_of_text(text, kept)]


def _captured(path: str, training: bool) -> list[Subject]:
    from cuesta.capturing import lower
    from cuesta.model_files import read_model_file

    defined = read_model_file(path)
    kwargs = defined.kwargs or {}
    model = defined.model if not kwargs else lambda *inputs: defined.model(*inputs, **kwargs)
    lowered = lower(model, *defined.inputs, training=training)
    kinds = ("forward", "backward") if len(lowered.graphs) == 2 else ("inference",) * len(lowered.graphs)
    return [
        Subject(f"{path} ({kind})", one.module, one.stages, one.arguments())
        for kind, one in zip(kinds, lowered.graphs, strict=True)
    ]


def _of_text(path: Path, kept: str | None) -> Subject:
    from cuesta.dialects.core.machine import state_machine
    from cuesta.kept_inputs import read_inputs
    from cuesta.loading import read, read_text
    from cuesta.machine import machine_for
    from cuesta.options import Options
    from cuesta.staging import stages_for
    from cuesta.texts import errors_of

    name, text, options = str(path), read_text(path), Options()
    with errors_of(text, name):
        module, _, stages = read(text, name, options, given={})
        state_machine(module, machine_for(module))
        stages = stages_for(module, options) if stages is None else stages
    return Subject(name, module, tuple(stages), None if kept is None else read_inputs(kept).values)


def _first_text(folder: Path) -> Path:
    texts = sorted(folder.glob("[0-9][0-9]_*.mlir"))
    if not texts:
        inside = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name[:3].isdigit())
        hint = f"; there are {', '.join(inside)} in it" if inside else ""
        raise InputsError(f"{folder} holds no program: a dump's folder of one graph has texts, 00_….mlir and on{hint}")
    return texts[0]


def _kept_in(folder: Path | None) -> str | None:
    return str(folder) if folder is not None and (folder / "inputs").is_dir() else None


__all__ = ["Subject", "read_subjects"]
