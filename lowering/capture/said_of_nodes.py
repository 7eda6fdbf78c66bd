"""What is said of nodes of captured graphs, and of graphs that cannot be captured."""

from __future__ import annotations

import operator
from typing import Any

from torch.fx import Node


class UncapturedError(Exception):
    """What a graph does that no functional graph can say, as it turns out once there is one. The message is why."""


def is_view(node: Node) -> bool:
    """Whether a call gives another name for the memory of its first argument, or one of several such. (One of the
    tensors that `_foreach_copy` gives is none.)
    """
    call: Any = node.args[0] if node.target is operator.getitem else node
    return bool(getattr(call.target, "is_view", False))


__all__ = ["UncapturedError", "is_view"]
