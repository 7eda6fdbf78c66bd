"""Pooling over the two last dims: a reduction over the window for every element of the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.lowering.loops_from_aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.loops_from_aten.indexing import in_range, intersect
from cuesta.lowering.loops_from_aten.operands import element_of, sizes_of_value
from cuesta.lowering.loops_from_aten.scalar import Scalar, maximum, minimum, trunc_div

DivisorOf = Callable[[Sequence[sym.IndexExpr]], sym.IndexExpr]


@dataclass(frozen=True, slots=True)
class Axis:
    """How the windows lie along one dim: window w starts at w · stride − padding."""

    size: sym.IndexExpr
    windows: sym.IndexExpr
    kernel: int
    stride: int
    padding: int
    dilation: int

    def position(self, window: sym.IndexExpr, offset: sym.IndexExpr) -> sym.IndexExpr:
        """Where the element `offset` of a window lies in the source."""
        return window * self.stride - self.padding + offset * self.dilation

    def is_inside(self, builder: LoopBuilder, position: sym.IndexExpr) -> Scalar | None:
        """Whether a position lies in the source; None when every one does."""
        last = self.position(self.windows - 1, self.kernel - 1)
        if self.padding == 0 and isinstance(last, int) and isinstance(self.size, int) and last < self.size:
            return None
        place = builder.index(position)
        return (place >= 0) & (place < builder.index(self.size))


def _pair(op: AtenCall, name: str, default: tuple[int, int] | None = None) -> tuple[int, int]:
    values = op.integers(name)
    if not values and default is not None:
        return default
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def axes_of(op: AtenCall, source: SSAValue, windows: SSAValue) -> tuple[Axis, Axis]:
    """How the windows lie over `source`, one for every element of `windows`."""
    kernel = _pair(op, "kernel_size")
    stride, padding = _pair(op, "stride", kernel), _pair(op, "padding")
    dilation = _pair(op, "dilation") if op.has_argument("dilation") else (1, 1)
    sizes, counts = sizes_of_value(source)[-2:], sizes_of_value(windows)[-2:]
    rows, columns = (Axis(sizes[k], counts[k], kernel[k], stride[k], padding[k], dilation[k]) for k in range(2))
    return rows, columns


def _max_pool(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("self")
    element = element_of(source)
    if kind_of(element) != "f":
        decline("the maximum of no integer at all has no value")
    rows, columns = axes_of(op, source, op.results[0])
    lowest = -math.inf
    with builder.nest(sizes_of_value(op.results[0]), [result.type for result in op.results]) as nest:
        *batch, y, x = nest.indices

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            place = [rows.position(y, offset[0]), columns.position(x, offset[1])]
            mask = intersect(rows.is_inside(builder, place[0]), columns.is_inside(builder, place[1]))
            value = builder.load_raw(source, [*batch, *place], mask, builder.constant(lowest, element))
            return value.convert(compute_type(element))

        window = (rows.kernel, columns.kernel)
        greatest, position = builder.reduce_all("argmax", window, compute_type(element), at)
        builder.store(greatest, nest.handles[0], nest.indices)
        row = trunc_div(position, columns.kernel)
        column = position - row * columns.kernel
        # A window of -inf alone has its maximum in the padding: the nearest element stands for it.
        place = [_element_of_window(axis, w, k) for axis, w, k in ((rows, y, row), (columns, x, column))]
        builder.store(place[0] * columns.size + place[1], nest.handles[1], nest.indices)
    return nest.results


def _element_of_window(axis: Axis, window: sym.IndexExpr, offset: Scalar) -> Scalar:
    builder = offset.builder
    start = builder.index(axis.position(window, 0))
    place = start + (offset if axis.dilation == 1 else offset * axis.dilation)
    if axis.is_inside(builder, 0) is None:
        return place
    return maximum(minimum(place, builder.index(axis.size - 1)), 0)


def _max_pool_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Every element of the source collects from the windows whose maximum it is: no two points write to one place."""
    gradient, indices = op.tensor("grad_output"), op.tensor("indices")
    rows, columns = axes_of(op, op.tensor("self"), gradient)
    if (rows.dilation, columns.dilation) != (1, 1):
        decline("a dilated window")
    to = compute_type(element_of(gradient))
    counts = [-(-axis.kernel // axis.stride) for axis in (rows, columns)]
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        *batch, y, x = nest.indices
        here = builder.index(y * columns.size + x)

        def at(back: list[sym.IndexExpr]) -> Scalar:
            windows: list[sym.IndexExpr] = []
            mask: Scalar | None = None
            for axis, place, k in ((rows, y, back[0]), (columns, x, back[1])):
                window = (place + axis.padding) // axis.stride - k
                windows.append(window)
                mask = intersect(mask, in_range(builder, window, 0, axis.windows))
            element = element_of(indices)
            winner = builder.load_raw(indices, [*batch, *windows], mask, builder.constant(-1, element))
            won = winner.eq(here) if mask is None else winner.eq(here) & mask
            value = builder.load_raw(gradient, [*batch, *windows], won, builder.constant(0, element_of(gradient)))
            return value.convert(to)

        builder.store(builder.reduce("sum", counts, to, at), nest.handles[0], nest.indices)
    return nest.results


def _average_pool(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("self")
    axes = axes_of(op, source, op.results[0])
    return _window_mean(op, builder, source, axes, divisor_of(op, axes))


def divisor_of(op: AtenCall, axes: tuple[Axis, Axis]) -> DivisorOf:
    """What the sum of a window is divided by: a number given, or its size, with or without the padding."""
    override, include_padding = op.argument("divisor_override"), op.boolean("count_include_pad")

    def divisor(windows: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
        if isinstance(override, int):
            return override
        product: sym.IndexExpr = 1
        for axis, window in zip(axes, windows, strict=True):
            border = axis.padding if include_padding else 0
            last = axis.position(axis.windows - 1, axis.kernel) - axis.size - border
            if isinstance(last, int) and last <= 0 and border == axis.padding:
                product = product * axis.kernel
                continue
            start = axis.position(window, 0)
            end = sym.minimum(start + axis.kernel, axis.size + axis.padding)
            if not include_padding:
                start, end = sym.maximum(start, 0), sym.minimum(end, axis.size)
            product = product * (end - start)
        return product

    return divisor


def _window_mean(
    op: AtenCall,
    builder: LoopBuilder,
    source: SSAValue,
    axes: tuple[Axis, Axis],
    divisor: DivisorOf,
) -> Sequence[SSAValue]:
    element = element_of(source)
    to = compute_type(element)
    if kind_of(element) != "f":
        decline("an average of integers")
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        *batch, y, x = nest.indices

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            place = [axes[0].position(y, offset[0]), axes[1].position(x, offset[1])]
            mask = intersect(axes[0].is_inside(builder, place[0]), axes[1].is_inside(builder, place[1]))
            return builder.load_raw(source, [*batch, *place], mask, builder.constant(0, element)).convert(to)

        total = builder.reduce("sum", (axes[0].kernel, axes[1].kernel), to, at)
        size = sym.simplify(divisor([y, x]), sizes_of_value(op.results[0]))
        builder.store(total / builder.index(size, to), nest.handles[0], nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.max_pool2d_with_indices_backward.default": _max_pool_backward,
    "aten.avg_pool2d.default": _average_pool,
}
"""Pooling, and the derivative of max pooling."""
