"""How the parallel points of a producer, each with an inner domain, walk a consumer: for the move *append*."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import is_pointwise, loads_of, stores_of
from cuesta.transforms.fusion.profit import large_sources
from cuesta.transforms.fusion.space import Space, volume

_MOST_INNER = 1 << 18
"""The most elements of a point of the parallel domain that a consumer walks again because they are in the cache.

Source: measured by `make bench-constants ARGS='--only tiling._MOST_INNER'`
"""


@struct
class Tiling:
    """How a consumer's domain is walked by the producer's parallel points and an inner domain.

    `indices[k]` is the consumer's k-th induction variable, over the producer's parallel axes and then the inner axes.
    """

    inner: tuple[sym.IndexExpr, ...]
    indices: tuple[sym.IndexExpr, ...]


def tile_like(producer: loops.NestOp, consumer: loops.NestOp) -> Tiling | str:
    """Splits the consumer's domain into the producer's parallel domain and the rest, both row-major."""
    if not is_pointwise(consumer) and volume(producer.sizes) != volume(consumer.sizes):
        return "the parallel domains differ"
    tiling = walk_like(producer, consumer.sizes)
    return tiling or "the consumer's domain is not the producer's parallel domain times an inner one"


def walk_like(producer: loops.NestOp, domain: Sequence[sym.IndexExpr]) -> Tiling | None:
    """A domain as the producer's parallel domain times an inner one, all row-major."""
    inner = _inner_sizes(producer, domain)
    if inner is None:
        return None
    sizes = (*producer.sizes, *inner)
    if sizes == tuple(domain):
        return Tiling(inner, tuple(sym.dim(k) for k in range(len(sizes))))
    linear = sym.linearize([sym.dim(k) for k in range(len(sizes))], sizes)
    indices = sym.delinearize(linear, domain)
    return Tiling(inner, tuple(sym.simplify(index, sizes) for index in indices))


def _inner_sizes(producer: loops.NestOp, domain: Sequence[sym.IndexExpr]) -> tuple[sym.IndexExpr, ...] | None:
    points, all_points = volume(producer.sizes), volume(domain)
    if points == all_points:
        return ()
    for op in reversed(ops_of(producer.body)):
        if isinstance(op, loops.StatementOp) and points * volume(op.sizes) == all_points:
            return tuple(op.sizes)
    prefix: sym.IndexExpr = 1
    for k, size in enumerate(domain):
        if prefix == points:
            return tuple(domain[k:])
        prefix = prefix * size
    # Groups of what is one axis of the domain: as a reduction goes through them.
    for op in reversed(ops_of(producer.body)):
        if isinstance(op, loops.DomainOp) and points * volume(op.sizes) == all_points:
            return tuple(op.sizes)
    return None


def tile_as_stored(producer: loops.NestOp, consumer: loops.NestOp) -> Tiling | None:
    """Walks the consumer's domain as a stage of the producer stores a tensor of these sizes, in whatever order."""
    return walk_as_stored(producer, consumer.sizes) if is_pointwise(consumer) else None


def walk_as_stored(producer: loops.NestOp, domain: Sequence[sym.IndexExpr]) -> Tiling | None:
    """A domain as a stage of the producer stores a tensor of these sizes.

    Law: a stage with the only store of a tensor, an unmasked one, touches every element once, so its map takes the
    points of the stage one to one to the tensor's indices.
    """
    stores = stores_of(producer)
    for store in reversed(stores):
        stage = store.parent_op()
        if not isinstance(stage, loops.DomainOp) or stage.parent is not producer.body or store.mask is not None:
            continue
        if tuple(sizes_of(tensor_type_of(store.target))) != tuple(domain):
            continue
        indices = Space(store).expressions(store)
        if indices is not None and sum(other.target is store.target for other in stores) == 1:
            return Tiling(tuple(stage.sizes), tuple(indices))
    return None


def tile_by_read(producer: loops.NestOp, consumer: loops.NestOp) -> Tiling | None:
    """Splits the consumer's axes into those by which it reads what the producer stores once a point, and the others.

    %s = nest (c) { … reduce (n, j) … x[n, c, j] … }; nest (n, c, j) { … %s[c] … x[n, c, j] … }. Worth it when both read
    one large tensor, and the part of it that belongs to a point stays in the cache.
    """
    if not is_pointwise(consumer) or is_pointwise(producer):
        return None
    points, inner_volume = volume(producer.sizes), volume(consumer.sizes)
    if isinstance(points, int) and isinstance(inner_volume, int) and inner_volume > points * _MOST_INNER:
        return None
    if large_sources(producer).isdisjoint(large_sources(consumer)):
        return None
    stored = {store.target: store for store in producer.body.ops if isinstance(store, loops.StoreOp)}
    for load in loads_of(consumer):
        store = stored.get(producer.handles[position_of(load.source)]) if load.source.owner is producer else None
        if store is None or store.mask is not None:
            continue
        written, read = Space(store).expressions(store), Space(load).expressions(load)
        if written is None or read is None:
            continue
        axis_of = {w: r for w, r in zip(written, read, strict=True) if not isinstance(w, int)}
        parallel = [axis_of.get(sym.dim(k), 0) for k in range(len(producer.sizes))]
        tiling = _split_axes(parallel, producer.sizes, consumer.sizes)
        if tiling is not None:
            return tiling
    return None


def _split_axes(
    parallel: Sequence[sym.IndexExpr], outer: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]
) -> Tiling | None:
    """The tiling where axis `parallel[k]` of a domain of `sizes` is the producer's axis k, of size `outer[k]`."""
    taken: dict[sym.IndexExpr, sym.IndexExpr] = {}
    for k, (axis, size) in enumerate(zip(parallel, outer, strict=True)):
        if size != 1 and axis in taken:
            return None
        if size != 1:
            taken[axis] = sym.dim(k)
    inner: list[sym.IndexExpr] = []
    indices: list[sym.IndexExpr] = []
    for k, size in enumerate(sizes):
        axis = taken.pop(sym.dim(k), None)
        if axis is None:
            indices.append(sym.dim(len(outer) + len(inner)))
            inner.append(size)
        elif size != outer[parallel.index(sym.dim(k))]:
            return None
        else:
            indices.append(axis)
    return None if taken else Tiling(tuple(inner), tuple(indices))
