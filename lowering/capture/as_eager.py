"""What is changed in a captured graph so that it does what eager does where the graph does not say it.

That is done before a graph is divided into forward and backward: in neither half can it be seen where indices that a
backward pass is given come from.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from cuesta.lowering.capture.layouts_of_updates import drop_detours

_aten = torch.ops.aten


def as_eager(gm: GraphModule, *, fills_memory: bool = False) -> None:
    """Rewrites the graph in place, metadata included. `fills_memory` says whether eager fills what `empty` gives."""
    _scatter_given_indices(gm)
    _draw_for_no_sizes(gm)
    drop_detours(gm)
    if fills_memory:
        _fill(gm)


# -- indices of maxima -------------------------------------------------------------------------------------------------

_POOLING: Final[dict[int, tuple[Any, Any, Any]]] = {
    2: (
        _aten.max_pool2d_with_indices_backward.default,
        _aten.max_pool2d_with_indices.default,
        _aten.adaptive_max_pool2d_backward.default,
    ),
    3: (
        _aten.max_pool3d_with_indices_backward.default,
        _aten.max_pool3d_with_indices.default,
        _aten.adaptive_max_pool3d_backward.default,
    ),
}
"""By rank: the gradient of a pooling, the pooling, and an operator that takes the indices for what they are."""
_COPIES: Final = (_aten.alias.default, _aten.detach.default, _aten.clone.default)


def _scatter_given_indices(gm: GraphModule) -> None:
    """max_pool_backward(g, x, …, indices) -> adaptive_max_pool_backward(g, x, indices), unless a pooling with the same
    windows has found the indices.

    Our rule for the former looks for the maxima of a place in the windows that cover it; an index that its own window
    does not cover is in none of them, but eager adds the gradient there. On a GPU eager looks as our rule does.
    """
    for rank, (backward, forward, scattering) in _POOLING.items():
        for node in gm.graph.find_nodes(op="call_function", target=backward):
            if node.meta["val"].device.type != "cpu" or _is_found_by(forward, node, rank):
                continue
            given = _arguments(node)
            node.target, node.kwargs = scattering, {}
            node.args = (given["grad_output"], given["self"], given["indices"])


def _arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call of an overload by name, without defaults."""
    formals: Any = cast("Any", node.target)._schema.arguments
    return {**{formal.name: value for formal, value in zip(formals, node.args, strict=False)}, **node.kwargs}


def _is_found_by(forward: Any, node: Node, rank: int) -> bool:
    given = _arguments(node)
    indices: Any = given["indices"]
    while indices.target in _COPIES:
        indices = indices.args[0]
    if indices.target is not operator.getitem or indices.args[1] != 1:
        return False
    pooling: Any = indices.args[0]
    if pooling.target is not forward:
        return False
    found = _arguments(pooling)
    same = _windows(found, rank) == _windows(given, rank)
    return same and found["self"].meta["val"].shape == given["self"].meta["val"].shape


def _windows(given: dict[str, Any], rank: int) -> list[Any]:
    """Kernel, stride, padding, dilation, with a number for each dim; and whether sizes are rounded up."""
    kernel = given["kernel_size"]
    lists = (kernel, given.get("stride") or kernel, given.get("padding", (0,)), given.get("dilation", (1,)))
    return [*(list(one) * (rank // len(one)) for one in lists), given.get("ceil_mode", False)]


# -- random numbers of which only the size is asked --------------------------------------------------------------------

_SIZES: Final = (_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_numel.default, _aten.sym_storage_offset.default)


def _draw_for_no_sizes(gm: GraphModule) -> None:
    """sym_stride(dropout(empty)) -> a number that the graph has, in place, and no draw: where sizes change, DTensors
    run each operator of theirs once more, on memory of no meaning, to learn of its strides. Eager draws once.
    """
    known: dict[Any, Node] = {}
    drawn: dict[Node, None] = {}
    asked: list[Node] = []
    for node in gm.graph.nodes:
        of_draws = any(one in drawn for one in node.all_input_nodes)
        if node.op == "call_function" and (of_draws or _draws(node)):
            drawn[node] = None
        number: Any = node.meta.get("val")
        if not isinstance(number, torch.SymInt):
            continue
        expression: Any = cast("Any", number).node.expr
        if of_draws and node.target in _SIZES and expression in known:
            node.replace_all_uses_with(known[expression])
            asked.append(node)
        elif not of_draws:
            known.setdefault(expression, node)
    for node in reversed(drawn) if asked else ():
        if not node.users and isinstance(node.target, OpOverload | type(operator.getitem)):
            gm.graph.erase_node(node)


def _draws(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


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
            for user in list(node.users):
                if user is not filled:
                    user.replace_input_with(node, filled)


def _filling(dtype: torch.dtype) -> complex:
    """What eager fills memory of a type with.

    Source: `fill_empty_deterministic_` of aten/src/ATen/native/TensorFactories.h.
    """
    if dtype.is_complex:
        return complex(math.nan, 0.0)
    if dtype.is_floating_point:
        return math.nan
    return True if dtype == torch.bool else torch.iinfo(dtype).max
