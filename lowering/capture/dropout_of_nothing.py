"""Dropout that drops nothing gives what it is given.

F.dropout(x, p, training=False)  ->  x        and where p is 0, with training or without

So it is in eager, where an update of the one is seen through the other. PyTorch's metadata and AOTAutograd take a copy
for it: what was written to x afterwards was lost to the result, in silence, with every backend (torch 2.11, 2.13).

Source: `_dropout_impl` of aten/src/ATen/native/Dropout.cpp; `dropout` of torch/_decomp/decompositions.py.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, TypeGuard, cast

import torch
from torch.fx import GraphModule, Node, map_arg
from torch.nn import functional
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.dynamo_graph import has_memory, parts_of, value_of
from cuesta.lowering.capture.hooks import is_hook_as_function
from cuesta.lowering.capture.memory_ranges import memory_of
from cuesta.lowering.capture.said_of_nodes import UncapturedError

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
            given = _argument(node, 0, "input")
            _share_memory(node, given)
            node.replace_all_uses_with(given)
            module.graph.erase_node(node)
        if found:
            module.recompile()


def _share_memory(dropout: Node, given: Node) -> None:
    """Makes the fakes of views of what is not dropped views of the argument: who asks what shares memory looks there.

    Errors: UncapturedError where there is a view of the copy, and none of the argument: x.view(-1) of an x with gaps.
    """
    old, new = value_of(dropout), value_of(given)
    if not (_is_somewhere(old) and _is_somewhere(new)):
        return
    moved, memory, node = {id(old): new}, memory_of(old), dropout.next
    dropout.meta = {**dropout.meta, "example_value": new}
    while node.op != "root":
        value = value_of(node)
        known = list(filter(_is_somewhere, pytree.tree_leaves(value)))
        if id(value) in moved:
            node.meta["example_value"] = moved[id(value)]
        elif node.op in ("call_function", "call_method") and any(memory_of(one) == memory for one in known):
            node.meta["example_value"] = moved[id(value)] = _again(node, any(one.requires_grad for one in known))
        node = node.next


def _again(node: Node, records: bool) -> Any:
    """A fake of a call's value, made of the fakes that its arguments have now. (DTensors look for a mode.)"""
    args, kwargs = map_arg((node.args, node.kwargs), cast("Any", value_of))
    modes = [mode for part in parts_of(node) if (mode := getattr(part, "fake_mode", None)) is not None]
    run: Any = node.target if callable(node.target) else getattr(torch.Tensor, node.target)
    try:
        with modes[0] if modes else nullcontext(), torch.set_grad_enabled(records):
            return run(*args, **kwargs)
    except (RuntimeError, ValueError, TypeError) as error:
        raise UncapturedError(f"{node.name} is a view of what is not dropped, as a copy would have it") from error


def _is_somewhere(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a tensor that may be known to share memory, also by what it stands for."""
    return isinstance(value, torch.Tensor) and (has_memory(value) or is_traceable_wrapper_subclass(value))


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
