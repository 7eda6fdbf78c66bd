"""When what an extension holds goes wrong: the message names the extension, its line and the op, and how to do without.

with blame(lower_i0, op):
    values = lower_i0(op, builder)
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException

from cuesta.dialects.core.deadline import InTime, Overran, is_theirs, left_late
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.extension import Extension, active


def place_of(thing: object) -> str:
    """The file and line that define a function or a class, or the class of an instance; empty when nobody knows."""
    target: Any = thing
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    target = inspect.unwrap(target) if callable(target) else target
    code = getattr(target, "__code__", None)
    if code is None and not isinstance(target, type):
        target = type(thing)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        file, (_, line) = inspect.getsourcefile(target), inspect.getsourcelines(target)
    except (OSError, TypeError):  # made at a prompt
        return ""
    return f"{file}:{line}" if file else ""


def name_of_thing(thing: object) -> str:
    """How a message calls a function, a pass, a rule: by its own name."""
    thing = inspect.unwrap(thing) if callable(thing) else thing
    for attribute in ("name", "__qualname__"):
        if isinstance(found := getattr(thing, attribute, None), str):
            return found
    return type(thing).__qualname__


def diagnostic_for(thing: object, message: str, op: Operation | None = None, *, owner: Extension) -> Diagnostic:
    """What is wrong with something that an extension holds, on the op that it was given."""
    place = place_of(thing) or owner.place
    text = f"extension {owner.name!r}: {name_of_thing(thing)} ({place}) {message}"
    own = Diagnostic(text) if op is None else Diagnostic.on(op, text)
    return replace(own, without=without(owner))


def without(*owners: Extension) -> str:
    """How to run without extensions."""
    names = ",".join(f"-{owner.name}" for owner in owners)
    return f"CUESTA_EXTENSIONS={names} in the environment leaves {', '.join(repr(one.name) for one in owners)} out"


def accuse(thing: object, message: str, op: Operation | None = None, *, owner: Extension | None = None) -> NoReturn:
    """Refuses what something that an extension holds has done. Errors: CuestaError, always."""
    owner = owner or active().owner(thing)
    if owner is None:
        raise CuestaError(Diagnostic(message) if op is None else Diagnostic.on(op, message))
    raise CuestaError(diagnostic_for(thing, message, op, owner=owner))


@contextmanager
def blame(
    thing: object,
    op: Operation | None = None,
    *,
    passing: tuple[type[Exception], ...] = (),
    owner: Extension | None = None,
) -> Generator[None]:
    """The `with` block in which something of an extension's runs. What it raises becomes a CuestaError that says whose
    it is, but for `passing`, which are answers; so does not returning in time (`deadline.py`). Of what nobody's
    extension holds nothing is changed.

    Requires: somewhere around it is a `blame_late`.
    """
    owner = owner or active().owner(thing)
    if owner is None:
        yield
        return
    timed = _Timed(thing, op, owner)
    try:
        with timed:
            yield
    except passing:
        raise
    except CuestaError as error:
        if not any(one.without for one in error.diagnostics):
            first, *rest = error.diagnostics
            label = f"(extension {owner.name!r}: {name_of_thing(thing)}, {place_of(thing) or owner.place})"
            first = replace(first, message=f"{first.message} {label}", without=without(owner))
            error.diagnostics = (first, *rest)
        raise
    except DiagnosticException as error:  # a pass of theirs refuses a program, as xDSL's passes do
        raise CuestaError(diagnostic_for(thing, f"says: {error}", op, owner=owner)) from error
    except Exception as error:
        where = _raised_at(error.__traceback__)
        text = f"raised {type(error).__name__}: {error}" + (f", at {where}" if where else "")
        raise CuestaError(diagnostic_for(thing, text, op, owner=owner)) from error
    except Overran as error:
        timed.leave()  # it may have come before the end of the block had begun
        raise timed.error(error) from None


@contextmanager
def blame_late() -> Generator[None]:
    """The `with` block around all that may `blame`: there the exception ends that came when a block of `blame` was
    nearly left, and went past it.
    """
    try:
        yield
    except Overran as error:
        block = left_late()
        if isinstance(block, _Timed):
            raise block.error(error) from None
        raise


class _Timed(InTime):
    """The block in which something of an extension's runs, on an op."""

    __slots__ = ("op", "owner", "thing")

    def __init__(self, thing: object, op: Operation | None, owner: Extension) -> None:
        super().__init__()
        self.thing, self.op, self.owner = thing, op, owner

    def error(self, overran: Overran) -> CuestaError:
        """What is said of code that was stopped."""
        where = _raised_at(overran.__traceback__)
        text = f"did not return within {self.seconds:g} s" + (f", and was stopped at {where}" if where else "")
        return CuestaError(diagnostic_for(self.thing, text, self.op, owner=self.owner))

    def told(self, place: str) -> str:
        return str(diagnostic_for(self.thing, super().told(place), owner=self.owner))


def _raised_at(trace: TracebackType | None) -> str:
    """The innermost line that an author can change: neither the compiler's nor what it builds upon."""
    found = ""
    while trace is not None:
        frame = trace.tb_frame
        if is_theirs(frame):
            found = f"{frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
