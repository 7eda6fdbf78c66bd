"""Nodes that are put into a graph that was traced, with what PyTorch and we know of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

_OF_ITS_VALUE = ("val", "tensor_meta", "unbacked_bindings")
"""What a node knows of its own value alone."""


def fake_mode_of(value: torch.Tensor) -> AbstractContextManager[object]:
    """The `with` block in which operators give values such as this one."""
    return value.fake_mode if isinstance(value, FakeTensor) else nullcontext()


class NodeWriter:
    """Inserts nodes before one, `like`: what they give is computed in its mode, and they come from where it comes."""

    def __init__(self, graph: Graph, like: Node, policy: CheckpointPolicy | None = None) -> None:
        self.graph, self.like, self.policy = graph, like, policy

    def __call__(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        node = self.unvalued(target, *args, **kwargs)
        fakes = torch.fx.map_arg(args, lambda one: one.meta["val"])
        with fake_mode_of(self.like.meta["val"]), torch.no_grad():
            node.meta["val"] = target(*fakes, **kwargs)
        return node

    def unvalued(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """A node of which the caller says what it gives."""
        with self.graph.inserting_before(self.like):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {key: value for key, value in self.like.meta.items() if key not in _OF_ITS_VALUE}
        node.meta.pop("recompute", None)
        if self.policy is not None:
            node.meta["recompute"] = self.policy
        return node

    def as_f32(self, node: Node) -> Node:
        """The same in f32."""
        return self.of_type(node, torch.float32)

    def of_type(self, node: Node, dtype: torch.dtype) -> Node:
        """The same in another type."""
        return node if node.meta["val"].dtype == dtype else self(torch.ops.aten._to_copy.default, node, dtype=dtype)


def users_of(nodes: Iterable[Node]) -> set[Node]:
    """Nodes, who reads them, and so on."""
    return closure_of(nodes, lambda node: node.users)


def closure_of(nodes: Iterable[Node], then: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Nodes, those that come after each by `then`, and so on."""
    found, work = set[Node](), [*nodes]
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            work += then(node)
    return found


__all__ = ["NodeWriter", "closure_of", "fake_mode_of", "users_of"]
