"""Updates in place of what lies in another order than row by row: what it is afterwards lies as before.

x.scatter_(0, i, y)  ->  x.copy_(x.scatter(0, i, y))             of an x whose columns lie one after the other
x.bernoulli_(p)      ->  x.copy_(x.t().contiguous().bernoulli(p).t())
x.zero_()            ->  x.fill_(0)

AOTAutograd takes the value of the operator for x from there on, and eager's `scatter` and its like give rows, whatever
x lies like: what is made of x lay in another order, views of it that there are were refused, and `x.bernoulli_()`,
which draws in the order of memory, drew other numbers (torch 2.11, 2.13). `copy` keeps the layout of its first
argument, and to what follows it is no work: a nest that reads another. (Zeros lie in rows in torch 2.11 alone.)
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.lowering.capture.dynamo_graph import name_of, value_of
from cuesta.lowering.capture.memory_ranges import is_known, order_in_memory
from cuesta.lowering.capture.said_of_nodes import is_view

_IN_ROWS = frozenset(
    {
        *("scatter_", "scatter_add_", "scatter_reduce_", "index_add_", "index_copy_", "index_reduce_", "index_fill_"),
        *("masked_fill_", "masked_scatter_", "put_", "renorm_", "tril_", "triu_", "cumsum_", "cumprod_"),
        *("addmm_", "addbmm_", "baddbmm_", "addr_"),
    }
)
"""Methods whose results lie row by row, where they do not update in place."""


_REWRITTEN = _IN_ROWS | {"bernoulli_", "zero_"}


def updates_lie_as_before(gm: GraphModule) -> None:
    """Rewrites the updates of a graph of Dynamo's, or of torch.export's, in place.

    Near miss: a tensor that lies row by row, with gaps or without.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [node for node in module.graph.nodes if _method(node) in _REWRITTEN and _lies_in_another_order(node)]
        for node in found:
            if _method(node) == "zero_":
                _turn_into(node, "fill_", 0)
            elif _method(node) == "bernoulli_":
                _draw_in_order(module, node)
            else:
                _update_by_a_copy(module, node)
        if found:
            module.recompile()


def _method(node: Node) -> str:
    """What a call is called, also in a graph of torch.export's: `zero_` of `aten.zero_.default`."""
    return name_of(node).partition(".")[0]


def _lies_in_another_order(node: Node) -> bool:
    target = node.args[0] if node.op in ("call_method", "call_function") and node.args else None
    value: Any = value_of(target) if isinstance(target, Node) else None
    if type(value) is not torch.Tensor and not _is_fake(value):
        return False
    order = [*order_in_memory(value)]
    return order != sorted(order)


def _is_fake(value: Any) -> bool:
    from torch._subclasses import FakeTensor

    return isinstance(value, FakeTensor) and value.layout is torch.strided


def _turn_into(node: Node, method: str, value: Any) -> None:
    node.op, node.target, node.args, node.kwargs = "call_method", method, (node.args[0], value), {}


def _update_by_a_copy(module: GraphModule, node: Node) -> None:
    value: Any = value_of(node)
    with module.graph.inserting_before(node):
        made = module.graph.call_method(_method(node)[:-1], node.args, node.kwargs)
    made.meta = {**node.meta, "example_value": value.contiguous()}
    _turn_into(node, "copy_", made)


def _draw_in_order(module: GraphModule, node: Node) -> None:
    """Near miss: a draw with a chance of its own for each element, which AOTAutograd writes as one that lies as `x`."""
    target, *others = node.args
    chance = others[0] if others else node.kwargs.get("p", 0.5)
    if isinstance(chance, Node) or node.kwargs.get("generator") is not None:
        return
    value: Any = value_of(node)
    order = [*order_in_memory(value)]
    steps: list[tuple[str, tuple[Any, ...]]] = [
        ("detach", ()),
        ("permute", (order,)),
        ("contiguous", ()),
        ("bernoulli", (chance,)),
        ("permute", ([order.index(axis) for axis in range(len(order))],)),
    ]
    made: Any = target
    with module.graph.inserting_before(node):
        for method, arguments in steps:
            value = getattr(value, method)(*arguments)
            made = module.graph.call_method(method, (made, *arguments))
            made.meta = {**node.meta, "example_value": value}
    _turn_into(node, "copy_", made)


def drop_detours(gm: GraphModule) -> None:
    """copy(x, clone(y))  ->  y, in place, in a graph of AOTAutograd's: of a y that lies as the copy does, has its type
    and memory of its own, and has no other use. What `index_copy` is made of lies as x does, and is rewritten into rows
    for its own sake: without the two, an update of an input writes the elements that it names, as one of an input in
    rows.
    """
    aten = torch.ops.aten
    for node in gm.graph.find_nodes(op="call_function", target=aten.copy.default):
        rows: Any = node.args[1]
        if not isinstance(rows, Node) or rows.target is not aten.clone.default or len(rows.users) > 1:
            continue
        made: Any = rows.args[0]
        if made.op == "placeholder" or len(made.users) > 1 or made.target is operator.getitem or is_view(made):
            continue
        lies, said = made.meta["val"], node.meta["val"]
        known = [*zip(lies.shape, said.shape, strict=False), *zip(lies.stride(), said.stride(), strict=False)]
        if lies.dtype == said.dtype and lies.dim() == said.dim() and all(is_known(a == b) for a, b in known):
            node.replace_all_uses_with(made)
            gm.graph.erase_node(node)
            gm.graph.erase_node(rows)


__all__ = ["drop_detours", "updates_lie_as_before"]
