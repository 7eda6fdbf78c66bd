"""Runs the code blocks of a page, in order, in one process, and compares what they print with what the page says."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import sys
import types
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from manual.blocks import Block, PageError, blocks_of

ELIDED = "…"
"""What stands for anything: within a line, or for any number of lines where it is alone on one."""


def run_page(page: Path, folder: Path, text: str | None = None) -> int:
    """Runs the blocks of a page in an empty folder, and gives how many ran or were compared.

    `python` blocks share one namespace. `console` blocks have commands, each after `$ `, and below it what it prints.
    `mlir` blocks are programs that parse and verify.

    Errors: PageError, which names the page and the line.
    """
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    session = _Session(module.__dict__)
    done = 0
    # Dynamo looks for the globals of a function in the module of that name.
    sys.modules[module.__name__] = module
    try:
        with chdir(folder), mock.patch.dict(os.environ):
            for block in blocks_of(page, text):
                done += session.run(block)
    finally:
        del sys.modules[module.__name__]
    return done


class _Session:
    """What the blocks of one page share."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.printed = ""

    def run(self, block: Block) -> bool:
        """Runs one block. Gives whether anything of it was asked."""
        marks = block.marks
        if code := marks.get("before"):
            self._execute(block, code, block.line - code.count("\n") - 3)
        if block.language == "mark":
            return False
        if "from" in marks:
            _compare_with_file(block, marks["from"])
        elif "printed" in marks:
            compare(block, block.text, self.printed)
        elif "needs" in marks and not _is_there(marks["needs"]):
            pass
        elif "shown" in marks:
            if not marks["shown"]:
                raise PageError(f"{block.place}  does not run, and the page does not say why")
            if block.language == "python":
                _parse(block)
        elif "file" in marks:
            path = Path(marks["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.language == "mlir":
                _verify(block, block.text)
        elif block.language == "python":
            self._python(block)
        elif block.language == "console":
            for command, expected, line in commands_of(block):
                at = Block(block.page, line, block.language, expected)
                compare(at, expected, run_command(command, at))
        elif block.language == "mlir":
            _verify(block, _inside(block), run="run" in marks)
        else:
            return False
        return True

    def _python(self, block: Block) -> None:
        self.printed, expected = "", block.marks.get("raises")
        try:
            self._execute(block, block.text, block.line)
        except Exception as error:
            names = [one.__name__ for one in type(error).__mro__]
            if expected not in names:
                raise PageError(f"{block.place}  raises {type(error).__name__}: {error}") from error
            self.printed += f"{error}\n"
        else:
            if expected is not None:
                raise PageError(f"{block.place}  does not raise {expected}")

    def _execute(self, block: Block, code: str, line: int) -> None:
        out = StringIO()
        with redirect_stdout(out):
            try:
                program = compile("\n" * max(line - 1, 0) + code, str(block.page), "exec")
                exec(program, self.names)
            except SyntaxError as error:
                raise PageError(f"{block.place}  is no Python: {error}") from error
            finally:
                self.printed += out.getvalue()


def commands_of(block: Block) -> Iterator[tuple[str, str, int]]:
    """The commands of a console block, each with what it prints and its line. A `\\` at its end goes on."""
    command, expected, at = "", "", 0
    continued = False
    for number, line in enumerate(block.text.splitlines(), block.line):
        if continued or line.startswith("$ "):
            if not continued:
                if command:
                    yield command, expected, at
                command, expected, at = "", "", number
            continued = line.endswith("\\")
            command += line.removeprefix("$ ").removesuffix("\\")
        elif not command:
            raise PageError(f"{block.page}:{number}  a console block begins with a command, after `$ `")
        else:
            expected += line + "\n"
    if command:
        yield command, expected, at


def run_command(command: str, block: Block) -> str:
    """What a command prints, on both streams, in this process. Its status is on the last line where it is not 0.

    Errors: PageError for a command that is none of ours.
    """
    words = shlex.split(command, comments=True)
    environment = {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, environment[name] = words.pop(0).partition("=")
    stream = StringIO()
    with redirect_stdout(stream), redirect_stderr(stream), mock.patch.dict(os.environ, environment):
        try:
            status = _run_words(words, block)
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return stream.getvalue() + (f"[exit {status}]\n" if status else "")


def _run_words(words: list[str], block: Block) -> int:
    if words[:1] == ["cuesta-opt"]:
        from cuesta.opt import main

        return main(words[1:])
    if words[:1] == ["cuesta"]:
        from cuesta.command import main

        return main(words[1:])
    if words[:1] == ["python"] and len(words) > 1 and words[1].endswith(".py"):
        with mock.patch.object(sys, "argv", words[1:]):
            runpy.run_path(words[1], run_name="__main__")
        return 0
    if words[:1] == ["ls"] and len(words) == 2:
        print("\n".join(sorted(path.name for path in Path(words[1]).iterdir())))
        return 0
    raise PageError(f"{block.place}  {words[:1]} is no command that pages may have: cuesta, cuesta-opt, python, ls")


def compare(block: Block, expected: str, printed: str) -> None:
    """Errors: PageError when what is printed is not what the page says, elided parts apart."""
    if not matches(expected, printed):
        raise PageError(f"{block.place}  the page says\n{expected}\n--- but this is printed:\n{printed}")


def matches(expected: str, printed: str) -> bool:
    """Whether a text is as expected; spaces at the ends of lines, and empty lines at the end, do not count."""
    return re.fullmatch(pattern_of(expected), _tidy(printed)) is not None


def pattern_of(expected: str) -> str:
    """A regular expression of what a page says."""
    lines = _tidy(expected).split("\n")
    parts = [
        r"(?:[^\n]*(?:\n|$))*?" if line.strip() == ELIDED else rf"{_line_pattern(line)}(?:\n|$)"
        for line in lines
        if line or lines != [""]
    ]
    return "".join(parts)


def _line_pattern(line: str) -> str:
    return r"[^\n]*?".join(
        re.escape(part.strip()) if part.strip() == "" else re.escape(part) for part in line.split(ELIDED)
    )


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n")


_NOISE = re.compile(r" loc\([^()]*(?:\([^()]*\)[^()]*)*\)|^\s*#.*$|;  \w+ = .*None$", re.MULTILINE)


def _compare_with_file(block: Block, glob: str) -> None:
    """The lines of the block stand in the last of the files that fit, one after the other. Indentation, locations and
    comments that fill a line do not count, nor does what FX appends to a line to free its operands.
    """
    found = sorted(Path().glob(glob))
    if not found:
        raise PageError(f"{block.place}  there is no file {glob}")
    text = _NOISE.sub("", found[-1].read_text(encoding="utf-8"))
    there = [_spaced(line) for line in text.splitlines() if line.strip()]
    at, apart = 0, True
    for number, line in enumerate(block.text.splitlines(), block.line):
        if not line.strip():
            continue
        if line.strip() == ELIDED:
            apart = True
            continue
        pattern = re.compile(_line_pattern(_spaced(line)))
        places = range(at, len(there)) if apart else range(at, min(at + 1, len(there)))
        place = next((place for place in places if pattern.fullmatch(there[place])), None)
        if place is None:
            near = "\n".join(there[at : at + 3])
            raise PageError(
                f"{block.page}:{number}  does not stand in {found[-1]}:\n  {line.strip()}\nthere is\n{near}"
            )
        at, apart = place + 1, False


def _spaced(line: str) -> str:
    return re.sub(r" +", " ", line.strip())


def _is_there(name: str) -> bool:
    from manual.public_names import public_names

    return any(one.name == name for one in public_names())


def _parse(block: Block) -> None:
    try:
        ast.parse(block.text.replace(ELIDED, "..."))
    except SyntaxError as error:
        raise PageError(f"{block.place}  is no Python: {error}") from error


def _inside(block: Block) -> str:
    wanted = block.marks.get("inside")
    if wanted is None:
        return block.text
    head, _, rest = wanted.partition(";")
    tail = rest or "func.return"
    return f"{head.strip()} {{\n{block.text}{tail}\n}}\n"


def _verify(block: Block, text: str, *, run: bool = False) -> None:
    """Errors: PageError when a program does not parse, verify, or (with `run`) run."""
    from xdsl.utils.exceptions import ParseError

    from cuesta.dialects.core.diagnostics import CuestaError
    from manual.programs import run_text, verify_text

    try:
        (run_text if run else verify_text)(text, str(block.page))
    except (CuestaError, ParseError) as error:
        raise PageError(f"{block.place}  {error}") from error
