"""A program from its text: read, and held to everything that later stages and machine code rely on.

What made a program in a dump kept the rules of its level by construction; whoever edits the text need not have. So a
text is checked where it begins, what cannot be seen in it is checked when it runs (`check-bounds`, the wrapper), and an
error names the text's file and line, whatever it was that failed.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from cuesta.dialects import host
from cuesta.dialects.aten.arguments import Device, DType
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.aten.dtypes import DTypeType
from cuesta.dialects.core.contracts import Contract
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.layout import device_of, is_tensor_type
from cuesta.dialects.loops.reach import verify_reach
from cuesta.dialects.texts import TEXTS, parts_fit, programs_in
from cuesta.options import OptionError
from cuesta.pipeline import STAGE_NOTE, level_of
from cuesta.targets.program import CudaError

_MOST_SHOWN = 5
_PARTS = Contract("a program in pieces, as a text", (parts_fit,))


def parse_text(context: Context, text: str, name: str, first_line: int = 1) -> ModuleOp:
    """The module that a text holds; `first_line` is the number of its first line in the file `name`.

    Errors: ParseError, which names file and line.
    """
    parser = CuestaParser(context, text, name, first_line=first_line)
    try:
        return parser.parse_module()
    except ParseError:
        raise
    except (VerifyException, ValueError, AssertionError, RecursionError) as error:
        # An attribute's own verifier runs while it is parsed, and has no place; some of xDSL's parsers fall over.
        parser.raise_error(_understood(error))


def _understood(error: Exception) -> str:
    """What Python or xDSL say of a text that a parser fell over, in words about the text."""
    if isinstance(error, RecursionError):
        return "this is nested more deeply than can be read"
    if str(error).startswith("zip() argument"):  # xDSL, of parameters and the fields they are for
        return "the type or attribute before has another number of parameters"
    return str(error) or f"this is not understood ({type(error).__name__})"


def verify_text(module: ModuleOp) -> None:
    """Holds a program to the contract of the level at which it stands, and to what only texts are asked for.

    Errors: CuestaError with the first few ops that break the first rule that is broken.
    """
    verify_module(module)
    verify_dominance(module)
    try:
        _hold_to(module, _PARTS)
        levels = [(program, "pieces" if calls else level_of(program)) for program, calls in programs_in(module)]
        for program, level in levels:
            _hold_to(program, TEXTS[level])
    except VerifyException as error:
        raise CuestaError(Diagnostic(str(error))) from None
    verify_reach(module)
    verify_calls(module)
    for program, level in levels:
        if level == "aten" and any(isinstance(op, CallLike) for op in program.walk()):
            from cuesta.programs.aten_types import verify_aten_types

            verify_aten_types(program)


def verify_lowered(module: ModuleOp) -> None:
    """Holds what the stages made of a text to what machine code relies on: they may have been any, in any order.

    Errors: CuestaError.
    """
    verify_module(module)
    verify_dominance(module)
    _hold_to(module, _PARTS)
    for program, calls in programs_in(module):
        _hold_to(program, TEXTS["pieces" if calls else "host"])


def _hold_to(module: ModuleOp, contract: Contract) -> None:
    for rule in contract.rules:
        findings = list(islice(rule(module), _MOST_SHOWN))
        if findings:
            raise CuestaError(*(Diagnostic.on(op, f"{message} ({contract.level})") for op, message in findings))


def verify_calls(module: ModuleOp) -> None:
    """Every overload that is called, and every dtype and device that is named, is one that torch has.

    Errors: CuestaError.
    """
    for op in module.walk():
        for value in (
            *op.results,
            *(argument for region in op.regions for block in region.blocks for argument in block.args),
        ):
            kind = value.type
            if not is_tensor_type(kind):
                continue
            element = kind.element_type
            if isinstance(element, DTypeType) and not _is_dtype(element.dtype_name.data):
                raise CuestaError(Diagnostic.on(op, f"torch has no dtype {element.dtype_name.data}"))
            if (problem := _device_problem(device_of(kind))) is not None:
                raise CuestaError(Diagnostic.on(op, problem))
        if isinstance(op, host.EagerOp | host.OperatorOp):
            _verify_operator(op)
        if isinstance(op, CallLike):
            _verify_call(op)


def _verify_operator(op: host.EagerOp | host.OperatorOp) -> None:
    from cuesta.lowering.capture.operator_names import is_operator

    name = op.overload if isinstance(op, host.EagerOp) else op.operator
    if not is_operator(name):
        raise CuestaError(Diagnostic.on(op, f"eager has no operator {name}"))


def _verify_call(op: CallLike) -> None:
    from cuesta.targets.host.runtime import is_overload

    if not isinstance(op, host.EagerOp) and not is_overload(op.overload):
        raise CuestaError(Diagnostic.on(op, f"torch has no overload {op.overload}"))
    for leaf in _leaves((op.arguments_attr.positional, tuple(value for _, value in op.arguments_attr.keywords))):
        if isinstance(leaf, DType) and not _is_dtype(leaf.name):
            raise CuestaError(Diagnostic.on(op, f"torch has no dtype {leaf.name}"))
        if isinstance(leaf, Device) and (problem := _device_problem(leaf.name)) is not None:
            raise CuestaError(Diagnostic.on(op, problem))


def _leaves(argument: Any) -> Generator[Any]:
    if isinstance(argument, tuple):
        for element in argument:  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(element)
    else:
        yield argument


def _is_dtype(name: str) -> bool:
    import torch  # only where a text names what only torch knows: tools that read others start without it

    return isinstance(getattr(torch, name, None), torch.dtype)


def _device_problem(name: str) -> str | None:
    if name == "cpu":
        return None
    import torch

    try:
        return None if torch.device(name) else "no device"
    except (RuntimeError, ValueError):
        return f"{name!r} is no device"


@contextmanager
def errors_of(text: str, name: str, first_line: int = 1) -> Generator[None]:
    """In the `with` block a program from a text is compiled or run: what fails there is said of the text, whose first
    line is line `first_line` of the file `name`.

    Errors: CuestaError with the line of the text that is known to be at fault, also for an exception that a pass, torch
    or LLVM raised; it is the cause. A CudaError stays one.
    """
    try:
        yield
    except CuestaError as error:
        error.diagnostics = tuple(one if one.place else replace(one, place=name) for one in error.diagnostics)
        error.show_lines(text, name, first_line)
        raise
    except (ParseError, OSError, OptionError, CudaError):  # the last is the device's fault, or its driver's
        raise
    except (IndexError, RuntimeError) as error:
        if name in str(error):  # a check that the program was given names its line
            raise
        raise _told(error, text, name, first_line) from error
    except Exception as error:
        raise _told(error, text, name, first_line) from error


def _told(error: Exception, text: str, name: str, first_line: int) -> CuestaError:
    frames = traceback.extract_tb(error.__traceback__)
    place = name
    for frame in frames:
        if frame.filename.startswith("<cuesta wrapper") and (at := re.search(r"  # at (.*)$", frame.line or "")):
            place = at[1]
    message = str(error).strip().partition("\n")[0] if not isinstance(error, DiagnosticException) else str(error)
    kind = type(error).__name__
    where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    notes: list[str] = getattr(error, "__notes__", [])
    stage = next((note.removeprefix(STAGE_NOTE) for note in notes if note.startswith(STAGE_NOTE)), "")
    found = CuestaError(Diagnostic(f"{kind}: {message}", place=place, got="" if place != name else where, stage=stage))
    found.show_lines(text, name, first_line)
    return found


__all__ = ["errors_of", "parse_text", "verify_calls", "verify_lowered", "verify_text"]
