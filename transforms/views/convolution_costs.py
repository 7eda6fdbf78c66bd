"""What the layout of images costs libraries' convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from xdsl.dialects.builtin import BFloat16Type, DictionaryAttr, Float16Type, Float32Type, Float64Type, FloatAttr
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import loops
from cuesta.dialects.aten import Argument
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import element_type_of, is_tensor, sizes_of, tensor_type_of, traits_of
from cuesta.transforms.views.images import has_choice, is_last

_FORWARD: Final = "aten.convolution.default"
_BACKWARD: Final = "aten.convolution_backward.default"
_STRIDE, _TRANSPOSED, _GROUPS = 3, 6, 8
"""Where these arguments stand.

Source: a definition: the schema of `aten.convolution`.
"""
TIMES: Final = "times"
"""The attribute in which a call says how long it takes."""
_LAYOUTS: Final = ("channels_first", "channels_last")
"""What stands there."""

_CPU: Final = {
    "plain": 2.0,
    "pointwise": 2.0,
    "patches": 0.0,
    "patches of colours": 0.0,
    "grouped": 1.0,
    "grouped pointwise": 1.0,
    "depthwise": 2.0,
    "transposed": 2.0,
    "transposed patches": 2.0,
    "transposed grouped": 0.0,
    "transposed depthwise": 0.0,
}
"""For every kind of convolution what it costs more channels first than channels last, for each byte of its input and
its result, in bytes that memory could move meanwhile.

Source: measured by `make bench-convolutions` (torch 2.13, f32, two cores with AVX-512): plain 1.8 to 10, least for
three channels; patches -1.0 to 0.8; grouped 0.3 to 7.5; depthwise 0.4 (7 by 7) to 4.8; transposed 1.8 to 8.2, with
groups -0.8. Images of three dimensions are not below those of two.
"""


@struct
class _Rates:
    """What channels first costs a kind of call on a GPU: forward; for both gradients; and where a group has few
    channels, where it reads many, or where windows go in steps, if that is something else; `back_in_steps`, for both
    gradients there, however many channels there are.
    """

    forward: float
    backward: float
    few: tuple[float, float] | None = None
    many: tuple[float, float] | None = None
    steps: tuple[float, float] | None = None
    back_in_steps: float | None = None


_GPU: Final = {
    "plain": _Rates(2.0, 4.0, few=(1.0, -1.5), steps=(1.3, 3.5)),
    "pointwise": _Rates(0.5, 0.5, few=(-2.0, 0.0)),
    "patches": _Rates(1.5, 3.5, few=(-2.5, 2.5)),
    "patches of colours": _Rates(-3.0, -6.0),
    "grouped": _Rates(3.0, 7.0, few=(0.0, 5.0), many=(-3.0, 1.0), back_in_steps=-2.0),
    "grouped pointwise": _Rates(1.0, 20.0, few=(0.5, -20.0)),
    "depthwise": _Rates(2.0, 8.0),
    "transposed": _Rates(2.2, 2.9, few=(-0.5, 0.8)),
    "transposed patches": _Rates(0.5, 4.5),
    "transposed grouped": _Rates(1.0, 0.0, few=(0.5, -7.0)),
    "transposed depthwise": _Rates(3.5, 3.3),
}
_HALF_ON_GPU: Final = {
    "plain": _Rates(3.2, 6.4),
    "pointwise": _Rates(2.3, 3.7, few=(-2.7, 4.0)),
    "patches": _Rates(3.3, 9.0),
    "patches of colours": _Rates(-70.0, -70.0),
    "grouped": _Rates(-4.0, -6.0, few=(-5.5, -15.0), many=(-1.8, -5.0)),
    "grouped pointwise": _Rates(-5.0, -5.4, few=(0.0, -16.0)),
    "depthwise": _Rates(3.4, 19.0),
    "transposed": _Rates(3.0, 6.4, few=(2.2, 0.9)),
    "transposed patches": _Rates(4.7, 7.4),
    "transposed grouped": _Rates(-0.3, -5.4, few=(-11.0, -23.0)),
    "transposed depthwise": _Rates(0.5, 9.2),
}
"""The same of a GPU, of 32 and of 16 bits.

