"""Upsampling: every element of the result is a sum of a few elements of the source along each spatial dim, its taps.

Positions are computed as eager does, in the type of the computation: where the result is rounded matters at the seams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from xdsl.dialects.builtin import Float64Type, f32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.rounding import rounded
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.indexing import in_range, intersect
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, floor, maximum, minimum, where
from cuesta.lowering.aten.scatters import Scatter, Update, scatter, zeros

MOST_GATHERED = 16
"""The most positions along one dim that a derivative collects from."""
MOST_CHECKED = 1 << 16
"""The longest result along which every position is compared with eager's."""


@struct
class Axis:
    """One spatial dim: its size in the source and in the result, and how far apart the source's positions are."""

    source: int
    result: int
    scale: float


@struct
class Tap:
    """An element of the source along one dim, as data, and its weight."""

    place: Scalar
    weight: Scalar


class Kernel(Protocol):
    """A way to interpolate."""

    def taps(self, builder: LoopBuilder, axis: Axis, place: sym.IndexExpr, to: Attribute) -> Sequence[Tap]:
        """The taps of a position of the result."""
        ...

    def places(self, axis: Axis, place: int, to: Attribute) -> Sequence[int]:
        """Where these taps lie."""
        ...


def _single(value: float, to: Attribute) -> float:
    """A number as the computation's type holds it."""
    return rounded(value, to if isinstance(to, Float64Type) else f32)


def _axes(op: AtenCall, source: SSAValue, result: SSAValue, to: Attribute, *, corners: bool = False) -> list[Axis]:
    rank = len(sizes_of_value(result)) - 2
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[rank]
    axes: list[Axis] = []
    for name, here, there in zip(names, sizes_of_value(source)[2:], sizes_of_value(result)[2:], strict=True):
        if not isinstance(here, int) or not isinstance(there, int):
            decline("the sizes are symbolic")
        given = op.argument(name) if op.has_argument(name) else None
        if corners:
            scale = _single((here - 1) / (there - 1), to) if there > 1 else 0.0
        elif isinstance(given, float) and given > 0:
            scale = _single(1.0 / given, to)
        else:
            scale = _single(here / max(there, 1), to)
        axes.append(Axis(here, there, scale))
    return axes


# -- the nearest element -----------------------------------------------------------------------------------------------


def _nearest_place(axis: Axis, to: Attribute, *, exact: bool) -> sym.IndexExpr:
    """Where the nearest element of position d0 lies, as an expression that gives just what eager computes in floats."""
    if axis.result > MOST_CHECKED:
        decline("too many positions to compare with eager's")
    offset = 0.5 if exact else 0.0
    wanted = [
        min(int(_single(_single(place + offset, to) * axis.scale, to)), axis.source - 1) for place in range(axis.result)
    ]
    ratios = [Fraction(axis.source, axis.result), Fraction(axis.scale).limit_denominator(1024)]
    for ratio in ratios:
        place = sym.dim(0)
        doubled = (place * 2 + 1) * ratio.numerator // (ratio.denominator * 2)
        expression = doubled if exact else place * ratio.numerator // ratio.denominator
        for bounded in (expression, sym.minimum(expression, axis.source - 1)):
            bounded = sym.simplify(bounded, (axis.result,))
            if all(sym.evaluate(bounded, (k,), {}) == want for k, want in enumerate(wanted)):
                return bounded
    decline("no quotient gives the positions that eager's floats give")


def _nearest(exact: bool) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source = op.tensor("self")
        to = compute_type(element_of(source))
        axes = _axes(op, source, op.results[0], to)
        places = [_nearest_place(axis, to, exact=exact) for axis in axes]
        with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
            spatial = [sym.substitute(p, [d]) for p, d in zip(places, nest.indices[2:], strict=True)]
            builder.store(builder.load_raw(source, [*nest.indices[:2], *spatial]), nest.handles[0], nest.indices)
        return nest.results

    return lower


