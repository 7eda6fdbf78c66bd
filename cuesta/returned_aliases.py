"""What is returned as another name for an input's memory is a view of the input itself.

    v = slice_scatter(x, …); copy_(x, v); return v[0]   ->   v = slice_scatter(x, …); copy_(x, v); return x[0]

AOTAutograd makes such a result anew when the graph has run, from the input and from where the graph's result lies in
its storage, in particular where a size is a symbol. What the graph computes begins at 0 and has no gaps, where the
input need not. What is written back may be a view of what is computed in another shape, x.flatten()[3] = 1: it is the
first of the views that lies as the input does.

    x with the negative bit, of the memory b: neg(b).expand(2, n)   ->   b.expand(2, n)

Only its sizes and strides are looked at; what is computed has no memory that several elements could share.

Source: `gen_alias_from_base` of torch/_functorch/_aot_autograd/functional_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from cuesta.in_eager import UncapturedError
from cuesta.lowering.capture.said_of_nodes import is_view
from cuesta.saved_results import has_subclasses, tokens_of

if TYPE_CHECKING:
    from torch.fx import Graph, GraphModule, Node


def one_object_each(function: Callable[..., Any], gm: GraphModule) -> Callable[..., Any]:
    """The function of a Dynamo graph, with one object for what is one object in eager: v, v.contiguous() -> v, v.

    AOTAutograd makes a result anew wherever it is returned, if it is a tensor subclass or a view of what is computed
    and has a gradient; and an input (y.to(y.dtype)), if inputs before it that share memory are written to, which are
    one input to it: it takes the number that the input has then for that of another (torch 2.13).

    Source: `wrap_tensor_subclasses` of torch/_functorch/_aot_autograd/subclass_utils.py, `gen_alias_from_base` of
    functional_utils.py, `create_synthetic_base_metadata` of input_output_analysis.py.
    """
    import torch
    from torch.fx import Node

    from cuesta.lowering.capture.dynamo_graph import value_of, written_by

    results = cast("Any", gm.graph.output_node().args[0])
    values = [value_of(one) if isinstance(one, Node) else None for one in results]
    first: dict[int, int] = {}
    again = [
        (position, earlier)
        for position, value in enumerate(values)
        if isinstance(value, torch.Tensor) and (earlier := first.setdefault(id(value), position)) != position
    ]
    inputs = {id(value_of(node)): position for position, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    given = [(position, inputs[known]) for known, position in first.items() if known in inputs]
    if given and not any(True for node in gm.graph.nodes for _ in written_by(node)):
        given = []
    if not (again or given):
        return function

    def call(*args: Any) -> Any:
        made = list(function(*args))
        for position, earlier in given:
            made[position] = args[earlier]
        for position, earlier in again:
            made[position] = made[earlier]
        return made

    return call


def with_negative_bits(function: Callable[..., Any], positions: Collection[int]) -> Callable[..., Any]:
    """A function whose results at these positions are read with the negative bit, as views of what it gives."""
    import torch

    if not positions:
        return function

    def call(*args: Any) -> Any:
        made = list(function(*args))
        for position in positions:
            made[position] = torch._neg_view(made[position])  # pyright: ignore[reportPrivateImportUsage]
        return made

    return call


def computed_parts(gm: GraphModule) -> Sequence[int]:
    """The positions of results that are parts of tensor subclasses, and no inputs.

    Source: torch/_functorch/_aot_autograd/descriptors.py.
    """
    from torch._functorch._aot_autograd.descriptors import SubclassGetAttrAOTOutput

    output = gm.graph.output_node()
    results, said = cast("Any", output.args[0]), output.meta.get("desc") or ()
    return [
        position
        for position, (one, what) in enumerate(zip(results, said, strict=False))
        if isinstance(what, SubclassGetAttrAOTOutput) and getattr(one, "op", "placeholder") != "placeholder"
    ]


def views_of_parts(gm: GraphModule, parts: Sequence[int]) -> Sequence[tuple[int, int]]:
    """The positions of plain results that are views of a part as autograd knows it, each beside that of the part: what
    is made of `DTensor.to_local`, `full_tensor`, which give the part seen in its own sizes.

    Near miss: what an operator on the subclass has made of the part, and is read as a whole: t(part), then seen.
    """
    results = cast("Any", gm.graph.output_node().args[0])
    places = {results[position]: position for position in parts}
    found: list[tuple[int, int]] = []
    for position, one in enumerate(results if parts else ()):
        if getattr(one, "op", "placeholder") == "placeholder" or one in places:
            continue
        view = one
        while is_view(view) and view.args[0] not in places:
            view = view.args[0]
        if is_view(view) and view.meta["val"].shape == view.args[0].meta["val"].shape:
            found.append((position, places[view.args[0]]))
    return found


def counting_apart(
    function: Callable[[list[Any]], Any], parts: Sequence[int], seen: Sequence[tuple[int, int]] = ()
) -> Callable[[list[Any]], Any]:
    """A function whose results at these positions count their own changes, also one that is a view of another. So it
    is in eager with what tensor subclasses are made of: operators on parts are called below autograd. AOTAutograd calls
    the graph above it, where what is written to one part would be a change of all (torch 2.11, 2.13). Those at the
    positions of `seen` count with the part beside it, which they are views of (`views_of_parts`).

    Near misses: a part that is given back, which is the same object; and what is returned twice, which is one.
    """
    import torch

    if not parts:
        return function

    def call(arguments: list[Any]) -> Any:
        made = list(function(arguments))
        apart: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for position in parts:
            one = made[position]
            if isinstance(one, torch.Tensor) and one._is_view():
                made[position] = apart.setdefault(id(one), (one, one.data))[1]
        for position, part in seen:
            view, base = made[position], made[part]
            if view.dtype == base.dtype and view.untyped_storage()._cdata == base.untyped_storage()._cdata:
                made[position] = base.as_strided(view.shape, view.stride(), view.storage_offset())
        return made

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def refuse_lost_tokens(gm: GraphModule) -> None:
    """Nothing, unless a graph still asks for a token of an effect, which nobody gives it: AOTAutograd forgets them
    where inputs share memory that is written to (torch 2.11, 2.13), and calls the graph without.

    Errors: UncapturedError.

    Source: `create_synthetic_base_metadata` in torch/_functorch/_aot_autograd/input_output_analysis.py.
    """
    if any(node.name.startswith("tangents_token") for node in gm.graph.find_nodes(op="placeholder")):
        raise UncapturedError("an operator has an effect, beside inputs that share memory which is written to")


def refuse_moved_updates() -> None:
    """Nothing, unless AOTAutograd is to write an update to an input that lies otherwise afterwards: x.add_(1);
    x.float().t_(). (x.float() is x; of x.t_() alone Dynamo makes no graph.) The update is a tensor of its own, and it
    lays x out as that lies: from the start of x's storage on, without gaps, over elements that are none of x.

    Errors: UncapturedError.

    Source: `as_strided_` in torch/_functorch/_aot_autograd/runtime_wrappers.py.
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    for position, info in enumerate(() if metadata is None else metadata.input_info):
        if info.mutates_data and info.mutates_metadata and not info.mutates_storage_metadata:
            raise UncapturedError(f"input {position} is written to, and its sizes or strides are changed")


