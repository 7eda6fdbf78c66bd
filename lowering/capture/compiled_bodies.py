"""Which graphs that a higher-order operator calls are compiled: those that it calls with tensors as they were traced.

Machine code is made for the strides in a graph's metadata. `cond` and its like hand on what they are given. `scan` and
`map` call their graph once for each slice of some tensors, and `scan` and `while_loop` with what the call before gave:
those lie as the tensors do, and eager runs the graph where they do not lie as the graph was traced. (The gradient of a
loop begins with a part of a larger gradient, and goes on with what the body computes, which has no gaps.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import torch
from torch.fx import GraphModule, Node

_CALLERS: Final = ("cond", "invoke_subgraph")
"""The operators that only call the graphs they are given."""


def has_compiled_body(node: Node, gm: GraphModule) -> bool:
    """Whether the graphs that a higher-order operator is given may be compiled."""
    name: str = cast("Any", node.target).name()
    if name in _CALLERS:
        return True
    if name not in ("scan", "map_impl", "while_loop") or node.kwargs:
        return False
    body = _graph_of(node.args[1 if name == "while_loop" else 0], gm)
    if body is None:
        return False
    if name == "while_loop":
        return _goes_round(body, cast("Sequence[Any]", node.args[2]), cast("Sequence[Any]", node.args[3]))
    whole: list[Sequence[Any]] = [cast("Sequence[Any]", one) for one in node.args[1:]]
    carried, sliced, others = whole if name == "scan" else ((), *whole)
    returned: Any = next(iter(body.graph.find_nodes(op="output"))).args[0]
    if not isinstance(returned, list | tuple):
        return False
    taken = [_lies(one) for one in body.graph.find_nodes(op="placeholder")]
    given = [*map(_lies, carried), *(_lies(one, first=1) for one in sliced), *map(_lies, others)]
    again = [_lies(one) for one in cast("Sequence[Any]", returned)[: len(carried)]]
    return given == taken and again == taken[: len(carried)]


def _goes_round(body: GraphModule, carried: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether the tensors that a loop begins with, and those that its body gives, lie as those that the body takes."""
    returned: Any = next(iter(body.graph.find_nodes(op="output"))).args[0]
    taken = body.graph.find_nodes(op="placeholder")
    if not isinstance(returned, list | tuple) or len(taken) != len(carried) + len(others):
        return False
    pairs = [*zip((*carried, *others), taken, strict=True), *zip(cast("Sequence[Any]", returned), taken, strict=False)]
    return all(_lies(given) == _lies(one) for given, one in pairs if _is_tensor(one))


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _graph_of(argument: Any, gm: GraphModule) -> GraphModule | None:
    found = getattr(gm, str(argument.target), None) if isinstance(argument, Node) else None
    return found if isinstance(found, GraphModule) else None


def _lies(argument: Any, *, first: int = 0) -> object:
    """The type of an argument; of a tensor its sizes, and its strides where they count, from a dim on."""
    value: Any = argument.meta.get("val") if isinstance(argument, Node) else argument
    if not isinstance(value, torch.Tensor):
        return value.__class__.__name__
    sizes, strides = list(map(str, value.shape))[first:], list(map(str, value.stride()))[first:]
    return value.dtype, [(size, "" if size == "1" else stride) for size, stride in zip(sizes, strides, strict=True)]


__all__ = ["has_compiled_body"]