def _nearest_backward(exact: bool) -> Rule:
    """Every element of the source collects its copies, where all have as many; otherwise the copies are scattered."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        gradient, result = op.tensor("grad_output"), op.results[0]
        element = element_of(gradient)
        to = compute_type(element)
        axes = _axes(op, result, gradient, to)
        places = [_nearest_place(axis, to, exact=exact) for axis in axes]
        copies = [axis.result // max(axis.source, 1) for axis in axes]
        regular = all(
            count * axis.source == axis.result > 0 and place == sym.simplify(sym.dim(0) // count, (axis.result,))
            for axis, place, count in zip(axes, places, copies, strict=True)
        )
        if regular:
            with builder.nest(sizes_of_value(result), [result.type]) as nest:

                def copy(inner: list[sym.IndexExpr]) -> Scalar:
                    spatial = [d * n + k for d, n, k in zip(nest.indices[2:], copies, inner, strict=True)]
                    return builder.load(gradient, [*nest.indices[:2], *spatial], to)

                builder.store(builder.reduce("sum", copies, to, copy), nest.handles[0], nest.indices)
            return nest.results

        def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
            spatial = [sym.substitute(p, [d]) for p, d in zip(places, inner, strict=True)]
            return Update([*outer, *spatial], builder.load_raw(gradient, [*outer, *inner]))

        domain, walked = sizes_of_value(gradient)[2:], range(2, len(sizes_of_value(result)))
        return scatter(op, builder, Scatter(walked, domain, "sum", zeros(element, builder), update))

    return lower


# -- interpolation -----------------------------------------------------------------------------------------------------


def _position(builder: LoopBuilder, axis: Axis, place: sym.IndexExpr, to: Attribute, *, corners: bool) -> Scalar:
    """Where a position of the result lies in the source."""
    here = builder.index(place, to)
    return here * axis.scale if corners else (here + 0.5) * axis.scale - 0.5


def _static_position(axis: Axis, place: int, to: Attribute, *, corners: bool) -> float:
    """The same, of a number."""
    if corners:
        return _single(place * axis.scale, to)
    return _single(_single((place + 0.5) * axis.scale, to) - 0.5, to)


@struct
class Linear:
    """The two elements around, weighed by how near they are."""

    corners: bool

    def taps(self, builder: LoopBuilder, axis: Axis, place: sym.IndexExpr, to: Attribute) -> Sequence[Tap]:
        """The element before and the one after; at the border both are the last."""
        position = _position(builder, axis, place, to, corners=self.corners)
        if not self.corners:
            position = maximum(position, 0.0)
        first = minimum(floor(position).convert(i64), axis.source - 1)
        weight = minimum(maximum(position - first.convert(to), 0.0), 1.0)
        return [Tap(first, 1.0 - weight), Tap(minimum(first + 1, axis.source - 1), weight)]

    def places(self, axis: Axis, place: int, to: Attribute) -> Sequence[int]:
        """The same two."""
        position = _static_position(axis, place, to, corners=self.corners)
        first = min(math.floor(position if self.corners else max(position, 0.0)), axis.source - 1)
        return first, min(first + 1, axis.source - 1)


@struct
class Cubic:
    """The four elements around, weighed by the cubic convolution with a = −0.75; beyond the border the last stands."""

    corners: bool

    def taps(self, builder: LoopBuilder, axis: Axis, place: sym.IndexExpr, to: Attribute) -> Sequence[Tap]:
        """Two before and two after."""
        position = _position(builder, axis, place, to, corners=self.corners)
        start = floor(position)
        t = position - start
        first = start.convert(i64)
        found: list[Tap] = []
        for offset, distance in ((-1, t + 1.0), (0, t), (1, 1.0 - t), (2, 2.0 - t)):
            here = maximum(minimum(first + offset, axis.source - 1), 0)
            found.append(Tap(here, outer_cubic(distance) if offset in (-1, 2) else inner_cubic(distance)))
        return found

    def places(self, axis: Axis, place: int, to: Attribute) -> Sequence[int]:
        """The same four."""
        first = math.floor(_static_position(axis, place, to, corners=self.corners))
        return [max(min(first + offset, axis.source - 1), 0) for offset in (-1, 0, 1, 2)]


def inner_cubic(x: Scalar) -> Scalar:
    """The weight of an element at a distance of at most 1."""
    return (x * 1.25 - 2.25) * x * x + 1.0


def outer_cubic(x: Scalar) -> Scalar:
    """The weight of one at a distance of 1 to 2."""
    return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0


def _interpolate(kernel_of: Callable[[bool], Kernel]) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, corners = op.tensor("self"), op.boolean("align_corners")
        to, kernel = _floating(source), kernel_of(corners)
        axes = _axes(op, source, op.results[0], to, corners=corners)
        with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
            found: list[list[tuple[sym.IndexExpr, Scalar]]] = []
            for axis, place in zip(axes, nest.indices[2:], strict=True):
                taps = kernel.taps(builder, axis, place, to)
                found.append([(builder.bound(tap.place, axis.source, wrap=False), tap.weight) for tap in taps])

            def weighed(spatial: list[sym.IndexExpr]) -> Scalar:
                if len(spatial) == len(found):
                    return builder.load(source, [*nest.indices[:2], *spatial], to)
                values = [weighed([*spatial, place]) * weight for place, weight in found[len(spatial)]]
                return sum(values[1:], start=values[0])

            builder.store(weighed([]), nest.handles[0], nest.indices)
        return nest.results

    return lower


@struct
class Reach:
    """Which positions of the result may use element i of the source: `most`, from ⌊i·result/source⌋ + `shift` on."""

    axis: Axis
    shift: int
    most: int

    @classmethod
    def of(cls, axis: Axis, kernel: Kernel, to: Attribute) -> Reach:
        """Found by looking at every position."""
        if axis.result > MOST_CHECKED:
            decline("too many positions to look at")
        distances = [
            place - used * axis.result // axis.source
            for place in range(axis.result)
            for used in kernel.places(axis, place, to)
        ]
        low, high = min(distances, default=0), max(distances, default=0)
        return cls(axis, low, high - low + 1)

    def position(self, element: sym.IndexExpr, number: sym.IndexExpr) -> sym.IndexExpr:
        """The `number`-th of them."""
        return element * self.axis.result // self.axis.source + self.shift + number


def _interpolate_backward(kernel_of: Callable[[bool], Kernel]) -> Rule:
    """dx[i] = Σ g[o] · w(o, i) over the positions o that may use i: a gather, with w computed again."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        gradient, result, corners = op.tensor("grad_output"), op.results[0], op.boolean("align_corners")
        to, kernel = _floating(gradient), kernel_of(corners)
        axes = _axes(op, result, gradient, to, corners=corners)
        reaches = [Reach.of(axis, kernel, to) for axis in axes]
        if any(reach.most > MOST_GATHERED for reach in reaches):
            decline("an element is used at many positions")
        with builder.nest(sizes_of_value(result), [result.type]) as nest:

            def gathered(spatial: list[sym.IndexExpr], mask: Scalar | None) -> Scalar:
                dim = len(axes) - 1 - len(spatial)  # the last first: its weights differ from lane to lane
                if dim < 0:
                    place = [*nest.indices[:2], *spatial]
                    return builder.load_raw(gradient, place, mask, builder.constant(0, element_of(gradient))).convert(
                        to
                    )
                axis, element = axes[dim], nest.indices[2 + dim]

                def at(number: list[sym.IndexExpr]) -> Scalar:
                    position = reaches[dim].position(element, number[0])
                    inside = in_range(builder, position, 0, axis.result)
                    weight: Scalar | None = None
                    for tap in kernel.taps(builder, axis, position, to):
                        share = where(tap.place.eq(builder.index(element)), tap.weight, 0.0)
                        weight = share if weight is None else weight + share
                    assert weight is not None
                    return gathered([position, *spatial], intersect(mask, inside)) * weight

                return builder.reduce("sum", [reaches[dim].most], to, at)

            builder.store(gathered([], None), nest.handles[0], nest.indices)
        return nest.results

    return lower


