"""Operators that are written out, where a graph is imported, as the calls that they stand for: higher-order ones, and
`bincount`, whose size only the data knows (`histograms.py`).

PyTorch says for each of the first what it means in terms of ordinary operators, which is what eager runs. That is
traced with the metadata of the arguments and put in the place of the call, bodies and all, and compiled like
everything else:

    flex_attention(q, k, v, score_mod, …)  ->  softmax(where(mask_mod(i), score_mod(q @ kᵀ * scale, i), -inf)) @ v

It is done after the partitioner has divided forward from backward: what is saved is what the operator saves (an
attention's result and the logarithm of its sums), never its scores.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final, cast

import torch
from torch._C import DispatchKey
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from cuesta.lowering.capture.histograms import counts
from cuesta.lowering.capture.plan import attribute_of

_aten = torch.ops.aten


def written_out(gm: GraphModule) -> GraphModule:
    """The graph without calls of these operators; the graph itself where there are none. A call that cannot be
    written out stays, and eager runs it.
    """
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and _is_written_out(node)]
    meanings = {node: meaning for node in calls if (meaning := _meaning_of(node, gm)) is not None}
    return GraphModule(gm, _Writer(gm, meanings).graph) if meanings else gm


def _is_written_out(node: Node) -> bool:
    target: Any = node.target
    if target is _aten.bincount.default:
        return "val" in node.meta
    if not isinstance(target, HigherOrderOperator) or node.kwargs or "val" not in node.meta:
        return False
    name = target.name()
    if name == "associative_scan":  # its meaning is another for each length
        values = [one.meta["val"] for one in cast("Sequence[Node]", node.args[1])]
        return all(type(value.shape[0]) is int for value in values)
    return name in ("flex_attention", "flex_attention_backward")


# -- what a call means -------------------------------------------------------------------------------------------------


class _Meaning:
    """The graph of a call. `given` says for each placeholder which node that is, or the name of what the whole graph
    holds, and `structure` how the results lie in tuples.
    """

    def __init__(self, graph: Graph, given: Sequence[Node | str], structure: pytree.TreeSpec) -> None:
        self.graph = graph
        self.given = given
        self.structure = structure


class _Body(Interpreter):
    """A graph that is called, with what it holds given by name: tensors are traced, too."""

    def __init__(self, gm: GraphModule, name: str, held: dict[Any, Any]) -> None:
        super().__init__(gm)
        self.name = name
        self.held = held

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = f"{self.name}.{target}"
        return self.held[name] if name in self.held else super().get_attr(target, args, kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().output(target, args, kwargs)
        return list(cast("Sequence[Any]", result)) if isinstance(result, list) else result  # FX has a list of its own


def _meaning_of(node: Node, gm: GraphModule) -> _Meaning | None:
    """What PyTorch runs for a call in eager, traced. None where that would want another guard, and it is too late for
    one, or where it writes to what was there before.
    """
    from cuesta.lowering.capture.decompositions import decomposition_table
    from cuesta.lowering.capture.whole_operators import whole_operators

    if node.target is _aten.bincount.default:
        counted = counts(node)
        return None if counted is None else _Meaning(*counted, pytree.tree_structure(node.meta["val"]))
    leaves, structure = pytree.tree_flatten(list(node.args))
    nodes = [leaf for leaf in leaves if isinstance(leaf, Node)]
    bodies = {one: body for one in nodes if isinstance(body := _held_by(gm, one), GraphModule)}
    given: dict[Node | str, Any] = {one: one.meta.get("val", _held_by(gm, one)) for one in nodes if one not in bodies}
    for one, body in bodies.items():
        for inner in body.graph.find_nodes(op="get_attr"):
            if isinstance(tensor := _held_by(body, inner), torch.Tensor):
                given[f"{one.target}.{inner.target}"] = tensor
    mode = detect_fake_mode([*given.values(), node.meta["val"]])
    if mode is None:
        return None
    learned = _learned(node, bodies)
    structures: list[pytree.TreeSpec] = []

    def run(*values: Any) -> list[Any]:
        known = dict(zip(given, values, strict=True))
        args = [
            _Body(bodies[one], str(one.target), known).run if one in bodies else known.get(one, one) for one in leaves
        ]
        implementation = cast("Any", node.target).py_kernels[DispatchKey.CompositeExplicitAutograd]
        results, result_structure = pytree.tree_flatten(implementation(*pytree.tree_unflatten(args, structure)))
        structures.append(result_structure)
        return results

    table = dict(decomposition_table())
    if hasattr(torch.ops.flex_lib, "zeros_and_scatter"):  # there is none before something of it is imported
        table[torch.ops.flex_lib.zeros_and_scatter.default] = _zeros_and_scatter
    env: Any = mode.shape_env
    ignored = env.counter["ignored_backward_guard"] if env is not None else 0
    with mode, whole_operators(), torch.no_grad():
        fakes = [mode.from_tensor(one, static_shapes=True) if _is_real(one) else one for one in given.values()]
        fakes = [
            fake.detach().requires_grad_() if one in learned else fake for one, fake in zip(given, fakes, strict=True)
        ]
        traced = make_fx(run, decomposition_table=table)(*fakes)
    if env is not None and env.counter["ignored_backward_guard"] != ignored:
        return None
    if not all(map(_is_first_write, traced.graph.find_nodes(op="call_function", target=_COPY))):
        return None
    if not all(map(_is_number, traced.graph.find_nodes(op="get_attr"))):
        return None
    return _Meaning(traced.graph, list(given), structures[0])


def _held_by(gm: GraphModule, node: Node) -> Any:
    """What a graph holds under the name that a node reads."""
    return attribute_of(gm, str(node.target)) if node.op == "get_attr" else None


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)


def _learned(node: Node, bodies: dict[Node, GraphModule]) -> set[Node]:
    """The tensors that an attention's `score_mod` reads for which a backward pass wants gradients: those that the
    graph of its gradients gives.
    """
    if cast("Any", node.target).name() != "flex_attention_backward":
        return set()
    joint = bodies.get(cast("Node", node.args[8]))
    if joint is None:
        return set()
    gradients = cast("Sequence[Any]", joint.graph.output_node().args[0])[5:]  # those of a score and of four indices
    read = cast("Sequence[Any]", node.args[12])
    return {one for one, gradient in zip(read, gradients, strict=True) if gradient is not None}


def _zeros_and_scatter(shape: Sequence[int], indices: Sequence[torch.Tensor], vals: torch.Tensor) -> torch.Tensor:
    """What is added up where a `score_mod` has read: an operator of PyTorch's for the gradient of an index."""
    return _aten.index_put(vals.new_zeros(shape), indices, vals, accumulate=True)


