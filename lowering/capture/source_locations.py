"""Which line of the model a traced node came from, as an MLIR location."""

from __future__ import annotations

from functools import lru_cache

from torch.fx import Node
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

from cuesta.lowering.capture.stack_traces import line_of

_NO_COLUMN = IntAttr(0)


def location_of_node(node: Node) -> FileLineColLoc | None:
    """The line of the model that asked for a node; one inside torch, when there is no other."""
    line = line_of(node)
    return None if line is None else _location(*line)


@lru_cache(maxsize=16384)
def _location(file: str, line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), _NO_COLUMN)
