"""What the layout of images costs libraries' convolutions."""

from __future__ import annotations

from typing import Final

from xdsl.dialects.builtin import BFloat16Type, Float32Type

from cuesta.dialects import loops
from cuesta.dialects.layout import element_type_of, is_tensor, sizes_of, tensor_type_of, traits_of

CONVOLUTION: Final = "aten.convolution.default"
_STRIDE, _TRANSPOSED, _GROUPS = 3, 6, 8
"""Where these arguments stand.

Source: a definition: the schema of `aten.convolution`.
"""

_CPU: Final = {
    "plain": 2.0,
    "patches": 0.0,
    "grouped": 1.0,
    "depthwise": 2.0,
    "transposed": 2.0,
    "transposed grouped": 0.0,
    "transposed depthwise": 0.0,
}
"""For every kind of convolution what it costs more channels first than channels last, for each byte of its input and
its result, in bytes that memory could move meanwhile.

Source: measured by `make bench-convolutions` (torch 2.13, f32, two cores with AVX-512): plain 1.8 to 10, least for
three channels; patches -1.0 to 0.8; grouped 0.3 to 7.5; depthwise 0.4 (7 by 7) to 4.8; transposed 1.8 to 8.2, with
groups -0.8. Images of three dimensions are not below those of two.
"""
_GPU: Final = {"plain": 2.0, "patches": 2.0}
"""The same of a GPU. What does not stand here is left as it is.

Source: from profiles of 3 by 3 convolutions of f32 on an H200: conversions and slower kernels take as long as moving
each byte twice. Other kinds were not measured one by one.
"""


def channels_first_costs(call: loops.ExternOp) -> float | None:
    """What a convolution costs more when images are channels first, in bytes for each byte that it reads and writes;
    below 0 when it costs less. None when nobody has measured that.
    """
    kind = kind_of_convolution(call)
    if kind is None:
        return None
    result = call.results[0]
    if traits_of(result).blocks:
        return _GPU.get(kind) if len(sizes_of(tensor_type_of(result))) == 4 else None
    # What libraries have no kernel for gives its result channels first.
    return _CPU[kind] if isinstance(element_type_of(result), Float32Type | BFloat16Type) else None


def kind_of_convolution(call: loops.ExternOp) -> str | None:
    """`plain`, `patches` (which do not overlap), `grouped` or `depthwise`, or, the other way round, `transposed`; None
    for a call that is not of images.
    """
    arguments = call.arguments_attr.positional
    values = (call.operands[0], call.operands[1], call.results[0])
    if len(arguments) <= _GROUPS or not all(is_tensor(value) for value in values):
        return None
    image, weight, _ = (sizes_of(tensor_type_of(value)) for value in values)
    if len(image) not in (4, 5) or len(weight) != len(image):
        return None
    groups, stride = arguments[_GROUPS], arguments[_STRIDE]
    kind = "" if groups == 1 else "depthwise" if groups == image[1] else "grouped"
    if arguments[_TRANSPOSED] is not False:
        return f"transposed {kind}".strip()
    apart = isinstance(stride, tuple | list) and any(size != 1 for size in weight[2:]) and tuple(stride) == weight[2:]
    return kind or ("patches" if apart else "plain")


__all__ = ["CONVOLUTION", "channels_first_costs", "kind_of_convolution"]
