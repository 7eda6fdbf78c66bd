"""Which line of the model a traced node came from, as an MLIR location."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

from cuesta.lowering.capture.stack_traces import innermost_frame

_NO_COLUMN = IntAttr(0)


def location_of_stack_trace(stack_trace: str | None) -> FileLineColLoc | None:
    """The innermost frame outside torch, as a location: the line of the model that asked for the node.

    Takes the text that FX keeps in `node.meta["stack_trace"]`; a frame inside torch is taken when there is no other.
    """
    frame = None if stack_trace is None else innermost_frame(stack_trace)
    return None if frame is None else _location(*frame)


@lru_cache(maxsize=16384)
def _location(file: str, line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), _NO_COLUMN)
