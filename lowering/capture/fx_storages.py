"""Inputs of which a graph reads nothing but addresses in their storage (`as_strided` with an offset).

Where such a tensor begins in its storage does not matter, and nobody guards it: the program is given the tensor of the
same sizes and strides that begins where the storage does, and knows that.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

_ADDRESSED_BY: Final = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)


def inputs_by_storage(gm: GraphModule) -> list[int]:
    """The positions of these inputs."""
    inputs = enumerate(gm.graph.find_nodes(op="placeholder"))
    return [place for place, node in inputs if node.users and all(_addresses(user, node) for user in node.users)]


def from_its_start(value: Any) -> Any:
    """The tensor of the same sizes and strides that begins where the storage does."""
    return value.as_strided(value.size(), value.stride(), 0) if value.storage_offset() else value


def _addresses(user: Node, node: Node) -> bool:
    """Whether a call counts from the start of the storage of `node`."""
    if user.target not in _ADDRESSED_BY or user.all_input_nodes[0] is not node or node in user.args[1:]:
        return False
    return (user.args[3] if len(user.args) > 3 else user.kwargs.get("storage_offset")) is not None
