"""`cuesta.load`: from the text of a program, at whatever level it stands, to a function."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuesta.options import OptionError, Options
from cuesta.record import CompileRecord, recorded

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.pipeline import Stage
    from cuesta.programs.header import Header

CHOOSE_STAGES = ("random", "emulate_precision_casts", "relax_accuracy", "max_autotune")
"""The options that say which stages there are, and how they run: a text that names its stages has been through that."""


def load(path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Callable[..., tuple[Any, ...]]:
    """Compiles a program from its text, at whatever level it stands: what a dump holds, edited or not.

    It goes on where the dump was made, with the stages that the text's first lines name (`header.py`); a text
    that names none goes on from its level. The option `pipeline` says others.

    The function takes @main's arguments, in order, and gives a tuple of its results; what is not as the text says
    (dtype, sizes, strides) is a TypeError. `options` are those of `torch.compile(..., backend="cuesta", options=...)`;
    with `{"checks": "off"}` nothing is checked when it runs.
    A text that another version of Cuesta wrote is a warning, which errors repeat.
    Errors: CuestaError, xDSL's ParseError (both name file and line), OptionError, OSError. A call raises IndexError or
    RuntimeError, which name the line, where the text accesses what is not there or a call gives what it does not say.
    """
    from cuesta.dialects.core.deadline import allowing
    from cuesta.dialects.core.extension import only
    from cuesta.extensions import chosen, seconds_for

    parsed = Options.parse(None, options)
    with only(chosen(parsed.extensions)), allowing(seconds_for(parsed.extension_seconds)):
        return _load(path, parsed, options or {})


def _load(path: str | os.PathLike[str], parsed: Options, given: Mapping[str, Any]) -> Callable[..., tuple[Any, ...]]:
    from cuesta.programs.texts import errors_of

    name, text = str(path), read_text(path)
    with errors_of(text, name):
        module, header, stages = read(text, name, parsed, given=given)
    return function_of(module, header, stages, text, name, parsed)


def function_of(
    module: ModuleOp, header: Header, stages: Sequence[Stage] | None, text: str, name: str, options: Options
) -> Callable[..., tuple[Any, ...]]:
    """Compiles a program that was read from a text, by the stages that it has before it; `module` is used up.

    Errors: as `load`, and so are the function's.
    """
    from cuesta.compiler import compile_module
    from cuesta.dump import Dump
    from cuesta.programs.arguments import Arguments
    from cuesta.programs.texts import errors_of

    with errors_of(text, name):
        arguments = Arguments.of(module)
        record = CompileRecord(kind="inference")
        dump: Dump | None = None
        with recorded(record):
            if options.dump:
                dump = Dump.create(options.dump, "loaded")
                dump.header = header
                dump.about("loaded", options)
            with nullcontext() if dump is None else dump.failures_kept():
                compiled = compile_module(module, options, record, dump, stages=stages, checked=options.checks != "off")
        if dump is not None and options.dump_inputs:
            from cuesta.programs.kept_inputs import keep_first

            compiled = keep_first(compiled, dump.folder, (), 0)

    def call(*values: Any) -> tuple[Any, ...]:
        arguments.check(values, name)
        with errors_of(text, name):
            return tuple(compiled(list(values)))

    return call


def read_text(path: str | os.PathLike[str]) -> str:
    """The text in a file. Errors: CuestaError when it holds none, OSError."""
    from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CuestaError(Diagnostic("is not text", place=str(path))) from error


def read(
    text: str, path: str, options: Options, *, given: Mapping[str, Any]
) -> tuple[ModuleOp, Header, Sequence[Stage] | None]:
    """The program in the text of a file, checked, its header, and the stages that it names; None where it names none,
    or `options` say others. `given` are the options that somebody set.

    Errors: as `load`.
    """
    from xdsl.utils.exceptions import ParseError

    from cuesta.context import make_context
    from cuesta.dialects.core.diagnostics import CuestaError
    from cuesta.extensions import missing_from
    from cuesta.pipeline import stages_named
    from cuesta.programs.header import read_header
    from cuesta.programs.texts import parse_text, verify_text

    header = read_header(text)
    if header.other_version:
        warnings.warn(f"{path}: {header.other_version}: stages and levels may mean something else", stacklevel=3)
    try:
        module = parse_text(make_context(), text, path)
        verify_text(module)
        if header.remaining is None or options.pipeline is not None:
            return module, header, None
        chosen = [name for name in CHOOSE_STAGES if name in given]
        if chosen or options.tunes:
            raise OptionError(
                f"option {(chosen or ['mode'])[0]!r}: {path} says on line {header.line} which stages it still has "
                "before it, and how they run; edit that line, or remove it, or give the option 'pipeline'"
            )
        return module, header, stages_named(header.remaining, place=f"{path}:{header.line}")
    except CuestaError as error:
        error.add_context(note=header.other_version or missing_from(text))
        raise
    except ParseError as error:
        if note := header.other_version or missing_from(text):
            raise ParseError(error.span, f"{error.msg}\n  {note}") from None
        raise
