"""What a forward pass hands to its backward pass may lie as suits both: AOTAutograd is told the strides.

AOTAutograd traces both passes with the strides that eager would give. A compiler that lays results out otherwise
reports their strides, and then AOTAutograd hands the backward pass example inputs that have them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from cuesta.lowering.capture.said_of_nodes import is_view
from cuesta.record import GraphKind, Strides

if TYPE_CHECKING:
    import torch
    from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
    from xdsl.dialects.builtin import ModuleOp


_SAVED = "results saved for the backward pass"


def tell_saved_results(forward: torch.fx.GraphModule, visible: int) -> None:
    """Writes on a forward graph how many of its results are saved: all but the first, which are visible."""
    forward.meta[_SAVED] = len(cast("Sequence[Any]", forward.graph.output_node().args[0])) - visible


def count_visible_results(forward: torch.fx.GraphModule) -> None:
    """Corrects AOTAutograd's count of visible results, of a graph that was told.

    The count leaves out what was written to tensor subclasses that require a gradient, which the graph returns, too.
    Source: `num_forward` against `num_inner_fwd_outputs` of torch/_functorch/_aot_autograd/graph_compile.py (2.13).
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None and _SAVED in forward.meta:
        results = cast("Sequence[Any]", forward.graph.output_node().args[0])
        context.fw_metadata.num_forward = len(results) - forward.meta[_SAVED] - tokens_of(context.fw_metadata)


def tokens_of(metadata: ViewAndMutationMeta) -> int:
    """How many inputs, and results, of a forward graph, the first, are tokens, which put effects in their order:
    AOTAutograd counts neither. (`torch.linalg.inv` has an effect: it may raise.)

    Source: Note [Side-Effectful Tokens in AOTAutograd] of torch/_functorch/_aot_autograd/schemas.py.
    """
    return len(metadata.tokens)


def visible_results(kind: GraphKind) -> int | None:
    """How many of a graph's results, the first, a user sees, tokens with them. The others are saved for the backward
    pass, or gradients. None says all.
    """
    from torch._guards import TracingContext

    if kind == "backward":
        return 0
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return None if kind == "inference" or metadata is None else int(metadata.num_forward) + tokens_of(metadata)


def detach_what_is_seen(graph: torch.fx.GraphModule, kind: GraphKind) -> None:
    """detach(x) -> alias(x), in place, but for results that a user sees beside gradients: such a one, or what is a view
    of it, is no view of x, which would have its gradient. What is saved is read only, and where nothing has a gradient
    nobody can tell.

    A result that AOTAutograd makes other results of is detached where it is a view of what the graph computes: autograd
    lets nobody write to a view that a function of its own made, nor to views of it.
    """
    import torch

    aten = torch.ops.aten
    output = graph.graph.output_node()
    given = output.args[0]
    results: list[Any] = list(given) if isinstance(given, list | tuple) else []
    count = visible_results(kind) if kind == "forward" else 0
    seen = results if count is None else results[:count]
    detached = dict[torch.fx.Node, torch.fx.Node]()
    bases = {id(seen[place]) for place in _bases() if place < len(seen)} if kind == "forward" else set[int]()
    for position, result in enumerate(seen):
        if isinstance(result, torch.fx.Node) and (
            _is_of_detached(result) or (id(result) in bases and is_view(result) and not _is_of_input(result))
        ):
            if result not in detached:  # what is returned twice is one tensor
                with graph.graph.inserting_before(output):
                    detached[result] = graph.graph.call_function(aten.detach.default, (result,))
                detached[result].meta = dict(result.meta)
            results[position] = detached[result]
    kept = {id(result) for result in results[: len(seen)]}
    for node in graph.graph.find_nodes(op="call_function", target=aten.detach.default):
        if id(node) not in kept:
            node.target = aten.alias.default
    if results:
        output.args = (tuple(results),)


