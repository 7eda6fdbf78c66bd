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
def blame(thing: object, op: Operation | None = None, *, passing: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """The `with` block in which something of an extension's runs. What it raises becomes a CuestaError that says whose
    it is, but for `passing`, which are answers. Of what nobody's extension holds nothing is changed.
    """
    owner = active().owner(thing)
    if owner is None:
        yield
        return
    try:
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


_NOT_THEIRS = frozenset(("cuesta", "xdsl", "torch", "contextlib"))


def _raised_at(trace: TracebackType | None) -> str:
    """The innermost line that an author can change: neither the compiler's nor what it builds upon."""
    found = ""
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _NOT_THEIRS:
            found = f"{frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
