"""Programs in text: parsed, verified, run by the reference interpreter."""

from __future__ import annotations

import warnings

from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.opt import split_input
from cuesta.programs.texts import parse_text


def verify_text(text: str, name: str) -> list[ModuleOp]:
    """The programs of a text, which lines of `// -----` separate, verified.

    Errors: ParseError, CuestaError.
    """
    found: list[ModuleOp] = []
    for chunk in split_input(text):
        module = parse_text(make_context(), chunk.text, name, chunk.first_line)
        verify_module(module)
        verify_dominance(module)
        found.append(module)
    return found


def run_text(text: str, name: str) -> list[list[object]]:
    """What each program of a text gives for random inputs, by the reference interpreter.

    Errors: ParseError, CuestaError, which what goes wrong in a run is too.
    """
    from cuesta.targets.reference import random_inputs, run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [list(run(module, random_inputs(module))) for module in verify_text(text, name)]
