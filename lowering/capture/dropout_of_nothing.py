"""Dropout that drops nothing gives what it is given.

F.dropout(x, p, training=False)  ->  x        and where p is 0, with training or without

So it is in eager, where an update of the one is seen through the other. PyTorch's metadata and AOTAutograd take a copy
for it: what was written to x afterwards was lost to the result, in silence, with every backend (torch 2.11, 2.13).

Source: `_dropout_impl` of aten/src/ATen/native/Dropout.cpp; `dropout` of torch/_decomp/decompositions.py.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional

from cuesta.lowering.capture.hooks import is_hook_as_function

_TRAINING: Final[dict[Any, str]] = {
    functional.dropout: "training",
    **dict.fromkeys((torch.dropout, torch.dropout_, torch.ops.aten.dropout, torch.ops.aten.dropout.default), "train"),
}
"""Who drops, and what its third argument is called."""


def give_what_is_not_dropped(gm: GraphModule) -> None:
    """Takes such calls out of a graph of Dynamo's, in place. Near miss: one whose chance only the call knows."""
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.op == "call_function" and _drops_nothing(node)]
        for node in found:
            node.replace_all_uses_with(_argument(node, 0, "input"))
            module.graph.erase_node(node)
        if found:
            module.recompile()


def hook_of_what_is_not_dropped(gm: GraphModule) -> str | None:
    """The hook, if there is one, of what such a dropout gives, where Dynamo makes a function of it (torch 2.11): it put
    the function behind the dropout, and not behind all else that is computed of its argument. Python is to run it.

    Near miss: a hook that is a call (torch 2.13), or one of the argument.
    """
    for node in gm.graph.nodes:
        if node.op == "call_function" and _drops_nothing(node):
            for user in node.users:
                if is_hook_as_function(gm, user):
                    return f"{user.name} is a hook of what a dropout of nothing gives"
    return None


def _drops_nothing(node: Node) -> bool:
    name = _TRAINING.get(node.target)
    if name is None or not isinstance(_argument(node, 0, "input"), Node):
        return False
    chance, training = _argument(node, 1, "p", 0.5), _argument(node, 2, name, True)
    return training is False or (isinstance(chance, int | float) and chance == 0)


def _argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


__all__ = ["give_what_is_not_dropped", "hook_of_what_is_not_dropped"]
