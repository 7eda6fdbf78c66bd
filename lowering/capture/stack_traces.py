"""Which line of the model a traced node came from, by the text that FX keeps in `node.meta["stack_trace"]`, or else by
the module that asked for it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = str(Path(torch.__file__).parent) + "/"


NO_LINE = "<called by cuesta>"
"""The file of what `cuesta.lower` puts around a function: no line of a model."""


def line_of(node: torch.fx.Node) -> tuple[str, int] | None:
    """File and line of a node, forward or backward; None where nothing says it.

    A model that is nothing but modules of PyTorch's, such as an `nn.Sequential`, has no line that calls them, and no
    stack trace: then the line is where `forward` of the innermost module begins.
    """
    stack_trace = node.meta.get("stack_trace")
    if stack_trace:
        return innermost_frame(stack_trace)
    modules: dict[str, Any] = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    for _, kind in reversed(modules.values()):
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        if isinstance(code, CodeType):
            return code.co_filename, code.co_firstlineno
    return None


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
