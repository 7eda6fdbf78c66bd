"""What a forward pass hands to its backward pass may lie as suits both: AOTAutograd is told the strides.

AOTAutograd traces both passes with the strides that eager would give. A compiler that lays results out otherwise
reports their strides, and then AOTAutograd hands the backward pass example inputs that have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from cuesta.record import GraphKind, Strides

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp


def visible_results(kind: GraphKind) -> int | None:
    """How many of a graph's results, the first, a user sees. The others are saved for the backward pass, or gradients.
    None says all.
    """
    from torch._guards import TracingContext

    if kind == "backward":
        return 0
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return None if kind == "inference" or metadata is None else int(metadata.num_forward)


def given_results(kind: GraphKind) -> int | None:
    """How many of a graph's results, the first, have to lie as they did in the graph. None says all."""
    if kind != "forward":
        return None
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is None or context.output_strides is None or context.fw_metadata is None:
        return None
    every = [*context.fw_metadata.subclass_inp_meta, *context.fw_metadata.subclass_fw_graph_out_meta]
    # The parts of a tensor subclass are results of their own, whose numbers these are not.
    return None if any(isinstance(one, SubclassCreationMeta) for one in every) else visible_results(kind)


def strides_of_results(module: ModuleOp) -> tuple[Strides, ...]:
    """The strides of what `@main` returns; None for what is no tensor, or has strides that only a call knows."""
    from xdsl.dialects.builtin import FunctionType

    from cuesta.dialects.core.entry import entry_function
    from cuesta.dialects.layout import is_tensor_type, strides_of

    kind = entry_function(module).properties.get("function_type")
    found: list[Strides] = []
    for result in kind.outputs if isinstance(kind, FunctionType) else ():
        strides = strides_of(result) if is_tensor_type(result) else ()
        known = is_tensor_type(result) and all(isinstance(stride, int) for stride in strides)
        found.append(cast("tuple[int, ...]", tuple(strides)) if known else None)
    return tuple(found)


def report_strides(strides: Sequence[Strides]) -> None:
    """Tells AOTAutograd, which compiles a forward pass, how its results lie."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is not None and context.output_strides is not None and not context.output_strides:
        context.output_strides.extend(strides)


def take_example_inputs(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Lets the inputs of a graph be as the examples are, which know how the forward pass laid them out."""
    import torch

    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, example_inputs, strict=False):
        if isinstance(example, torch.Tensor) and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["val"] = example


__all__ = [
    "given_results",
    "report_strides",
    "strides_of_results",
    "take_example_inputs",
    "visible_results",
]
