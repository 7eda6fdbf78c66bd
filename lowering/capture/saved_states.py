"""States of generators that a forward pass saves for its backward pass, which draws the same numbers again.

A checkpoint that draws (`checkpoint(F.dropout, x)`) is computed again from the state that its draw began with.
AOTAutograd takes saved tensors for the first of what is saved, and objects (the mesh of a DTensor) for what follows
them; its partitioner puts the states behind both, and the call would take an object for a tensor (torch 2.13, with
every backend: `expected all tensors_saved_with_vc_check to be Tensors`).

Source: `functionalize_rng_ops` and `_extract_fwd_bwd_modules` of torch/_functorch/partitioners.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node

_WITHOUT_CHECK = "saved_tensor_with_no_vc_check"
"""Marks tensors that nobody minds being overwritten, which lie between the others and objects."""


def save_states_with_tensors(forward: GraphModule, backward: GraphModule, visible: int) -> None:
    """Puts the states among the saved results of a forward graph, and the inputs of its backward graph that are given
    them, right behind the tensors whose changes are counted. `visible` results, the first, are not saved.
    """
    output = forward.graph.output_node()
    results = list(cast("Sequence[Any]", output.args[0]))
    saved = results[visible:]
    states = [one for one in saved if _is_state(one)]
    tensors = sum(_is_counted(one) for one in saved)
    ahead = [one for one in saved if _is_counted(one) or _is_state(one)]
    if not states or saved[: tensors + len(states)] == ahead:
        return
    places = list(backward.graph.find_nodes(op="placeholder"))
    given = [place for place in places if _is_given_a_state(place)]
    if len(given) != len(states):
        return  # AOTAutograd says so aloud
    output.args = ((*results[:visible], *ahead, *(one for one in saved if one not in ahead)), *output.args[1:])
    behind = places[sum(_is_number(one) for one in saved) + tensors]
    for place in given:
        behind.prepend(place)
    forward.recompile()
    backward.recompile()


def _is_state(node: object) -> bool:
    if not isinstance(node, Node) or node.target is not operator.getitem:
        return False
    drawn, position = node.args
    return (
        isinstance(drawn, Node)
        and drawn.target is torch.ops.higher_order.run_and_save_rng_state
        and type(position) is int
        and position == 0
    )


def _is_given_a_state(place: Node) -> bool:
    return any(
        user.target is torch.ops.higher_order.run_with_rng_state and user.args[0] is place for user in place.users
    )


def _is_counted(node: object) -> bool:
    return (
        isinstance(node, Node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and not _is_state(node)
        and not node.meta.get(_WITHOUT_CHECK, False)
    )


def _is_number(node: object) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


__all__ = ["save_states_with_tensors"]