Source: measured by `make bench-convolutions ARGS='--device cuda --draw 2000 --seconds 85'` (torch 2.11, H100, 645
random shapes): medians, or the sign of the layout that is faster in all where the median is near 0. Patches of colours:
from an H200, by windows of 4 and 16. Many channels, and steps: 230 shapes more, whose two gradients were measured by
themselves; of 26 plain f32 convolutions with steps the costs are -11 to 48, so that little speaks for a copy. Grouped
ones: the 1,268 of `_MANY`; where means and medians differ much, between them.
"""
_LARGE_WINDOW, _LARGE_WINDOW_WEIGHT = 49, -55.0
"""Points of a window from which on the gradient of a depthwise weight in f32 costs as much more channels last, for
which the library has no more than a direct kernel: 7 by 7 took 3.5 to 7 times as long, 5 by 5 a quarter to two thirds.

Source: from the same shapes (six of 7 by 7, -64 to -54).
"""
_FEW = 8
"""Channels of a group, of what is read or of what is given, below which they are few: no vector of 16 bytes of 16-bit
numbers, and a part of a sector.

Source: from the same shapes; 16 and more were worse.
"""
_MANY = 32
"""Channels of a group of what is read beyond which they are many. What a library does with groups falls into two: the
same shape takes ten times as long in one layout, or in the other. Of 597 random convolutions of f32 in two or four
groups, forward, always channels first takes 1.45 of the better layout, always last 1.34, by this number 1.20 (in five
parts, each by what the others say), and no tree of other numbers less than 1.18; their gradients 1.29, 1.16, and 1.10
by whether windows go in steps. Of 671 of bf16 channels first takes 1.05, and 1.05 for the gradients.

Source: 1,268 random shapes on an H200 (torch 2.11).
"""
_COLOURS_ON_GPU: Final = ((121, 4.5, 5.8), (49, 2.7, 3.9), (25, 1.0, 0.0), (0, 0.2, -0.5))
"""What channels first costs the forward pass of a plain convolution of images of few channels, of 32 and of 16 bits,
where windows have so many points: the library copies such images twice, and a large window pays for more than that. Of
the shapes, of 2 to 11 points a side and steps of 1, 2 and 4, half lie further off than 1.4.

Source: medians of 1,478 random shapes of 1 to 7 channels on an H100 (torch 2.11).
"""
_VOLUMES_ON_GPU: Final = {"plain": 2.5, "pointwise": 0.0, "depthwise": -36.0, "transposed": 5.0}
"""The same of images of three dimensions. What does not stand here is left as it is.

Source: as above: plain 2.8, 76; depthwise -89, -36; transposed 7.2, 467.
"""
_MEMORY_RATE = 11.9
"""The `memory_rate` of the GPU on which the costs above were measured. Of the reference machine's, large copies reach
2.77 TB/s of 4.2 (H100, H200). On an H200 two plain convolutions of f32 alone, with steps and of few results, and one of
3 by 3 took 0.74, 0.83 and 0.90 of the time before; one of volumes and a block of pointwise ones, which stay as they
were, 1.09 and 1.12.

Source: measured, as these are (torch 2.11).
"""
_COLOURS = 4
"""The most channels of an image as it comes.

