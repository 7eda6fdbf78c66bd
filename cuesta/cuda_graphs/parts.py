"""A graph of which some calls cannot be captured as a CUDA graph, as parts: what can be is captured around them.

Parts run one after another. Calls that can be captured and calls that cannot take turns, each in the first part of its
sort that all its operands have been computed in, so that there are as few parts as the data flow allows. Numbers that
lie on the CPU (tensors of rank 0: the step that an optimiser counts) are moved to the device first: one copy, where
each kernel that reads one would have to run outside of a capture.

A graph stays whole, and is not captured, if its parts could not be compiled apart: where a call has effects that its
operands do not show (operators of higher order, updates before the end), and where sizes are known only at the call,
unless those that the data decides stay within one part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from cuesta.dialects.core.structs import struct
from cuesta.finishing import BoxedFunction, make_boxed

Obstacle = Callable[[Node], str]
"""Why a call cannot be captured; empty when it can."""

LEAST_CALLS: Final = 3
"""Calls that compute, in a part that is captured: with fewer, a replay saves less than another kernel boundary costs.
Source: a choice, not measured.
"""
MOST_PARTS: Final = 16
"""Of a graph that is divided: each is a program of its own, and nothing fuses across.
Source: a choice.
"""

_WRITE: Final = torch.ops.aten.copy_.default


@struct
class Part:
    """Some calls of a graph as a graph: given the values of `inputs`, it returns those of `outputs`."""

    gm: GraphModule
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    captured: bool


def move_numbers(gm: GraphModule, device: torch.device) -> None:
    """Gives the calls whose results are on a device copies of the numbers that they read on the CPU, in place."""
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.dim():
            continue
        users = [user for user in node.users if user.op == "call_function" and _computes_on(user, device)]
        if users:
            after = next(one for one in gm.graph.nodes if one.op != "placeholder") if node.op == "placeholder" else None
            with gm.graph.inserting_before(after) if after is not None else gm.graph.inserting_after(node):
                moved = gm.graph.call_function(torch.ops.aten._to_copy.default, (node,), {"device": device})
            moved.meta["val"] = torch.ops.aten._to_copy.default(value, device=device)
            for user in users:
                user.replace_input_with(node, moved)


def _computes_on(node: Node, device: torch.device) -> bool:
    moves = node.target in (torch.ops.aten._to_copy.default, _WRITE)
    return not moves and any(value.device == device for value in tensors_of(node))


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The tensors among a node's results."""
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else (value,)
    return [one for one in values if isinstance(one, torch.Tensor)]


def divided(gm: GraphModule, obstacle: Obstacle) -> list[Part] | None:
    """The parts of a functional graph; None if it is to stay whole, or nothing of it would be captured."""
    calls = [node for node in gm.graph.nodes if node.op == "call_function"]
    if not all(map(_is_plain, calls)) or not all(map(_is_static, gm.graph.find_nodes(op="placeholder"))):
        return None
    numbers = _numbers(calls, obstacle)
    if numbers is None:
        return None
    parts = [_part(gm, nodes, captured) for captured, nodes in _grouped(calls, numbers)]
    if len(parts) > MOST_PARTS or not any(part.captured for part in parts):
        return None
    return parts if all(map(_is_static, (one for part in parts for one in part.inputs))) else None


def _is_plain(node: Node) -> bool:
    """Whether a call is one of an operator without effects, or a write that ends the graph."""
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem or not tensors_of(node)
    if node.target is _WRITE:
        target = node.args[0]
        return isinstance(target, Node) and target.op == "placeholder" and not node.users
    return not node.target._schema.is_mutable


def _is_static(node: Node) -> bool:
    """Whether a value is tensors of known sizes, or a number that is known."""
    value = node.meta.get("val")
    if not (tensors := tensors_of(node)):
        return not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
    return all(type(size) is int for one in tensors for size in (*one.size(), *one.stride()))


