"""What a graph carries besides tensors and numbers: meshes, process groups, any object that torch calls opaque.

AOTAutograd takes a DTensor apart into its local tensor and its mesh, and puts results together from such. A mesh is an
input of the graph then, or something that it holds, and most often a result, too: it passes through as it is. An
operator that is given one is called by eager (`plan.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import GraphModule

_SAID = (
    *(torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool),
    *(int, float, complex, str, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout),
    *(tuple, list, dict, slice, GraphModule),
)
"""What levels have types and words for, or the importer takes apart."""


def is_object(value: object) -> bool:
    """Whether it is an object that no level has words for, in the metadata of a node or in what a graph holds."""
    return not isinstance(value, _SAID)


def hold_real_objects(gm: GraphModule) -> None:
    """Lets a graph hold the objects themselves, where it was traced with fakes of them: what it holds is handed out."""
    for node in gm.graph.find_nodes(op="get_attr"):
        owner, _, name = str(node.target).rpartition(".")
        module: Any = gm.get_submodule(owner)
        held = getattr(module, name)
        if isinstance(held, FakeScriptObject):
            setattr(module, name, held.real_obj)
        if is_object(held):
            node.meta["val"] = held
