"""Pooling over the two or three last dims: a reduction over the window for every element of the result.

Large windows that overlap are reduced along all dims but the first, and what comes of that along the first: 121
elements are 11 and 11. (⊕ of all of a window is the ⊕ of its rows; what lies in the padding changes nothing.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, sizes_of, tensor_type, tensor_type_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.indexing import in_range, intersect
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, maximum, minimum, trunc_div, where

LARGE_WINDOW, LARGE_VOLUME = 64, 32
"""Windows of more elements, of images and of volumes, are reduced dim by dim where every row is read twice or more.

Source: bounds of what windows that slide write out (`lowering/schedule/gpu/sliding_windows.py`).
"""
DivisorOf = Callable[[Sequence[sym.IndexExpr]], sym.IndexExpr]


@struct
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

    @property
    def reach(self) -> int:
        """The elements of a window, from its first, that can lie in the source: a window may be far larger."""
        if not isinstance(self.size, int):
            return self.kernel
        return max(1, min(self.kernel, -(-(self.size + self.padding) // self.dilation)))

    @property
    def overlap(self) -> int:
        """The most windows that one place can lie in. Requires: no dilation."""
        most = -(-self.kernel // self.stride)
        if not isinstance(self.size, int):
            return most
        return max(1, min(most, (self.size - 1 + self.padding) // self.stride + 1))

    def is_inside(self, builder: LoopBuilder, position: sym.IndexExpr) -> Scalar | None:
        """Whether a position lies in the source; None when every one does."""
        last = self.position(self.windows - 1, self.reach - 1)
        if self.padding == 0 and isinstance(last, int) and isinstance(self.size, int) and last < self.size:
            return None
        place = builder.index(position)
        return (place >= 0) & (place < builder.index(self.size))


def by_rows(axes: Sequence[Axis]) -> bool:
    """Whether windows are reduced along the first dim by itself."""
    points = math.prod(axis.reach for axis in axes)
    first, *rest = axes
    large = points > (LARGE_WINDOW if len(axes) < 3 else LARGE_VOLUME) and any(axis.reach > 1 for axis in rest)
    return large and first.reach >= 2 * first.stride


def _single(axis: Axis) -> Axis:
    """A dim of which every element is a window."""
    return Axis(axis.windows, axis.windows, 1, 1, 0, 1)


def reduced_by_rows(
    builder: LoopBuilder, source: SSAValue, axes: Sequence[Axis], kind: str, nothing: float
) -> tuple[SSAValue, list[Axis]]:
    """What the windows have along all dims but the first, and how they lie over that. `nothing` changes nothing."""
    if not by_rows(axes):
        return source, [*axes]
    first, *rest = axes
    element = element_of(source)
    batch, kept = sizes_of_value(source)[: -len(axes)], compute_type(element) if kind == "sum" else element
    sizes = (*batch, first.size, *(axis.windows for axis in rest))
    out = tensor_type(sizes, kept, device=device_of(tensor_type_of(source)))
    return pooled(builder, out, source, rest, kind, nothing), [first, *map(_single, rest)]


def pooled(
    builder: LoopBuilder,
    out: TensorType,
    source: SSAValue,
    axes: Sequence[Axis],
    kind: str,
    nothing: float,
    finish: Callable[[Scalar, Sequence[sym.IndexExpr]], Scalar] = lambda value, windows: value,
) -> SSAValue:
    """A reduction over every window, and what `finish` makes of it and of the window's place. `nothing`, which is what
    the padding holds, changes nothing.
    """
    with builder.nest(sizes_of(out), [out]) as nest:
        batch, windows = nest.indices[: -len(axes)], nest.indices[-len(axes) :]
        reach, to = [axis.reach for axis in axes], compute_type(element_of(source))
        value = builder.reduce(
            kind, reach, to, lambda offset: load_of_window(builder, source, axes, [*batch, *windows], offset, nothing)
        )
        builder.store(finish(value, windows), nest.handles[0], nest.indices)
    return nest.results[0]


def load_of_window(
    builder: LoopBuilder,
    source: SSAValue,
    axes: Sequence[Axis],
    window: Sequence[sym.IndexExpr],
    offset: Sequence[sym.IndexExpr],
    nothing: float,
) -> Scalar:
    """The element `offset` of a window, in its compute type: `nothing` where that lies in the padding."""
    batch, windows = window[: -len(axes)], window[-len(axes) :]
    place = [axis.position(one, k) for axis, one, k in zip(axes, windows, offset, strict=True)]
    element = element_of(source)
    mask = inside_all(builder, axes, place)
    value = builder.load_raw(source, [*batch, *place], mask, builder.constant(nothing, element))
    return value.convert(compute_type(element))


def spatial_rank(op: AtenCall) -> int:
    """Over how many dims a call pools, which its name says."""
    return 3 if "3d" in op.overload else 2


def per_dim(op: AtenCall, name: str, rank: int, default: Sequence[int] = ()) -> Sequence[int]:
    """An argument that says a number for each dim, or one for all."""
    values = op.integers(name) or default
    return [values[0]] * rank if len(values) == 1 else values


def axes_of(op: AtenCall, source: SSAValue, windows: SSAValue) -> list[Axis]:
    """How the windows lie over `source`, one for every element of `windows`."""
    rank = spatial_rank(op)
    kernel = per_dim(op, "kernel_size", rank)
    stride, padding = per_dim(op, "stride", rank, kernel), per_dim(op, "padding", rank)
    dilation = per_dim(op, "dilation", rank) if op.has_argument("dilation") else [1] * rank
    sizes, counts = sizes_of_value(source)[-rank:], sizes_of_value(windows)[-rank:]
    return [Axis(*axis) for axis in zip(sizes, counts, kernel, stride, padding, dilation, strict=True)]


def inside_all(builder: LoopBuilder, axes: Sequence[Axis], place: Sequence[sym.IndexExpr]) -> Scalar | None:
    """Whether a place lies in the source; None when every one does."""
    mask: Scalar | None = None
    for axis, position in zip(axes, place, strict=True):
        mask = intersect(mask, axis.is_inside(builder, position))
    return mask


def unflattened(position: Scalar, sizes: Sequence[int]) -> list[Scalar]:
    """The index of a position in row-major order."""
    index: list[Scalar] = []
    for k in range(len(sizes) - 1):
        step = math.prod(sizes[k + 1 :])
        index.append(trunc_div(position, step))
        position = position - index[-1] * step
    return [*index, position]


def flattened(place: Sequence[Scalar], sizes: Sequence[sym.IndexExpr]) -> Scalar:
    """The position of an index in row-major order."""
    position = place[0]
    for index, size in zip(place[1:], sizes[1:], strict=True):
        position = position * size + index
    return position


def _max_pool(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The greatest of a window and where it is: the first of equal ones, but of several NaN the last."""
    source = op.tensor("self")
    element = element_of(source)
    least = identity("maximum", compute_type(element))
    axes = axes_of(op, source, op.results[0])
    if op.results[1].first_use is None:  # nobody asks where it is
        lying = reduced_by_rows(builder, source, axes, "maximum", least)
        return [pooled(builder, tensor_type_of(op.results[0]), *lying, "maximum", least), builder.none()]
    rank, reach = len(axes), [axis.reach for axis in axes]
    with builder.nest(sizes_of_value(op.results[0]), [result.type for result in op.results]) as nest:
        windows = nest.indices[-rank:]

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            return load_of_window(builder, source, axes, nest.indices, offset, least)

        greatest, position = builder.reduce_all("argmax_last_nan", reach, compute_type(element), at)
        builder.store(greatest, nest.handles[0], nest.indices)
        # A window of -inf alone has its maximum in the padding: its first element stands for it.
        offsets = unflattened(position.convert(_place_type(axes)), reach)
        place = [_element_of_window(axis, w, k) for axis, w, k in zip(axes, windows, offsets, strict=True)]
        builder.store(flattened(place, [axis.size for axis in axes]).convert(i64), nest.handles[1], nest.indices)
    return nest.results


