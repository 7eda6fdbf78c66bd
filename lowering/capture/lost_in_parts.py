"""What AOTAutograd forgets of the parts of tensor subclasses: that a result lies in one."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.dynamo_graph import parts_of, value_of
from cuesta.lowering.capture.memory_ranges import memory_of


def lost_view_of_a_part(gm: GraphModule) -> str | None:
    """The result, if there is one, that lies in the memory of a part of an input, which is a tensor subclass, and is
    neither that input nor a view of it: x.to_local() of a DTensor, x.redistribute(…) that has nothing to do.
    AOTAutograd gives it memory of its own: who writes to it does not write to x (torch 2.13).

    Near miss: a part of what is computed.
    """
    given = [node for node in gm.graph.find_nodes(op="placeholder") if is_traceable_wrapper_subclass(value_of(node))]
    parts = {memory_of(part) for node in given for part in parts_of(node)}
    wholes = {memory_of(cast("Tensor", value_of(node))) for node in given}
    for node in gm.graph.output_node().all_input_nodes if given else ():
        value: Any = value_of(node)
        if is_traceable_wrapper_subclass(value) and memory_of(cast("Tensor", value)) in wholes:
            continue
        if any(memory_of(part) in parts for part in parts_of(node)):
            return f"{node.name} is returned, which lies in a part of an input that is a tensor subclass"
    return None


__all__ = ["lost_view_of_a_part"]
