"""Draws as functions of a key: what is random once, and may be computed again.

    %mask = aten.bernoulli.p(%shape, 0.9)
    →
    %key  = cuesta.random_key(device)
    %mask = cuesta.bernoulli(%key, [2, 8, 1024, 1024], 0.9, 1)

A key is one number, from torch's default generator of the device: it is random, and whoever computes something again
saves it. A draw of a key is a pure function of it, of the draw's own number, and of the place of each element; the
partitioner may have it in both graphs. Its numbers are not those that the draw without a key has: it is only promised
that a seed repeats them (`docs/decisions/054-dropout-between-products.md`).

It is also the choice of a form. A draw without a key is a kernel that makes four numbers of a call of Philox, and
stores them far apart; one of a key is a number at a point, wherever somebody reads it, and its neighbours' call is its
own. Draws get keys where what reads them is not stored either, as between two products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, TypeAlias, cast

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.dialects.core.devices import traits_of_device

DRAWS: Final = (torch.ops.aten.bernoulli.p,)
"""The draws that there are with a key, too."""

IsKeyed: TypeAlias = Callable[[torch.device], bool]
"""Whether draws on a device may become those of a key."""


def no_keys(device: torch.device) -> bool:
    """Nowhere."""
    return False


def has_keys(device: torch.device, random: str) -> bool:
    """Whether draws on a device are Philox's, by the option `random`: those of eager's stream have their order."""
    return random == "philox" or (random == "device" and not traits_of_device(str(device)).eager_random)


def keyed_by(random: str) -> IsKeyed:
    """The devices on which draws may get keys, by the option `random`."""
    return partial(_asked, random)


def _asked(random: str, device: torch.device) -> bool:
    return has_keys(device, random)


def is_draw(node: Node) -> bool:
    """Whether there is a draw of a key for a node: one with a number for a probability, from the default generator."""
    if node.target not in DRAWS or len(node.args) < 2 or node.kwargs.get("generator") is not None:
        return False
    p: Any = node.args[1]
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool:
        return False
    return isinstance(p, int | float) and 0 <= p <= 1 and value.is_contiguous() and _sizes_of(node) is not None


def _sizes_of(draw: Node) -> Sequence[Any] | None:
    """The sizes of a draw, with nodes for symbols: `decompositions.py` draws as large as an `expand`."""
    value: torch.Tensor = draw.meta["val"]
    if all(type(size) is int for size in value.shape):
        return list(value.shape)
    source = draw.args[0]
    if isinstance(source, Node) and source.target is torch.ops.aten.expand.default:
        return cast("Sequence[Any]", source.args[1])
    return None


def has_key(node: Node) -> bool:
    """Whether a node is a draw of a key."""
    target: Any = node.target
    return isinstance(target, OpOverload) and str(cast("Any", target)) == "cuesta.bernoulli.default"


class Keys:
    """Gives draws of a graph keys, one for each device, and numbers, each its own."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.draws = 0
        """How many have got one."""
        self._keys: dict[torch.device, Node] = {}

    def instead_of_draws(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes of the graph, in order, with draws of a key in the place of those that `is_draw` says."""
        return [self._with_key(node) if is_draw(node) else node for node in nodes]

    def _with_key(self, draw: Node) -> Node:
        value = draw.meta["val"]
        key = self._keys.get(value.device)
        ops: Any = torch.ops.cuesta
        with value.fake_mode if isinstance(value, FakeTensor) else nullcontext():
            if key is None:
                first = next(one for one in self.graph.nodes if one.op != "placeholder")
                with self.graph.inserting_before(first):
                    key = self.graph.call_function(ops.random_key.default, (), {"device": value.device})
                given = torch.empty(1, dtype=torch.int64, device=value.device)
                key.meta = {**draw.meta, "val": given, "recompute": CheckpointPolicy.MUST_SAVE}
                self._keys[value.device] = key
            self.draws += 1
            with self.graph.inserting_before(draw):
                p: Any = draw.args[1]
                arguments = (key, _sizes_of(draw), float(p), self.draws)
                keyed = self.graph.call_function(ops.bernoulli.default, arguments)
            keyed.meta = {**draw.meta, "val": torch.empty(value.shape, dtype=torch.bool, device=value.device)}
        draw.replace_all_uses_with(keyed)
        self.graph.erase_node(draw)
        return keyed


__all__ = ["DRAWS", "IsKeyed", "Keys", "has_key", "has_keys", "is_draw", "keyed_by", "no_keys"]
