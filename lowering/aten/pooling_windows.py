"""Pooling whose windows differ in size, and the derivatives of pooling.

A derivative is a gather: every element of the source collects from the windows that cover it, which are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten import pooling
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, compute_type, decline
from cuesta.lowering.aten.indexing import in_range, intersect
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, where
from cuesta.lowering.aten.scatters import Scatter, Update, scatter, zeros


class Adaptive:
    """`count` windows over `size` elements, as even as can be: from ⌊w·size/count⌋ to ⌈(w + 1)·size/count⌉."""

    def __init__(self, size: sym.IndexExpr, count: sym.IndexExpr) -> None:
        if not isinstance(size, int) or not isinstance(count, int) or count == 0 or size == 0:
            decline("windows of sizes that are not known")
        self.size, self.count = size, count
        self.longest = _most_met(count, size)
        self.covering = _most_met(size, count)
        """The most windows that an element is in."""

    def start(self, window: sym.IndexExpr) -> sym.IndexExpr:
        """⌊w · size / count⌋"""
        return window * self.size // self.count

    def end(self, window: sym.IndexExpr) -> sym.IndexExpr:
        """⌈(w + 1) · size / count⌉"""
        return sym.ceildiv((window + 1) * self.size, self.count)


def _most_met(pieces: int, others: int) -> int:
    """How many of `others` even pieces of a line one of `pieces` even pieces meets, at most."""
    return max(-(-(k + 1) * others // pieces) - k * others // pieces for k in range(pieces))


def _adaptive(op: AtenCall, source: SSAValue, result: SSAValue) -> list[Adaptive]:
    rank = pooling.spatial_rank(op)
    pairs = zip(sizes_of_value(source)[-rank:], sizes_of_value(result)[-rank:], strict=True)
    return [Adaptive(size, count) for size, count in pairs]


def _floating(tensor: SSAValue) -> Attribute:
    if kind_of(element_of(tensor)) != "f":
        decline("pooling of integers")
    return compute_type(element_of(tensor))


def _within(
    builder: LoopBuilder, axes: Sequence[Adaptive], windows: Sequence[sym.IndexExpr], offset: Sequence[sym.IndexExpr]
) -> tuple[list[sym.IndexExpr], Scalar | None]:
    """The element `offset` of a window, and whether the window has it."""
    place: list[sym.IndexExpr] = []
    mask: Scalar | None = None
    for axis, window, k in zip(axes, windows, offset, strict=True):
        place.append(axis.start(window) + k)
        if axis.size % axis.count:
            mask = intersect(mask, builder.index(place[-1]) < builder.index(axis.end(window)))
    return place, mask


def _adaptive_average(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("self")
    element, to = element_of(source), _floating(source)
    axes = _adaptive(op, source, op.results[0])
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        batch, windows = nest.indices[: -len(axes)], nest.indices[-len(axes) :]

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            place, mask = _within(builder, axes, windows, offset)
            return builder.load_raw(source, [*batch, *place], mask, builder.constant(0, element)).convert(to)

        total = builder.reduce("sum", [axis.longest for axis in axes], to, at)
        for axis, window in zip(axes, windows, strict=True):
            total = total / builder.index(axis.end(window) - axis.start(window), to)
        builder.store(total, nest.handles[0], nest.indices)
    return nest.results


def _adaptive_maximum(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("self")
    element, to = element_of(source), _floating(source)
    axes = _adaptive(op, source, op.results[0])
    with builder.nest(sizes_of_value(op.results[0]), [result.type for result in op.results]) as nest:
        batch, windows = nest.indices[: -len(axes)], nest.indices[-len(axes) :]
        longest = [axis.longest for axis in axes]

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            place, mask = _within(builder, axes, windows, offset)
            return builder.load_raw(source, [*batch, *place], mask, builder.constant(-math.inf, element)).convert(to)

        greatest, position = builder.reduce_all("argmax_last_nan", longest, to, at)
        builder.store(greatest, nest.handles[0], nest.indices)
        offsets = pooling.unflattened(position, longest)
        place = [builder.index(a.start(w)) + k for a, w, k in zip(axes, windows, offsets, strict=True)]
        builder.store(pooling.flattened(place, [axis.size for axis in axes]), nest.handles[1], nest.indices)
    return nest.results


def _maximum_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The gradient of each window goes to where its maximum was."""
    gradient, indices, result = op.tensor("grad_output"), op.tensor("indices"), op.results[0]
    sizes = sizes_of_value(result)
    rank = pooling.spatial_rank(op)

    def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        count = sym.product_of(sizes[-rank:])
        winner = builder.bound(builder.load_raw(indices, [*outer, *inner]), count, wrap=False)
        place = [*outer, *sym.delinearize(winner, sizes[-rank:])]
        return Update(place, builder.load_raw(gradient, [*outer, *inner]))

    domain, walked = sizes_of_value(gradient)[-rank:], range(len(sizes) - rank, len(sizes))
    return scatter(op, builder, Scatter(walked, domain, "sum", zeros(element_of(gradient), builder), update))


