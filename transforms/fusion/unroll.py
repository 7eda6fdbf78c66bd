"""The move *unroll*: a pointwise consumer, once for each of the few elements that a point of its producer stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import loops, sym
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.layout import sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, is_pointwise, loads_of, stores_of
from cuesta.transforms.fusion.absorb import begin_merge, end_merge
from cuesta.transforms.fusion.space import Space, volume

_MOST_STORES = 4
"""The most elements that a point stores side by side and that are each gone on with.

Source: a bound against code growth; a complex number has two.
"""

_MOST_OPS_IN_BLOCKS = 48
"""The most ops that a program of blocks is given so: each is one for every lane, on elements that lie apart.

Source: measured on an H200 by dropouts of 8192 x 4096: of 28 ops 0.7 times as long as two kernels, of 64 1.25 times.
"""


def unroll(producer: loops.NestOp, consumer: loops.NestOp, at_consumer: bool, most_ops: int) -> loops.NestOp | str:
    """nest (i) { store v0, t[i, 0]; store v1, t[i, 1] }; nest (d) { … load t[d / 2, d mod 2] … }
    -> nest (i) { …; Q at d = 2i, with v0 for the load; Q at d = 2i + 1, with v1 }

    Law: a nest stores every element of t once, so its points, with the number of the store, are one to one with the
    indices of t; if the consumer has as many points, and at d(i, k) reads what the k-th store of point i stores, then
    d is one to one, too: every point of the consumer runs once. Exact.
    Requires: as `append`. Near misses: a consumer with inner domains, a masked store or read, two reads of different
    elements. Returns the new nest, or why not.
    """
    if not is_pointwise(producer) or not is_pointwise(consumer):
        return "one of the two has inner domains"
    loads = [load for load in loads_of(consumer) if load.source.owner is producer]
    first = loads[0]
    handle = producer.handles[position_of(first.source)]
    stores = [store for store in stores_of(producer) if store.target is handle]
    if not 1 < len(stores) <= _MOST_STORES or any(store.mask is not None for store in stores):
        return "the producer's points do not store a few elements each"
    if any(load.source is not first.source or load.mask is not None for load in loads):
        return "a read is masked, or of another tensor of the producer"
    most = min(most_ops, _MOST_OPS_IN_BLOCKS) if traits_of(producer.results[0]).blocks else most_ops
    if len(stores) * len(ops_of(consumer.body)) > most:
        return f"the nest would have more than {most} ops of the consumer"
    if volume(producer.sizes) * len(stores) != volume(consumer.sizes):
        return "the consumer does not have a point for each element that the producer stores"
    written = [Space(store).expressions(store) for store in stores]
    places = [place for place in written if place is not None]
    if len(places) < len(stores):
        return "the producer scatters"
    points = _points(producer, consumer, first, places)
    if points is None:
        return "the consumer's points are not known to be those of the producer, a few each"
    for indices, place in zip(points, places, strict=True):
        for load in loads:
            if _read(load, consumer, indices, producer.sizes) != [*place]:
                return "the consumer reads several elements at a point"
    return _merged(producer, consumer, points, [store.value for store in stores], loads, at_consumer)


def _points(
    producer: loops.NestOp, consumer: loops.NestOp, load: loops.LoadOp, places: Sequence[Sequence[sym.IndexExpr]]
) -> list[list[sym.IndexExpr]] | None:
    """For each store the consumer's indices at the point that reads what it stores, over the producer's axes."""
    count, sizes = len(places), (*producer.sizes, len(places))
    linear = sym.linearize([sym.dim(k) for k in range(len(sizes))], sizes)
    in_order = [sym.simplify(index, sizes) for index in sym.delinearize(linear, consumer.sizes)]
    axes = [sym.dim(k) for k in range(len(producer.sizes))]
    found = [
        [sym.simplify(sym.substitute(index, [*axes, number]), producer.sizes) for index in in_order]
        for number in range(count)
    ]
    if _read(load, consumer, found[0], producer.sizes) == [*places[0]]:
        return found
    solved = [_solved(consumer, load, place, count) for place in places]
    known = [indices for indices in solved if indices is not None]
    return known if len(known) == count else None


def _solved(
    consumer: loops.NestOp, load: loops.LoadOp, place: Sequence[sym.IndexExpr], count: int
) -> list[sym.IndexExpr] | None:
    """The consumer's indices where it reads `place`: axis by axis, or as two axes of the tensor, d / n and d mod n."""
    expressions = Space(load).expressions(load)
    if expressions is None:
        return None
    at = dict(zip(expressions, place, strict=True))
    extents = dict(zip(expressions, sizes_of(tensor_type_of(load.source)), strict=True))
    indices: list[sym.IndexExpr] = []
    for axis, size in enumerate(consumer.sizes):
        own = sym.dim(axis)
        quotient, remainder = own // count, own % count
        if size == 1:
            indices.append(0)
        elif own in at and extents[own] == size:
            indices.append(at[own])
        elif quotient in at and remainder in at and extents[quotient] * count == size:
            indices.append(at[quotient] * count + at[remainder])
        else:
            return None
    return indices


def _read(
    load: loops.LoadOp, consumer: loops.NestOp, indices: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]
) -> list[sym.IndexExpr] | None:
    """The element that the load reads at a point of the consumer."""
    expressions = Space(load).expressions(load)
    if expressions is None:
        return None
    return [sym.simplify(sym.substitute(expression, [*indices]), sizes) for expression in expressions]


def _merged(
    producer: loops.NestOp,
    consumer: loops.NestOp,
    points: Sequence[Sequence[sym.IndexExpr]],
    values: Sequence[SSAValue],
    loads: Sequence[loops.LoadOp],
    at_consumer: bool,
) -> loops.NestOp:
    kept = len(producer.results)
    merged = begin_merge(producer, consumer, at_consumer)
    rest = [op for op in ops_of(consumer.body) if op not in loads]
    for indices, value in zip(points, values, strict=True):
        substitution = Substitution(merged.induction_variables)
        for variable, index in zip(consumer.induction_variables, indices, strict=True):
            substitution.set_index(variable, index)
        for old, new in zip(consumer.handles, merged.handles[kept:], strict=True):
            substitution.values[old] = new
        for load in loads:
            substitution.values[load.result] = value
        clone_into(rest, InsertPoint.at_end(merged.body), substitution)
    end_merge(merged, consumer)
    return merged