_COPY: Final = _aten.copy_.default
_FRESH: Final = (_aten.new_empty_strided.default, _aten.empty_like.default, _aten.empty.memory_format, _COPY)


def _is_first_write(node: Node) -> bool:
    """Whether memory that is made here is filled, which nobody has read."""
    memory = cast("Node", node.args[0])
    return memory.target in _FRESH and next(iter(memory.users)) is node


# -- in the place of the call ------------------------------------------------------------------------------------------


class _Writer:
    """Writes a graph again, with what some of its calls mean in their places."""

    def __init__(self, gm: GraphModule, meanings: dict[Node, _Meaning]) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Any] = {}
        for node in gm.graph.nodes:
            if node in meanings:
                self.copies[node] = self.write(node, meanings[node])
            elif node.target is operator.getitem and isinstance(source := self.copies[node.args[0]], tuple | list):
                self.copies[node] = source[node.args[1]]
            else:
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
        for node in list(self.graph.find_nodes(op="get_attr")):
            if not node.users:  # a body that was called
                self.graph.erase_node(node)

    def write(self, call: Node, meaning: _Meaning) -> Any:
        """The results of a call, in the tuples that it gives them in."""
        inner: dict[Node, Any] = {}
        given = iter(meaning.given)
        *nodes, output = meaning.graph.nodes
        for node in nodes:
            if node.op == "placeholder":
                source = next(given)
                inner[node] = self.copies[source] if isinstance(source, Node) else self.graph.get_attr(source)
                continue
            if node.op == "get_attr":
                copy = inner[node] = self.graph.call_function(_aten.full.default, *_number(node))
                copy.meta["val"] = node.meta["val"]
            else:
                copy = inner[node] = self.graph.node_copy(node, inner.__getitem__)
            if node.target is _COPY:  # copy_(x, y) -> copy(x, y), which x is from here on
                copy.target = _aten.copy.default
                inner[node.args[0]] = copy
            if "stack_trace" in call.meta:
                copy.meta["stack_trace"] = call.meta["stack_trace"]
        results = map_arg(output.args[0], inner.__getitem__)
        return pytree.tree_unflatten(cast("Sequence[Any]", results), meaning.structure)


def _is_number(node: Node) -> bool:
    """Whether a graph holds a tensor that is one number, written in Python."""
    value: Any = getattr(node.graph.owning_module, str(node.target), None)
    return isinstance(value, torch.Tensor) and value.ndim == 0


def _number(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `aten.full` is called with to give it."""
    value: Any = getattr(node.graph.owning_module, str(node.target))
    with unset_fake_temporarily():
        number = value.item()
    return ([], number), {"dtype": value.dtype, "device": value.device}


__all__ = ["written_out"]
