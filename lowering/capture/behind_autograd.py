"""What a graph does behind autograd's back: other storages of inputs, updates and views of which no gradient knows.

x.data = y                    ←  x lies where y lies; views of what x was do not
x.detach().add_(1)            ←  x has another value, and the gradient that it had
with torch.no_grad(): y = x[1:]  ←  y has no gradient of x's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.dynamo_graph import (
    has_memory,
    name_of,
    nodes_behind,
    sets_data,
    tensors_of,
    value_of,
    written_by,
)
from cuesta.lowering.capture.memory_ranges import memory_of


def lost_storage(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """The input, if there is one, that gets another storage (`x.data = y`), where something else knows of the one it
    had, or of the one it gets: x is used with a gradient, shares memory with another input, has a view that is used
    afterwards, is written to afterwards, or has a bit, or the other one has; and what is computed, if it gets that of
    an input.
    AOTAutograd gives it the storage when the graph has run: gradients are those of another tensor, and what else lies
    in one of the two storages has the values of the other (torch 2.13).

    Near miss: an input of which nobody knows what it was.

    Source: note `set_() Input Mutations in AOTAutograd` of torch/_functorch/_aot_autograd/collect_metadata_analysis.py.
    """
    if (reason := _lost_update_of_old_data(gm)) is not None:
        return reason
    nodes = list(gm.graph.nodes)
    setting = {place: node for place, node in enumerate(nodes) if name_of(node).partition(".")[0] == "set_"}
    if not setting:
        return None
    given = dict(zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True))
    plain = [one for one in inputs if isinstance(one, torch.Tensor) and has_memory(one)]
    shared = Counter(map(memory_of, plain))
    for place, node in setting.items():
        target: Any = node.args[0] if node.args else None
        value = given.get(target)
        if target not in given and any(one in given for one in _sources(node)):
            return f"{target} gets the storage of an input"
        if not isinstance(value, torch.Tensor) or is_traceable_wrapper_subclass(value):
            continue
        if value.requires_grad and (user := _used_with_a_gradient(gm, target)) is not None:
            return f"{user.name} has a gradient, of an input that is given other data"
        if shared[memory_of(value)] > 1:
            return f"{target.name} gets another storage, and shares memory with another input"
        source = value_of(node.args[1]) if len(node.args) > 1 and isinstance(node.args[1], Node) else None
        if any(isinstance(one, torch.Tensor) and (one.is_neg() or one.is_conj()) for one in (value, source)):
            return f"{target.name} gets another storage, and one of the two has the negative or the conjugate bit"
        views = list(_views(nodes[:place], target))
        if any(user in nodes[place + 1 :] for one in views for user in one.users):
            return f"{target.name} gets another storage, and a view of it is used afterwards"
        new = set(map(memory_of, tensors_of(target)))
        written = [one for later in nodes[place + 1 :] if later.op.startswith("call_") for one in written_by(later)]
        if any(memory_of(one) in new for other in written for one in tensors_of(other)):
            return f"{target.name} gets another storage, which is written to afterwards"
    return None


def _lost_update_of_old_data(gm: GraphModule) -> str | None:
    """The input, if there is one, that is written to and then given other data: x.data.mul_(2); x.data = y. AOTAutograd
    forgets the update, which views of the old memory show.

    Source: Note [set_() Input Mutations in AOTAutograd] of torch/_functorch/_aot_autograd/runtime_wrappers.py ("very
    difficult to support").
    """
    written: list[Node] = []
    for node in gm.graph.nodes:
        given = node.args[0] if sets_data(node) else None
        if isinstance(given, Node) and given.op == "placeholder" and any(_is_made_of(one, given) for one in written):
            return f"{given.name} is written to and then given other data"
        if node.op in ("call_method", "call_function"):
            written += written_by(node)
    return None


def _is_made_of(node: Node, given: Node) -> bool:
    """Whether a value is an input, its data, or a view of either. (Fakes of an input lie in its new memory by now.)"""
    base = value_of(given)
    while node is not given:
        value, source = value_of(node), node.args[0] if node.args else None
        is_view = isinstance(value, torch.Tensor) and (value._base is not None or name_of(node) == "_get_data_attr")
        if not is_view or not isinstance(source, Node):
            return value is base
        node = source
    return True


def _used_with_a_gradient(gm: GraphModule, target: Node) -> Node | None:
    """Something with a gradient that is made of an input, before or after it is given other data: AOTAutograd takes
    what it is given for a tensor without a gradient, and the input has none, in silence.
    """
    own = {id(one) for one in tensors_of(target)}
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            used = any(id(one) in own for argument in node.all_input_nodes for one in tensors_of(argument))
            if (
                used
                and node.op != "output"
                and any(one.requires_grad and id(one) not in own for one in tensors_of(node))
            ):
                return node
    return None


def _sources(node: Node) -> Iterator[Node]:
    """What a node's second argument is a view of, and so on."""
    source = node.args[1] if len(node.args) > 1 else None
    return nodes_behind(source) if isinstance(source, Node) else iter(())


def _views(nodes: Sequence[Node], of: Node) -> Iterator[Node]:
    """The nodes that are views of one, views of those, and so on."""
    found = {of}
    for node in nodes:
        value = value_of(node)
        if found.isdisjoint(node.all_input_nodes):
            continue
        several = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else (value,)
        views = [one for one in several if isinstance(one, torch.Tensor) and one._is_view()]
        if views or name_of(node) == "_get_data_attr":
            found.add(node)
            yield node


def lost_history(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """The update without a gradient, if there is one, of an input that has been computed, has a gradient and shares
    memory with another: AOTAutograd makes both of one tensor with a history that neither has.
    """
    plain = [one for one in inputs if isinstance(one, torch.Tensor) and has_memory(one)]
    shared = {memory for memory, count in Counter(map(memory_of, plain)).items() if count > 1}
    given = zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True)
    tensors = [(node, one) for node, one in given if isinstance(one, torch.Tensor) and has_memory(one)]
    beside = {node for node, one in tensors if memory_of(one) in shared}
    for node, written in _unrecorded(gm, inputs) if beside else ():
        memory = set(map(memory_of, written))
        if any(memory_of(one) in memory for other in beside for one in tensors_of(other)):
            return f"{name_of(node)} writes without a gradient to an input that has one and shares memory with another"
    return None


def lost_requirement(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """The input, if there is one, that requires a gradient and no longer does when the graph has run, by a call that
    gives the input itself: torch.asarray(x, requires_grad=False), or without a word in torch 2.11. AOTAutograd knows
    nothing of it.

    Near miss: an input that requires one from some update on.

    Source: `asarray` of torch/csrc/utils/tensor_new.cpp.
    """
    for node, one in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True):
        value = value_of(node)
        required = isinstance(one, torch.Tensor) and one.requires_grad
        if required and isinstance(value, torch.Tensor) and not value.requires_grad:
            return f"{node.name} is made to require no gradient"
    return None


def gradient_of_arguments(gm: GraphModule) -> str | None:
    """The gradient of `torch.func`, if there is one, of what a graph is given: how that was computed is no part of the
    graph, and AOTAutograd has zeros for it. Dynamo makes such graphs of PyTorch's own functions, where it does not
    compile who calls `jacrev`.
    """
    for node in gm.graph.nodes:
        outputs = node.args[0] if name_of(node) == "_autograd_grad" else ()
        if any(isinstance(one, Node) and one.op == "placeholder" for one in outputs):
            return "it has a gradient of a tensor that was computed before"
    return None


def update_without_gradients(gm: GraphModule, inputs: Sequence[Any]) -> None:
    """x.detach().add_(1) -> with torch.no_grad(): x.detach().add_(1), in place, of an input that has been computed and
    has a gradient. It is the same to eager. AOTAutograd takes the former for an update of x with a gradient, and gives
    x another history (torch 2.13).

    Near miss: an update with a gradient.
    """
    found = [node for node, _ in _unrecorded(gm, inputs)]
    for node in found:
        with gm.graph.inserting_before(node):
            gm.graph.call_function(_set_grad_enabled, (False,))
        with gm.graph.inserting_after(node):
            gm.graph.call_function(_set_grad_enabled, (True,))
    if found:
        gm.recompile()


def _unrecorded(gm: GraphModule, inputs: Sequence[Any]) -> Iterator[tuple[Node, list[torch.Tensor]]]:
    """The updates of what has no gradient, in the memory of a computed input that has one, where gradients are
    recorded; and what they write to.
    """
    given = zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True)
    computed = [node for node, one in given if isinstance(one, torch.Tensor) and one.requires_grad and not one.is_leaf]
    memory = {memory_of(one) for node in computed for one in tensors_of(node)}
    recorded = torch.is_grad_enabled()
    for node in gm.graph.nodes if memory else ():
        if name_of(node) == "_set_grad_enabled":
            recorded = bool(node.args[0])
        if recorded and node.op in ("call_method", "call_function"):
            written = [one for target in written_by(node) for one in tensors_of(target)]
            if not any(one.requires_grad for one in written) and not memory.isdisjoint(map(memory_of, written)):
                yield node, written


