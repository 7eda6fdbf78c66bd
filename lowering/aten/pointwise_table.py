"""The table of pointwise ops: one row per overload, a formula over the elements of its arguments.

A formula takes the overload's arguments in the order of the schema, as many as it has parameters. How each is passed
is said by one letter per parameter:

    r  as a scalar in the result's compute type, rounded to the result's type first (the default for tensors)
    w  the same, but a number or a tensor of one element keeps its digits: the second operand of eager's mul and div
    c  as a scalar in the common type of all `c` arguments, torch.result_type (comparisons); rounded, too
    o  as a scalar of its own compute type
    b  as a bool
    p  as a Python value (the default for anything else)
    m  as it is stored, when the result is stored in the same type, else as `o`: for ops that only move

An `r`, `w` or `c` that is a number becomes a constant; None stays None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from cuesta.dialects.core.structs import struct
from cuesta.lowering.aten import activations, arithmetic, bessel, incomplete_gamma, orthogonal_polynomials, special
from cuesta.lowering.aten import scalar as s
from cuesta.lowering.aten.scalar import Operand, Scalar, where

Formula = Callable[..., Scalar]


@struct
class Row:
    """A formula, how its parameters are passed, and the kinds of results that eager refuses: those of `elem.kind_of`,
    and `h` for f16 and bf16.

    Fewer letters than parameters: the rest have the default.
    """

    formula: Formula
    passing: str = ""
    refuses: str = ""


_BESSEL = ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0")
_MODIFIED = [f"{scaled}modified_bessel_{name}" for scaled in ("", "scaled_") for name in ("i0", "i1", "k0", "k1")]
_REFUSED = {
    **dict.fromkeys([f"{name}.default" for name in ("abs", "ceil", "floor", "relu", "round", "trunc")], "b"),
    **dict.fromkeys([f"special_{name}.default" for name in (*_BESSEL, *_MODIFIED, "erfcx", "ndtri")], "h"),
    **dict.fromkeys([f"special_{name}.n_scalar" for name in orthogonal_polynomials.FORMULAS], "h"),
}
"""The kinds of results that eager refuses, where the formula would do."""


def _rows(passing: str, formulas: Mapping[str, Formula]) -> dict[str, Row]:
    return {f"aten.{name}": Row(formula, passing, _REFUSED.get(name, "")) for name, formula in formulas.items()}


def _default(formulas: Mapping[str, Formula]) -> dict[str, Formula]:
    return {f"{name}.default": formula for name, formula in formulas.items()}


def _tensor_and_scalar(formulas: Mapping[str, Formula]) -> dict[str, Formula]:
    return {f"{name}.{kind}": formula for name, formula in formulas.items() for kind in ("Tensor", "Scalar")}


UNARY: dict[str, Callable[[Scalar], Scalar]] = {
    "neg": lambda x: -x,
    "abs": lambda x: abs(x),
    "sign": arithmetic.sign,
    "sgn": arithmetic.sign,
    "square": s.square,
    "reciprocal": lambda x: 1.0 / x,
    "sqrt": s.sqrt,
    "rsqrt": s.rsqrt,
    "exp": s.exp,
    "exp2": s.exp2,
    "expm1": s.expm1,
    "log": s.log,
    "log2": s.log2,
    "log10": s.log10,
    "log1p": s.log1p,
    "sin": s.sin,
    "cos": s.cos,
    "tan": s.tan,
    "asin": s.asin,
    "acos": s.acos,
    "atan": s.atan,
    "sinh": s.sinh,
    "cosh": s.cosh,
    "tanh": s.tanh,
    "asinh": s.asinh,
    "acosh": s.acosh,
    "atanh": s.atanh,
    "erf": s.erf,
    "erfc": s.erfc,
    "lgamma": s.lgamma,
    "digamma": special.digamma,
    "erfinv": special.erfinv,
    "special_entr": special.entr,
    "special_ndtri": special.ndtri,
    "special_erfcx": bessel.erfcx,
    "i0": bessel.i0,
    "special_i0e": bessel.i0e,
    "special_i1": bessel.i1,
    "special_i1e": bessel.i1e,
    "special_modified_bessel_i0": bessel.i0,
    "special_modified_bessel_i1": bessel.i1,
    "special_modified_bessel_k0": bessel.k0,
    "special_modified_bessel_k1": bessel.k1,
    "special_scaled_modified_bessel_k0": bessel.scaled_k0,
    "special_scaled_modified_bessel_k1": bessel.scaled_k1,
    "special_bessel_j0": bessel.j0,
    "special_bessel_j1": bessel.j1,
    "special_bessel_y0": bessel.y0,
    "special_bessel_y1": bessel.y1,
    "special_spherical_bessel_j0": bessel.spherical_j0,
    "floor": s.floor,
    "ceil": s.ceil,
    "trunc": s.trunc,
    "round": s.nearest,
    "frac": lambda x: x - s.trunc(x),
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "angle": arithmetic.angle,
    "bitwise_not": lambda x: ~x,
    "relu": lambda x: arithmetic.clamp(x, 0),
    "relu6": lambda x: arithmetic.clamp(x, 0, 6),
    "sigmoid": s.sigmoid,
    "silu": lambda x: x * s.sigmoid(x),
    "mish": lambda x: x * s.tanh(s.log1p(s.exp(x))),
    "hardswish": lambda x: x * activations.hard_gate(x) / 6.0,
    "hardsigmoid": lambda x: activations.hard_gate(x) / 6.0,
    "selu": lambda x: activations.elu(x, 1.6732632423543772, 1.0507009873554805, 1.0),
}
"""Functions of one tensor, by the name of the op; the overload is `default`."""

# In these, the second argument may be a tensor or a number.
_TENSOR_AND_SCALAR: dict[str, Formula] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "rsub": arithmetic.subtract_from,
}
_PRODUCTS: dict[str, Callable[[Scalar, Operand], Scalar]] = {"mul": lambda x, y: x * y, "div": lambda x, y: x / y}
_BY_A_FACTOR: dict[str, Formula] = {
    **_tensor_and_scalar(_PRODUCTS),
    "true_divide.Tensor": _PRODUCTS["div"],
    "floor_divide.default": arithmetic.floor_divide,
    "floor_divide.Scalar": arithmetic.floor_divide,
    "div.Tensor_mode": arithmetic.divide,
    "div.Scalar_mode": arithmetic.divide,
}
_TENSOR_AND_SCALAR_OF_TWO: dict[str, Callable[[Scalar, Operand], Scalar]] = {
    "remainder": arithmetic.remainder,
    "fmod": arithmetic.fmod_checked,
    "copysign": s.copysign,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}

_OF_TWO_TENSORS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "atan2.default": s.atan2,
    "maximum.default": s.maximum,
    "minimum.default": s.minimum,
    "fmax.default": lambda x, y: where(s.is_nan(x) | (y > x), y, x),
    "fmin.default": lambda x, y: where(s.is_nan(x) | (y < x), y, x),
    "clamp_min.Tensor": arithmetic.clamp,
    "clamp_max.Tensor": lambda x, high: arithmetic.clamp(x, None, high),
    "xlogy.Tensor": lambda x, y: where(s.is_nan(y), y, where(x.eq(0.0), 0.0, x * s.log(y))),
    "igamma.default": incomplete_gamma.igamma,
    "igammac.default": incomplete_gamma.igammac,
    "special_xlog1py.default": lambda x, y: where(s.is_nan(y), y, where(x.eq(0.0), 0.0, x * s.log1p(y))),
    "logaddexp.default": arithmetic.log_add_exp,
    "hypot.default": s.hypot,
    "nextafter.default": special.next_after,
    "gcd.default": arithmetic.greatest_divisor,
    "lcm.default": arithmetic.lcm,
    "heaviside.default": lambda x, y: where(x.eq(0), y, where(s.is_nan(x) | (x < 0), x.like(0), 1)),
    "_prelu_kernel.default": lambda x, weight: where(x > 0.0, x, x * weight),
    "sigmoid_backward.default": lambda gradient, y: gradient * (1.0 - y) * y,
    "tanh_backward.default": lambda gradient, y: gradient * (1.0 - y * y),
}

_WITH_A_NUMBER: dict[str, Callable[[Scalar, float], Scalar]] = {
    "pow.Tensor_Scalar": arithmetic.power_by_number,
    "clamp_min.default": arithmetic.clamp,
    "clamp_max.default": lambda x, high: arithmetic.clamp(x, None, high),
    "celu.default": lambda x, alpha: activations.elu(x, alpha, 1.0, 1.0 / alpha),
    "leaky_relu.default": lambda x, slope: where(x > 0.0, x, x * slope),
}

_OTHERS: dict[str, Formula] = {
    "pow.Tensor_Tensor": arithmetic.power_by_tensor,
    "pow.Scalar": arithmetic.power_by_tensor,
    "polygamma.default": special.polygamma,
    "clamp.default": arithmetic.clamp,
    "clamp.Tensor": arithmetic.clamp,
    "hardtanh.default": activations.hardtanh,
    "lerp.Scalar": arithmetic.lerp,
    "lerp.Tensor": arithmetic.lerp,
    "addcmul.default": arithmetic.add_product,
    "addcdiv.default": arithmetic.add_quotient,
    "nan_to_num.default": arithmetic.nan_to_num,
    "round.decimals": arithmetic.round_to_decimals,
    "threshold.default": activations.threshold,
    "gelu.default": activations.gelu,
    "elu.default": activations.elu,
    "softplus.default": activations.softplus,
    "gelu_backward.default": activations.gelu_backward,
    "silu_backward.default": activations.silu_backward,
    "mish_backward.default": activations.mish_backward,
    "hardtanh_backward.default": activations.hardtanh_backward,
    "hardswish_backward.default": activations.hardswish_backward,
    "hardsigmoid_backward.default": activations.hardsigmoid_backward,
    "elu_backward.default": activations.elu_backward,
    "softplus_backward.default": activations.softplus_backward,
}

_OF_TWO_TENSORS_AND_A_NUMBER: dict[str, Callable[[Scalar, Scalar, float], Scalar]] = {
    "threshold_backward.default": lambda gradient, x, threshold: where(x <= threshold, 0, gradient),
    "leaky_relu_backward.default": lambda gradient, x, slope: where(x > 0.0, gradient, gradient * slope),
    "native_dropout_backward.default": lambda gradient, mask, scale: gradient * mask * scale,
}

_SHIFTS: dict[str, Callable[[Scalar, Operand], Scalar]] = {
    name: formula
    for side, formula in (("left", arithmetic.left_shift), ("right", arithmetic.right_shift))
    for name in (
        *(f"bitwise_{side}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{side[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")),
    )
}

_COMPARISONS: dict[str, Callable[[Scalar, Operand], Scalar]] = {
    "eq": Scalar.eq,
    "ne": Scalar.ne,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}

_LOGICAL: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_xor": lambda x, y: x ^ y,
}

_TESTS: dict[str, Callable[[Scalar], Scalar]] = {
    "isnan": s.is_nan,
    "isinf": arithmetic.is_infinite,
    "isfinite": arithmetic.is_finite,
    "isposinf": lambda x: x.eq(math.inf) if x.kind == "f" else s.is_nan(x),
    "isneginf": lambda x: x.eq(-math.inf) if x.kind == "f" else s.is_nan(x),
    "signbit": arithmetic.sign_bit,
}


def _replace_where(x: Scalar, mask: Scalar, value: Operand) -> Scalar:
    return where(mask, value, x)


def _same(x: Scalar) -> Scalar:
    return x


def _second(_: object, x: Scalar) -> Scalar:
    return x


_MOVES = (
    "clone.default",
    "detach_copy.default",  # a graph that `scan` calls has it, where its gradients are wanted
    "lift_fresh_copy.default",
    "_to_copy.default",
    "positive.default",
    "contiguous.default",
    "to.dtype",
)

TABLE: dict[str, Row] = {
    **_rows("", _default(UNARY)),
    **_rows("", _tensor_and_scalar(_TENSOR_AND_SCALAR)),
    **_rows("rr", _tensor_and_scalar(_TENSOR_AND_SCALAR_OF_TWO)),
    **_rows(
        "rr",
        {
            f"{name}.Scalar_Tensor": _TENSOR_AND_SCALAR_OF_TWO[name]
            for name in ("remainder", "bitwise_and", "bitwise_or", "bitwise_xor")
        },
    ),
    **_rows("rr", {f"special_zeta.{kind}": special.zeta for kind in ("default", "self_scalar", "other_scalar")}),
    **_rows("rw", _BY_A_FACTOR),
    **_rows("", _OF_TWO_TENSORS),
    **_rows("", _WITH_A_NUMBER),
    **_rows("", _OF_TWO_TENSORS_AND_A_NUMBER),
    **_rows("", _OTHERS),
    **_rows("", {f"special_{name}.n_scalar": formula for name, formula in orthogonal_polynomials.FORMULAS.items()}),
    **_rows("rr", _SHIFTS),
    **_rows("cc", _tensor_and_scalar(_COMPARISONS)),
    **_rows("bb", _default(_LOGICAL)),
    **_rows("b", {"logical_not.default": Scalar.__invert__}),
    **_rows("o", _default(_TESTS)),
    **_rows("brr", dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"), where)),
    **_rows("rbr", _tensor_and_scalar({"masked_fill": _replace_where})),
    **_rows("m", dict.fromkeys(_MOVES, _same)),
    "aten.ldexp.Tensor": Row(special.times_power_of_two, "ro"),
    "aten.copy.default": Row(_second, "pm"),
    "prims::convert_element_type.default": Row(_same, "m"),
    "prims::fma.default": Row(s.multiply_add),
}
"""Every pointwise overload."""