Source: a definition: three colours, and what is transparent.
"""


@struct
class Convolution:
    """A convolution, or its backward pass, as the forward pass is called."""

    call: loops.ExternOp
    images: tuple[SSAValue, ...]
    """What it reads that is to lie alike."""
    made: SSAValue
    """What lies so that it gives first, where it is an image."""
    image: SSAValue
    """What the forward pass reads."""
    weight: SSAValue
    result: SSAValue
    """What the forward pass gives, or its gradient."""
    arguments: Sequence[Argument]
    """As those of a forward pass."""
    passes: int = 1
    """How many results there are whose making takes as long as that of an image."""
    is_backward: bool = False
    of_weight: bool = False
    """Whether the gradient of the weight is one of the results."""

    @property
    def is_transposed(self) -> bool:
        """Whether it is one the other way round."""
        return self.arguments[_TRANSPOSED] is not False

    @property
    def given_last(self) -> tuple[SSAValue, ...]:
        """What a backward pass reads that is channels last already, as a forward pass has left it."""
        return tuple(image for image in self.images if self.is_backward and is_last(image))

    @property
    def has_choice(self) -> bool:
        """Whether it could be given and give images in either layout."""
        if is_tensor(self.made) and not has_choice(self.made):
            return False
        return all(has_choice(image) or (self.is_backward and is_last(image)) for image in self.images)

    @classmethod
    def of(cls, call: loops.ExternOp) -> Convolution | None:
        """None when a call is another."""
        arguments, operands = call.arguments_attr.positional, call.operands
        if call.overload == _FORWARD and len(arguments) > _GROUPS:
            return cls(call, (operands[0],), call.results[0], operands[0], operands[1], call.results[0], arguments)
        if call.overload == _BACKWARD and len(arguments) > _GROUPS + 2 and isinstance(wanted := arguments[-1], tuple):
            gradient, image, weight = operands[:3]
            given, passes = arguments[1:-1], sum(map(bool, wanted[:2]))
            of_weight = bool(wanted[1])
            return cls(
                call, (gradient, image), call.results[0], image, weight, gradient, given, passes, True, of_weight
            )
        return None


@struct
class LayoutTimes:
    """How long a call takes with images in either layout, in us."""

    first: float
    last: float


def times_of(call: loops.ExternOp) -> LayoutTimes | None:
    """What a convolution says that it takes, in its attribute `times`; None when it says nothing.

    Errors: CuestaError, at the call, when it says something else.
    """
    stated = call.attributes.get(TIMES)
    if stated is None:
        return None
    data: Mapping[str, Attribute] = stated.data if isinstance(stated, DictionaryAttr) else {}
    values = [data.get(name) for name in _LAYOUTS]
    times = [value.value.data for value in values if isinstance(value, FloatAttr)]
    if not len(times) == len(data) == len(_LAYOUTS) or not all(map(_is_time, times)):
        fail(
            call, f"`{TIMES}` of a convolution is {{{', '.join(f'{name} = us' for name in _LAYOUTS)}}}", got=str(stated)
        )
    return LayoutTimes(*times)


def state_times(call: loops.ExternOp, times: LayoutTimes) -> None:
    """Lets a convolution say what it takes."""
    values = zip(_LAYOUTS, (times.first, times.last), strict=True)
    call.attributes[TIMES] = DictionaryAttr({name: FloatAttr(value, Float64Type()) for name, value in values})


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value >= 0.0


def channels_first_costs(convolution: Convolution, machine: Machine) -> float | None:
    """What a convolution costs more when images are channels first, in bytes for each byte that it reads and writes;
    below 0 when it costs less. None when nobody has measured that.

    Where a library copies images first, that and its kernel take on a GPU of faster memory what they take on another:
    the memory moves more meanwhile.

    Of the gradients that a backward pass computes on a GPU each is taken for half of both. On a processor it keeps its
    layout: most networks would gain 2 to 8 %, but norms of concatenations lose more (decision 030).
    """
    kind = kind_of_convolution(convolution)
    if kind is None:
        return None
    element = element_type_of(convolution.result)
    half = isinstance(element, Float16Type | BFloat16Type)
    if traits_of(convolution.result).blocks:
        if not half and not isinstance(element, Float32Type):
            return None
        rate = _rate_on_gpu(kind, convolution, half=half)
        is_copied = kind == "plain" and len(sizes_of(tensor_type_of(convolution.result))) == 4
        return rate * (machine.memory_rate / _MEMORY_RATE) if rate is not None and is_copied else rate
    # What libraries have no kernel for gives its result channels first.
    return _CPU[kind] if isinstance(element, Float32Type | BFloat16Type) and not convolution.is_backward else None


def _rate_on_gpu(kind: str, convolution: Convolution, *, half: bool) -> float | None:
    """The same on the GPU on which it was measured."""
    if len(sizes_of(tensor_type_of(convolution.result))) == 5:
        rate = _VOLUMES_ON_GPU.get(kind)
        return None if rate is None else rate * convolution.passes
    forward, backward = _rates_of((_HALF_ON_GPU if half else _GPU)[kind], convolution)
    if not convolution.is_backward:
        return _of_colours(convolution, half=half) if kind == "plain" and _has_few(convolution.image) else forward
    if kind == "depthwise" and not half and convolution.of_weight and _window(convolution) >= _LARGE_WINDOW:
        return _LARGE_WINDOW_WEIGHT + backward * (convolution.passes - 1) / 2
    return backward * convolution.passes / 2


def _rates_of(rates: _Rates, convolution: Convolution) -> tuple[float, float]:
    """What channels first costs a convolution, forward and for both gradients."""
    channels, stride = _channels_of_groups(convolution), convolution.arguments[_STRIDE]
    in_steps = isinstance(stride, tuple | list) and any(step != 1 for step in stride)
    forward, backward = rates.forward, rates.backward
    if rates.few is not None and any(count < _FEW for count in channels):
        forward, backward = rates.few
    elif rates.many is not None and channels and channels[0] > _MANY:
        forward, backward = rates.many
    elif rates.steps is not None and in_steps:
        forward, backward = rates.steps
    return forward, rates.back_in_steps if rates.back_in_steps is not None and in_steps else backward


def _has_few(image: SSAValue) -> bool:
    """Whether an image is known to have few channels."""
    channels = sizes_of(tensor_type_of(image))[1]
    return isinstance(channels, int) and channels < _FEW


def _of_colours(convolution: Convolution, *, half: bool) -> float:
    """What channels first costs the forward pass where images have few channels."""
    window = _window(convolution)
    return next(narrow if half else wide for points, wide, narrow in _COLOURS_ON_GPU if window >= points)


def _window(convolution: Convolution) -> int:
    """The points of a window, as far as they are known."""
    sizes = sizes_of(tensor_type_of(convolution.weight))[2:]
    return math.prod(size for size in sizes if isinstance(size, int))


def _channels_of_groups(convolution: Convolution) -> list[int]:
    """The channels of a group of what a convolution reads and of what it gives; none where they are not known."""
    groups = convolution.arguments[_GROUPS]
    every = [sizes_of(tensor_type_of(value))[1] for value in (convolution.image, convolution.result)]
    known = [size // groups for size in every if isinstance(size, int) and isinstance(groups, int)]
    return known if len(known) == len(every) else []


def kind_of_convolution(convolution: Convolution) -> str | None:
    """`plain`, `pointwise` (a window of one point), `patches` (which do not overlap), `patches of colours`, `grouped`,
    `grouped pointwise` or `depthwise`, or, the other way round, `transposed`, `transposed patches` and so on; None for
    a call that is not of images.
    """
    arguments = convolution.arguments
    values = (convolution.image, convolution.weight, convolution.result)
    if not all(is_tensor(value) for value in values):
        return None
    image, weight, _ = (sizes_of(tensor_type_of(value)) for value in values)
    if len(image) not in (4, 5) or len(weight) != len(image):
        return None
    groups, stride = arguments[_GROUPS], arguments[_STRIDE]
    kind = "" if groups == 1 else "depthwise" if groups == image[1] else "grouped"
    point = all(size == 1 for size in weight[2:])
    apart = isinstance(stride, tuple | list) and not point and tuple(stride) == weight[2:]
    if convolution.is_transposed:
        return f"transposed {kind or ('patches' if apart else '')}".strip()
    if kind:
        return f"{kind} pointwise" if point and kind == "grouped" else kind
    if apart:
        channels = image[1]
        return "patches of colours" if isinstance(channels, int) and channels <= _COLOURS else "patches"
    return "pointwise" if point else "plain"


__all__ = [
    "TIMES",
    "Convolution",
    "LayoutTimes",
    "channels_first_costs",
    "kind_of_convolution",
    "state_times",
    "times_of",
]