def _max_pool_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """A gather where the windows have no gaps, otherwise a scatter."""
    if any(step != 1 for step in op.integers("dilation")):
        return _maximum_backward(op, builder)
    return pooling.max_pool_backward(op, builder)


def _average_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """dx[p] = Σ g[w] / divisor(w) over the windows w that cover p"""
    gradient = op.tensor("grad_output")
    axes = pooling.axes_of(op, op.tensor("self"), gradient)
    divisor = pooling.divisor_of(op, axes)
    element, to = element_of(gradient), _floating(gradient)
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        batch, spatial = nest.indices[: -len(axes)], nest.indices[-len(axes) :]

        def at(back: list[sym.IndexExpr]) -> Scalar:
            windows: list[sym.IndexExpr] = []
            mask: Scalar | None = None
            for axis, place, k in zip(axes, spatial, back, strict=True):
                # The last window that starts at or before the place, and those before it.
                window = (place + axis.padding) // axis.stride - k
                windows.append(window)
                if not _always_there(axis):
                    mask = intersect(mask, in_range(builder, window, 0, axis.windows))
                if axis.kernel % axis.stride:
                    end = axis.position(window, axis.kernel)
                    mask = intersect(mask, builder.index(place) < builder.index(end))
            zero = builder.constant(0, element)
            value = builder.load_raw(gradient, [*batch, *windows], mask, zero).convert(to)
            count = divisor(windows)
            if isinstance(count, int):
                return value / float(count)
            value = value / builder.index(count, to)
            # A window that is not there may have no elements to divide by.
            return value if mask is None else where(mask, value, 0.0)

        counts = [axis.overlap for axis in axes]
        builder.store(builder.reduce("sum", counts, to, at), nest.handles[0], nest.indices)
    return nest.results


def _always_there(axis: pooling.Axis) -> bool:
    """Whether the windows tile the source: each element has its one window."""
    return (axis.kernel, axis.padding) == (axis.stride, 0) and axis.windows * axis.stride == axis.size


def _adaptive_average_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """dx[p] = Σ g[w] / size(w) over the windows w that cover p: one, where windows are even."""
    gradient = op.tensor("grad_output")
    element, to = element_of(gradient), _floating(gradient)
    axes = _adaptive(op, op.tensor("self"), gradient)
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        batch, spatial = nest.indices[: -len(axes)], nest.indices[-len(axes) :]

        def at(number: Sequence[sym.IndexExpr]) -> Scalar:
            windows: list[sym.IndexExpr] = []
            mask: Scalar | None = None
            count: sym.IndexExpr = 1
            for axis, place, k in zip(axes, spatial, number, strict=True):
                window = place * axis.count // axis.size + k
                windows.append(window)
                count = count * (axis.end(window) - axis.start(window) if axis.size % axis.count else axis.longest)
                if axis.covering > 1:
                    last = sym.ceildiv((place + 1) * axis.count, axis.size)
                    mask = intersect(mask, builder.index(window) < builder.index(last))
            value = builder.load_raw(gradient, [*batch, *windows], mask, builder.constant(0, element)).convert(to)
            return value / (float(count) if isinstance(count, int) else builder.index(count, to))

        covering = [axis.covering for axis in axes]
        total = at([0] * len(axes)) if math.prod(covering) == 1 else builder.reduce("sum", covering, to, at)
        builder.store(total, nest.handles[0], nest.indices)
    return nest.results


RULES = pooling.of_two_and_three_dims(
    {
        "_adaptive_avg_pool{}d": _adaptive_average,
        "_adaptive_avg_pool{}d_backward": _adaptive_average_backward,
        "adaptive_max_pool{}d": _adaptive_maximum,
        "adaptive_max_pool{}d_backward": _maximum_backward,
        "max_pool{}d_with_indices_backward": _max_pool_backward,
        "avg_pool{}d_backward": _average_backward,
    }
)
"""Adaptive pooling, and the derivatives of pooling."""
