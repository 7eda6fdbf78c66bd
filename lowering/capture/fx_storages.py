"""Storages of inputs: those of which a graph reads nothing but addresses, and those that it exchanges.

Of the first (`as_strided` with an offset) it does not matter where a tensor begins in its storage, and nobody guards
it: the program is given the tensor of the same sizes and strides that begins where the storage does, and knows that.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

_ADDRESSED_BY: Final = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)

_EXCHANGES: Final = tuple(
    getattr(torch.ops.aten.set_, name) for name in ("source_Tensor", "source_Storage", "source_Storage_storage_offset")
)


def inputs_by_storage(gm: GraphModule) -> list[int]:
    """The positions of these inputs."""
    inputs = enumerate(gm.graph.find_nodes(op="placeholder"))
    return [place for place, node in inputs if node.users and all(_addresses(user, node) for user in node.users)]


def from_its_start(value: Any) -> Any:
    """The tensor of the same sizes and strides that begins where the storage does."""
    return value.as_strided(value.size(), value.stride(), 0) if value.storage_offset() else value


def exchange_last(gm: GraphModule) -> None:
    """x.set_(y), of which nothing is read later  ->  the same at the end of the graph, in place.

    What a kernel reads of x after that is y's: a value that was computed of x before, and is computed again for a later
    result, would be another. Near miss: an input that is written to as well, which is what x is from then on.
    """
    output = gm.graph.output_node()
    for node in list(gm.graph.nodes):
        if node.target not in _EXCHANGES or node.users:
            continue
        later = set[Node]()
        after = node.next
        while after is not output:
            later.update(after.all_input_nodes)
            after = after.next
        if node.args[0] not in later:
            output.prepend(node)


def _addresses(user: Node, node: Node) -> bool:
    """Whether a call counts from the start of the storage of `node`."""
    if user.target not in _ADDRESSED_BY or user.all_input_nodes[0] is not node or node in user.args[1:]:
        return False
    return (user.args[3] if len(user.args) > 3 else user.kwargs.get("storage_offset")) is not None
