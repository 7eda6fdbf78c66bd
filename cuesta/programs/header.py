"""The lines at the top of a dumped text: who wrote it, after which stage, and which stages it still has before it.

    // cuesta 0.1.0.dev0 · after fuse-nests · 8 of 23
    // remaining: forward-stores,elide-roundings,…,pool-buffers

They are comments, and no part of the program. `cuesta.load` and `cuesta-opt --go-on` run what the second line says, as
`cuesta-opt -p` takes it, and whoever edits the line decides. A text without it goes on from its level.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta import __version__

_VERSION, _REMAINING = "// cuesta ", "// remaining:"
_WRITTEN = re.compile(r"(?P<version>\S+)(?: · after (?P<after>\S+) · (?P<done>\d+) of \d+)?\s*$")
_BETWEEN_PASSES = re.compile(r",(?![^{]*\})")


@dataclass(frozen=True)
class Header:
    """Where a text stands among the stages."""

    after: str = "load"
    """The last stage that ran; `import` for what capture gave, `load` for a text that does not say."""
    done: int = 0
    """How many stages ran."""
    remaining: tuple[str, ...] | None = None
    """The stages that are left, with their options; None when the text does not say."""
    version: str | None = __version__
    """Of Cuesta, which wrote the text; None when it does not say."""
    line: int = 0
    """The number of the line in its file that names what is left; 0 when there is none."""

    def __str__(self) -> str:
        """The lines, each with its end."""
        remaining = self.remaining or ()
        total = self.done + len(remaining)
        first = f"{_VERSION}{self.version or __version__} · after {self.after} · {self.done} of {total}"
        second = f"{_REMAINING} {','.join(remaining)}".rstrip()
        return f"{first}\n{second}\n"

    def then(self, passes: Sequence[str]) -> Header | None:
        """The header after these passes have run; None when they are not what comes next."""
        if self.remaining is None or self.remaining[: len(passes)] != tuple(passes):
            return None
        after = passes[-1].partition("{")[0] if passes else self.after
        return Header(after, self.done + len(passes), self.remaining[len(passes) :])

    @property
    def other_version(self) -> str:
        """What to say of a text that another version of Cuesta wrote; empty when this one did, or nobody knows."""
        if self.version is None or self.version == __version__:
            return ""
        return f"the text was written by cuesta {self.version}, and this is {__version__}"


def split_passes(passes: str) -> tuple[str, ...]:
    """`a{x=1,2},b` → `a{x=1,2}`, `b`."""
    return tuple(one.strip() for one in _BETWEEN_PASSES.split(passes)) if passes.strip() else ()


def read_header(text: str, *, first_line: int = 1) -> Header:
    """What the comments before a program say; `first_line` is the number of the text's first line in its file."""
    written: re.Match[str] | None = None
    remaining: tuple[str, ...] | None = None
    place = 0
    for number, line in enumerate(text.splitlines(), start=first_line):
        if line.startswith(_VERSION):
            written = written or _WRITTEN.match(line, len(_VERSION))
        elif line.startswith(_REMAINING):
            remaining, place = split_passes(line.removeprefix(_REMAINING)), number
        elif line.strip() and not line.startswith("//"):
            break
    if written is None:
        return Header(remaining=remaining, version=None, line=place)
    after, done = written["after"] or "load", int(written["done"] or 0)
    return Header(after, done, remaining, written["version"], place)
