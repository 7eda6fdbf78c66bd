"""Source locations: which line of the model, or of a text file, an op comes from.

xDSL keeps a location on every op but loses it when it parses custom syntax without one and when it replaces an op. The
parser here stamps what was written, and the op's own place in the text; `rewriting` carries locations on.

An op of a text that says where it comes from has both: `callsite(the text at the model)`. Diagnostics name the text
first; what is printed is where it comes from, so that a text that is read and printed says what it said.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, AttributeInvT, BlockArgument, Operation, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span

from cuesta.dialects.core.operation import all_ops

_COMMENT = re.compile(r"//.*")


def location_of(op: Operation) -> LocationAttr:
    """Where the op comes from; the innermost enclosing op that knows, where the op itself does not."""
    current: Operation | None = op
    while current is not None:
        if not isinstance(current.location, UnknownLoc):
            return current.location
        current = current.parent_op()
    return UNKNOWN_LOC


def set_location(op: Operation, file: str, line: int, col: int = 0) -> None:
    """Say that the op comes from this line."""
    op.location = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(col))


def copy_location(source: Operation, target: Operation) -> None:
    """Give `target`, and the ops inside it, the location of `source` where they have none of their own."""
    stamp_location(target, source.location)


def stamp_location(op: Operation, location: LocationAttr) -> None:
    """Set the location of the op and of the ops inside it, where they have none."""
    if type(location) is UnknownLoc:
        return
    for inner in all_ops(op) if op.regions else (op,):
        if type(inner.location) is UnknownLoc:
            inner.location = location


def fuse_locations(*locations: LocationAttr) -> LocationAttr:
    """The location of what was made from several ops: each source once, in order, none of them unknown."""
    distinct = dict.fromkeys(part for location in locations for part in _parts(location))
    if not distinct:
        return UNKNOWN_LOC
    if len(distinct) == 1:
        return next(iter(distinct))
    return FusedLoc(tuple(distinct), NoneAttr())


def source_lines(location: Attribute) -> Iterator[tuple[str, int]]:
    """Every (file, line) a location names, in order."""
    match location:
        case FileLineColLoc():
            yield location.filename.data, location.line.data
        case FusedLoc(locations=ArrayAttr() as parts):
            for part in parts:
                yield from source_lines(part)
        case NameLoc():
            yield from source_lines(location.location)
        case CallSiteLoc():
            yield from source_lines(location.callee)
            yield from source_lines(location.caller)
        case _:
            return


def format_location(location: Attribute) -> str:
    """`model.py:42`, or `edited.mlir:7, model.py:42, model.py:45`, texts first; empty when nothing is known."""
    return ", ".join(dict.fromkeys(one for part in (text_of(location), origin_of(location)) for one in _lines(part)))


def format_origin(location: Attribute) -> str:
    """The same without the lines of texts that say where their ops come from: the lines of the model."""
    return ", ".join(dict.fromkeys(_lines(origin_of(location))))


def _lines(location: Attribute) -> Iterator[str]:
    return (f"{file}:{line}" for file, line in source_lines(location))


def text_of(location: Attribute) -> LocationAttr:
    """The places in texts, of ops that say where they come from; unknown when there are none."""
    match location:
        case CallSiteLoc(callee=FileLineColLoc() as place):
            return place
        case FusedLoc(locations=ArrayAttr() as parts):
            return fuse_locations(*(text_of(part) for part in parts))
        case _:
            return UNKNOWN_LOC


def origin_of(location: Attribute) -> LocationAttr:
    """Where ops come from, less their places in texts."""
    match location:
        case CallSiteLoc(caller=caller):
            return origin_of(caller)
        case FusedLoc(locations=ArrayAttr() as parts):
            return fuse_locations(*(origin_of(part) for part in parts))
        case _:
            return location if isinstance(location, LocationAttr) else UNKNOWN_LOC


def places_of(location: Attribute) -> Iterator[tuple[str, int, int]]:
    """Every file, line and column a location names, those of texts first."""
    for part in (text_of(location), origin_of(location)):
        for one in _parts(part):
            if isinstance(one, FileLineColLoc):
                yield one.filename.data, one.line.data, one.column.data


def _parts(location: LocationAttr) -> Iterable[LocationAttr]:
    match location:
        case UnknownLoc():
            return ()
        case FusedLoc(locations=ArrayAttr() as parts, metadata=NoneAttr()):
            return [inner for part in parts if isinstance(part, LocationAttr) for inner in _parts(part)]
        case _:
            return (location,)


class CuestaParser(Parser):
    """xDSL's parser, which keeps locations.

    Every op gets its own place in the text, so that a diagnostic can always name a line of it.
    """

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>", *, first_line: int = 1) -> None:
        """`first_line` is the number of the text's first line in the file `name`."""
        super().__init__(ctx, input, name)
        text = self.lexer.input.content
        self._file = StringAttr(name)
        self._first_line = first_line
        self._first_uses: dict[str, Span] = {}
        self._line_starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._line_starts.append(position + 1)
            position = text.find("\n", position + 1)

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse a module.

        Errors: ParseError; for a value that is never defined, at its first use.
        """
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            content = self.lexer.input.content
            if not _COMMENT.sub("", content).strip():
                raise ParseError(error.span, "there is no program here: the text is empty") from None
            undefined = [name for name in self.forward_ssa_references if name in self._first_uses]
            if not error.msg.startswith("values used but not defined"):
                if error.span.start < len(content.rstrip()):
                    raise
                raise ParseError(error.span, f"the text ends before its program does ({error.msg.strip()})") from None
            if not undefined:
                raise
            raise ParseError(self._first_uses[undefined[0]], f"%{undefined[0]} is used but not defined") from None

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Resolve an operand, and remember where a value was used that is not defined yet."""
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """As xDSL's, but the error points at the name instead of at what follows it."""
        stack = self._parser_state.dialect_stack
        op_type = self.ctx.get_optional_op(name, dialect_stack=stack)
        if op_type is None:
            start = self.lexer.input.content.rfind(name, 0, self._current_token.span.start)
            near = get_close_matches(name, [known.name for known in self.ctx.loaded_ops], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.raise_error(f"there is no op {name}{hint}", start, start + len(name))
        return op_type

    def parse_operation(self) -> Operation:
        """Parse an operation, and give it a location."""
        start = self._current_token.span.start
        op = super().parse_operation()
        line = bisect_right(self._line_starts, start)
        column = start - self._line_starts[line - 1] + 1
        place = FileLineColLoc(self._file, IntAttr(line + self._first_line - 1), IntAttr(column))
        origin = origin_of(op.location)
        op.location = place if isinstance(origin, UnknownLoc) else CallSiteLoc(place, origin)
        return op


class _LocatedPrinter(Printer):
    """Prints every location once, as an alias `#at3` that ops refer to; an unknown one is left out."""

    aliases: dict[LocationAttr, str]

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        self.print_debuginfo = False
        super().print_block_argument(arg, print_type)
        self.print_debuginfo = True

    def print_attribute(self, attribute: Attribute) -> None:
        if not isinstance(attribute, LocationAttr):
            super().print_attribute(attribute)
        elif not isinstance(attribute := origin_of(attribute), UnknownLoc):
            alias = self.aliases.setdefault(attribute, f"#at{len(self.aliases) + 1}")
            self.print_string(f"loc({alias})")


def print_text(op: Operation, *, locations: bool = False, generic: bool = False) -> str:
    """The op as text that parses back, ending in a newline.

    With `locations`, `CuestaParser` reads back the same locations too (for an op that has none, its place in the text).
    Their definitions stand first, which only a module may have.
    """
    stream = StringIO()
    if not locations:
        Printer(stream=stream, print_generic_format=generic).print_op(op)
        return stream.getvalue() + "\n"
    body, aliases, _ = located_text((op,), generic=generic)
    definitions = StringIO()
    for alias, location in aliases.items():
        Printer(stream=definitions).print_string(f"{alias} = ")
        Printer(stream=definitions).print_attribute(location)
        definitions.write("\n")
    return f"{definitions.getvalue()}{body}\n"


def located_text(
    ops: Iterable[Operation], *, generic: bool = False
) -> tuple[str, dict[str, LocationAttr], dict[SSAValue, str]]:
    """Ops as text in which every op that has a location ends in `loc(#at3)`, the locations by those names, and what the
    text calls each value, without `%`.
    """
    stream = StringIO()
    printer = _LocatedPrinter(stream=stream, print_debuginfo=True, print_generic_format=generic)
    printer.aliases = {}
    for op in ops:
        printer.print_op(op)
        printer.print_string("\n")
    body = "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
    names = printer._ssa_values  # pyright: ignore[reportPrivateUsage]  # nothing else says them
    return body, {alias: location for location, alias in printer.aliases.items()}, names


def print_argument(printer: Printer, argument: BlockArgument) -> None:
    """Prints `%x : f32`, as `Parser.parse_argument` reads it: without a location, whatever the printer is asked for."""
    printer.print_ssa_value(argument)
    printer.print_string(" : ")
    printer.print_attribute(argument.type)
