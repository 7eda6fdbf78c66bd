"""Which nodes of a graph no level of ours can say, so that eager has to run them: the rest is compiled around them.

These are higher-order operators (a branch, a loop, a random state kept for recomputation), operators whose result has a
size that only the data knows, and whatever takes or gives a tensor that is not strided.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

if TYPE_CHECKING:
    from torch.fx import GraphModule

Kind = Literal["computed", "opaque", "size", "number", "write"]
"""What is made of a call: compiled; run by eager; told by an index expression; run in Python; done at the very end."""

_WRITE: Final = torch.ops.aten.copy_.default
_WITH_EFFECTS: Final = torch.ops.higher_order.with_effects


def has_opaque_nodes(gm: GraphModule) -> bool:
    """Whether a graph has to be compiled in pieces."""
    unsayable = _unsayable(gm.graph.nodes)
    return any(node.op == "call_function" and _is_opaque(node, unsayable) for node in gm.graph.nodes)


def _unsayable(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that may not stand in a call that is compiled."""
    return {node for node in nodes if _is_unsayable(node.meta.get("val"), as_argument=True)}


def _is_opaque(node: Node, unsayable: set[Node]) -> bool:
    """Whether no level can say a call."""
    target, value = node.target, node.meta.get("val")
    if isinstance(target, OpOverload):
        if node.meta.get("unbacked_bindings"):
            return True
    elif isinstance(target, HigherOrderOperator):
        return target is not _WITH_EFFECTS or not isinstance(node.args[1], OpOverload)
    else:
        return not (target is operator.getitem or _is_number(value))
    return bool(unsayable) and (_is_unsayable(value) or not unsayable.isdisjoint(node.all_input_nodes))


def kinds_of(nodes: Iterable[Node]) -> dict[Node, Kind]:
    """What is made of each call of a graph. What is taken from an opaque result is opaque too."""
    nodes, kinds = list(nodes), dict[Node, Kind]()
    unsayable = _unsayable(nodes)
    for node in nodes:
        if node.op != "call_function":
            continue
        if node.target is _WRITE:
            kinds[node] = "write"
        elif _is_opaque(node, unsayable) or node.target is _WITH_EFFECTS:
            # Tokens are no tensors: what they order stays with them.
            kinds[node] = "opaque"
        elif node.target is operator.getitem:
            source = node.args[0]
            kinds[node] = kinds.get(source, "computed") if isinstance(source, Node) else "computed"
        elif _is_number(value := node.meta.get("val")):
            kinds[node] = "size" if isinstance(value, torch.SymInt) else "number"
        else:
            kinds[node] = "computed"
    return kinds


def free_symbols(value: Any) -> set[Any]:
    """The SymPy symbols in the metadata of a value: in its sizes and strides, or in the number that it is."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return set()
        return {symbol for number in (*value.shape, *value.stride()) for symbol in free_symbols(number)}
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        expression = getattr(value.node, "expr", None)
        return set() if expression is None else expression.free_symbols
    if isinstance(value, tuple | list):
        return {symbol for one in value for symbol in free_symbols(one)}
    return set()


def keeps_its_place(node: Node) -> bool:
    """Whether a call must stay in order with others like it: random numbers, effects, what we know nothing about."""
    target = node.target
    if isinstance(target, OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags or not node.users or target._schema.is_mutable
    return isinstance(target, HigherOrderOperator)


def _is_number(value: object) -> bool:
    return value is not None and not isinstance(value, torch.Tensor | tuple | list)


def _is_unsayable(value: Any, *, as_argument: bool = False) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout is not torch.strided
    if value is None:
        return False
    if isinstance(value, tuple | list):
        return any(_is_unsayable(one) for one in value)
    if as_argument and isinstance(value, torch.SymFloat):
        return any(symbol.name.startswith(("u", "zuf")) for symbol in free_symbols(value))
    return as_argument and isinstance(value, torch.SymBool)