def _place_type(axes: Sequence[Axis]) -> Attribute:
    """The integers that places in the source are computed with: a GPU takes several instructions for one of 64 bits."""
    size = sym.product_of([axis.size for axis in axes])
    return i32 if isinstance(size, int) and size < 1 << 31 else i64


def _element_of_window(axis: Axis, window: sym.IndexExpr, offset: Scalar) -> Scalar:
    builder = offset.builder
    start = axis.position(window, 0)
    place = builder.index(start, offset.type) + (offset if axis.dilation == 1 else offset * axis.dilation)
    if axis.is_inside(builder, 0) is None:
        return place
    first = builder.index(start % axis.dilation, offset.type)
    return maximum(minimum(place, builder.index(axis.size - 1, offset.type)), first)


def max_pool_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Every element of the source collects from the windows whose maximum it is: no two points write to one place."""
    gradient, indices = op.tensor("grad_output"), op.tensor("indices")
    axes = axes_of(op, op.tensor("self"), gradient)
    if any(axis.dilation != 1 for axis in axes):
        decline("a dilated window")
    rank, to, place_type = len(axes), compute_type(element_of(gradient)), _place_type(axes)
    counts = [axis.overlap for axis in axes]
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        batch, spatial = nest.indices[:-rank], nest.indices[-rank:]
        position: sym.IndexExpr = 0
        for axis, place in zip(axes, spatial, strict=True):
            position = position * axis.size + place
        here = builder.index(position, place_type)

        def at(back: list[sym.IndexExpr]) -> Scalar:
            windows: list[sym.IndexExpr] = []
            mask: Scalar | None = None
            for axis, place, k in zip(axes, spatial, back, strict=True):
                window = (place + axis.padding) // axis.stride - k
                windows.append(window)
                mask = intersect(mask, in_range(builder, window, 0, axis.windows))
            element = element_of(indices)
            winner = builder.load_raw(indices, [*batch, *windows], mask, builder.constant(-1, element))
            # Loaded whether it won or not: so it need not wait for the index, and other elements find it loaded.
            value = builder.load_raw(gradient, [*batch, *windows], mask, builder.constant(0, element_of(gradient)))
            return where(winner.convert(place_type).eq(here), value.convert(to), 0.0)

        builder.store(builder.reduce("sum", counts, to, at), nest.handles[0], nest.indices)
    return nest.results


def _average_pool(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("self")
    axes = axes_of(op, source, op.results[0])
    result, divisor = tensor_type_of(op.results[0]), divisor_of(op, axes)

    def mean(total: Scalar, windows: Sequence[sym.IndexExpr]) -> Scalar:
        count = builder.index(sym.simplify(divisor(windows), sizes_of(result)), total.type)
        return total / count if total.kind == "f" else trunc_div(total, count)

    return [pooled(builder, result, *reduced_by_rows(builder, source, axes, "sum", 0.0), "sum", 0.0, mean)]


def divisor_of(op: AtenCall, axes: Sequence[Axis]) -> DivisorOf:
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


def of_two_and_three_dims(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """A table by overload, for names in which `{}` stands for the number of dims."""
    return {f"aten.{name.format(rank)}.default": rule for rank in (2, 3) for name, rule in rules.items()}


RULES = of_two_and_three_dims(
    {
        "max_pool{}d_with_indices": _max_pool,
        "avg_pool{}d": _average_pool,
    }
)
"""Pooling."""
