"""A backward graph where nobody asked for the gradients of some results: what eager does not run is not run.

    %a = mul(%tangents_1, %cos)                          %a = mul(%tangents_1, %cos)
    %b = div(%tangents_2, %zero)        →
    %c = add(%a, %b)                                     return (%a,)
    return (%c,)

AOTAutograd traces one backward pass for all results, and lets autograd make zeros of the gradients that there are not.
Zero times infinity is NaN, and a hook or a function of a user's may make anything of a zero: return x.sin(), x.sqrt()
gave x a gradient of NaN at 0 where only that of the sine was asked for (torch 2.11, 2.13).

Eager's rules: what has only undefined gradients is not run, and gives undefined ones; an undefined gradient beside one
that there is, of one node of autograd's, is zero; in a sum it is left out.

A gradient that no gradient is read for is one all the same: of x ** 0 it is zero wherever that has a gradient, and else
there is none. What led to it is no part of the graph. `mark_gradients_of_nothing` looks there in the forward part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule, Node

from cuesta.dialects.core.structs import struct
from cuesta.lowering.capture.said_of_nodes import is_view

Sizes = Callable[[Sequence[Any]], tuple[list[int], list[int]]]
"""From the inputs of a graph to the sizes and the strides of one."""


def tangents_of(graph: Graph) -> list[Node]:
    """The gradients that a backward graph is given.

    Source: `is_tangent` of torch/_functorch/partitioners.py.
    """
    return [node for node in graph.find_nodes(op="placeholder") if "tangents" in str(node.target)]


def mark_gradients_of_nothing(joint: Graph, forward_results: int) -> None:
    """Notes on each node of a joint graph that is a gradient which reads none that the graph is given, of which these
    it is run for: those of the results that its node of autograd's led to.

        tangents_1, tangents_2, x: y = x ** 0; return y.sin(), x.cos(), [x's gradient: full_like(x, 0) + …]
        full_like: run if there is tangents_1
    """
    _tell_what_is_between(joint)
    tangents = tangents_of(joint)
    read, computed, constant = set(tangents), dict[Node, list[Node]](), dict[int, list[Node]]()
    for node in joint.nodes:
        if node.op == "call_function" and node.meta.get("partitioner_tag") == "is_backward" and _group(node) != -1:
            if not read.isdisjoint(node.all_input_nodes):
                read.add(node)
                continue
            if _is_made_for_a_function(node):
                continue
            # What is computed of such ones is run when they are: a copy's node of autograd's is none of the forward's.
            computed[node] = [one for one in node.all_input_nodes if one in computed]
            if not computed[node]:
                constant.setdefault(_group(node), []).append(node)
    for node in read:
        constant.pop(_group(node), None)
    if len(tangents) < 2 or not constant:
        return
    output = joint.output_node()
    results, said = list(cast("Any", output.args[0]))[:forward_results], output.meta.get("desc", ())
    of = {getattr(node.meta.get("desc"), "output", None): node for node in tangents}
    led = dict[Node, frozenset[Node]]()
    for result, what in zip(results, said, strict=False):
        if isinstance(result, Node) and what in of:
            led[result] = led.get(result, frozenset()) | {of[what]}
    if len(of) != len(tangents) or len(frozenset[Node]().union(*led.values())) != len(tangents):
        return  # nobody says of which results they are
    by_group = dict[int, frozenset[Node]]()
    for node in reversed(joint.nodes):
        if (found := led.get(node)) is None:
            continue
        for one in node.all_input_nodes:
            led[one] = led.get(one, frozenset()) | found
        by_group[_group(node)] = by_group.get(_group(node), frozenset()) | found
    for group, nodes in constant.items():
        for node in nodes:
            node.meta[_RUN_FOR] = frozenset(one.name for one in by_group.get(group, ()))
    for node, behind in computed.items():
        if behind:
            node.meta[_RUN_FOR] = frozenset[str]().union(*(one.meta.get(_RUN_FOR, ()) for one in behind))


def _is_made_for_a_function(node: Node) -> bool:
    """Whether a node is the zeros that a function of a user's is given for a result of its that nobody reads: they are
    no gradient of anything. What functions call has no tag.
    """
    made = node.target in (torch.ops.aten.full.default, torch.ops.aten.zeros.default)
    return made and all(one.op == "call_function" and "partitioner_tag" not in one.meta for one in node.users)


def _tell_what_is_between(joint: Graph) -> None:
    """Notes on nodes that are part of no node of autograd's that they are not: sums of gradients, hooks, what functions
    of a user's call. They have numbers after all of the forward part, one for each function that was run before.
    """
    known = [_group(node) for node in joint.nodes if node.meta.get("partitioner_tag") == "is_forward"]
    last = max(known, default=-1)
    for node in joint.nodes:
        if node.meta.get("partitioner_tag") != "is_forward" and _group(node) > last >= 0:
            node.meta["seq_nr"] = -1


def is_run_for_some(node: Node) -> bool:
    """Whether a node is run only for some gradients though it reads none. It is never one with a node that is not: what
    is computed of a number that is always there would be there, too, or be no gradient.
    """
    return bool(node.meta.get(_RUN_FOR))


def run_for_both(node: Node, equal: Node) -> None:
    """Notes on a node that it stands for another: it is run for what either is run for."""
    if is_run_for_some(node):
        node.meta[_RUN_FOR] |= equal.meta[_RUN_FOR]


def run_for(node: Node, tangents: Collection[str]) -> None:
    """Notes on a node, by their names, for which of the gradients that a graph is given it is run."""
    node.meta[_RUN_FOR] = frozenset(tangents)


_RUN_FOR = "cuesta_run_for"


def is_of_parts(backward: GraphModule, zeros: bool = False) -> bool:
    """Whether a backward graph computes anything of some of the gradients that it is given, and not of all: else zeros
    do. Sizes of all gradients must be known from what else it is given, unless it is given `zeros`.
    """
    graph = backward.graph
    tangents = tangents_of(graph)
    if len(tangents) < 2 or not (zeros or all(sizes_of(graph, one) is not None for one in tangents)):
        return False
    read = dict[Node, frozenset[Node]]()
    for node in graph.nodes:
        found = (read[one] for one in node.all_input_nodes)
        read[node] = frozenset([node]) if node in tangents else frozenset(_run_for(node, tangents)).union(*found)
        if node.op == "call_function" and 0 < len(read[node]) < len(tangents) and not is_view(node):
            return True
    return False


def sizes_of(graph: Graph, node: Node, zeros: bool = False) -> Sizes | None:
    """A function from a graph's inputs to the sizes and the strides of a tensor. No gradients that the graph is given
    are asked, unless there are all, some of them as `zeros`. None if the sizes cannot be known so.
    """
    value: Any = node.meta.get("val")
    if type(value) is not torch.Tensor and not _is_plain_fake(value):
        return None
    numbers = [*value.shape, *value.stride()]
    rank = len(value.shape)
    if all(type(number) is int for number in numbers):
        known = ([*numbers[:rank]], [*numbers[rank:]])
        return lambda _: known
    return _computed(numbers, graph, rank, zeros)


def _is_plain_fake(value: object) -> bool:
    from torch._subclasses import FakeTensor

    return type(value) is FakeTensor


def _symbols(graph: Graph, zeros: bool) -> Iterator[tuple[Any, int, int]]:
    """The symbols that inputs of a graph have for a size, or are: with the place of the input and that of the size; -1
    if it is one.
    """
    tangents = set[Node]() if zeros else set(tangents_of(graph))
    for place, node in enumerate(graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            yield _expression(value), place, -1
        elif isinstance(value, torch.Tensor) and node not in tangents:
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    yield _expression(size), place, axis


def _expression(number: Any) -> Any:
    return number.node.expr


def _computed(numbers: Sequence[Any], graph: Graph, rank: int, zeros: bool) -> Sizes | None:
    found = list(_symbols(graph, zeros))
    wanted: list[Any] = [number if type(number) is int else _expression(number) for number in numbers]
    symbols: set[Any] = {symbol for one in wanted if type(one) is not int for symbol in one.free_symbols}
    if not symbols <= {symbol for symbol, _, _ in found}:
        return None

    def sizes(inputs: Sequence[Any]) -> tuple[list[int], list[int]]:
        values = {
            symbol: inputs[place] if axis < 0 else inputs[place].shape[axis]
            for symbol, place, axis in found
            if symbol in symbols
        }
        known = [one if type(one) is int else int(one.xreplace(values)) for one in wanted]
        return known[:rank], known[rank:]

    return sizes


@struct
class Graphed:
    """A graph, and the module that has what its nodes name."""

    module: GraphModule
    graph: Graph


def without(backward: Graphed, missing: Collection[int]) -> tuple[GraphModule, list[int]] | None:
    """The graph that is left where tangents, by their places among all inputs, are undefined, and the places of the
    inputs that it takes; undefined results are None. It may take some of the tangents that there are not: zeros. None
    if it computes all that the whole graph computes, but for views.
    """
    not_run = _undefined(backward.graph, missing)
    if all(node.op == "placeholder" or is_view(node) for node in not_run):
        return None
    graph, made = Graph(), dict[Node, Node]()
    results: Any = graph.graph_copy(backward.graph, made)
    inputs = graph.find_nodes(op="placeholder")
    undefined = {made[one] for one in not_run}
    graph.output([None if one in undefined else one for one in results])
    graph.output_node().meta = dict(backward.graph.output_node().meta)
    for node in [one for one in graph.nodes if one.op == "call_function" and one not in undefined]:
        gone = [one for one in node.all_input_nodes if one in undefined]
        if len(gone) == 1 and _is_sum(node):
            node.replace_all_uses_with(next(one for one in node.all_input_nodes if one not in undefined))
            continue
        for one in gone:
            with graph.inserting_before(node):
                node.replace_input_with(one, _zeros_like(graph, one))
    for node in reversed(graph.nodes):
        if node in undefined and node.op == "call_function" and not node.users:
            graph.erase_node(node)
    graph.eliminate_dead_code()
    kept = [place for place, node in enumerate(inputs) if node.users]
    for node in inputs:
        if not node.users:
            graph.erase_node(node)
    return GraphModule(backward.module, graph), kept


def undefined_with(backward: Graphed, missing: Collection[int]) -> list[int]:
    """The places of the results that are undefined where tangents, by their places among all inputs, are."""
    undefined = _undefined(backward.graph, missing)
    results: Any = backward.graph.output_node().args[0]
    return [place for place, one in enumerate(results) if one in undefined]


def _undefined(graph: Graph, missing: Collection[int]) -> set[Node]:
    """The nodes that eager does not run, and the gradients that there are not."""
    inputs = graph.find_nodes(op="placeholder")
    tangents = tangents_of(graph)
    depends = set(tangents)
    there = list(depends - {inputs[place] for place in missing})
    given = set(there)
    groups: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if (run_for := _run_for(node, tangents)) and depends.isdisjoint(node.all_input_nodes):
            depends.add(node)
            there += [] if given.isdisjoint(run_for) else [node]
        elif node.op == "call_function" and not depends.isdisjoint(node.all_input_nodes):
            depends.add(node)
            groups.setdefault(_group(node), []).append(node)
    between = max(groups, default=0)  # nodes of autograd's: sums of gradients, hooks
    defined = set[Node]()
    while there:
        node = there.pop()
        if node in defined:
            continue
        defined.add(node)
        for user in node.users:
            if user in depends:
                group = _group(user)
                there += [user] if group in (between, -1) else groups[group]
    return depends - defined


def _run_for(node: Node, tangents: Sequence[Node]) -> list[Node]:
    """The gradients that a gradient which reads none is run for; none of any other node."""
    names: frozenset[str] = node.meta.get(_RUN_FOR, frozenset())
    return [one for one in tangents if one.name in names] if names else []


def _group(node: Node) -> int:
    """The number of the node of autograd's that a node is part of; -1 if nobody knows."""
    number = node.meta.get("seq_nr")
    return number if isinstance(number, int) else -1


def _is_sum(node: Node) -> bool:
    """Whether it adds two tensors that lie alike, as autograd does with gradients."""
    if node.target is not torch.ops.aten.add.Tensor or len(node.all_input_nodes) != 2 or node.kwargs:
        return False
    values = [one.meta.get("val") for one in (*node.all_input_nodes, node)]
    # Sizes that are symbols have no hash.
    lies = {(str([*one.shape, *one.stride()]), one.dtype) for one in values if isinstance(one, torch.Tensor)}
    return len(lies) == 1


def _zeros_like(graph: Graph, node: Node) -> Node:
    """Zeros that lie as a value, which is computed for that only if its sizes are symbols, or it lies oddly."""
    value: torch.Tensor = node.meta["val"]
    if all(type(size) is int for size in value.shape) and value.is_contiguous():
        kind: dict[str, Any] = {"dtype": value.dtype, "device": value.device}
        zeros = graph.call_function(torch.ops.aten.full.default, ([*value.shape], 0), kind)
    else:
        zeros = graph.call_function(torch.ops.aten.full_like.default, (node, 0))
    zeros.meta = {"val": value}
    return zeros


__all__ = [
    "Graphed",
    "is_of_parts",
    "is_run_for_some",
    "mark_gradients_of_nothing",
    "run_for",
    "run_for_both",
    "sizes_of",
    "tangents_of",
    "undefined_with",
    "without",
]
