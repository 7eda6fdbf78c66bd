"""Nodes of a captured graph that compute the same become one, so that nothing is saved or computed twice.

PyTorch's partitioner does that, too (`torch._functorch.config.cse`), but with a helper of TorchInductor: importing it
takes 0.4 s, a ninth of a cold start.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from cuesta.lowering.capture.undefined_gradients import is_run_for_some, run_for_both


def merge_equal_nodes(graph: Graph) -> None:
    """f(x) … f(x) -> f(x), in place; the first stays.

    Near misses: random operators and memory that nobody has written (two calls, two results), calls between which
    something is written, results that share memory with an output or with what an input is set to (callers get a tensor
    each), calls that bind symbols, a gradient that is run for some results and what is always run.
    """
    outputs = _memory_of_outputs(graph)
    known: dict[Hashable, Node] = {}
    writes = 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _writes(node.target):
            writes += 1
            continue
        if not _is_function_of_arguments(node) or _memory_of(node) in outputs:
            continue
        try:
            called = cast("Hashable", node.target), _key(node.args), _key(node.kwargs)
        except TypeError:  # an argument of a kind that nobody compares
            continue
        first = known.setdefault((*called, writes, is_run_for_some(node)), node)
        if first is not node:
            run_for_both(first, node)
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _writes(target: object) -> bool:
    return isinstance(target, OpOverload) and target._schema.is_mutable  # pyright: ignore[reportPrivateUsage]


def _is_function_of_arguments(node: Node) -> bool:
    target: Any = node.target
    if node.meta.get("unbacked_bindings"):
        return False
    if isinstance(target, OpOverload):
        return torch.Tag.nondeterministic_seeded not in target.tags and "empty" not in target.overloadpacket.__name__
    # Arithmetic of sizes; not operators of graphs, of which nobody says what they do besides.
    return target is operator.getitem or getattr(target, "__module__", "") in ("_operator", "math", "torch", "builtins")


def _key(value: object) -> Hashable:
    """Equal for arguments that mean the same. Errors: TypeError."""
    if isinstance(value, Node | torch.dtype | torch.device | torch.layout | torch.memory_format):
        return value
    if isinstance(value, list | tuple):
        return tuple(_key(one) for one in cast("Sequence[object]", value))
    if isinstance(value, dict):
        return tuple((name, _key(one)) for name, one in cast("dict[str, object]", value).items())
    if value is None or isinstance(value, bool | int | float | complex | str):
        return type(value), repr(value)  # 0.0 is not -0.0, and 1 is neither 1.0 nor True
    raise TypeError


def _memory_of_outputs(graph: Graph) -> set[int]:
    set_to = graph.find_nodes(op="call_function", target=torch.ops.aten.set_.source_Tensor)
    found = {_memory_of(one) for node in (graph.output_node(), *set_to) for one in node.all_input_nodes}
    return {memory for memory in found if memory is not None}


def _memory_of(node: Node) -> int | None:
    """Names the memory that a tensor lies in; None for what is no tensor, or has no such memory."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return value.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
    except NotImplementedError:
        return None


__all__ = ["merge_equal_nodes"]
