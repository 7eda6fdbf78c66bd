"""Complex numbers in the first call of what AOTAutograd made.

In that call, and no other, AOTAutograd looks on through a mode at what operators of users' give. Under a mode of that
kind an operator that is made of others within PyTorch (`torch.linalg.pinv`) reads conjugates without the bit that says
so: the first result was wrong, in silence, with every backend (torch 2.11, 2.13). So graphs with complex numbers
are called without the mode; what operators of users' give is looked at by us, too (`targets/host/promised_calls.py`).

Source: `_FirstInvocationContext` of torch/_functorch/_aot_autograd/runtime_wrappers.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cuesta.finishing import BoxedFunction, make_boxed

if TYPE_CHECKING:
    from torch.fx import GraphModule

_C: Any = getattr(torch, "_C")  # noqa: B009  # most of it has no types
_MODE = "_AnalyzeCustomOpInputOutputMode"


def unwatched(function: BoxedFunction, gm: GraphModule) -> BoxedFunction:
    """A compiled graph of AOTAutograd's, called without its mode where there are complex numbers."""
    values = (node.meta.get("val") for node in gm.graph.nodes)
    if not any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
        return function
    from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

    how_many = _C._len_torch_dispatch_stack

    def call(args: list[Any]) -> Any:
        if how_many() and type(_get_current_dispatch_mode()).__name__ == _MODE:
            with _pop_mode_temporarily():
                return function(args)
        return function(args)

    return make_boxed(call)


__all__ = ["unwatched"]
