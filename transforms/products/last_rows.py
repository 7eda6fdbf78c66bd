"""Whether the last rows or columns of a contraction can be a nest of their own (stream-K)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.loops.surgery import loads_of, stores_of


def dimension_of(nest: loops.NestOp, handle: SSAValue, axis: SSAValue) -> int | None:
    """The dimension of an out along which the points of an axis of a nest lie, each with all that it stores; None where
    that is none, or the nest reads what it stores.
    """
    if any(load.source is handle for load in loads_of(nest)):
        return None
    found: set[int] = set()
    for store in stores_of(nest):
        if store.target is not handle:
            continue
        if axis not in store.indices:
            return None
        dim = sym.dim(store.indices.index(axis))
        places = [place for place, e in enumerate(store.map.results) if sym.dims_of(dim) & sym.dims_of(e)]
        if len(places) != 1 or store.map.results[places[0]] != dim:
            return None
        found |= set(places)
    return found.pop() if len(found) == 1 else None


__all__ = ["dimension_of"]
