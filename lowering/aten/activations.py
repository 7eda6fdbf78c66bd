"""Formulas behind `pointwise_table`: activations and their derivatives, written over `Scalar`s."""

from __future__ import annotations

import math

from cuesta.dialects import sym
from cuesta.lowering.aten.arithmetic import clamp, scaled
from cuesta.lowering.aten.scalar import (
    Number,
    Operand,
    Scalar,
    erf,
    exp,
    expm1,
    log1p,
    sigmoid,
    tanh,
    where,
)

_BETA = math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5
_KAPPA = 0.044715


def silu_backward(gradient: Scalar, x: Scalar) -> Scalar:
    """The derivative of x · sigmoid(x)."""
    s = sigmoid(x)
    return gradient * s * (1.0 + x * (1.0 - s))


def _gate_of_gelu(x: Scalar) -> Scalar:
    """½·(1 + tanh u) = sigmoid 2u, which is cheaper, and keeps its digits where tanh u is near -1."""
    return sigmoid((x + x * x * x * _KAPPA) * (2.0 * _BETA))


def gelu(x: Scalar, approximate: str) -> Scalar:
    """torch.nn.functional.gelu"""
    if approximate == "tanh":
        return x * _gate_of_gelu(x)
    return x * 0.5 * (1.0 + erf(x * math.sqrt(0.5)))


def gelu_backward(gradient: Scalar, x: Scalar, approximate: str) -> Scalar:
    """The derivative of gelu."""
    if approximate == "tanh":
        gate = _gate_of_gelu(x)
        steep = (1.0 + x * x * (3.0 * _KAPPA)) * (2.0 * _BETA)
        return gradient * (gate + x * gate * (1.0 - gate) * steep)
    cumulative = 0.5 * (1.0 + erf(x * math.sqrt(0.5)))
    density = exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return gradient * (cumulative + x * density)


def threshold(x: Scalar, limit: Operand, value: Operand) -> Scalar:
    """torch.nn.functional.threshold"""
    return where(x <= limit, value, x)


def elu(x: Scalar, alpha: Number, scale: Number, input_scale: Number) -> Scalar:
    """torch.nn.functional.elu"""
    return where(x <= 0.0, expm1(scaled(x, input_scale)) * alpha * scale, scaled(x, scale))


def elu_backward(
    gradient: Scalar, alpha: Number, scale: Number, input_scale: Number, is_result: bool, x: Scalar
) -> Scalar:
    """The derivative of elu, from its argument or its result."""
    if is_result:
        steep = gradient * input_scale * (x + x.like(alpha) * scale)
    else:
        steep = gradient * input_scale * alpha * scale * exp(scaled(x, input_scale))
    return where(x <= 0.0, steep, gradient * scale)


def softplus(x: Scalar, beta: Number, threshold: Number) -> Scalar:
    """torch.nn.functional.softplus"""
    steep = scaled(x, beta)
    return where(steep > threshold, x, log1p(exp(steep)) / beta)


def softplus_backward(gradient: Scalar, x: Scalar, beta: Number, threshold: Number) -> Scalar:
    """The derivative of softplus."""
    steep = scaled(x, beta)
    z = exp(steep)
    return where(steep > threshold, gradient, gradient * z / (z + 1.0))


def mish_backward(gradient: Scalar, x: Scalar) -> Scalar:
    """The derivative of mish."""
    s, t = sigmoid(x), tanh(log1p(exp(x)))
    return gradient * (t + x * s * (1.0 - t * t))


def hard_gate(x: Scalar) -> Scalar:
    """relu6(x + 3)"""
    return clamp(x + 3.0, 0.0, 6.0)


def hardtanh(x: Scalar, low: Number, high: Number) -> Scalar:
    """torch.nn.functional.hardtanh: of integers, limits lose what is behind their points."""
    if x.kind != "f" and not isinstance(low, sym.Expr) and not isinstance(high, sym.Expr):
        low, high = int(low), int(high)
    return clamp(x, low, high)


def hardtanh_backward(gradient: Scalar, x: Scalar, low: Number, high: Number) -> Scalar:
    """The derivative of hardtanh."""
    return where((x <= low) | (x >= high), 0.0, gradient)


def hardswish_backward(gradient: Scalar, x: Scalar) -> Scalar:
    """The derivative of hardswish."""
    middle = gradient * (x / 3.0 + 0.5)
    return where(x <= -3.0, 0.0, where(x < 3.0, middle, gradient))


def hardsigmoid_backward(gradient: Scalar, x: Scalar) -> Scalar:
    """The derivative of hardsigmoid."""
    return where((x > -3.0) & (x < 3.0), gradient * (1.0 / 6.0), 0.0)