def _numbers(calls: Sequence[Node], obstacle: Obstacle) -> dict[Node, int] | None:
    """The number of each call's part: even ones are captured, odd ones (−1 is the first) are not.

    None if a value is written to before something reads it.
    """
    numbers: dict[Node, int] = {}
    drawn = -1
    for node in calls:
        operands = node.all_input_nodes
        least = max((numbers.get(one, -1) for one in operands), default=-1)
        if node.target is operator.getitem:
            numbers[node] = least
            continue
        if node.target is _WRITE:
            readers = _readers(operands[0]) - {node}
            if any(one not in numbers and one.op == "call_function" for one in readers):
                return None
            least = max(least, *(numbers.get(one, -1) for one in readers), -1)
        draws = isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
        if draws:
            least = max(least, drawn)
        left = bool(obstacle(node)) or not all(map(_is_static, (node, *operands)))
        numbers[node] = least if (least % 2 == 1) == left else least + 1
        if draws:
            drawn = numbers[node]
    return numbers


def _readers(node: Node) -> set[Node]:
    """The calls that read a value's memory: its users, and those of its views."""
    found: set[Node] = set()
    todo = [node]
    while todo:
        for user in todo.pop().users:
            if user not in found and user.op == "call_function":
                found.add(user)
                if user.target is operator.getitem or _aliases(user):
                    todo.append(user)
    return found


def _aliases(node: Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and any(one.alias_info is not None for one in target._schema.returns)


def _grouped(calls: Sequence[Node], numbers: dict[Node, int]) -> Iterable[tuple[bool, list[Node]]]:
    """The calls of each part, in order: whether it is captured, and which. What is too short joins its neighbours."""
    by_number: dict[int, list[Node]] = {}
    for node in calls:
        by_number.setdefault(numbers[node], []).append(node)
    places = {node: place for place, node in enumerate(calls)}
    groups: list[tuple[bool, list[Node]]] = []
    for number, nodes in sorted(by_number.items()):
        captured = number % 2 == 0 and sum(map(_launches, nodes)) >= LEAST_CALLS
        if groups and groups[-1][0] is captured:
            groups[-1] = captured, sorted([*groups[-1][1], *nodes], key=places.__getitem__)
        else:
            groups.append((captured, nodes))
    return groups


def _launches(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and not _aliases(node)


def _part(gm: GraphModule, nodes: Sequence[Node], captured: bool) -> Part:
    inside, graph = set(nodes), Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Node] = []
    operands = dict.fromkeys(one for node in nodes for one in node.all_input_nodes if one not in inside)
    for one in operands:
        if one.op != "get_attr":
            inputs.append(one)
            copies[one] = graph.placeholder(one.name)
            copies[one].meta = dict(one.meta)
    for one in (*(one for one in operands if one.op == "get_attr"), *nodes):
        copies[one] = graph.node_copy(one, copies.__getitem__)
    outputs = [node for node in nodes if not inside.issuperset(node.users)]
    graph.output(tuple(copies[one] for one in outputs))
    return Part(GraphModule(gm, graph), tuple(inputs), tuple(outputs), captured)


def joined(gm: GraphModule, parts: Sequence[Part], functions: Sequence[BoxedFunction]) -> BoxedFunction:
    """The boxed function of a graph, from those of its parts. A value is dropped after the last part that reads it."""
    results: Any = gm.graph.output_node().args[0]
    held = {node: _attribute(gm, node) for node in gm.graph.find_nodes(op="get_attr")}
    places = {node: place for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    for part in parts:
        for node in part.outputs:
            places[node] = len(places)
    kept: set[Node] = {one for one in results if isinstance(one, Node)}
    steps: list[tuple[BoxedFunction, list[int], list[int], list[int]]] = []
    for part, function in reversed(list(zip(parts, functions, strict=True))):
        dropped = [one for one in part.inputs if one not in kept]
        kept.update(dropped)
        steps.insert(0, (function, _at(places, part.inputs), _at(places, dropped), _at(places, part.outputs)))
    given = len(gm.graph.find_nodes(op="placeholder"))
    room = len(places) - given
    plan = [(places.get(one, -1), held.get(one)) if isinstance(one, Node) else (-1, one) for one in results]

    def call(args: list[Any]) -> list[Any]:
        values: list[Any] = [*args, *[None] * room]
        args.clear()
        for function, reads, drops, writes in steps:
            taken = [values[place] for place in reads]
            for place in drops:
                values[place] = None
            for place, value in zip(writes, function(taken), strict=True):
                values[place] = value
            del taken
        return [values[place] if place >= 0 else constant for place, constant in plan]

    return make_boxed(call)


def _at(places: dict[Node, int], nodes: Collection[Node]) -> list[int]:
    return [places[one] for one in nodes]


def _attribute(gm: GraphModule, node: Node) -> Any:
    return operator.attrgetter(str(node.target))(gm)