def _floating(tensor: SSAValue) -> Attribute:
    if kind_of(element_of(tensor)) != "f":
        decline("integers are interpolated in fixed point")
    return compute_type(element_of(tensor))


def _of_ranks(name: str, forward: Rule, backward: Rule, ranks: Sequence[str]) -> dict[str, Rule]:
    return {
        f"aten.{name}{rank}{suffix}.default": rule
        for rank in ranks
        for suffix, rule in (("", forward), ("_backward", backward))
    }


_RANKS = ("1d", "2d", "3d")
_linear, _linear_backward = _interpolate(Linear), _interpolate_backward(Linear)
_cubic, _cubic_backward = _interpolate(Cubic), _interpolate_backward(Cubic)

RULES: dict[str, Rule] = {
    **_of_ranks("upsample_nearest", _nearest(False), _nearest_backward(False), _RANKS),
    **_of_ranks("_upsample_nearest_exact", _nearest(True), _nearest_backward(True), _RANKS),
    **_of_ranks("upsample_linear", _linear, _linear_backward, ("1d",)),
    **_of_ranks("upsample_bilinear", _linear, _linear_backward, ("2d",)),
    **_of_ranks("upsample_trilinear", _linear, _linear_backward, ("3d",)),
    **_of_ranks("upsample_bicubic", _cubic, _cubic_backward, ("2d",)),
}
"""Upsampling and its derivatives."""
