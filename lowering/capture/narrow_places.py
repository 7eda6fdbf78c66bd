"""Places that a forward pass finds, and that only the backward pass reads, are kept in 16 bits where that is enough.

    y, place = max_pool2d(x)                             y, place = max_pool2d(x);  kept = place as i16
    …                                          →         …
    dx = max_pool2d_backward(dy, x, place)               dx = max_pool2d_backward(dy, x, kept as i64)

A place of a maximum is an i64 in PyTorch. That it is less than the number of places is known from the operator; where
all of these are known sizes, 65,536 at most, it comes back from 16 bits as it was. Of a maximum pooling in 16
bits that is most of what is written. What is given to the caller besides is kept as it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final, cast

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from cuesta.lowering.capture.inserting import NodeWriter, users_of

_aten = torch.ops.aten

HALF: Final = 1 << 15
"""Of the numbers of 16 bits: places from it on are kept less that.

Source: a definition.
"""


def _of_plane(rank: int) -> Callable[[Node, torch.Tensor], int | None]:
    def places(call: Node, x: torch.Tensor) -> int | None:
        return _product(x.shape[-rank:])

    return places


def _along(position: int, otherwise: int | None = None) -> Callable[[Node, torch.Tensor], int | None]:
    """Places along the dim that is argument `position` of a call."""

    def places(call: Node, x: torch.Tensor) -> int | None:
        dim = call.args[position] if position < len(call.args) else call.kwargs.get("dim", otherwise)
        if not isinstance(dim, int):
            return None
        return _product(x.shape[dim : dim + 1 or None]) if x.dim() else 1

    return places


def _product(sizes: Any) -> int | None:
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else None


_VIEWS: Final = (_aten.unsqueeze.default, _aten.view.default, _aten.expand.default, _aten.squeeze.dim)

PLACES: Final[dict[Any, Callable[[Node, torch.Tensor], int | None]]] = {
    _aten.max_pool2d_with_indices.default: _of_plane(2),
    _aten.max_pool3d_with_indices.default: _of_plane(3),
    _aten.adaptive_max_pool2d.default: _of_plane(2),
    _aten.adaptive_max_pool3d.default: _of_plane(3),
    _aten.max.dim: _along(1),
    _aten.min.dim: _along(1),
    _aten.median.dim: _along(1, -1),
    _aten.nanmedian.dim: _along(1, -1),
    _aten.mode.default: _along(1, -1),
    _aten.kthvalue.default: _along(2, -1),
    _aten.topk.default: _along(2, -1),
    _aten.sort.default: _along(1, -1),
    _aten.sort.stable: _along(2, -1),
    _aten.cummax.default: _along(1),
    _aten.cummin.default: _along(1),
}
"""Operators whose second result is places in their first argument, and how many of these there are; None where that is
not a known number."""


def narrow_places(gm: GraphModule, num_fwd_outputs: int) -> int:
    """Rewrites a joint graph in place, metadata included; says how many results are kept in fewer bytes."""
    found = [node for target in PLACES for node in gm.graph.find_nodes(op="call_function", target=target)]
    if not found:
        return 0
    given = [one for one in gm.graph.find_nodes(op="placeholder") if "tangents" in str(one.target)]
    backward = users_of(given)
    (results,) = gm.graph.output_node().args
    visible = set(tree_leaves(cast("list[Any]", results)[:num_fwd_outputs]))
    count = 0
    for call in found:
        for place in [user for user in call.users if user.target is operator.getitem and user.args[1] == 1]:
            if call not in backward and place not in visible:
                count += _narrow(gm, call, place, backward)
    return count


def _narrow(gm: GraphModule, call: Node, place: Node, backward: set[Node]) -> bool:
    readers = [user for user in place.users if user in backward or _leads_to(user, backward)]
    value, x = place.meta["val"], cast("Node", call.args[0]).meta["val"]
    places = PLACES[call.target](call, x)
    if not readers or places is None or value.dtype != torch.int64:
        return False
    if places > 2 * HALF:  # in i32 they are as dear as they are, to PyTorch, which counts what nobody need store twice
        return False
    write, beyond = NodeWriter(gm.graph, place), places > HALF
    made = [write(_aten.sub.Tensor, place, HALF)] if beyond else []
    made.append(write.of_type(made[-1] if beyond else place, torch.int16))
    made.append(write.of_type(made[-1], torch.int64))
    if beyond:
        made.append(write(_aten.add.Tensor, made[-1], HALF))
    before = place
    for node in made:  # whoever reads it first finds it
        before.append(node)
        before = node
    for reader in readers:
        reader.replace_input_with(place, made[-1])
    return True


def _leads_to(node: Node, backward: set[Node]) -> bool:
    """Whether a node is a view that only the backward pass reads."""
    return node.target in _VIEWS and bool(node.users) and all(user in backward for user in node.users)


__all__ = ["PLACES", "narrow_places"]
