"""What a call of a library moves and computes at least, from the types of what it takes and gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.aten.arguments import Operand
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.aten.named_call import NamedCall

Shape: TypeAlias = tuple[int, ...]


def _product(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    """Two operations for each element of the result and each term of its sum."""
    left = inputs[-2]
    return 2 * math.prod(outputs[0]) * left[-1]


def _linear(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    return 2 * math.prod(outputs[0]) * inputs[0][-1]


def _convolution(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    weight = inputs[1]
    transposed = call.argument("transposed") is True
    places = inputs[0] if transposed else outputs[0]
    # Each element of the result (or of the image, where it is the other way round) meets one filter of the weight.
    return 2 * math.prod(places) * math.prod(weight[1:])


def _convolution_backward(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    gradient, image, weight = inputs[:3]
    mask = call.argument("output_mask")
    transposed = call.argument("transposed") is True
    wanted = [bool(one) for one in mask[:2]] if isinstance(mask, list | tuple) else [True, True]
    places = image if transposed else gradient
    return 2 * math.prod(places) * math.prod(weight[1:]) * sum(wanted)


def _attention(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    query, key, value = inputs[:3]
    heads = math.prod(query[:-2])
    return 2 * heads * query[-2] * key[-2] * (query[-1] + value[-1])


def _attention_backward(inputs: Sequence[Shape], outputs: Sequence[Shape], call: NamedCall) -> int:
    return 5 * _attention(inputs[1:], outputs, call) // 2


_FLOPS: Final[Mapping[str, Callable[[Sequence[Shape], Sequence[Shape], NamedCall], int]]] = {
    "aten.mm": _product,
    "aten.bmm": _product,
    "aten.addmm": _product,
    "aten.addmm_": _product,
    "aten.baddbmm": _product,
    "aten.baddbmm_": _product,
    "mkldnn::_linear_pointwise": _linear,
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten.scaled_dot_product_attention": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_efficient_attention": _attention,
    "aten._scaled_dot_product_cudnn_attention": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten._scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten._scaled_dot_product_efficient_attention_backward": _attention_backward,
}


def operands_read(call: CallLike) -> list[SSAValue]:
    """The operands of a call but for what it is given as `out`, to write to."""
    written = {one.index for name, one in call.arguments_attr.keywords if name == "out" and isinstance(one, Operand)}
    return [operand for place, operand in enumerate(call.operands) if place not in written]


def flops_of_call(call: NamedCall, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> tuple[int | None, str]:
    """The arithmetic of a call with tensors of these sizes; why it is not known, if it is not."""
    count = _FLOPS.get(call.overload.rpartition(".")[0])
    if count is None:
        return None, f"nobody counts the arithmetic of {call.overload}"
    try:
        return count(inputs, outputs, call), ""
    except (IndexError, ValueError, KeyError, AttributeError, VerifyException) as error:
        return None, f"its arguments are not as usual: {error}"


__all__ = ["Shape", "flops_of_call", "operands_read"]
