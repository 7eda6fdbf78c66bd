"""A backward graph that is given gradients which lie otherwise than it was traced for.

    %a = mul(%tangents_1, %x)        %b = clone(%tangents_1, memory_format = channels_last)
                                →    %a = mul(%b, %x)

    one that is expanded        →    %b = clone(expand(%tangents_1, [4, 8]))

All that reads such a gradient still reads one that lies as before: no call of the graph, and no result, is another. The
clone is a nest like any other, so whoever reads it reads the gradient itself wherever that costs less. Of one that is
expanded (`y.sum().backward()`) the graph is given the elements that there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import torch
from torch.fx import Graph, GraphModule, Node, map_arg
from torch.fx._lazy_graph_module import _LazyGraphModule  # pyright: ignore[reportPrivateUsage]

from cuesta.lowering.capture.inserting import fake_mode_of
from cuesta.lowering.capture.undefined_gradients import tangents_of

aten = torch.ops.aten
Lie = tuple[int, ...]
"""How a tensor lies: its strides. Of one whose sizes or strides are symbols, its axes that are not expanded, the
outermost first: without gaps.
"""
_FORMATS: Final = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
_RANKS: Final = {torch.channels_last: 4, torch.channels_last_3d: 5}


def is_of_symbols(value: torch.Tensor) -> bool:
    """Whether sizes or strides of a tensor of a graph are symbols."""
    return not all(type(number) is int for number in (*value.shape, *value.stride()))


def is_dense(value: torch.Tensor) -> bool:
    """Whether a tensor of a graph has no gaps, and no element of it lies where another does. Of sizes that are symbols
    only memory formats are known.
    """
    return format_of(value) is not None or (not is_of_symbols(value) and _order_of(value) is not None)


def format_of(value: torch.Tensor) -> torch.memory_format | None:
    """The memory format in which a tensor of a graph lies."""
    formats = (one for one in _FORMATS if one == torch.contiguous_format or value.dim() == _RANKS[one])
    with _no_guards(value):
        return next((one for one in formats if value.is_contiguous(memory_format=one)), None)


def _order_of(value: torch.Tensor) -> Lie | None:
    """The axes of a dense tensor of known sizes, the outermost first; else None."""
    order = tuple(sorted(range(value.dim()), key=lambda axis: (value.shape[axis] != 1, -value.stride()[axis])))
    pairs = zip(value.stride(), strides_in(order, value.shape), value.shape, strict=True)
    return order if all(stride == expected or size == 1 for stride, expected, size in pairs) else None


def strides_in(order: Sequence[int], sizes: Sequence[Any]) -> tuple[Any, ...]:
    """The strides of a tensor whose axes lie in an order, the outermost first, without gaps; 0 for every other axis."""
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * sizes[axis]
    return tuple(strides)


def axes_told(graph: Graph, node: Node) -> Mapping[int, int | tuple[Node, int]]:
    """The axes of an input whose sizes are known without it: numbers, or where else a size is found, which input it is
    (axis -1), or an axis of which.
    """
    value: torch.Tensor = node.meta["val"]
    found: dict[int, int | tuple[Node, int]] = {}
    for axis, size in enumerate(value.shape):
        if type(size) is int:
            found[axis] = size
        elif (other := _found_beside(graph, size)) is not None:
            found[axis] = other
    return found


def _found_beside(graph: Graph, size: Any) -> tuple[Node, int] | None:
    tangents = tangents_of(graph)
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and _same(value, size):
            return node, -1
        if isinstance(value, torch.Tensor) and node not in tangents:
            for axis, one in enumerate(value.shape):
                if isinstance(one, torch.SymInt) and _same(one, size):
                    return node, axis
    return None


def _same(one: Any, other: Any) -> bool:
    """Whether two sizes that are symbols are one expression."""
    return one.node.expr == other.node.expr


class Kept:
    """A graph as it is now, whatever becomes of it. It costs little until it is asked for."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.nodes = [
            (node, node.op, node.target, node.args, node.kwargs, node.name, node.type, dict(node.meta))
            for node in module.graph.nodes
        ]

    def made(self) -> GraphModule:
        """The graph, with nodes of its own. (A module would write its code, which nobody calls.)"""
        graph, made = Graph(), dict[Node, Node]()
        for node, op, target, args, kwargs, name, kind, meta in self.nodes:
            ours = map_arg((args, kwargs), made.__getitem__)
            made[node] = graph.create_node(op, target, *ours, name=name, type_expr=kind)
            made[node].meta = dict(meta)
        return _LazyGraphModule(self.module, graph)


def lying_so(graph: Graph, inputs: Sequence[Any], lies: Mapping[int, Lie]) -> list[Any]:
    """Lets a backward graph take some of its inputs, by their places, as they lie, and gives the example inputs. Axes
    that are expanded, of those whose sizes are told (`axes_told`), have one element.

    Requires: these inputs are dense (`is_dense`) as the graph was traced.
    """
    taken = list(inputs)
    placeholders = graph.find_nodes(op="placeholder")
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for place, lie in lies.items():
        node, value = placeholders[place], inputs[place]
        told = axes_told(graph, node)
        strides = strides_in(lie, value.shape) if is_of_symbols(value) else lie
        narrow = {axis: one for axis, one in told.items() if type(strides[axis]) is int and strides[axis] == 0}
        sizes = [1 if axis in narrow else size for axis, size in enumerate(value.shape)]
        with fake_mode_of(value), _no_guards(value):
            given = taken[place] = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
            seen = given.expand(value.shape)
        with graph.inserting_before(first):
            whole = _expanded(graph, node, seen, narrow) if narrow else node
            laid, reader = _laid(graph, whole, value)
        reader = whole if narrow else reader
        for user in [one for one in node.users if one is not reader]:
            user.replace_input_with(node, laid)
        node.meta = {**node.meta, "val": given}
    return taken


def _expanded(graph: Graph, node: Node, seen: torch.Tensor, axes: Mapping[int, int | tuple[Node, int]]) -> Node:
    """An input of which some axes have one element, with all that it means: `seen`."""
    sizes: list[Any] = [-1] * seen.dim()
    for axis, told in axes.items():
        if isinstance(told, int):
            sizes[axis] = told
        else:
            other, of = told
            sizes[axis] = other if of < 0 else _node(graph, seen.shape[axis], aten.sym_size.int, other, of)
    return _node(graph, seen, aten.expand.default, node, sizes)


def _no_guards(value: Any) -> Any:
    environment = getattr(getattr(value, "fake_mode", None), "shape_env", None)
    return nullcontext() if environment is None else environment.suppress_guards()


def _laid(graph: Graph, node: Node, value: torch.Tensor) -> tuple[Node, Node]:
    """A copy of an input that lies as `value`, and the node that reads the input."""
    memory_format = format_of(value)
    if memory_format is not None:
        copy = _node(graph, value, aten.clone.default, node, memory_format=memory_format)
        return copy, copy
    order = _order_of(value)
    assert order is not None
    with fake_mode_of(value):
        turned = value.permute(order)
    lines = _node(graph, turned, aten.permute.default, node, [*order])
    copy = _node(graph, turned, aten.clone.default, lines, memory_format=torch.contiguous_format)
    back = [order.index(axis) for axis in range(len(order))]
    return _node(graph, value, aten.permute.default, copy, back), lines


def _node(graph: Graph, value: Any, target: Any, *args: Any, **kwargs: Any) -> Node:
    node = graph.call_function(target, args, kwargs)
    node.meta = {"val": value}
    return node


__all__ = ["Kept", "Lie", "axes_told", "format_of", "is_dense", "is_of_symbols", "lying_so", "strides_in"]
