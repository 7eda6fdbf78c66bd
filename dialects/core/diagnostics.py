"""Diagnostics: what is wrong with a program, where, and how to see it again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from xdsl.dialects.builtin import ModuleOp, UnknownLoc, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from cuesta.dialects.core.locations import format_location, format_origin, location_of, places_of, text_of
from cuesta.dialects.core.structs import struct


@struct
class Diagnostic:
    """One thing that is wrong. Printed as place and op, then what was there, then the command."""

    message: str
    place: str = ""
    """File and line, such as `model.py:42`: the text's, for a program that came from one."""
    op_name: str = ""
    got: str = ""
    stage: str = ""
    repeat: str = ""
    """A command that shows the same error."""
    note: str = ""
    """What else there is to know."""
    origin: str = ""
    """The line of the model that the text says the op comes from."""
    column: int = 0
    """Where on the line of the text the op stands; 0 when that is not known."""
    excerpt: str = ""
    """The line of the text, with a caret."""
    without: str = ""
    """How to run without the extension whose fault it is."""

    @classmethod
    def on(cls, op: Operation, message: str, *, got: str | None = None) -> Diagnostic:
        """A diagnostic on an op; what it got is its operands' types, unless said otherwise."""
        location = location_of(op)
        text, origin = text_of(location), format_origin(location)
        known = not isinstance(text, UnknownLoc)
        return cls(
            message,
            place=format_location(text) if known else origin,
            origin=origin if known else "",
            column=next((column for _, _, column in places_of(location)), 0),
            op_name=name_of(op),
            got=_format_types(op.operand_types or op.result_types) if got is None else got,
        )

    def __str__(self) -> str:
        head = f"{self.op_name}: {self.message}" if self.op_name else self.message
        lines = [f"{self.place}  {head}" if self.place else head]
        if self.excerpt:
            lines.append(self.excerpt)
        if self.origin:
            lines.append(f"  from: {self.origin}")
        rows = [f"{label}: {value}" for label, value in (("got", self.got), ("stage", self.stage)) if value]
        if rows:
            lines.append("  " + "    ".join(rows))
        if self.repeat:
            lines.append(f"  repeat: {self.repeat}")
        if self.note:
            lines.append(f"  {self.note}")
        if self.without:
            lines.append(f"  without it: {self.without}")
        return "\n".join(lines)


class CuestaError(DiagnosticException):
    """A program or a request that cannot be compiled, said for the user. Shown without a traceback."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)

    def show_lines(self, text: str, name: str, first_line: int = 1) -> None:
        """Adds, to what is about a line of a text, that line and a caret under the op, or under the value it names.

        `first_line` is the number of the text's first line in the file `name`.
        """
        lines = text.splitlines()
        self.diagnostics = tuple(_with_excerpt(one, lines, name, first_line) for one in self.diagnostics)

    def add_context(
        self, *, stage: str = "", repeat: str = "", place: str = "", note: str = "", without: str = ""
    ) -> None:
        """Say at which stage it happened, how to repeat it, where, and what else, each where that is not said yet."""
        self.diagnostics = tuple(
            replace(
                one,
                stage=one.stage or stage,
                repeat=one.repeat or repeat,
                place=one.place or place,
                note=one.note or note,
                without=one.without or without,
            )
            for one in self.diagnostics
        )


def _with_excerpt(one: Diagnostic, lines: Sequence[str], name: str, first_line: int) -> Diagnostic:
    file, _, number = one.place.partition(",")[0].rpartition(":")
    index = int(number) - first_line if file == name and number.isdigit() else -1
    if one.excerpt or not 0 <= index < len(lines):
        return one
    line = lines[index]
    value = re.match(r"%\w+", one.message)
    start, length = max(one.column - 1, len(line) - len(line.lstrip())), max(len(one.op_name), 1)
    if value is not None and (found := re.search(rf"{value[0]}(?!\w)", line)) is not None:
        start, length = found.start(), len(value[0])
    elif one.op_name and (at := line.find(one.op_name, min(start, len(line)))) >= 0:
        start = at
    return replace(one, excerpt=f"  | {line}\n  | {' ' * start}{'^' * length}")


def name_of(op: Operation) -> str:
    """The op's name as written, of an op no dialect knows too."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def fail(op: Operation, message: str, *, got: str | None = None) -> NoReturn:
    """Refuse an op.

    Errors: CuestaError, always.
    """
    raise CuestaError(Diagnostic.on(op, message, got=got))


def verify_module(module: ModuleOp) -> None:
    """Verify every op as xDSL does, with failures as diagnostics on the op at fault.

    Errors: CuestaError.
    """
    try:
        module.verify()
    except VerifyException as error:
        # xDSL puts the whole program into the exception's notes and does not say which op it was.
        raise CuestaError(Diagnostic.on(_first_invalid(module) or module, str(error))) from None


def _first_invalid(module: ModuleOp) -> Operation | None:
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return op
    return None


def _format_types(types: Sequence[Attribute]) -> str:
    return ", ".join(str(one) for one in types)
