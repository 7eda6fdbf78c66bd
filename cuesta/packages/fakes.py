"""Fake tensors that stand for what a captured program is given, and for all that it computes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch


def as_given(value: torch.Tensor, source: Any) -> torch.Tensor:
    """A fake as it was before the program was run on it: what that changed may want a gradient now. What was computed
    is no leaf: autograd knows of its changes. `source` is the tensor that it stands for, or another fake of it.

    Source: `_backward_error` of torch/_subclasses/meta_utils.py.
    """
    plain = value.detach()
    if not (isinstance(source, torch.Tensor) and source.requires_grad):
        return plain
    plain.requires_grad_()
    if source.is_leaf:
        return plain
    with torch.enable_grad():
        functions: Any = getattr(torch._C, "_functions")  # noqa: B009  # pyright: ignore[reportPrivateUsage]
        return functions.DelayedError("nobody differentiates through an example of an input", 1)(plain)


def tell_values(gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: Any) -> None:
    """Notes of each node of a graph of torch.export's what Dynamo notes: its value, which shares memory with others and
    has a gradient. (torch.export notes what is neither, and of a graph that somebody has changed since.)
    """
    given = [as_given(one, one) if isinstance(one, torch.Tensor) else one for one in inputs]
    symbols: Any = nullcontext() if mode.shape_env is None else mode.shape_env.ignore_fresh_unbacked_symbols()
    with mode, symbols:
        _Telling(gm).run(*given)


class _Telling(torch.fx.Interpreter):
    def run_node(self, n: torch.fx.Node) -> Any:
        """The node's value."""
        value = super().run_node(n)
        n.meta["example_value"] = value
        return value


__all__ = ["as_given", "tell_values"]
