"""Functions of a user's (`torch.autograd.Function`) in a backward graph of which only some gradients are asked for.

    def backward(ctx, g, h): return ctx.saved_tensors[0].cos(), g * 2 + h.exp()

To eager a function is one node: if there is one of its gradients, it is run, with zeros for the others. In a graph its
backward pass is whatever it calls. What reads no gradient is nobody's: it was left out, or was there where nobody had
asked, in silence. So a function says what belongs together, with an operator that stands for its first operand:

    backward body       g, h            →  g' = cuesta.run_for(g, h), h' = cuesta.run_for(h, g)
                        return cos, …   →  return cuesta.run_for(cos, g'), …
    backward graph      cuesta.run_for(cos, g')  →  clone(cos), run for the gradients that g' reads

An operator that is left reads two gradients, and is there if one of them is (`undefined_gradients.py`). None is left
when a graph is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from cuesta.lowering.capture.dynamo_graph import name_of, value_of
from cuesta.lowering.capture.undefined_gradients import run_for, tangents_of


def say_whose_gradients(gm: GraphModule) -> None:
    """Marks what belongs together in the backward bodies of functions, in place."""
    for module in list(gm.modules()):
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if name_of(node) != "autograd_function_apply" or len(node.args) < 2:
                continue
            body, used = _held_by(module, node.args[1]), _with_gradients(node)
            if isinstance(body, GraphModule) and used:
                _mark(body, used)


def _with_gradients(apply: Node) -> Sequence[int]:
    """The numbers of those results of a call of a function that anything reads, and that have a gradient."""
    value = value_of(apply)
    results = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,))
    used = sorted({int(cast("int", user.args[1])) for user in apply.users if name_of(user) == "getitem"})
    return [one for one in used if isinstance(results[one], Tensor) and results[one].requires_grad]


def drop_marks(graph: Graph) -> None:
    """run_for(x, g) -> x, in place: of a graph that is run as a whole."""
    for node in list(_marks(graph)):
        node.replace_all_uses_with(cast("Node", node.args[0]))
        graph.erase_node(node)


def resolve_marks(backward: Graph) -> None:
    """run_for(x, g) -> clone(x), in place, which is run for the gradients that g reads, where x reads none."""
    marks = set(_marks(backward))
    if not marks:
        return
    read = dict[Node, frozenset[str]]()
    tangents = set(tangents_of(backward))
    for node in list(backward.nodes):
        found = [read[one] for one in node.all_input_nodes]
        read[node] = frozenset([node.name]) if node in tangents else frozenset[str]().union(*found)
        if node in marks:
            gradient, of = cast("tuple[Node, Node]", node.args)
            if not read[gradient]:
                node.target, node.args = torch.ops.aten.clone.default, (gradient,)
                run_for(node, read[of])


def _mark(body: GraphModule, used: Sequence[int]) -> None:
    """Marks the gradients that a backward body is given, where there are several, and what it gives and does not
    compute of their values.
    """
    placeholders = body.graph.find_nodes(op="placeholder")
    output: Any = body.graph.output_node()
    if used[-1] >= len(placeholders) or not isinstance(output.args[0], list | tuple):
        return
    gradients = _together(body, [placeholders[one] for one in used])
    reads, marked = set(gradients), False
    for node in body.graph.nodes:
        if not reads.isdisjoint(node.all_input_nodes) and not _reads_sizes_alone(node):
            reads.add(node)
    results: list[Any] = list(output.args[0])
    for place, result in enumerate(results):
        if isinstance(result, Node) and result not in reads and isinstance(value_of(result), Tensor):
            with body.graph.inserting_before(output):
                results[place], marked = _mark_of(result, gradients[0]), True
    if marked:
        output.args = (tuple(results),)
    body.recompile()


def _together(body: GraphModule, gradients: Sequence[Node]) -> list[Node]:
    """Gradients, each of which is there if another is, in the place of those that a body is given."""
    if len(gradients) < 2:
        return list(gradients)
    made, marks = list[Node](), set[Node]()
    with body.graph.inserting_before(next(node for node in body.graph.nodes if node.op != "placeholder")):
        for one in gradients:
            node = one
            for other in gradients:
                if other is not one:
                    marks.add(node := _mark_of(node, other))
            made.append(node)
    for one, instead in zip(gradients, made, strict=True):
        one.replace_all_uses_with(instead, lambda user: user not in marks)
    return made


def _mark_of(node: Node, gradient: Node) -> Node:
    define_operator()
    marked = node.graph.call_function(torch.ops.cuesta.run_for.default, (node, gradient))
    marked.meta = dict(node.meta)
    return marked


_OF_SIZES: Final = ("empty_like", "full_like", "getattr", "ones_like", "rand_like", "size", "zeros_like")


def _reads_sizes_alone(node: Node) -> bool:
    """Whether what a call gives depends on how its operands lie, and on none of their numbers."""
    name = name_of(node)
    return name in _OF_SIZES or name.startswith("new_")


def _marks(graph: Graph) -> Iterator[Node]:
    if define_operator.cache_info().currsize:
        yield from graph.find_nodes(op="call_function", target=torch.ops.cuesta.run_for.default)


def _held_by(module: torch.nn.Module, node: object) -> object:
    return getattr(module, str(node.target), None) if isinstance(node, Node) and node.op == "get_attr" else None


@functools.cache
def define_operator() -> Any:
    """Lets torch know the operator `torch.ops.cuesta.run_for`; gives what holds its definition."""
    library: Any = torch.library.Library("cuesta", "FRAGMENT")
    library.define("run_for(Tensor gradient, Tensor read) -> Tensor")
    library.impl("run_for", _copied, "CompositeExplicitAutograd")
    return library


def _copied(gradient: Tensor, read: Tensor) -> Tensor:
    return gradient.clone()


__all__ = ["drop_marks", "resolve_marks", "say_whose_gradients"]