def _bases() -> Collection[int]:
    """The places of a forward graph's results that AOTAutograd makes other results of, as views."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None or has_subclasses(metadata):  # the parts of a subclass are results of their own
        return ()
    first = tokens_of(metadata) + metadata.num_mutated_inp_runtime_indices
    last = first + len(metadata.output_info)
    of_results = {
        first + info.base_idx
        for info in metadata.output_info
        if info.output_type.name == "alias_of_intermediate_base_is_user_output" and info.base_idx is not None
    }
    return of_results.union(range(last, last + metadata.num_intermediate_bases))


def _is_of_input(node: torch.fx.Node) -> bool:
    """Whether it is an input of the graph, or a view of one."""
    while is_view(node):
        node = cast("torch.fx.Node", node.args[0])
    return node.op == "placeholder"


def _is_of_detached(node: torch.fx.Node) -> bool:
    """Whether it is a view of something detached."""
    import torch

    while is_view(node):
        if node.target is torch.ops.aten.detach.default:
            return True
        node = cast("torch.fx.Node", node.args[0])
    return False


def given_results(kind: GraphKind) -> int | None:
    """How many of a graph's results, the first, have to lie as they did in the graph. None says all."""
    if kind != "forward":
        return None
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is None or context.output_strides is None or context.fw_metadata is None:
        return None
    # The parts of a tensor subclass are results of their own, and so are tokens: AOTAutograd's numbers are not these.
    is_counted = not has_subclasses(context.fw_metadata) and not tokens_of(context.fw_metadata)
    return visible_results(kind) if is_counted else None


def has_subclasses(metadata: ViewAndMutationMeta) -> bool:
    """Whether a graph is given, or gives, parts of tensor subclasses."""
    from torch._functorch._aot_autograd.schemas import SubclassCreationMeta

    every = [*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta]
    return any(isinstance(one, SubclassCreationMeta) for one in every)


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
    if context is None or context.output_strides is None or context.output_strides:
        return
    if context.fw_metadata is None or not tokens_of(context.fw_metadata):  # it looks them up without tokens
        context.output_strides.extend(strides)


def take_example_inputs(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Lets the inputs of a graph be as the examples are, which know how the forward pass laid them out."""
    import torch

    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, example_inputs, strict=False):
        if isinstance(example, torch.Tensor) and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["val"] = example


def save_what_was_read(gm: torch.fx.GraphModule) -> None:
    """Saves copies of the inputs that a forward pass overwrites, where it would save the inputs themselves.

    return y, x  (x is saved, and changed by the call)  ->  return y, clone(x)

    Autograd makes sure that nobody overwrites what it saves. AOTAutograd's partitioner may save another value than
    autograd has: the input in place of a clone of it, since a clone is cheap to make again.
    """
    import torch

    visible = visible_results("forward")
    changed = {_storage(node) for node in _changed_inputs(gm)}
    if visible is None or not changed:
        return
    output = gm.graph.output_node()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    returned: list[Any] = list(cast("Sequence[Any]", output.args[0]))
    first_write = next((node for node in gm.graph.nodes if node.target is torch.ops.aten.copy_.default), output)
    for position, node in enumerate(returned):
        if position < visible or not isinstance(node, torch.fx.Node) or _storage(node) not in changed:
            continue
        if node not in copies:
            with gm.graph.inserting_before(first_write):
                copy = copies[node] = gm.graph.call_function(torch.ops.aten.clone.default, (node,))
            copy.meta = {**node.meta, "val": torch.ops.aten.clone.default(node.meta["val"])}
        returned[position] = copies[node]
    output.args = (tuple(returned),)


def _changed_inputs(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The inputs that the graph writes to, and those that AOTAutograd writes to when it has run."""
    import torch
    from torch._guards import TracingContext

    inputs = list(gm.graph.find_nodes(op="placeholder"))
    writes = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    changed = [cast("torch.fx.Node", node.args[0]) for node in writes]
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        known = [info.mutates_data for info in context.fw_metadata.input_info]
        if has_subclasses(context.fw_metadata):  # their parts are inputs of their own, whose places these are not
            known = [any(known)] * len(inputs)
        named = inputs[tokens_of(context.fw_metadata) :]
        changed += [node for node, is_changed in zip(named, known, strict=False) if is_changed]
    return changed


def _storage(node: torch.fx.Node) -> int | None:
    """Which memory a value of the graph lies in; None for what is no tensor. Fakes know what is a view of what."""
    import torch

    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None  # pyright: ignore[reportPrivateUsage]


__all__ = [
    "count_visible_results",
    "detach_what_is_seen",
    "given_results",
    "has_subclasses",
    "report_strides",
    "save_what_was_read",
    "strides_of_results",
    "take_example_inputs",
    "tell_saved_results",
    "tokens_of",
    "visible_results",
]
