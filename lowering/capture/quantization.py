"""Quantised numbers, taken apart: quantise, dequantise and fake quantisation, with their backward passes.

    q  =  clamp(round(x / s) + z, low, high)         x  ≈  (q − z) · s          fake: the one after the other

Eager has a kernel, or a function in Python, for each; taken apart they join the kernels around them. Scales and zero
points are numbers, tensors of one element, of one for each channel, for each row (token), or for each group of columns.
Who refuses what a call asks for returns NotImplemented, and eager runs it.

Source: torch/ao/quantization/fx/_decomposed.py; aten/src/ATen/native/quantized/FakeQuant*.cpp and their kernels.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch._ops import OpOverload

    DecompositionTable = dict[OpOverload, Callable[..., Any]]
    Parameter = Tensor | float | int | torch.SymInt | torch.SymFloat


def is_imported() -> bool:
    """Whether there are operators of exported programs: torch.ao defines them when it is imported."""
    return "torch.ao.quantization.fx._decomposed" in sys.modules


def decompositions(*, exported: bool) -> DecompositionTable:
    """The operators of fake quantisation, and those that torch.ao puts into exported programs.

    Requires: `is_imported` for the latter.
    """
    import torch

    aten = torch.ops.aten
    table: DecompositionTable = {
        aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_per_tensor,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_per_tensor_if,
        aten.fake_quantize_per_channel_affine_cachemask.default: _fake_per_channel,
        aten._fake_quantize_learnable_per_tensor_affine.default: _learnable_per_tensor,
        aten._fake_quantize_learnable_per_tensor_affine_backward.default: _learnable_per_tensor_backward,
        aten._fake_quantize_learnable_per_channel_affine.default: _learnable_per_channel,
        aten._fake_quantize_learnable_per_channel_affine_backward.default: _learnable_per_channel_backward,
    }
    if exported:
        ops = torch.ops.quantized_decomposed
        table |= {
            **{getattr(ops.quantize_per_tensor, name): _quantize for name in ("default", "tensor", "tensor2")},
            **{getattr(ops.dequantize_per_tensor, name): _dequantize for name in ("default", "tensor", "tensor2")},
            ops.quantize_per_channel.default: _quantize_per_channel,
            ops.dequantize_per_channel.default: _dequantize_per_channel,
            ops.quantize_per_token.default: _quantize_rows,
            ops.dequantize_per_token.default: _dequantize_rows,
            ops.quantize_per_channel_group.default: _quantize_groups,
            ops.dequantize_per_channel_group.default: _dequantize_groups,
            ops.choose_qparams.tensor: _choose_affine,
            ops.choose_qparams_symmetric.tensor: _choose_symmetric,
            ops.choose_qparams_per_token.default: _choose_per_token,
            ops.choose_qparams_per_token_asymmetric.default: ops._choose_qparams_per_token_asymmetric_impl.default,
            ops.convert_element_type.no_fuse: _convert,
        }
    return table


# -- what an exported program is made of -------------------------------------------------------------------------------


def _number(parameter: Parameter) -> Any:
    """A tensor of one element as a tensor without dims, which counts as a number where types are promoted."""
    import torch

    return parameter.reshape([]) if isinstance(parameter, torch.Tensor) else parameter


def _reciprocal(scale: Parameter) -> Any:
    """1 / s, of a number in eager's precision for numbers."""
    import torch

    number: Any = scale.double() if isinstance(scale, torch.Tensor) else scale
    return 1.0 / number


def _of_floats(self: Tensor) -> Tensor | None:
    """x in float32; None when eager refuses it."""
    import torch

    if self.dtype in (torch.float16, torch.bfloat16):
        return self.to(torch.float32)
    return self if self.dtype == torch.float32 else None


def _quantize(
    self: Tensor, scale: Parameter, zero_point: Parameter, low: Parameter, high: Parameter, dtype: torch.dtype
) -> Tensor:
    """One scale and one zero point, numbers or tensors of one element."""
    import torch

    x = _of_floats(self)
    if x is None or not _fits(low, high, dtype):
        return NotImplemented
    rounded = torch.round(x * _reciprocal(_number(scale))) + _number(zero_point)
    return torch.clamp(rounded, _number(low), _number(high)).to(dtype)


