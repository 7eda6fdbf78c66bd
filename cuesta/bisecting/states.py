"""The states that a program goes through while a pass is at work, and who brought each about.

A pass works in place, step by step. While it runs, Python tells of every call and every return, and the program is
looked at each time: where it has changed since, it is copied, with the functions that were being called. So every pass
can be searched, the patterns of the rewrite driver, walks written by hand and passes of extensions alike, and none of
them has to know of it: nothing of this is there when nobody bisects.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.tracing import pattern_name, pattern_source

# pyright: reportPrivateUsage=false
# Which operands an op has is looked at thousands of times.

_CUESTA = Path(__file__).resolve().parents[1]
_ROOT = _CUESTA if (_CUESTA / "dialects").is_dir() else _CUESTA.parent
"""What our packages lie in: a checkout, or the package that was installed. Files of extensions lie elsewhere."""
_XDSL = os.path.dirname(os.path.dirname(sys.modules["xdsl.ir"].__file__ or ""))
_TORCH = os.path.dirname(sys.modules["torch"].__file__ or "") if "torch" in sys.modules else "<no torch>"

_PACKAGES = ("dialects/", "transforms/", "lowering/", "targets/")
_HELPERS = ("dialects/", "cuesta/", "transforms/host/aliasing.py")
"""Files of ours whose functions do as they are told: what happens in them is their callers' doing."""


@dataclass(frozen=True)
class Frame:
    """A function that was being called."""

    function: str
    file: str
    """From the root of the repository, or whole."""
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"


@dataclass(frozen=True)
class State:
    """The program after one more change."""

    module: ModuleOp | None
    """A copy; None where the program refers to ops outside of it."""
    frames: tuple[Frame, ...]
    """Who was being called, the innermost first."""
    pattern: tuple[str, str] | None = None
    """The pattern that the rewrite driver was applying: its name, and its file and line."""


def states_of(
    run: Callable[[ModuleOp], None], module: ModuleOp, *, most: int = 1000, seconds: float = 20.0
) -> list[State]:
    """Runs a pass on the program, in place, and gives its states after each change, the last being that at the end.

    At most so many, for so long: of the rest only the end. Errors: what the pass raises.
    """
    watcher = _Watcher(module, most, perf_counter() + seconds)
    before = sys.getprofile()
    sys.setprofile(watcher.event)
    try:
        run(module)
    finally:
        sys.setprofile(before)
    watcher.look(None)
    return watcher.states


class _Watcher:
    def __init__(self, module: ModuleOp, most: int, until: float) -> None:
        self.module = module
        self.most = most
        self.until = until
        self.states: list[State] = []
        self.known = _looks(module)
        self.file_of = known_file

    def event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            frame_at_work = frame.f_back
        elif event == "return":
            frame_at_work = frame
        else:
            return
        if not self.file_of(frame.f_code):
            return
        self.look(frame_at_work)

    def look(self, frame: FrameType | None) -> None:
        looks = _looks(self.module)
        if looks == self.known:
            return
        self.known = looks
        if frame is not None and (len(self.states) >= self.most or perf_counter() > self.until):
            return
        frames, pattern = _frames(frame, self.file_of)
        self.states.append(State(_copy(self.module), frames, pattern))


def _looks(module: ModuleOp) -> tuple[Any, ...]:
    """What changes when a program does: which ops stand where, with which operands and properties."""
    found: list[Any] = []
    for op in all_ops(module):
        found.append(id(op))
        found.append(id(op._operands))
        found.append(tuple([id(value) for value in op.properties.values()]))
        if op.attributes:
            found.append(tuple([id(value) for value in op.attributes.values()]))
        for region in op.regions:
            for block in region.blocks:
                found.append(block._args if isinstance(block, Block) else None)
    return tuple(found)


def _copy(module: ModuleOp) -> ModuleOp | None:
    """A copy, unless an op in it uses what is not in it: a use by the copy would be one that the pass sees."""
    inside = set[SSAValue]()
    ops = all_ops(module)
    for op in ops:
        inside.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                inside.update(block.args)
    if any(operand not in inside for op in ops for operand in op._operands):
        return None
    return module.clone()


def _frames(
    frame: FrameType | None, file_of: Callable[[CodeType], str]
) -> tuple[tuple[Frame, ...], tuple[str, str] | None]:
    found: list[Frame] = []
    pattern: tuple[str, str] | None = None
    while frame is not None:
        code = frame.f_code
        file = file_of(code)
        if file == "cuesta/pipeline.py":
            break
        if file:
            if file == "dialects/core/rewriting.py" and code.co_name == "rewrite" and pattern is None:
                applied = frame.f_locals["pattern"]
                pattern = pattern_name(applied), pattern_source(applied)
            found.append(Frame(code.co_qualname.replace(".<locals>", ""), file, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    return tuple(found), pattern


def _file_of(code: CodeType) -> str:
    """The file of a function of the compiler, or of somebody who extends it; empty for those of Python, xDSL, torch."""
    name = code.co_filename
    if name.startswith("<"):
        return ""
    path = _resolved(name)
    if path.is_relative_to(_ROOT):
        inside = path.relative_to(_ROOT).as_posix()
        return inside if inside.startswith(_PACKAGES) or _ROOT != _CUESTA else f"cuesta/{inside}"
    inside = (sys.prefix, sys.base_prefix, _XDSL, _TORCH)
    return "" if any(name.startswith(one) for one in inside) else name


@lru_cache(maxsize=4096)
def _resolved(name: str) -> Path:
    """Packages of a checkout are found through links."""
    return Path(name).resolve()


def who(frames: tuple[Frame, ...]) -> Frame | None:
    """The function whose doing a change was: the innermost that decides something."""
    return next((one for one in frames if not one.file.startswith(_HELPERS)), frames[0] if frames else None)


def functions_run() -> _Functions:
    """A `with` block that notes which functions of the compiler run in it."""
    return _Functions()


class _Functions:
    """The functions of passes, lowerings and targets that were called in a `with` block, as `file:function`."""

    def __init__(self) -> None:
        self._codes = set[CodeType]()

    def __enter__(self) -> _Functions:
        codes = self._codes

        def event(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                codes.add(frame.f_code)

        self._before = sys.getprofile()
        sys.setprofile(event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def names(self) -> frozenset[Frame]:
        """The functions, those of helpers left out."""
        found = [(code, known_file(code)) for code in self._codes]
        return frozenset(
            Frame(code.co_qualname.replace(".<locals>", ""), file, code.co_firstlineno)
            for code, file in found
            if file and not file.startswith(("dialects/", "cuesta/", "targets/reference/", "tests/"))
        )


known_file = lru_cache(maxsize=16384)(_file_of)
"""As `_file_of`, which asks the file system."""

__all__ = ["Frame", "State", "functions_run", "states_of", "who"]
