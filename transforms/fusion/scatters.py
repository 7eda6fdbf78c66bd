"""Scatters by atomics: what their points change is complete when all of them are done, so no other stage joins them."""

from __future__ import annotations

from cuesta.dialects import loops
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.surgery import combines_of

SCATTERS = "one of the two scatters on a GPU, in a kernel of its own"
"""Why such a nest is not merged with another."""


def scatters_on_gpu(nest: loops.NestOp) -> bool:
    """Whether a nest is a scatter whose points will run side by side."""
    if not traits_of(nest.results[0]).atomics:
        return False
    return any(isinstance(op, loops.ScanOp) for op in nest.body.ops) and bool(combines_of(nest))


__all__ = ["SCATTERS", "scatters_on_gpu"]