def _dequantize(
    self: Tensor,
    scale: Parameter,
    zero_point: Parameter,
    low: Parameter,
    high: Parameter,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    import torch

    if self.dtype != dtype:
        return NotImplemented
    return (self.to(out_dtype or torch.float32) - _number(zero_point)) * _number(scale)


def _fits(low: Parameter, high: Parameter, dtype: torch.dtype) -> bool:
    """Whether the bounds are those of a type that eager quantises to, or within them."""
    import torch

    if dtype not in (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32):
        return False
    limits = torch.iinfo(dtype)
    return all(isinstance(bound, torch.Tensor) or limits.min <= bound <= limits.max for bound in (low, high))


def _along(parameter: Tensor, rank: int, axis: int) -> Tensor:
    """A vector as a tensor of a rank that it is the only axis of."""
    shape = [1] * rank
    shape[axis] = -1
    return parameter.reshape(shape)


def _quantize_per_channel(
    self: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    import torch

    x = _of_floats(self)
    if x is None or not -self.dim() <= axis < self.dim() or not _fits(low, high, dtype):
        return NotImplemented
    # As eager does: where memory does not say how a result lies, the channels come first.
    x = x.transpose(0, axis)
    scale, zero = _along(scales, self.dim(), 0), _along(zero_points, self.dim(), 0)
    return torch.clamp(torch.round(x * (1.0 / scale)) + zero, low, high).transpose(0, axis).to(dtype)


def _dequantize_per_channel(
    self: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    import torch

    if self.dtype != dtype or not -self.dim() <= axis < self.dim() or not _fits(low, high, dtype):
        return NotImplemented
    x = self.transpose(0, axis)  # as eager does: see above
    x = x if zero_points is None else x - _along(zero_points, self.dim(), 0)
    return (x * _along(scales, self.dim(), 0)).to(out_dtype or torch.float32).transpose(0, axis)


def _quantize_rows(
    self: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """One scale for each row, in tensors that broadcast. The zero point is added before the sum is rounded."""
    import torch

    if not _fits(low, high, dtype):
        return NotImplemented
    return torch.clamp(torch.round(self * (1.0 / scales) + zero_points), low, high).to(dtype)


def _dequantize_rows(
    self: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    return ((self - zero_points) * scales).to(output_dtype)


def _quantize_groups(
    self: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int,
) -> Tensor:
    """One scale for each group of so many columns."""
    groups = _groups(self, scales, group_size)
    if groups is None:
        return NotImplemented
    one = [*groups[:2], 1]
    quantized = _quantize_rows(
        self.contiguous().reshape(groups), scales.reshape(one), zero_points.reshape(one), low, high, dtype
    )
    return quantized if quantized is NotImplemented else quantized.reshape(self.shape)


def _dequantize_groups(
    self: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Tensor:
    groups = _groups(self, scales, group_size)
    if groups is None:
        return NotImplemented
    one, grouped = [*groups[:2], 1], self.contiguous().reshape(groups)
    x = grouped if zero_points is None else grouped - zero_points.reshape(one)
    return (x * scales.reshape(one)).reshape(self.shape).to(output_dtype)


def _groups(self: Tensor, scales: Tensor, group_size: int) -> list[int] | None:
    """Rows, groups in a row, and columns in a group: all columns, of a matrix with a single column of scales."""
    if group_size <= 1 or self.dim() != 2:
        return None
    columns = self.shape[-1]
    size = columns if group_size > columns and scales.shape[-1] == 1 else group_size
    return [self.shape[0], columns // size, size] if columns % size == 0 else None


def _choose_affine(self: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The scale and the zero point for what lies between the least and the greatest element, and 0."""
    import torch

    if not self.numel() or not low <= 0 <= high or low == high:
        return NotImplemented
    least, greatest = torch.clamp_max(self.amin(), 0), torch.clamp_min(self.amax(), 0)
    scale = torch.clamp_min(((greatest - least) / float(high - low)).float(), _single(eps)).reshape(1)
    zero_point = torch.clamp(low - torch.round(least / scale).to(torch.int32), low, high)
    return scale.double(), zero_point.long()


def _choose_symmetric(self: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The scale for what lies between the greatest magnitude and its negative."""
    import torch

    if not self.numel() or not low <= 0 <= high or low == high:
        return NotImplemented
    scale = torch.clamp_min((self.abs().amax() / (float(high - low) / 2)).float(), _single(eps)).reshape(1)
    middle = 128 if dtype == torch.uint8 else 0
    return scale.double(), torch.full([1], middle, dtype=torch.int64, device=self.device)


def _single(number: float) -> float:
    """A number as float32 holds it."""
    return struct.unpack("f", struct.pack("f", number))[0]


def _choose_per_token(self: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    import torch

    if dtype != torch.int8:
        return NotImplemented
    scales = self.abs().amax(dim=-1, keepdim=True)
    scales = (scales.float() if scales.dtype == torch.float16 else scales).clamp(min=1e-5) / 127
    return scales, torch.zeros_like(scales)


def _convert(self: Tensor, dtype: torch.dtype) -> Tensor:
    import torch

    return torch.ops.prims.convert_element_type.default(self, dtype)


# -- fake quantisation -------------------------------------------------------------------------------------------------


def _faked(
    self: Tensor, scale: Any, zero_point: Any, low: int, high: int, *, together: bool = False
) -> tuple[Tensor, Tensor]:
    """What quantised and dequantised x is, and where it was within the bounds. NaN counts as the lower one.

    Scales are in float32, and so is the computation, at least. With `together` x / s + z is rounded, not x / s alone.
    """
    import torch

    x = self.float() if self.dtype in (torch.float16, torch.bfloat16) else self
    quotient = x * (1.0 / scale)
    level = torch.round(quotient + zero_point) if together else torch.round(quotient) + zero_point
    inside = (level >= low) & (level <= high)
    bounded = torch.where(level >= low, torch.clamp_max(level, high), float(low))
    return ((bounded - zero_point) * scale).to(self.dtype), inside


def _fake_per_tensor(self: Tensor, scale: float, zero_point: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    import torch

    # Eager's kernel takes the scale in float32.
    single = torch.full([], scale, dtype=torch.float32, device=self.device)
    return _faked(self, single, zero_point, low, high)


def _fake_per_tensor_if(
    self: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """As long as `enabled` is not 0; else x itself."""
    import torch

    faked, inside = _faked(self, _number(scale).float(), _number(zero_point), low, high)
    chosen = _number(enabled) != 0
    return torch.where(chosen, faked, self), inside | ~chosen


def _fake_per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    own_scale, own_zero = _along(scale, self.dim(), axis), _along(zero_point, self.dim(), axis)
    return _faked(self, own_scale, own_zero, low, high, together=zero_point.is_floating_point())


def _learnable_per_tensor(
    self: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int, grad_factor: float = 1.0
) -> Tensor:
    import torch

    zero = torch.clamp(torch.round(_number(zero_point)), low, high)
    return _faked(self, _number(scale), zero, low, high)[0]


def _learnable_per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int, grad_factor: float = 1.0
) -> Tensor:
    import torch

    zero = torch.clamp(torch.round(_along(zero_point, self.dim(), axis)), low, high)
    return _faked(self, _along(scale, self.dim(), axis), zero, low, high)[0]


def _learnable_per_tensor_backward(
    grad: Tensor, self: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int, grad_factor: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    if _has_nothing(self):
        return self, scale, zero_point
    # Here eager rounds a half up.
    zero = torch.trunc(torch.clamp(_number(zero_point) + 0.5, low, high))
    d_self, d_scale, d_zero = _learnable_backward(grad, self, _number(scale), zero, low, high, grad_factor)
    return d_self, d_scale.sum().reshape(1), d_zero.sum().reshape(1)


def _learnable_per_channel_backward(
    grad: Tensor,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    low: int,
    high: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    if _has_nothing(self):
        return self, scale, zero_point
    zero = torch.clamp(torch.round(_along(zero_point, self.dim(), axis)), low, high)
    own_scale = _along(scale, self.dim(), axis)
    d_self, d_scale, d_zero = _learnable_backward(grad, self, own_scale, zero, low, high, grad_factor)
    others = [dim for dim in range(self.dim()) if dim != axis % self.dim()]
    return (d_self, d_scale.sum(others), d_zero.sum(others)) if others else (d_self, d_scale, d_zero)


def _has_nothing(self: Tensor) -> bool:
    """Whether there are no elements: then eager gives its arguments for their gradients."""
    return any(type(size) is int and size == 0 for size in self.shape)


def _learnable_backward(
    grad: Tensor, self: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int, grad_factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, of the scale and of the zero point, each for every element of x."""
    import torch

    level = torch.round(self * (1.0 / scale) + zero_point)
    below, above = ~(level >= low), level > high
    inside = ~(below | above)
    clamped = torch.where(below, low - zero_point, high - zero_point)
    faked = (level - zero_point) * scale
    slope = torch.where(inside, (faked - self) * (1.0 / scale), clamped)
    moved = torch.where(inside, 0.0, -scale * grad_factor)
    return torch.where(inside, grad, 0.0), grad * slope * grad_factor, grad * moved
