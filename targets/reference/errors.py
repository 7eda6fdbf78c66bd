"""What the interpreter says when a program breaks the rules of its level."""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import CallSiteLoc, UnknownLoc
from xdsl.ir import Operation


class InterpreterError(Exception):
    """A program that means nothing: an index out of range, an element stored twice, a missing input.

    It is never the fault of the data, except for the inputs that `run` was given: a pass is wrong, or the text is.
    """


def describe(op: Operation) -> str:
    """The op's name and where it comes from, a text if it is of one: `model.py:42:0  loops.load`."""
    if isinstance(op.location, UnknownLoc):
        return op.name
    place = op.location.callee if isinstance(op.location, CallSiteLoc) else op.location
    location = str(place).removeprefix("loc(").removesuffix(")").replace('"', "")
    return f"{location}  {op.name}"


def fail(op: Operation, message: str) -> NoReturn:
    """Raises an `InterpreterError` about `op`."""
    raise InterpreterError(f"{describe(op)}: {message}\n  in: {_first_line(op)}")


def _first_line(op: Operation) -> str:
    return str(op).partition("\n")[0]
