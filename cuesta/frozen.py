"""The option `frozen`: which inputs of a graph are a model's own tensors, that the user promised not to change unseen.

In inference only; what is computed of them alone is kept (`transforms/host/keep_frozen.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
    from torch.fx import GraphModule
    from xdsl.dialects.builtin import ModuleOp

FROZEN = "cuesta.frozen"
"""Where the `meta` of a graph says which inputs these are."""


def static_inputs() -> tuple[int, ...]:
    """The inputs that AOTAutograd says stay in their place from call to call: parameters and buffers, and what users
    marked (`torch._dynamo.mark_static_address`).
    """
    metadata = _metadata()
    return tuple(metadata.static_input_indices or ()) if metadata is not None else ()


def mark_frozen(gm: GraphModule, given: int, *, captures: bool = False) -> None:
    """Marks the inputs of a graph without a backward pass, which was captured of one with so many inputs. None, where
    AOTAutograd counts others than it was given: inputs that are one tensor or share memory, parts of subclasses, tokens
    of effects.

    None, with a warning, where nothing would be kept: of tensors on a GPU, or, if it `captures` CUDA graphs, of a graph
    that is captured. A graph of which nothing can be captured is as any other.
    """
    metadata = _metadata()
    count = len(gm.graph.find_nodes(op="placeholder"))
    if metadata is None or metadata.tokens or count != given or not _all_plain(metadata.subclass_inp_meta):
        return
    positions = sorted(one for one in static_inputs() if 0 <= one < count)
    if not positions:
        return
    if (reason := _obstacle(gm, positions, captures=captures)) is not None:
        warnings.warn(f"cuesta: the option 'frozen' changes nothing for a graph (inference): {reason}", stacklevel=2)
        return
    gm.meta[FROZEN] = tuple(positions)


def freeze(module: ModuleOp, positions: Sequence[int]) -> None:
    """Says so in the text of a program, unless it is in pieces."""
    from cuesta.dialects.core.entry import entry_function, frozen
    from cuesta.dialects.host import is_in_pieces

    if not is_in_pieces(module):
        entry_function(module).attributes["aten.frozen"] = frozen(positions)


def _obstacle(gm: GraphModule, positions: Sequence[int], *, captures: bool) -> str | None:
    """Why nothing that is computed of these inputs alone is kept, whatever it is."""
    if captures:
        from cuesta.cuda_graphs.capturing import is_on_a_device_that_captures

        if is_on_a_device_that_captures(gm):
            return "it runs through CUDA graphs, of which every replay computes everything"
    from cuesta.dialects.core.devices import TRAITS

    inputs = gm.graph.find_nodes(op="placeholder")
    types = {inputs[position].meta["val"].device.type for position in positions}
    if all(one in TRAITS and TRAITS[one].blocks for one in types):
        return "what is computed of tensors on a GPU is not kept"
    return None


def _metadata() -> ViewAndMutationMeta | None:
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return None if context is None else context.fw_metadata


def _all_plain(inputs: Sequence[object]) -> bool:
    """Whether no input is a tensor's subclass, which the graph is given in parts."""
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta

    return not any(isinstance(one, SubclassCreationMeta) for one in inputs)


__all__ = ["FROZEN", "freeze", "mark_frozen", "static_inputs"]
