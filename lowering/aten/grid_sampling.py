"""`grid_sampler_2d`: each element of the result is a sum of a few elements of an image, at a place that a grid says.

    y[n, c, h, w] = Σ_j Σ_i weight_j · weight_i · x[n, c, row_j, column_i],  with (column, row) from grid[n, h, w]

A place in [-1, 1] goes from the first element to the last (`align_corners`), or from border to border.
The derivative is a library's.

On a processor the sampling alone takes 0.8 to 1.3 times as long as the library's, and what stands around it is fused
(one core, AVX-512, f32, 3 to 64 channels of 64x64 and 224x224, torch 2.13): it is generated. Not where channels lie
together, and the place is not bicubic: there the library takes a third of the time, along the channels.

Source: aten/src/ATen/native/cpu/GridSamplerKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import strides_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.scalar import Scalar, floor, minimum, nearest, trunc, where
from cuesta.lowering.aten.upsampling import inner_cubic, outer_cubic

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


@struct
class Tap:
    """An element along one dim: where it lies, whether there is one, and its weight, None for 1."""

    index: sym.IndexExpr
    exists: Scalar
    weight: Scalar | None


@struct
class Axis:
    """One dim of the image, and how places on it are meant."""

    size: int
    padding: int
    corners: bool

    def position(self, place: Scalar) -> Scalar:
        """In elements."""
        if self.corners:
            return (place + 1.0) * ((self.size - 1) / 2)
        return (place + 1.0) * (self.size / 2) - 0.5

    def padded(self, position: Scalar) -> Scalar:
        """The position that stands for one beyond the border; NaN becomes the first."""
        if self.padding == _ZEROS:
            return position
        if self.padding == _REFLECTION:
            position = self._reflected(position)
        return where(position > 0.0, minimum(position, self.size - 1.0), 0.0)

    def _reflected(self, position: Scalar) -> Scalar:
        low, span = (0.0, self.size - 1.0) if self.corners else (-0.5, float(self.size))
        if span == 0:
            return position.like(0.0)
        distance = abs(position - low)
        rest = distance - trunc(distance / (2 * span)) * (2 * span)
        return minimum(rest, 2 * span - rest) + low

    def tap(self, position: Scalar, weight: Scalar | None) -> Tap:
        """The element at a whole position."""
        exists = (position >= 0.0) & (position < float(self.size))
        index = where(exists, position, 0.0).convert(i64)
        return Tap(position.builder.bound(index, self.size, wrap=False), exists, weight)

    def taps(self, place: Scalar, interpolation: int) -> Sequence[Tap]:
        """The elements that a place is made of."""
        position = self.position(place)
        if interpolation == _NEAREST:
            return [self.tap(nearest(self.padded(position)), None)]
        if interpolation == _BILINEAR:
            position = self.padded(position)
            first = floor(position)
            t = position - first
            return [self.tap(first, 1.0 - t), self.tap(first + 1.0, t)]
        first = floor(position)
        t = position - first
        weights = outer_cubic(t + 1.0), inner_cubic(t), inner_cubic(1.0 - t), outer_cubic(2.0 - t)
        return [self.tap(self.padded(first + (k - 1.0)), weight) for k, weight in enumerate(weights)]


def _grid_sampler(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    image, grid = op.tensor("input"), op.tensor("grid")
    interpolation, padding = op.integer("interpolation_mode"), op.integer("padding_mode")
    if kind_of(element_of(image)) != "f" or element_of(grid) != element_of(image):
        decline("the image and the grid are of different types, or of no floats")
    element = element_of(image)
    to = compute_type(element)
    rows, columns = sizes_of_value(image)[2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        decline("the sizes of the image are symbolic")
    vertical, horizontal = (Axis(size, padding, op.boolean("align_corners")) for size in (rows, columns))
    batches, channels, *places = sizes_of_value(op.results[0])
    again = builder.traits.arithmetic_is_cheap
    if not again and interpolation != _BICUBIC and strides_of(tensor_type_of(image))[1] == 1 != channels:
        decline("a processor's library goes along the channels, where they lie together")
    # Where it is dear to find the taps they are found once for all channels.
    with builder.nest((batches, channels, *places) if again else (batches, *places), [op.results[0].type]) as nest:
        batch, place = nest.indices[0], nest.indices[-2:]
        across = horizontal.taps(builder.load(grid, [batch, *place, 0]), interpolation)
        down = vertical.taps(builder.load(grid, [batch, *place, 1]), interpolation)
        exist = [[row.exists & column.exists for column in across] for row in down]

        def store(channel: sym.IndexExpr) -> None:
            lines: list[Scalar] = []
            for row, line in zip(down, exist, strict=True):
                found: list[Scalar] = []
                for column, mask in zip(across, line, strict=True):
                    zero, index = builder.constant(0, element), [batch, channel, row.index, column.index]
                    found.append(builder.load_raw(image, index, mask, zero).convert(to))
                lines.append(_weighed(found, across))
            builder.store(_weighed(lines, down), nest.handles[0], [batch, channel, *place])

        if again:
            store(nest.indices[1])
        else:
            with builder.loop([channels]) as (channel,):
                store(channel)
    return nest.results


def _weighed(values: Sequence[Scalar], taps: Sequence[Tap]) -> Scalar:
    terms = [value if tap.weight is None else value * tap.weight for value, tap in zip(values, taps, strict=True)]
    return sum(terms[1:], start=terms[0])


RULES: dict[str, Rule] = {"aten.grid_sampler_2d.default": _grid_sampler}
"""Images, sampled at the places of a grid. The derivative is a library's."""
