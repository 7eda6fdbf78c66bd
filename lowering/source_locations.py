"""Which line of the model a traced node came from."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import torch
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = str(Path(torch.__file__).parent) + "/"
_NO_COLUMN = IntAttr(0)


def location_of_stack_trace(stack_trace: str | None) -> FileLineColLoc | None:
    """The innermost frame outside torch, as a location: the line of the model that asked for the node.

    Takes the text that FX keeps in `node.meta["stack_trace"]`; a frame inside torch is taken when there is no other.
    """
    return None if stack_trace is None else _innermost_frame(stack_trace)


@lru_cache(maxsize=16384)
def _innermost_frame(stack_trace: str) -> FileLineColLoc | None:
    frames = _FRAME.findall(stack_trace)
    if not frames:
        return None
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return _location(file, int(line))
    file, line = frames[-1]
    return _location(file, int(line))


@lru_cache(maxsize=16384)
def _location(file: str, line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), _NO_COLUMN)
