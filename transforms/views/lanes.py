"""Lanes and memory: along which axes of a nest neighbours of an access lie together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import is_contiguous, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.analysis import estimate
from cuesta.transforms import thresholds

_WINDOW = 32
"""The most points of a loop there that every lane does by itself.

Source: a definition: `WINDOW` in `lowering/schedule/gpu/sliding_windows.py`.
"""
_NEAR = 4
"""The most elements between two lanes that still share what memory gives at once.

Source: a guess, from lines of 64 bytes: a window that moves by 2 or 4 uses a half or a quarter of each.
"""
_ROW = 16
"""The fewest points of a reduction, or of an inner loop, that lanes can follow.

Source: a definition: the lanes of f32 of a wide register.
"""
_WARP = 32
"""The fewest columns that lanes go along.

Source: a definition: the lanes of a warp.
"""


_near = Memo[Hashable, frozenset[int]](4096)
"""What was found of accesses: layers that are alike ask the same again and again."""


def points_of(sizes: Sequence[sym.IndexExpr], ranges: sym.SymbolRanges) -> float:
    """How many points a domain of these sizes has, with a guess for every symbol."""
    return math.prod(estimate(size, ranges) for size in sizes)


@struct
class Led:
    """What the lanes of a nest do."""

    axes: frozenset[int]
    """Those that they go along."""
    loops: frozenset[loops.DomainOp | None]
    """Those that they are in."""


class Lanes:
    """Along which axes of a nest neighbours of an access lie together."""

    def __init__(self, nest: loops.NestOp, ranges: sym.SymbolRanges) -> None:
        self.ranges = ranges
        self.sizes: list[sym.IndexExpr] = []
        self.number: dict[SSAValue, int] = {}
        self.data = set[int]()
        """The indices that are made of data."""
        self.rows = set[int]()
        """The axes of reductions and inner loops that are long enough for lanes."""
        self.loops: list[loops.DomainOp | None] = []
        """Of every axis, the loop that it is of."""
        self.looped = False
        """Whether there are loops that no lane does by itself."""
        for op in all_ops(nest):
            if isinstance(op, loops.DomainOp):
                self.looped |= op is not nest and points_of(op.sizes, ranges) > _WINDOW
                for variable, size in zip(op.induction_variables, op.sizes, strict=True):
                    if op is not nest and estimate(size, ranges) >= _ROW:
                        self.rows.add(len(self.sizes))
                    self._add(variable, size, op)
            elif isinstance(op, loops.BoundOp):
                self.data.add(len(self.sizes))
                self._add(op.result, op.size)
        self._space = (tuple(self.sizes), frozenset(self.data), frozenset(ranges.items()))

    def _add(self, index: SSAValue, size: sym.IndexExpr, loop: loops.DomainOp | None = None) -> None:
        self.number[index] = len(self.sizes)
        self.sizes.append(size)
        self.loops.append(loop)

    def address(self, indices: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
        """Where an element lies, whose indices are given over the axes."""
        address: sym.IndexExpr = 0
        for index, stride in zip(indices, strides, strict=True):
            address = address + index * stride
        return sym.simplify(address, self.sizes, self.ranges)

    def indices(self, op: loops.LoadOp | loops.TensorWriteOp) -> list[sym.IndexExpr]:
        """The indices of an access over the axes."""
        axes = [sym.dim(self.number[index]) for index in op.indices]
        return [sym.substitute(index, axes) for index in op.map.results]

    def near(self, indices: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr]) -> frozenset[int]:
        """The axes along which the elements that it accesses lie next to one another, if it had these strides."""
        key = (self._space, tuple(indices), tuple(strides))
        known = _near.get(key)
        if known is not None:
            return known
        address = self.address(indices, strides)
        found = set[int]()
        for axis in sym.dims_of(address) - self.data:
            step = sym.coefficient(address, axis)
            if isinstance(step, int) and 0 < abs(step) <= _NEAR:
                found.add(axis)
        return _near.keep(key, frozenset(found))

    def running(self, axes: set[int], indices: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr]) -> set[int]:
        """Those of the axes along which the first `_WARP` elements lie next to one another, if it had these strides:
        also where an axis is two in memory (the channels of image after image).
        """
        address = self.address(indices, strides)

        def at(axis: int, point: int) -> sym.IndexExpr:
            return sym.substitute(address, [point if one == axis else 0 for one in range(len(self.sizes))])

        found = set[int]()
        for axis in axes - self.data:
            first, second, last = (at(axis, point) for point in (0, 1, _WARP - 1))
            if isinstance(first, int) and isinstance(second, int) and isinstance(last, int):
                step = second - first
                if 0 < abs(step) <= _NEAR and last - first == step * (_WARP - 1):
                    found.add(axis)
        return found

    def near_as_it_lies(self, op: loops.LoadOp | loops.TensorWriteOp) -> frozenset[int]:
        """The same for the strides that its tensor has."""
        return self.near(self.indices(op), strides_of(tensor_type_of(_tensor(op))))

    def led(self, indices: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr]) -> Led:
        """What lanes do that follow an access with these indices and strides."""
        within = {self.loops[axis] for index in indices for axis in sym.dims_of(index)}
        return Led(self.near(indices, strides), frozenset(within))

    def agree(self, indices: Sequence[sym.IndexExpr], near: frozenset[int], led: Led) -> bool:
        """Whether lanes that are led so, or along a row of another loop, find what it accesses together, or all in one
        place.
        """
        if near & led.axes or any(self.loops[axis] not in led.loops for axis in near & self.rows):
            return True
        used = set[int]().union(*map(sym.dims_of, indices))
        # Loops beside that of the leader have axes of their own.
        return not used & (led.axes | self.rows if led.axes & self.rows else led.axes)


def transposes(nest: loops.NestOp, ranges: sym.SymbolRanges) -> bool:
    """Whether a nest without long loops reads across what it writes first, something of about as many elements, or
    writes such a thing across.
    """
    if _is_plain(nest):
        return False
    lanes = Lanes(nest, ranges)
    led = _led(lanes, nest)
    if lanes.looped or not led.axes:
        return False
    accesses = [*_large_loads(nest, ranges), *(op for op in nest.walk() if isinstance(op, loops.StoreOp))]
    return any(not lanes.agree(lanes.indices(op), lanes.near_as_it_lies(op), led) for op in accesses)


def has_longer_loops(nest: loops.NestOp, points: Sequence[sym.IndexExpr], ranges: sym.SymbolRanges) -> bool:
    """Whether there are loops that no lane does by itself, and that do not have many times as many points as these."""
    if not Lanes(nest, ranges).looped:
        return False
    inner = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    most = max((points_of(op.sizes, ranges) for op in inner), default=1.0)
    return points_of(nest.sizes, ranges) * most <= thresholds.SMALL * points_of(points, ranges)


def loads_again(nest: loops.NestOp, ranges: sym.SymbolRanges) -> float:
    """How many elements a point of a nest reads in its loops that others read as well."""
    points, handles = points_of(nest.sizes, ranges), set(nest.handles)
    again = 0.0
    for loop in nest.body.ops:
        if isinstance(loop, loops.DomainOp):
            inner = points_of(loop.sizes, ranges)
            for op in loop.body.ops:
                if isinstance(op, loops.LoadOp) and op.source not in handles:
                    own = points_of(sizes_of(tensor_type_of(op.source)), ranges) / max(1.0, points)
                    again += max(0.0, inner - own)
    return again


def turns_across(
    producer: loops.NestOp, consumer: loops.NestOp, loads: Sequence[loops.LoadOp], ranges: sym.SymbolRanges
) -> bool:
    """Whether a nest with long loops reads in order what a nest without stores, but across what that one reads.

    Requires: the producer stores element i at point i.
    """
    lanes = Lanes(consumer, ranges)
    led = _led(lanes, consumer)
    if not lanes.looped or not led.axes:
        return False
    for load in loads:
        place = lanes.indices(load)
        if not lanes.agree(place, lanes.near_as_it_lies(load), led):
            continue
        number: dict[SSAValue, int] = {variable: axis for axis, variable in enumerate(producer.induction_variables)}
        for op in _large_loads(producer, ranges):
            if any(index not in number for index in op.indices):
                continue
            axes = [place[number[index]] for index in op.indices]
            indices = [sym.substitute(index, axes) for index in op.map.results]
            if not lanes.agree(indices, lanes.near(indices, strides_of(tensor_type_of(op.source))), led):
                return True
    return False


def has_columns(
    producer: loops.NestOp, consumer: loops.NestOp, loads: Sequence[loops.LoadOp], ranges: sym.SymbolRanges
) -> bool:
    """Whether lanes that go along points of a nest find together what a nest reads that it is to compute, and all else
    that is large: then its long loops go through columns, and nothing is across. What it stores is small beside that.

    Requires: the producer stores element i at point i.
    """
    lanes = Lanes(consumer, ranges)
    stores = [op for op in consumer.walk() if isinstance(op, loops.TensorWriteOp)]
    most = max((points_of(sizes_of(tensor_type_of(load.source)), ranges) for load in loads), default=0.0)
    if any(thresholds.SMALL * points_of(sizes_of(tensor_type_of(op.target)), ranges) >= most for op in stores):
        return False
    points = {axis for axis, loop in enumerate(lanes.loops) if loop is consumer}
    columns = {axis for axis in points if estimate(lanes.sizes[axis], ranges) >= _WARP}
    number: dict[SSAValue, int] = {variable: axis for axis, variable in enumerate(producer.induction_variables)}
    for load in loads:
        place = lanes.indices(load)
        for op in _large_loads(producer, ranges):
            if any(index not in number for index in op.indices):
                return False
            indices = [sym.substitute(index, [place[number[one]] for one in op.indices]) for index in op.map.results]
            columns = lanes.running(columns, indices, strides_of(tensor_type_of(op.source)))
    for op in _large_loads(consumer, ranges):
        if op not in loads:
            columns = lanes.running(columns, lanes.indices(op), strides_of(tensor_type_of(op.source)))
    return bool(columns)


def _is_plain(nest: loops.NestOp) -> bool:
    """Whether all large tensors are read and written in one and the same order, as far as can be seen at once."""
    variables = tuple(nest.induction_variables)
    identity = sym.MapAttr.identity(len(variables))
    return all(
        (op.map is identity and tuple(op.indices) == variables and is_contiguous(tensor_type_of(_tensor(op))))
        or len(op.map.results) < len(variables)
        for op in nest.body.ops
        if isinstance(op, loops.LoadOp | loops.TensorWriteOp)
    )


def _tensor(op: loops.LoadOp | loops.TensorWriteOp) -> SSAValue:
    return op.source if isinstance(op, loops.LoadOp) else op.target


def _led(lanes: Lanes, nest: loops.NestOp) -> Led:
    """Of lanes that follow what a nest writes first."""
    written = next((op for op in nest.walk() if isinstance(op, loops.TensorWriteOp)), None)
    if written is None:
        return Led(frozenset(), frozenset())
    return lanes.led(lanes.indices(written), strides_of(tensor_type_of(written.target)))


def _large_loads(nest: loops.NestOp, ranges: sym.SymbolRanges) -> list[loops.LoadOp]:
    """The loads of tensors that have about as many elements as a nest has points, or more."""
    handles = set(nest.handles)
    points = points_of(nest.sizes, ranges)
    return [
        op
        for op in nest.walk()
        if isinstance(op, loops.LoadOp)
        and op.source not in handles
        and thresholds.SMALL * points_of(sizes_of(tensor_type_of(op.source)), ranges) >= points
    ]


__all__ = ["Lanes", "has_columns", "has_longer_loops", "loads_again", "points_of", "transposes", "turns_across"]
