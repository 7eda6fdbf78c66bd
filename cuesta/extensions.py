"""Which extensions a compilation is to have: those of the options, of the blocks around it, and of the environment.

    CUESTA_EXTENSIONS=other   the extension installed by that name (entry points, group `cuesta.extensions`) is in force
    CUESTA_EXTENSIONS=-mine   the extension called `mine` is in force nowhere, whoever asks for it
    CUESTA_EXTENSION_SECONDS=5  how long a function of an extension may run, whatever the options say

An installed extension is loaded when it is named, here or among the options, and never because it is installed.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from cuesta.dialects.core.deadline import SECONDS
from cuesta.dialects.core.extension import Extension, Extensions, active, only

GROUP = "cuesta.extensions"
VARIABLE = "CUESTA_EXTENSIONS"
SECONDS_VARIABLE = "CUESTA_EXTENSION_SECONDS"

_checked = WeakSet[Extensions]()


def chosen(given: Iterable[Extension | str] = ()) -> Extensions:
    """The extensions that are in force for a compilation: those of the environment, of the blocks around, and `given`.

    Errors: CuestaError for a conflict, also with something of ours, or a name that nothing is installed under.
    """
    wanted, unwanted = _environment()
    members = [*map(installed, wanted), *active().members]
    members += [installed(one) if isinstance(one, str) else one for one in given]
    if not members:
        return active()
    merged = Extensions.of(one for one in members if getattr(one, "name", None) not in unwanted)
    if merged not in _checked:
        _check_names(merged)
        _checked.add(merged)
    return merged


@contextmanager
def extended(*extensions: Extension | str) -> Generator[Extensions]:
    """The `with` block in which extensions are in force, after those that are already; a text names an installed one.

    What counts is where a graph is compiled: at the first *call* of what `torch.compile` gave. A graph that was
    compiled outside of the block is not compiled again inside of it; `options={"extensions": [...]}` has neither catch.
    Errors: CuestaError for a conflict.
    """
    merged = chosen(extensions)
    with only(merged):
        yield merged


def seconds_for(asked: float = SECONDS) -> float:
    """How long a function of an extension may run, when `asked` is what options say.

    Errors: CuestaError when the environment says no number.
    """
    given = os.environ.get(SECONDS_VARIABLE)
    if given is None:
        return asked
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

        raise CuestaError(Diagnostic(f"{SECONDS_VARIABLE} must be a number of seconds above 0, or inf, not {given!r}"))
    return seconds


def installed(name: str) -> Extension:
    """The extension that is installed under a name.

    Errors: CuestaError when there is none, or it cannot be loaded.
    """
    from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

    found = importlib.metadata.entry_points(group=GROUP, name=name)
    if not found:
        known = sorted(importlib.metadata.entry_points(group=GROUP).names)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f", did you mean {near[0]}?" if near else f"; there are: {', '.join(known) or 'none'}"
        raise CuestaError(Diagnostic(f"no extension is installed as {name!r} (entry points, group {GROUP}){hint}"))
    point = next(iter(found))
    try:
        extension: Any = point.load()
    except Exception as error:
        message = f"the installed extension {name!r} ({point.value}) cannot be loaded: {_raised(error)}"
        raise CuestaError(Diagnostic(message, without=_without(name))) from error
    if not isinstance(extension, Extension):
        what = type(extension).__name__
        raise CuestaError(
            Diagnostic(f"{point.value}, installed as {name!r}, is a {what} and no Extension", without=_without(name))
        )
    return extension


def load_file(path: str) -> tuple[Extension, ...]:
    """The extensions that a Python file defines: every `Extension` at its top level, in order, also inside of lists.

    Errors: CuestaError when it cannot be run, or defines none.
    """
    from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

    file = Path(path)
    name = file.stem if file.stem not in sys.modules else f"loaded_{abs(hash(file.resolve())):x}_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    if not file.is_file() or specification is None or specification.loader is None:
        raise CuestaError(Diagnostic("is no Python file that can be read", place=path))
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # where `inspect` and `dataclasses` look for it
    try:
        specification.loader.exec_module(module)
    except CuestaError:
        raise
    except Exception as error:
        raise CuestaError(Diagnostic(f"cannot be loaded: {_raised(error)}", place=path)) from error
    found: dict[Extension, None] = {}
    for value in vars(module).values():
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, Extension):
                found[one] = None
    if not found:
        raise CuestaError(Diagnostic("defines no Extension at its top level", place=path))
    return tuple(found)


_TOLD = "// extensions: "


def told_in_text() -> str:
    """The line of a dump that names the extensions in force; empty when there are none."""
    extensions = active()
    return f"{_TOLD}{', '.join(named(extensions))}\n" if extensions else ""


def named(extensions: Extensions) -> list[str]:
    """Every extension, with what it puts in the place of something of ours."""
    if not extensions.lowerings:
        return [one.name for one in extensions.members]
    from cuesta.lowering.aten.aten_to_loops import RULES

    names: list[str] = []
    for one in extensions.members:
        replaced = ", ".join(sorted(one.lowerings.keys() & RULES.keys()))
        names.append(f"{one.name} (lowers {replaced} in our place)" if replaced else one.name)
    return names


def missing_from(text: str) -> str:
    """What to say of a dump that extensions had a part in, of which some are not in force; empty when all are."""
    line = next((line for line in text.splitlines()[:9] if line.startswith(_TOLD)), "").removeprefix(_TOLD)
    wanted = re.sub(r" \([^)]*\)", "", line)
    here = {one.name for one in active().members}
    missing = [name for name in wanted.split(", ") if name and name not in here]
    return f"the text was written with {wanted}; not in force here: {', '.join(missing)}" if missing else ""


def _environment() -> tuple[list[str], set[str]]:
    """The names that the environment asks for, and those that it leaves out."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    return [name for name in names if name and name[0] != "-"], {name[1:] for name in names if name[:1] == "-"}


def _check_names(extensions: Extensions) -> None:
    """Errors: CuestaError for a name that one of ours has already. (Scalar ops are checked when they are merged.)"""
    if extensions.passes:
        from cuesta.passes import ALL_PASSES

        _refuse_taken(extensions, extensions.passes, ALL_PASSES, "pass")
    if extensions.dialects:
        from cuesta.context import DIALECTS, UPSTREAM

        _refuse_taken(extensions, extensions.dialects, DIALECTS.keys() | UPSTREAM.keys(), "dialect")


def _refuse_taken(extensions: Extensions, names: Any, ours: Iterable[str], what: str) -> None:
    from dataclasses import replace

    from cuesta.dialects.core.blame import diagnostic_for
    from cuesta.dialects.core.diagnostics import CuestaError

    for name in names:
        owner = extensions.owner(names[name])
        if name in ours and owner is not None:
            message = f"claims a name that is taken: there is a {what} {name} of ours"
            found = diagnostic_for(names[name], message, owner=owner)
            raise CuestaError(replace(found, place=owner.place))


def _raised(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _without(name: str) -> str:
    return f"leave {name!r} out of {VARIABLE}, and of the extensions asked for"
