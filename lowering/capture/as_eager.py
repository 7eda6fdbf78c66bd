"""What is changed in a captured graph so that it does what eager does where the graph does not say it.

That is done before a graph is divided into forward and backward: in neither half can it be seen where indices that a
backward pass is given come from.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

_aten = torch.ops.aten


def as_eager(gm: GraphModule) -> None:
    """Rewrites the graph in place, metadata included."""
    _scatter_given_indices(gm)
    if torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        _fill(gm)


# -- indices of maxima -------------------------------------------------------------------------------------------------

_POOLING: Final[dict[Any, tuple[Any, Any]]] = {
    _aten.max_pool2d_with_indices_backward.default: (
        _aten.max_pool2d_with_indices.default,
        _aten.adaptive_max_pool2d_backward.default,
    ),
    _aten.max_pool3d_with_indices_backward.default: (
        _aten.max_pool3d_with_indices.default,
        _aten.adaptive_max_pool3d_backward.default,
    ),
}
"""The gradient of a pooling: the pooling, and an operator that takes the indices for what they are."""
_COPIES: Final = (_aten.alias.default, _aten.detach.default, _aten.clone.default)


def _scatter_given_indices(gm: GraphModule) -> None:
    """max_pool_backward(g, x, …, indices) -> adaptive_max_pool_backward(g, x, indices), unless a pooling with the same
    windows has found the indices.

    Our rule for the former looks for the maxima of a place in the windows that cover it; an index that its own window
    does not cover is in none of them, but eager adds the gradient there. On a GPU eager looks as our rule does.
    """
    for backward, (forward, scattering) in _POOLING.items():
        for node in gm.graph.find_nodes(op="call_function", target=backward):
            gradient, source, *windows, indices = node.args
            if node.meta["val"].device.type != "cpu" or _is_found_by(forward, indices, source, windows):
                continue
            node.target, node.args = scattering, (gradient, source, indices)


def _is_found_by(forward: Any, indices: Node, source: Node, windows: list[Any]) -> bool:
    while indices.target in _COPIES:
        indices = indices.args[0]  # pyright: ignore[reportAssignmentType]
    if indices.target is not operator.getitem or indices.args[1] != 1:
        return False
    pooling: Any = indices.args[0]
    if pooling.target is not forward:
        return False
    defaults = ([], [0], [1], False)
    given = [*pooling.args[1:], *defaults[len(pooling.args) - 2 :]]
    return given == windows and pooling.args[0].meta["val"].shape == source.meta["val"].shape


# -- memory that nobody has written ------------------------------------------------------------------------------------

_EMPTY: Final = (
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_permuted.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
)


def _fill(gm: GraphModule) -> None:
    """empty(…) -> fill(empty(…), NaN or the greatest integer), as eager does under `use_deterministic_algorithms`.

    Dynamo guards the flag, and the graph is another: what is compiled with it is never used without.
    """
    for target in _EMPTY:
        for node in gm.graph.find_nodes(op="call_function", target=target):
            with gm.graph.inserting_after(node):
                filled = gm.graph.call_function(_aten.fill.Scalar, (node, _filling(node.meta["val"].dtype)))
            filled.meta = dict(node.meta)
            node.replace_all_uses_with(filled, delete_user_cb=lambda user, own=filled: user is not own)


def _filling(dtype: torch.dtype) -> complex:
    """What eager fills memory of a type with.

    Source: `fill_empty_deterministic_` of aten/src/ATen/native/TensorFactories.h.
    """
    if dtype.is_complex:
        return complex(math.nan, 0.0)
    if dtype.is_floating_point:
        return math.nan
    return True if dtype == torch.bool else torch.iinfo(dtype).max
