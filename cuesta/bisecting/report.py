"""What was found, said: in the terminal, and as a text that somebody pastes into a test."""

from __future__ import annotations

import os
from pathlib import Path

from cuesta.bisecting.finding import Finding
from cuesta.pipeline import Stage

_CALLERS = 3


def described(found: Finding, name: str) -> str:
    """A finding in a few lines."""
    lines = [f"{name}: {_head(found)}", f"  {found.problem}"]
    if found.rewrite is not None:
        label = "op" if found.kind == "kernel" else "rewrite"
        lines.append(f"{label}: {found.rewrite}")
        callers = [str(one) for one in found.rewrite.callers if one.function != found.rewrite.name][:_CALLERS]
        if callers:
            lines.append(f"  by way of {', '.join(callers)}")
    if found.suspects:
        lines.append("functions that run when it shows, and not when it does not:")
        lines += [f"  {one}" for one in found.suspects[:_CALLERS]]
    lines.append(f"made smaller: {found.ops} ops are left, {found.tried} programs were tried, {found.seconds:.1f} s")
    return "\n".join(lines)


def _head(found: Finding) -> str:
    match found.kind:
        case "wrong":
            return f"wrong after {found.stage}"
        case "crash":
            return f"{found.stage} fails"
        case "kernel":
            return f"all stages are right; the machine code of @{found.kernel} is wrong, by the target {found.stage}"
        case _:
            return "all stages and all kernels are right; what runs around the kernels is wrong"


def text_of(found: Finding, stage: Stage | None, file: str) -> str:
    """The smaller program as a text. Its first lines say how to see it go wrong: for a stage it is a RUN line, so that
    the text fails as it stands under `tests/filecheck/`, where results before and after each pass are compared.
    """
    from cuesta.dialects.core.locations import print_text

    if stage is not None:
        first = f'// RUN: cuesta-opt %s -p "{stage.name}"'
    else:
        rest = "--random --check" if found.inputs is None else f"--inputs {file}.inputs --check"
        first = f"// repeat: cuesta run {file} {rest}"
    lines = [first, f"// {_head(found)}"]
    lines += [f"// {line}" for line in found.problem.splitlines()]
    if found.rewrite is not None:
        lines.append(f"// {'op' if found.kind == 'kernel' else 'rewrite'}: {found.rewrite}")
    return "\n".join([*lines, print_text(found.reduced)])


def write(found: Finding, stage: Stage | None, file: str) -> list[str]:
    """Writes the smaller program, whole or not at all, and beside it the inputs that it has to be run on, if it is not
    random ones. Gives the paths. Errors: OSError, InputsError where there are inputs already.
    """
    from cuesta.programs.kept_inputs import write_inputs

    path = Path(file)
    paths = [str(path)]
    if found.inputs is not None:
        paths.append(str(write_inputs(list(found.inputs), f"{file}.inputs")))
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_text(text_of(found, stage, file), encoding="utf-8")
    os.replace(temporary, path)
    return paths


__all__ = ["described", "text_of", "write"]
