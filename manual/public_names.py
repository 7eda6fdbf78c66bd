"""The names that users may rely on, and where docs/names.md has an example of each."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from manual.blocks import blocks_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "names.md"

_HEADING = re.compile(r"^### (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_VARIABLE = re.compile(r"\bCUESTA_[A-Z][A-Z_]*\b")


@dataclass(frozen=True)
class PublicName:
    """One name, as headings of the page write it, and what it stands for."""

    name: str
    """`cuesta.load`, `cuesta.extend.exp`, `option dump`, `CUESTA_CACHE`, `cuesta inspect`."""
    kind: str
    """`module`, `option`, `variable`, `command`."""
    what: Any = None
    """The object; of an option its field, of a command its module."""

    @property
    def short(self) -> str:
        """What an example has to have in it."""
        return self.name.split(".")[-1].removeprefix("option ")


@cache
def public_names() -> list[PublicName]:
    """Every name: of `cuesta`, `cuesta.extend`, `cuesta.testing`; options, variables of the environment, commands."""
    import cuesta
    import cuesta.commands
    import cuesta.extend
    import cuesta.testing
    from cuesta.options import Options

    found = [PublicName(f"cuesta.{name}", "module", getattr(cuesta, name)) for name in cuesta.__all__]
    found += [PublicName(f"option {entry.name}", "option", entry) for entry in fields(Options)]
    found += [PublicName(name, "variable") for name in variables()]
    commands = [one.name for one in pkgutil.iter_modules(cuesta.commands.__path__)]
    found += [PublicName(f"cuesta {name.replace('_', '-')}", "command", name) for name in commands]
    found += [
        PublicName(f"cuesta.extend.{name}", "module", getattr(cuesta.extend, name)) for name in cuesta.extend.__all__
    ]
    names = defined_in(Path(inspect.getsourcefile(cuesta.testing) or ""))
    return found + [PublicName(f"cuesta.testing.{name}", "module", getattr(cuesta.testing, name)) for name in names]


def variables() -> list[str]:
    """The variables of the environment that our sources name."""
    folders = ("cuesta", "dialects", "transforms", "lowering", "targets")
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted({name.rstrip("_") for text in sources for name in _VARIABLE.findall(text)})


def defined_in(path: Path) -> list[str]:
    """The public names that a module without `__all__` defines, or has from another module of ours: not what else it
    imports.
    """
    names: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("cuesta."):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def sections(text: str) -> Iterator[tuple[list[str], str]]:
    """The sections of the page: the names of each heading, and all below it."""
    found = list(_HEADING.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)] * bool(found)
    for heading, end in zip(found, ends, strict=True):
        yield _NAME.findall(heading[1]), text[heading.end() : end]


def shown(text: str) -> dict[str, str]:
    """The code of the examples, by the name that a heading has."""
    found: dict[str, str] = {}
    for names, below in sections(text):
        code = "\n".join(
            "\n".join([block.text, block.marks.get("before", "")])
            for block in blocks_of(PAGE, below)
            if block.language in ("python", "console") and "shown" not in block.marks
        )
        found |= dict.fromkeys(names, code)
    return found


def without_example(text: str | None = None) -> list[str]:
    """The public names that no example of the page shows: none."""
    examples = shown(PAGE.read_text(encoding="utf-8") if text is None else text)
    return [
        one.name
        for one in public_names()
        if re.search(rf"(?<!\w){re.escape(one.short)}(?!\w)", examples.get(one.name, "")) is None
    ]


def unknown(text: str | None = None) -> list[str]:
    """The names in headings of the page that are no public names, nor are waited for by a `needs` below: none."""
    known = {one.name for one in public_names()}
    text = PAGE.read_text(encoding="utf-8") if text is None else text
    return [
        name
        for names, below in sections(text)
        for name in names
        if name not in known and f"<!-- needs: {name} -->" not in below
    ]
