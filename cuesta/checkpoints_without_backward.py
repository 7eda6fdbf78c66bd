"""Graphs with `torch.utils.checkpoint` that are differentiated within, or not at all, as for inference.

AOTAutograd has such a graph compute again, right before a gradient that was captured with it (`torch.autograd.grad`),
what a checkpoint says. It refuses a graph of which that draws random numbers, although there may be no gradient at all
(torch 2.13: dropout in a checkpoint of what requires no gradient), and one in which several gradients would ask for it.
Such a graph keeps what it has computed: the same numbers, and more memory.

Source: torch/_functorch/_activation_checkpointing/remat_using_tags_for_fwd_loss_bwd_graph_pass.py.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule

_PASS = "remat_using_tags_for_fwd_loss_bwd_graph"


@contextmanager
def keeping_what_is_not_computed_again(gm: GraphModule) -> Generator[None]:
    """Lets AOTAutograd capture a graph of Dynamo's in a `with` block, whatever checkpoints it has."""
    import torch

    from cuesta.lowering.capture.dynamo_graph import calls

    if not calls(gm, torch.ops.higher_order.tag_activation_checkpoint):
        yield
        return
    from torch._functorch._activation_checkpointing import remat_using_tags_for_fwd_loss_bwd_graph_pass as its_module

    module: Any = its_module
    compute_again = getattr(module, _PASS)

    def where_it_can(traced: GraphModule) -> GraphModule:
        try:
            return compute_again(traced)
        except RuntimeError:  # of nodes that it has marked at most
            return traced

    setattr(module, _PASS, where_it_can)
    try:
        yield
    finally:
        setattr(module, _PASS, compute_again)


__all__ = ["keeping_what_is_not_computed_again"]
