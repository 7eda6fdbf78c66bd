"""Where an input begins in its memory, for operators of a user's that write to a view of it: shift_(x[1:]).

AOTAutograd gives such an operator a base and how the view lies in the memory of that. It counts from the start of the
storage, where it should count from the base, or from where the base began when it was traced, of which there is no
guard: the operator would write to other elements, or to none of the input's.

    slice(base, 0, start, end), of a base that begins at 8 with a stride of 4   ->   slice(base, 0, start - 2, end - 2)

Source: `try_use_slice` and `write_view_information_to_args` of torch/_higher_order_ops/auto_functionalize.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from cuesta.in_eager import UncapturedError, run_in_eager

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

_START, _END = "_slice_start", "_slice_end"


def count_slices_from_their_bases(gm: GraphModule) -> None:
    """Rewrites a graph of AOTAutograd's in place: slices that operators write to count from their base.

    Errors: UncapturedError where a number is a symbol.
    """
    import torch

    target = torch.ops.higher_order.auto_functionalized_v2
    for node in gm.graph.find_nodes(op="call_function", target=target):
        given: dict[str, Any] = dict(node.kwargs)
        for name in [one.removesuffix(_START) for one in given if one.endswith(_START)]:
            base = given["_all_bases"][given[f"{name}_base_index"]].meta["val"]
            begin, step = base.storage_offset(), base.stride(given[f"{name}_slice_dim"])
            if isinstance(begin, int) and begin == 0:
                continue
            numbers = (begin, step, given[name + _START], given[name + _END])
            if not all(isinstance(one, int) for one in numbers):
                raise UncapturedError("an operator writes to a slice of an input that begins where only a call says")
            for end in (_START, _END):
                node.update_kwarg(name + end, given[name + end] - begin // step)


def places_that_count(gm: GraphModule) -> dict[int, int]:
    """The inputs of a Dynamo graph, by position, of which an operator of a user's writes to a view that AOTAutograd
    addresses from the start of the storage, and where each begins there.

    Near misses: the input itself, and slices, which count from the input.

    Errors: UncapturedError where a place is a symbol.
    """
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    from cuesta.lowering.capture.dynamo_graph import nodes_behind, value_of, written_by
    from cuesta.lowering.capture.lost_in_views import is_somebodys

    inputs = {node: position for position, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    places: dict[int, int] = {}
    for node in gm.graph.nodes:
        for written in written_by(node) if node.op == "call_function" and is_somebodys(node) else ():
            *_, root = (written, *nodes_behind(written))
            view: Any = value_of(written)
            base: Any = value_of(root)
            wrapped: bool = is_traceable_wrapper_subclass(value_of(root))
            if root not in inputs or wrapped or not isinstance(view, torch.Tensor) or _is_base_or_slice(base, view):
                continue
            if not isinstance(base.storage_offset(), int) or not isinstance(view.storage_offset(), int):
                raise UncapturedError("an operator writes to a view of an input that begins where only a call says")
            places[inputs[root]] = base.storage_offset()
    return places


def _is_base_or_slice(base: torch.Tensor, view: torch.Tensor) -> bool:
    if base.dim() != view.dim() or base.stride() != view.stride():
        return False
    differing = [dim for dim, (ours, theirs) in enumerate(zip(base.shape, view.shape, strict=True)) if ours != theirs]
    if not differing:
        return base.storage_offset() == view.storage_offset()
    begin, step = view.storage_offset(), view.stride(differing[0])
    known = isinstance(begin, int) and isinstance(step, int) and step > 0
    return len(differing) == 1 and known and begin % step == 0


def at_known_places(function: Callable[..., Any], gm: GraphModule, places: Mapping[int, int]) -> Callable[..., Any]:
    """A function of a Dynamo graph's inputs: eager, where one that counts begins elsewhere than it did."""
    if not places:
        return function
    eager: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if all(cast("torch.Tensor", args[k]).storage_offset() == begin for k, begin in places.items()):
            return function(*args)
        if not eager:
            why = "an operator writes to a view of an input that began elsewhere when it was compiled"
            warnings.warn(f"cuesta runs a graph in eager: {why}", stacklevel=2)
            eager.append(run_in_eager(gm))
        return eager[0](*args)

    return call


__all__ = ["at_known_places", "count_slices_from_their_bases", "places_that_count"]
