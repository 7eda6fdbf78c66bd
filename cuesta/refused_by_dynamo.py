"""What Dynamo refuses before any backend is asked, and eager takes: put right, for the whole process, when torch looks
the backend up.

x.split(2) of an x without elements     IndexError in PyTorch's decomposition, with which metadata are computed (torch
                                        2.11; 2.13 has it right): the piece without elements that eager gives
a subclass whose size is that of        Dynamo wants to know where each symbol of `s0 + s1` comes from, and looks at the
several parts together                  parts only afterwards (torch 2.11, 2.13): at the parts first
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def take_what_eager_takes() -> None:
    """From now on Dynamo takes these. Before Dynamo is imported, nothing is done; twice is as good as once."""
    graphs: Any = sys.modules.get("torch._dynamo.output_graph")
    if graphs is None:
        return
    tracer = graphs.SubgraphTracer
    if not hasattr(tracer._lift_basic_symbols, "of_parts"):
        tracer._lift_basic_symbols = _parts_first(tracer._lift_basic_symbols)
    import torch

    if torch.__version__ < "2.12":
        table: Any = getattr(torch, "_decomp").decomposition_table  # noqa: B009
        split = torch.ops.aten.split.Tensor
        if not hasattr(table[split], "of_nothing"):
            table[split] = _split_of_nothing(table[split])


def _parts_first(lift: Callable[..., Any]) -> Callable[..., Any]:
    """Lifts the symbols of an input, those of its parts before those of its sizes."""
    from torch._dynamo.source import AttrSource
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    @functools.wraps(lift)
    def lifted(tracer: Any, value: Any, source: Any) -> None:
        if tracer.parent is None and source is not None and is_traceable_wrapper_subclass(value):
            for name in value.__tensor_flatten__()[0]:
                lifted(tracer, getattr(value, name), AttrSource(source, name))
        lift(tracer, value, source)

    setattr(lifted, "of_parts", True)  # noqa: B010
    return lifted


def _split_of_nothing(split: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of `split`, also of what has no elements. It has the name of torch's: by that it is known as one
    that metadata may be computed with.
    """

    @functools.wraps(split)
    def split_of_nothing(self: Any, split_size: Any, dim: int = 0) -> Any:
        size = self.shape[dim]
        if type(size) is int and size == 0 and split_size != 0:
            return (self.narrow(dim, 0, 0),)
        return split(self, split_size, dim)

    setattr(split_of_nothing, "of_nothing", True)  # noqa: B010
    return split_of_nothing


__all__ = ["take_what_eager_takes"]