def view_the_inputs(gm: GraphModule, with_bits: Collection[int]) -> None:
    """Rewrites what a forward or an inference graph returns, in place; the inputs with a bit are given by position."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return
    tokens = tokens_of(metadata)
    inputs: list[Node] = list(gm.graph.find_nodes(op="placeholder"))[tokens:]
    if has_subclasses(metadata) or len(inputs) != len(metadata.input_info):
        return  # the parts of a subclass are inputs of their own, whose numbers are others
    output = gm.graph.output_node()
    results: list[Any] = list(cast("Any", output.args[0]))
    first = tokens + metadata.num_mutated_inp_runtime_indices
    for position, info in enumerate(metadata.output_info, first):
        if info.output_type.name != "alias_of_input" or info.base_idx is None or position >= len(results):
            continue
        given, chain = inputs[info.base_idx], _views_down_to(results[position])
        if not chain:
            continue
        written = _written_to(given, gm.graph)
        if info.base_idx in metadata.mutated_inp_runtime_indices:
            written.append(results[tokens + metadata.mutated_inp_runtime_indices.index(info.base_idx)])
        if _is_of_sizes_that_change(given) and any(one in written and not _lies_as(one, given) for one in chain):
            # Of sizes that do not change AOTAutograd has the views' names, and all that they are given.
            raise UncapturedError("a view of an input of sizes that change, which is written to, is returned")
        known = (node for node in reversed(chain) if _lies_as(node, given))
        updated = next(known, None)
        if updated is None and tokens + info.base_idx in with_bits and _is_meaning_of(chain[-1], given):
            updated = chain[-1]
        if updated is not None:
            results[position] = _viewed(gm.graph, chain[: chain.index(updated)], given)
    output.args = (tuple(results),)


def _written_to(given: Node, graph: Graph) -> list[Any]:
    """What a graph writes back to an input: all of it, whatever way that lies."""
    import torch

    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    return [node.args[1] for node in copies if node.args[0] is given]


def _views_down_to(node: Any) -> list[Node]:
    """A value, what it is a view of, and so on, down to what is no view."""
    from torch.fx import Node

    chain: list[Node] = []
    while isinstance(node, Node):
        chain.append(node)
        node = node.args[0] if is_view(node) else None
    return chain


def _lies_as(computed: Node, given: Node) -> bool:
    """Whether what is computed is known to lie as an input, wherever the two begin: an input that begins where its
    storage does in this call need not in the next, of which there is no guard, also where sizes are symbols. Nothing is
    guarded: sizes of a base of which an input is a view have names that no guard can tell.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    ours, theirs = computed.meta.get("val"), given.meta.get("val")
    if computed.op != "call_function" or not (isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor)):
        return False
    pairs = zip((*ours.shape, *ours.stride()), (*theirs.shape, *theirs.stride()), strict=False)
    return (
        ours.dtype == theirs.dtype
        and ours.dim() == theirs.dim()
        and all(statically_known_true(a == b) for a, b in pairs)
    )


def _is_of_sizes_that_change(given: Node) -> bool:
    value = given.meta["val"]
    return not all(isinstance(number, int) for number in (*value.shape, *value.stride()))


def _is_meaning_of(computed: Node, given: Node) -> bool:
    """Whether it is what an input with a bit means, or with both bits (`values_of_inputs.read_memory`)."""
    import torch

    aten = torch.ops.aten
    while computed.target in (aten.neg.default, aten._conj_physical.default):
        computed = cast("Any", computed.args[0])
    return computed is given


def _viewed(graph: Graph, chain: list[Node], given: Node) -> Node:
    """The views of a chain, outermost first, made of an input, at the end of a graph."""
    value = given
    for node in reversed(chain):
        with graph.inserting_before(graph.output_node()):
            copied = graph.node_copy(node, lambda one: one)
        copied.args = (value, *node.args[1:])
        value = copied
    return value


__all__ = ["one_object_each", "refuse_moved_updates", "view_the_inputs", "with_negative_bits"]
