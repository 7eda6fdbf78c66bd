"""Which line of the model a traced node came from, by the text that FX keeps in `node.meta["stack_trace"]`."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = str(Path(torch.__file__).parent) + "/"


NO_LINE = "<called by cuesta>"
"""The file of what `cuesta.lower` puts around a function: no line of a model."""


@lru_cache(maxsize=16384)
def innermost_frame(stack_trace: str) -> tuple[str, int] | None:
    """File and line of the innermost frame outside torch: the line of the model that asked for the node.

    A frame inside torch is taken when there is no other.
    """
    frames = [one for one in _FRAME.findall(stack_trace) if one[0] != NO_LINE]
    if not frames:
        return None
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return file, int(line)
    file, line = frames[-1]
    return file, int(line)
