"""Faults put into the compiler on purpose: an edit of one function's source, in force for a `with` block.

The function keeps its file, its name and its lines, so that whoever looks for the fault finds what he would find if
somebody had made that mistake in the file.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One fault: what is written in the place of what, and who is to be named for it."""

    name: str
    kind: str
    """A wrong constant, a dropped mask, …"""
    where: str
    """`cuesta.transforms.fusion.inline:inline_at`: a module, and a function in it by its qualified name."""
    old: str
    new: str
    program: str
    """The name of a function in `seeded_programs.py`."""
    stage: str
    """What bisect is to name: a stage, or a target."""
    rewrites: tuple[str, ...]
    """What bisect is to name of it; any of these."""
    device: str = "cpu"
    quick: bool = False

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The `with` block in which the compiler has the fault."""
        module_name, _, qualified = self.where.partition(":")
        module = importlib.import_module(module_name)
        function = _function(module, qualified)
        right = function.__code__
        function.__code__ = _edited(module, qualified, self.old, self.new, right)
        forget()
        try:
            yield
        finally:
            function.__code__ = right
            forget()


def forget() -> None:
    """What the compiler remembers from program to program may be of another compiler."""
    from cuesta.dialects.sym import simplify as simplifying

    for found in vars(simplifying).values():
        if hasattr(found, "cache_clear"):
            found.cache_clear()


def _function(module: Any, qualified: str) -> FunctionType:
    found: Any = module
    for name in qualified.split("."):
        found = inspect.getattr_static(found, name)
        if isinstance(found, property):
            found = found.fget
        found = getattr(found, "__func__", found)
        if not isinstance(found, type) and not isinstance(found, FunctionType):
            raise TypeError(f"{qualified} is no function")
    return _innermost(found, qualified)


def _innermost(function: Any, qualified: str) -> FunctionType:
    """Behind a decorator of xDSL's."""
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, FunctionType) and cell.cell_contents.__qualname__ == qualified:
            return cell.cell_contents
    return function


@cache
def _source(module: Any) -> str:
    return Path(inspect.getsourcefile(module) or "").read_text(encoding="utf-8")


def _edited(module: Any, qualified: str, old: str, new: str, right: CodeType) -> CodeType:
    source = _source(module)
    lines = source.splitlines(keepends=True)
    first = right.co_firstlineno - 1
    last = max(line or 0 for _, _, line in right.co_lines())
    for code in right.co_consts:
        if isinstance(code, CodeType):
            last = max(last, *(line or 0 for _, _, line in code.co_lines()))
    body = "".join(lines[first : last + 2])
    assert body.count(old) >= 1, f"{qualified} does not say {old!r}"
    edited = body.replace(old, new, 1)
    assert edited.count("\n") == body.count("\n"), "an edit keeps the number of lines"
    whole = "".join(lines[:first]) + edited + "".join(lines[last + 2 :])
    compiled = compile(whole, right.co_filename, "exec", dont_inherit=True)
    return _code_at(compiled, right)


def _code_at(code: CodeType, wanted: CodeType) -> CodeType:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == wanted.co_qualname and one.co_firstlineno == wanted.co_firstlineno:
                assert one.co_freevars == wanted.co_freevars
                return one
            try:
                return _code_at(one, wanted)
            except LookupError:
                continue
    raise LookupError(wanted.co_qualname)
