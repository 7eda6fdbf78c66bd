"""Whether a pointwise nest that several others read is better computed by each of them, and never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.layout import sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import loads_of
from cuesta.transforms import thresholds
from cuesta.transforms.fusion.cost import Cost, distinct_arithmetic
from cuesta.transforms.fusion.space import volume

_MOST_READS = 8
"""With more reads than this nothing is computed again for each.

Source: measured by `make bench-constants ARGS='--only profit._MOST_READS'`
"""
ARITHMETIC_PER_ACCESS = 8
"""The cheap vector instructions that cost as much as one more tensor moved, read or written, element by element.

Source: measured by `make bench-constants ARGS='--only profit.ARITHMETIC_PER_ACCESS'`
"""
ACCESS = 4
"""Bytes of that tensor's element.

Source: a definition: f32.
"""
_LAUNCH = 1 << 24
"""The cheap instructions that take no longer than a launch less saves, on a device that is asked for each.

Source: a definition: 0.6 us of the reference machine's arithmetic, where a small kernel takes 2 at least.
"""
_MANY_COLUMNS = 1024
"""A nest that walks fewer columns does not take over a pointwise nest whose points other threads are woken for.

Source: measured by `make bench-constants ARGS='--only profit._MANY_COLUMNS'`
"""


def recomputing_pays(
    producer: loops.NestOp, cost: Cost, sources: Iterable[SSAValue], times: Callable[[loops.LoadOp], float]
) -> bool:
    """Whether every reader of P should compute P again, so that it need not be stored.

    Law: of a pointwise nest that reads n bytes of large tensors for a point, and stores w, which k readers read, the
    first reader can store the result when it computes it: n + w + (k − 1) · w bytes are moved. If every reader computes
    it, n · k are. The difference must outweigh the arithmetic, which is then done once for each read, or, under masks,
    as many times as often as `times` says of a load (infinity: the body may not stand there). `sources` are what P
    reads. On a GPU so little arithmetic costs less than P's own launch. Where arithmetic is cheap some of it is done
    for nothing: a nest that stores what it makes on the way cannot be spread over as many programs.
    Requires: the producer is pointwise.
    """
    if len(producer.results) != 1:
        return False
    readers: set[Operation] = set()
    done = 0.0
    for number, use in enumerate(producer.results[0].uses):
        load = use.operation
        if number >= _MOST_READS or not isinstance(load, loops.LoadOp):
            return False
        done += times(load)
        if done == math.inf:
            return False
        readers.add(loops.enclosing_nest(load))
    points = volume(producer.sizes)
    read = sum(byte_width(source) for source in sources if is_large(source, points))
    stored = byte_width(producer.results[0])
    saved = (read + (stored - read) * len(readers)) / ACCESS
    cheap = traits_of(producer.results[0]).arithmetic_is_cheap
    if saved < 0 or (saved == 0 and not cheap):
        return False
    worth = ARITHMETIC_PER_ACCESS * (saved + cheap)
    if (done - 1) * cost.arithmetic <= worth:
        return True
    arithmetic = (done - 1) * distinct_arithmetic(producer)
    if arithmetic <= worth:
        return True
    return isinstance(points, int) and arithmetic * points <= _LAUNCH and traits_of(producer.results[0]).blocks


def large_sources(nest: loops.NestOp) -> set[SSAValue]:
    """The tensors that a nest reads and that do not stay in the cache while it runs."""
    points = volume(nest.sizes)
    handles = set(nest.handles)
    return {load.source for load in loads_of(nest) if load.source not in handles and is_large(load.source, points)}


def is_much_smaller(nest: loops.NestOp, source: SSAValue) -> bool:
    """Whether a nest has so few points that storing a value for each costs nothing next to storing `source`."""
    points, elements = volume(nest.sizes), volume(sizes_of(tensor_type_of(source)))
    return isinstance(points, int) and isinstance(elements, int) and points * thresholds.SMALL < elements


def has_parts(producer: loops.NestOp, consumer: loops.NestOp, source: SSAValue, machine: Machine) -> bool:
    """Whether a nest of one parallel point reads so much that its producer, which has several, should begin with it."""
    points, elements = volume(producer.sizes), volume(sizes_of(tensor_type_of(source)))
    several = not isinstance(points, int) or points >= thresholds.FEW
    return volume(consumer.sizes) == 1 and several and (not isinstance(elements, int) or elements >= machine.waking)


def is_large(source: SSAValue, points: sym.IndexExpr) -> bool:
    """Whether a tensor has so many elements that it does not stay in the cache while so many points are computed."""
    elements = volume(sizes_of(tensor_type_of(source)))
    if isinstance(elements, int) and isinstance(points, int):
        return elements * thresholds.SMALL >= points
    return not isinstance(elements, int)


def has_few_columns(
    consumer: loops.NestOp, loads: Sequence[loops.LoadOp], points: sym.IndexExpr, machine: Machine
) -> bool:
    """Whether the consumer walks `points` points by columns, so few that a thread or two would do all of the work."""
    columns = volume(consumer.sizes)
    if not isinstance(columns, int) or not isinstance(points, int):
        return False
    if columns >= _MANY_COLUMNS or points < machine.waking:
        return False
    for load in loads:
        last = load.map.results[-1] if load.map.results else 0
        walked = [load.indices[dim].owner for dim in sym.dims_of(last)]
        if walked and load.parent is not consumer.body and all(owner is consumer.body for owner in walked):
            return True
    return False
