"""Hooks of tensors in Dynamo's graphs: nodes that give a view of the tensor, through which its gradient goes.

torch 2.13   %h = register_hook(%x, %body)
torch 2.11   %a = autograd_function_apply(%forward, %backward, %x); %h = %a[0]; forward is x.view_as(x)
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from cuesta.lowering.capture.dynamo_graph import name_of, tensors_of
from cuesta.lowering.capture.memory_ranges import memory_of


def lost_hook(gm: GraphModule) -> str | None:
    """The hook, if there is one, of an input, or of a view that AOTAutograd makes anew when the graph has run: of an
    input, or of one of several results. What was computed of the input before the graph, and the view that is returned,
    have not gone through it: h = x.view(-1); h.register_hook(f); return h (torch 2.11, 2.13). With
    torch 2.11 what is hooked is such a view, of what is computed: y.register_hook(f); return y, y.view(-1).

    Near miss: of what is computed, or of a view of it that is no result.
    """
    found = [(node, given) for node in gm.graph.nodes if (given := _hooked(gm, node)) is not None]
    if not found:
        return None
    inputs = {memory_of(one) for node in gm.graph.find_nodes(op="placeholder") for one in tensors_of(node)}
    given_back = [node for node in pytree.tree_leaves(gm.graph.output_node().args) if isinstance(node, Node)]
    results = Counter(memory_of(one) for node in given_back for one in tensors_of(node))
    for node, given in found:
        if _origin(gm, given).op == "placeholder":
            return f"{node.name} is a hook of an input"
        for one in tensors_of(_origin(gm, given)):
            count = results[memory_of(one)]
            is_made_anew = one._is_view() or is_hook_as_function(gm, node)
            if (is_made_anew and count > 1) or (one._is_view() and count and memory_of(one) in inputs):
                return f"{node.name} is a hook of a view that is returned"
    return None


def order_hooks(gm: GraphModule) -> None:
    """Exchanges several hooks of one tensor, in place: the first is called first, which Dynamo of torch 2.11 calls
    last.
    """
    changed = False
    chain: list[Node] = []
    for node in [one for one in gm.graph.nodes if is_hook_as_function(gm, one)]:
        if not (chain and _follows(chain[-1], node)):
            changed |= _turn(chain)
            chain = []
        chain.append(node)
    if changed | _turn(chain):
        gm.recompile()


def _turn(chain: list[Node]) -> bool:
    for node in chain[1:]:
        for body in node.args[:2]:
            chain[0].prepend(cast("Node", body))
    hooks = [((one.args[:2], one.args[3:]), one.kwargs) for one in reversed(chain)]
    for node, ((bodies, others), named) in zip(chain, hooks, strict=True):
        node.args, node.kwargs = (*bodies, node.args[2], *others), named
    return len(chain) > 1


def _follows(first: Node, second: Node) -> bool:
    """Whether a hook is one of what another gives, and nothing else is."""
    given: Any = second.args[2]
    return list(first.users) == [given] and len(given.users) == 1


def _hooked(gm: GraphModule, node: Node) -> Node | None:
    """The tensor that a node puts a hook on, if it is such a node."""
    given: Any = None
    if node.op == "call_function" and name_of(node) == "register_hook":
        given = node.args[0]
    elif is_hook_as_function(gm, node):
        given = node.args[2]
    return given if isinstance(given, Node) else None


def _origin(gm: GraphModule, node: Node) -> Node:
    """What is hooked, through other hooks of it."""
    hook = node.args[0] if name_of(node) == "getitem" and isinstance(node.args[0], Node) else node
    given = _hooked(gm, hook)
    return node if given is None else _origin(gm, given)


def is_hook_as_function(gm: GraphModule, node: Node) -> bool:
    """Whether a node is a function of autograd's that Dynamo made of a hook: its result is a view of what it is of.

    Source: `register_hook_trampoline` of torch/_dynamo/variables/tensor.py (torch 2.11).
    """
    if name_of(node) != "autograd_function_apply" or len(node.args) < 3 or not isinstance(node.args[0], Node):
        return False
    body = getattr(gm, str(node.args[0].target), None)
    calls = [one for one in body.graph.nodes if one.op.startswith("call_")] if isinstance(body, GraphModule) else []
    views = [one for one in calls if name_of(one) != "_set_grad_enabled"]
    return len(views) == 1 and name_of(views[0]) == "view_as" and len(set(views[0].args)) == 1


__all__ = ["is_hook_as_function", "lost_hook", "order_hooks"]
