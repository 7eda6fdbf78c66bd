"""Depthwise convolutions with small windows: each channel's window is a sum of products, and no matrix product.

    y[n, c, p] = bias[c] + Σ_k x[n, ⌊c / m⌋, p · stride − padding + k · dilation] · w[c, k]

where a channel has m results. A library gains nothing from knowing that this is a convolution: the memory is the limit,
and a nest is fused with what stands around it. So on a GPU it is one; every other convolution stays a call. So is the
gradient of the image, of which every element gathers what it gave to: windows ⌊(p + padding) / stride⌋ − b, b = 0, 1,
…, whose element p is their number (p + padding) mod stride + b · stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.aten import Argument, flatten_call
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import traits_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.indexing import in_range, intersect
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.pooling import Axis, load_of_window, per_dim
from cuesta.lowering.aten.scalar import Scalar

LARGEST_WINDOW = 64
"""Elements of a window that are worth a nest.

Source: an assumption, not measured yet: the windows that slide (`lowering/schedule/gpu/sliding_windows.py`).
"""


@struct
class Depthwise:
    """A depthwise convolution: how its windows lie along every dim, and how many results a channel has."""

    axes: tuple[Axis, ...]
    multiplier: int

    @property
    def window(self) -> tuple[int, ...]:
        """The sizes of a window."""
        return tuple(axis.kernel for axis in self.axes)


def depthwise(op: AtenCall, image: SSAValue, weight: SSAValue, result: SSAValue) -> Depthwise:
    """What a convolution is, forward or backward, whose forward pass reads `image` and gives `result`. Declines those
    that are not to be nests.
    """
    sizes, channels = sizes_of_value(image), sizes_of_value(result)[1]
    groups = op.argument("groups")
    if groups != sizes[1] or groups == 1 or not isinstance(channels, int) or not isinstance(groups, int):
        decline("it is not depthwise")
    if not traits_of(result).blocks:
        decline("on a processor the library's is as fast")
    if op.boolean("transposed"):
        decline("it is transposed")
    element = element_of(image)
    if kind_of(element) != "f" or any(element_of(value) != element for value in (weight, result)):
        decline("its elements are no floats, or of several types")
    window = sizes_of_value(weight)[2:]
    kernel = [size for size in window if isinstance(size, int)]
    rank = len(window)
    if len(kernel) < rank or math.prod(kernel) > LARGEST_WINDOW:
        decline(f"its window has more than {LARGEST_WINDOW} elements")
    steps = [per_dim(op, name, rank) for name in ("stride", "padding", "dilation")]
    windows = zip(sizes[2:], sizes_of_value(result)[2:], kernel, *steps, strict=True)
    return Depthwise(tuple(Axis(*axis) for axis in windows), channels // groups)


def _convolution(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    image, weight, bias = op.tensor("input"), op.tensor("weight"), op.optional_tensor("bias")
    result = op.results[0]
    found = depthwise(op, image, weight, result)
    to = compute_type(element_of(image))
    with builder.nest(sizes_of_value(result), [result.type]) as nest:
        batch, channel, *windows = nest.indices

        def at(offset: list[sym.IndexExpr]) -> Scalar:
            own = [batch, channel // found.multiplier, *windows]
            value = load_of_window(builder, image, found.axes, own, offset, 0.0)
            return value * builder.load(weight, [channel, 0, *offset], to)

        total = builder.reduce("sum", found.window, to, at)
        if bias is not None:
            total = total + builder.load(bias, [channel], to)
        builder.store(total, nest.handles[0], nest.indices)
    return nest.results


def _convolution_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The gradient of the image; those of weight and bias stay the library's."""
    gradient, image, weight = op.tensor("grad_output"), op.tensor("input"), op.tensor("weight")
    wanted = op.argument("output_mask")
    if not isinstance(wanted, tuple) or wanted[0] is not True:
        decline("no gradient of the image is asked for")
    if op.arguments_attr.keywords:
        decline("what is asked for is said by name")
    found = depthwise(op, image, weight, gradient)
    if any(axis.dilation != 1 and axis.stride != 1 for axis in found.axes):
        decline("its windows have gaps, and do not begin at every place")
    rest: Sequence[SSAValue] = [builder.none(), builder.none()]
    if any(wanted[1:]):
        rest = _library_gradients(op, builder, (False, *wanted[1:]))
    return [_gradient_of_image(op, builder, found), *rest]


def _gradient_of_image(op: AtenCall, builder: LoopBuilder, found: Depthwise) -> SSAValue:
    gradient, weight, result = op.tensor("grad_output"), op.tensor("weight"), op.results[0]
    element, to = element_of(gradient), compute_type(element_of(gradient))
    covering = [-(-axis.kernel // axis.stride) for axis in found.axes]
    with builder.nest(sizes_of_value(result), [result.type]) as nest:
        batch, channel, *places = nest.indices

        def at(back: list[sym.IndexExpr]) -> Scalar:
            own = channel * found.multiplier + back[0]
            windows: list[sym.IndexExpr] = []
            offsets: list[sym.IndexExpr] = []
            mask: Scalar | None = None
            for axis, place, b in zip(found.axes, places, back[1:], strict=True):
                if axis.dilation != 1:
                    windows.append(place + axis.padding - b * axis.dilation)
                    offsets.append(b)
                else:
                    windows.append((place + axis.padding) // axis.stride - b)
                    offsets.append((place + axis.padding) % axis.stride + b * axis.stride)
                mask = intersect(mask, in_range(builder, windows[-1], 0, axis.windows))
                if axis.kernel % axis.stride:
                    mask = intersect(mask, builder.index(offsets[-1]) < builder.index(axis.kernel))
            zero = builder.constant(0, element)
            value = builder.load_raw(gradient, [batch, own, *windows], mask, zero).convert(to)
            return value * builder.load_raw(weight, [own, 0, *offsets], mask, zero).convert(to)

        total = builder.reduce("sum", [found.multiplier, *covering], to, at)
        builder.store(total, nest.handles[0], nest.indices)
    return nest.results[0]


def _library_gradients(op: AtenCall, builder: LoopBuilder, wanted: tuple[Argument, ...]) -> Sequence[SSAValue]:
    """The last two results of a backward pass that gives no gradient of the image."""
    positional = [*op.positional_values()[:-1], wanted]
    operands, arguments = flatten_call(positional)
    types = [builder.none().type, *(result.type for result in op.results[1:])]
    call = loops.ExternOp.of(op.overload, operands, arguments, types, pure=True)
    builder.emit(call)
    return call.results[1:]


RULES: dict[str, Rule] = {
    "aten.convolution.default": _convolution,
    "aten.convolution_backward.default": _convolution_backward,
}
"""Convolutions."""
