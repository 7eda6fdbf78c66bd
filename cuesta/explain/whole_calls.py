"""Whether a graph that Dynamo hands over is all that there will be of a call: nothing has to run to know the rest."""

from __future__ import annotations

import os
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

_DYNAMO: Final = os.path.join("torch", "_dynamo", "")
_MODULE: Final = os.path.join("torch", "nn", "modules", "module.py")
_WITHOUT_HOOKS: Final = ("_call_impl", "_wrapped_call_impl")
"""How a module calls its `forward`; one with hooks, which may do anything later, does so from a function inside."""


def is_whole_call(gm: torch.fx.GraphModule, frame: FrameType | None) -> bool:
    """Whether a graph ends with the return of the function that `torch.compile` was given, and begins with its start.

    `frame` is the backend's own. Dynamo says why a graph ends; that it compiles the function itself, and not one that
    an uncompiled function calls, the stack says: between Dynamo and `compile_wrapper` nobody runs. Where PyTorch calls
    things otherwise the answer is no, which costs time and nothing else.
    """
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or getattr(reason, "graph_break", True):
        return False
    while frame is not None and not _is_conversion(frame):
        frame = frame.f_back
    while frame is not None and _is_conversion(frame):
        frame = frame.f_back
    while frame is not None and _is_in(frame, _MODULE) and frame.f_code.co_name in _WITHOUT_HOOKS:
        frame = frame.f_back
    return frame is not None and _is_in(frame, _DYNAMO + "eval_frame.py") and frame.f_code.co_name == "compile_wrapper"


def _is_conversion(frame: FrameType) -> bool:
    """Whether it is what the interpreter calls in place of a function, to have it compiled."""
    return frame.f_code.co_name == "__call__" and _is_in(frame, _DYNAMO + "convert_frame.py")


def _is_in(frame: FrameType, path: str) -> bool:
    return frame.f_code.co_filename.endswith(os.sep + path)


__all__ = ["is_whole_call"]