_set_grad_enabled: Any = getattr(torch._C, "_set_grad_enabled")  # noqa: B009  # pyright: ignore[reportPrivateUsage]


def lost_leaf(gm: GraphModule) -> str | None:
    """The use, if there is one, of a view that was made without gradients of what has one: with torch.no_grad(): y =
    x[1:]; return y * 2. Eager takes the view for a leaf: results have a gradient, which ends there. AOTAutograd gives
    computed ones none, and lets that of views go on to x (torch 2.13). Of an x that is a view of what has no gradient
    such a view has none in eager (x = z[1:].requires_grad_(); y.requires_grad: False), and AOTAutograd gives it x's.

    Near miss: a use without gradients.

    Source: `as_view` of torch/csrc/autograd/VariableTypeUtils.h.
    """
    recorded = torch.is_grad_enabled()
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if name_of(node) == "_set_grad_enabled":
                recorded = bool(node.args[0])
            if node.op not in ("call_method", "call_function", "output"):
                continue
            for one in node.all_input_nodes if recorded or node.op == "output" else ():
                value = value_of(one)
                if _has_lost_gradient(one):
                    return f"{one.name} is a view that was made without gradients, of a view that alone has one"
                if node.op == "output":
                    continue
                if one.op == "placeholder" or not isinstance(value, torch.Tensor) or not value.requires_grad:
                    continue
                if value._base is not None and _is_leaf(value):
                    return f"{one.name} is a view that was made without gradients, and {name_of(node)} has some"
    return None


def _has_lost_gradient(node: Node) -> bool:
    """Whether it is a view, without a gradient, of an input that has one and is a view of what has none."""
    value = value_of(node)
    if node.op == "placeholder" or not isinstance(value, torch.Tensor) or value.requires_grad or value._base is None:
        return False
    *_, root = (node, *nodes_behind(node))
    given = value_of(root)
    if root.op != "placeholder" or not isinstance(given, torch.Tensor) or not given.requires_grad:
        return False
    return given._base is not None and given._base is value._base


def _is_leaf(tensor: torch.Tensor) -> bool:
    """Whether autograd knows a tensor as a leaf. Of a view whose base was written to since it may refuse to say: eager
    does as well, where the tensor is used.
    """
    try:
        return tensor.grad_fn is None
    except RuntimeError:
        return False


__all__ = [
    "gradient_of_arguments",
    "lost_history",
    "lost_leaf",
    "lost_requirement",
    "lost_storage",
    "update_without_gradients",
]
