"""docs/names.md with what the definitions say of every name: its signature, and its docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import Field
from itertools import pairwise
from pathlib import Path
from typing import Any

from manual.flow_page import docstring
from manual.public_names import PublicName, public_names

_MOST_NAMED = 3
"""In a heading of the site."""
_HEADING = re.compile(r"^### (.+)\n", re.MULTILINE)


def reference_page(text: str) -> str:
    """The page with a definition below every heading."""
    known = {one.name: one for one in public_names()}

    def defined(heading: re.Match[str]) -> str:
        names = [name for name in re.findall(r"`([^`]+)`", heading[1]) if name in known]
        lines = [line for name in names for line in definition(known[name], brief=len(names) > _MOST_NAMED)]
        if len(names) > _MOST_NAMED:  # they are all in the list below
            shown = ", ".join(f"`{name}`" for name in names[:2])
            return "\n".join([f"### {shown} and {len(names) - 2} more\n", *lines, ""])
        return "\n".join([heading[0], *lines, ""])

    return _HEADING.sub(defined, text)


def definition(name: PublicName, *, brief: bool = False) -> list[str]:
    """What the source says of a name, as Markdown; with `brief` in one line."""
    if name.kind == "option":
        return _option(name.what)
    if name.kind == "variable":
        return []
    if name.kind == "command":
        said = (inspect.getdoc(importlib.import_module(f"cuesta.commands.{name.what}")) or "").partition("\n")[0]
        return [said, ""]
    said = documentation(name)
    if brief:
        first = said.partition("\n\n")[0].replace("\n", " ")
        return [f"* `{name.short}{signature(name.what)}`{': ' + first if first else ''}"]
    return [f"`{name.short}{signature(name.what)}`", "", *docstring(said), ""]


def _option(entry: Field[Any]) -> list[str]:
    choices = entry.metadata.get("choices", ())
    values = " | ".join(f"`{choice!r}`" for choice in choices) or f"`{getattr(entry.type, '__name__', entry.type)}`"
    said = entry.metadata.get("help", "the mode of torch.compile, which may also stand among the options")
    return [f"{said[:1].upper()}{said[1:]}. {values}, by default `{entry.default!r}`.", ""]


def signature(what: object) -> str:
    """`(path, *, options=None)`; of what is not called, nothing."""
    if not callable(what) or inspect.ismodule(what):
        return ""
    try:
        found = inspect.signature(what)
    except (TypeError, ValueError):
        return ""
    names = [str(one.replace(annotation=inspect.Parameter.empty)) for one in found.parameters.values()]
    text = f"({', '.join(names)})"
    return text if len(text) < 160 and " at 0x" not in text else "(…)"


def documentation(name: PublicName) -> str:
    """The docstring of what a name stands for; of a variable, the text below its definition."""
    what = name.what
    if inspect.ismodule(what) or inspect.isclass(what) or inspect.isroutine(what):
        return inspect.getdoc(what) or ""
    module, _, short = name.name.rpartition(".")
    if name.name == "cuesta.records":
        module = "cuesta.record"
    path = Path(inspect.getsourcefile(importlib.import_module(module)) or "")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, after in pairwise(body):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == short for target in targets) and isinstance(
            after, ast.Expr
        ):
            return inspect.cleandoc(str(ast.literal_eval(after.value)))
    # A docstring of its type would be about something else.
    return ""
