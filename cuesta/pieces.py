"""A graph of which eager has to run a part: the rest of it is compiled, in as few pieces as its data flow allows.

Piece 0 is what needs nothing of eager's, piece k + 1 what needs something that eager computes from the results of
pieces up to k. Each is a graph of its own to the compiler (and the cache): a size that only the data knows is an input
to it. The calls that eager runs stand between the pieces, in one wrapper, which is Python text like any other. Writes
to inputs come last.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from cuesta.opaque import Kind, free_symbols, keeps_its_place

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


@dataclass(slots=True)
class Plan:
    """What is done when: piece 0, calls that eager runs, piece 1, …; `calls[0]` come before the first piece."""

    pieces: list[list[Node]] = field(default_factory=list[list[Node]])
    calls: list[list[Node]] = field(default_factory=lambda: [[]])
    writes: list[Node] = field(default_factory=list[Node])

    def place(self, node: Node, kind: Kind, level: int) -> None:
        """Puts a call into piece `level`, or among the calls after it."""
        while len(self.pieces) <= level:
            self.pieces.append([])
            self.calls.append([])
        if kind == "computed":
            self.pieces[level].append(node)
        else:
            self.calls[level + 1].append(node)


def complete_metadata(gm: GraphModule) -> None:
    """Says what a higher-order operator gives, where the partitioner that put it into a backward graph did not."""
    for node in gm.graph.nodes:
        if "val" in node.meta or not isinstance(node.target, HigherOrderOperator):
            continue
        if all(user.target is operator.getitem and "val" in user.meta for user in node.users):
            continue
        values = [source.meta.get("val") for source in node.all_input_nodes]
        mode = detect_fake_mode(values)
        if mode is not None:
            args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta.get("val"))
            with mode:
                node.meta["val"] = node.target(*args, **kwargs)


def plan_of(gm: GraphModule, kinds: Mapping[Node, Kind]) -> Plan:
    """Divides a graph: every call as early as what it needs allows."""
    plan = Plan()
    after: dict[Node, int] = {}
    """The piece after which a value is there; −1: from the start."""
    symbols: dict[Any, int] = {}
    in_order = -1, 0  # the least level of the next call that keeps its place: after a piece, in a piece
    for node in gm.graph.nodes:
        kind = kinds.get(node)
        if kind is None or kind == "size":
            after[node] = max([-1, *(symbols.get(symbol, -1) for symbol in free_symbols(node.meta.get("val")))])
            continue
        if kind == "write":
            plan.writes.append(node)
            continue
        needed = {symbol for one in (node, *node.all_input_nodes) for symbol in free_symbols(one.meta.get("val"))}
        bound = bindings_of(node)
        known = [symbols.get(symbol, -1) for symbol in needed if symbol not in bound]
        if kind == "computed":
            level = max([0, *(after[source] + (kinds.get(source) != "computed") for source in node.all_input_nodes)])
            level = max([level, *(one + 1 for one in known)])
            if keeps_its_place(node):
                level = max(level, in_order[1])
                in_order = level, level
        else:
            level = max([-1, *(after[source] for source in node.all_input_nodes), *known])
            if kind == "opaque" and keeps_its_place(node):
                level = max(level, in_order[0])
                in_order = level, level + 1
        after[node] = level
        symbols.update(dict.fromkeys(bound, level))
        plan.place(node, kind, level)
    return plan


def bindings_of(node: Node) -> dict[Any, Any]:
    """The symbols that stand for sizes of a call's result, and the way from the result to each."""
    bindings = node.meta.get("unbacked_bindings")
    if not bindings:
        return {}
    from torch.fx.experimental.symbolic_shapes import resolve_unbacked_bindings

    return resolve_unbacked_bindings(_shape_env_of(node), bindings) or {}


def _shape_env_of(node: Node) -> ShapeEnv | None:
    found = [number.node.shape_env for number in _symbolic_numbers(node.meta.get("val"))]
    return found[0] if found else None


def _symbolic_numbers(value: Any) -> list[Any]:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return [value]
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return [number for number in (*value.shape, *strides) if isinstance(number, torch.SymInt)]
    if isinstance(value, tuple | list):
        return [number for one in value for number in _symbolic_numbers(one)]
    return []


# -- a piece as a graph of its own -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Piece:
    """Calls that are compiled together. Its inputs are values of the whole graph, then symbols."""

    graph: GraphModule
    inputs: list[Node]
    symbols: list[Any]
    outputs: list[Node]


def piece_of(nodes: Sequence[Node], gm: GraphModule) -> Piece:
    """The graph of some calls."""
    inside = set(nodes)
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Node] = []
    met: dict[Any, Any] = {}  # SymPy symbol -> its shape environment
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in inside and source not in copies:
                copies[source] = _placeholder(graph, source.name, _value_of(source, gm))
                inputs.append(source)
        for one in (node, *node.all_input_nodes):
            for number in _symbolic_numbers(one.meta.get("val")):
                met.update(dict.fromkeys(free_symbols(number), number.node.shape_env))
    given = {as_symbol(source.meta.get("val")) for source in inputs}
    symbols = sorted((symbol for symbol in met if symbol not in given and symbol.is_integer), key=str)
    for symbol in symbols:
        hint = met[symbol].backed_var_to_val.get(symbol)
        number = met[symbol].create_symintnode(symbol, hint=None if hint is None else int(hint))
        _placeholder(graph, f"value_of_{symbol}", number)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    graph.output(tuple(copies[node] for node in outputs))
    return Piece(GraphModule({}, graph), inputs, symbols, outputs)


def _placeholder(graph: Graph, name: str, value: Any) -> Node:
    node = graph.placeholder(name)
    node.meta["val"] = value
    return node


def _value_of(node: Node, gm: GraphModule) -> Any:
    if "val" in node.meta or node.op != "get_attr":
        return node.meta.get("val")
    return attribute_of(gm, str(node.target))


def attribute_of(gm: GraphModule, name: str) -> Any:
    """What a graph holds under a name, dots and all."""
    value: Any = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value


def as_symbol(value: Any) -> Any:
    """The symbol that an input is; None when it is anything else."""
    found = getattr(value.node, "expr", None) if isinstance(value, torch.SymInt) else None
    return found if getattr(found, "is_Symbol", False) else None
