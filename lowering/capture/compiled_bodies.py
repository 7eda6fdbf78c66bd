"""Which graphs that a higher-order operator calls are compiled: those that it calls with tensors as they were traced.

Machine code is made for the strides in a graph's metadata. `cond` and its like hand on what they are given. `scan` and
`map` call their graph once for each slice of some tensors, and `scan` with what the call before gave: those lie as the
tensors do, and eager runs the graph where they do not lie as the graph was traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import torch
from torch.fx import GraphModule, Node

_CALLERS: Final = ("cond", "while_loop", "invoke_subgraph")
"""The operators that only call the graphs they are given."""


def has_compiled_body(node: Node, gm: GraphModule) -> bool:
    """Whether the graphs that a higher-order operator is given may be compiled."""
    name: str = cast("Any", node.target).name()
    if name in _CALLERS:
        return True
    if name not in ("scan", "map_impl") or node.kwargs:
        return False
    body = _graph_of(node.args[0], gm)
    if body is None:
        return False
    whole: list[Sequence[Any]] = [cast("Sequence[Any]", one) for one in node.args[1:]]
    carried, sliced, others = whole if name == "scan" else ((), *whole)
    returned: Any = next(iter(body.graph.find_nodes(op="output"))).args[0]
    if not isinstance(returned, list | tuple):
        return False
    taken = [_lies(one) for one in body.graph.find_nodes(op="placeholder")]
    given = [*map(_lies, carried), *(_lies(one, first=1) for one in sliced), *map(_lies, others)]
    again = [_lies(one) for one in cast("Sequence[Any]", returned)[: len(carried)]]
    return given == taken and again == taken[: len(carried)]


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
