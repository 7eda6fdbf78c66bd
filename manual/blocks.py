"""Code blocks of Markdown pages, with what a comment above a block says of it.

A comment of HTML stands above a block and is seen by no reader:

    <!-- before: CODE -->     Python that runs before this block, for its sake (alone: for those that follow)
    <!-- file: NAME -->       the block is the file NAME, for the commands and blocks below it
    <!-- from: GLOB -->       the block is a part of such a file: its lines stand there, one after the other
    <!-- printed -->          the block is what the Python above it printed
    <!-- raises: NAME -->     the Python of the block raises NAME; its message counts as printed
    <!-- run -->              the program (mlir) also runs, by the reference interpreter
    <!-- inside: LEVEL -->    the block (mlir) is a part of a program, which is put around it
    <!-- shown: WHY -->       the block does not run, and why
    <!-- needs: NAME -->      the block runs once there is this public name, option or command (manual/public_names.py)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARKS = ("before", "file", "from", "printed", "raises", "run", "inside", "needs", "shown")

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)\s*$")
_MARK = re.compile(rf"<!--\s*({'|'.join(MARKS)})\b:?\s*(.*?)\s*-->", re.DOTALL)


class PageError(Exception):
    """A page that is not written as pages are, or a block of it that does not do what the page says. Names the line."""


@dataclass(frozen=True)
class Block:
    """One block of code, or a mark that stands alone (then `language` is `mark`)."""

    page: Path
    line: int
    """Of the first line of its text, from 1."""
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def place(self) -> str:
        """As errors name it: `docs/tour.md:12`."""
        return f"{self.page}:{self.line}"


def blocks_of(page: Path, text: str | None = None) -> Iterator[Block]:
    """The blocks of a page, in order. Errors: PageError for a fence that is never closed."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    number, marks, marked = 0, dict[str, str](), 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith("<!--"):
            end = next((at for at in range(number, len(lines)) if "-->" in lines[at]), number)
            if found := _MARK.fullmatch("\n".join(lines[number : end + 1]).strip()):
                marks[found[1]] = found[2]
                marked = number + 1
            number = end + 1
            continue
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip() and marks:
                yield Block(page, marked, "mark", "", marks)
                marks = {}
            number += 1
            continue
        end = next((at for at in range(number + 1, len(lines)) if lines[at].strip() == fence["fence"]), None)
        if end is None:
            raise PageError(f"{page}:{number + 1}  a block that is never closed")
        width = len(fence["indent"])
        body = "".join(f"{one[width:] if not one[:width].strip() else one}\n" for one in lines[number + 1 : end])
        yield Block(page, number + 2, fence["language"], body, marks)
        marks = {}
        number = end + 1
    if marks:
        yield Block(page, marked, "mark", "", marks)


def without_marks(text: str) -> str:
    """A page as readers see it."""
    return re.sub(rf"^{_MARK.pattern}[ \t]*\n?", "", text, flags=re.DOTALL | re.MULTILINE)
