"""The table of pointwise ops: one row per overload, a formula over the elements of its arguments.

A formula takes the overload's arguments in the order of the schema, as many as it has parameters. How each is passed is said by
one letter per parameter:

    r  as a scalar in the result's compute type (the default for tensors)
    c  as a scalar in the common type of all `c` arguments, torch.result_type (comparisons)
    o  as a scalar of its own compute type
    b  as a bool
    p  as a Python value (the default for anything else)
    m  as it is stored, when the result is stored in the same type, else as `o`: for ops that only move

An `r` or `c` that is a number becomes a constant; None stays None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.layout import sizes_of
from cuesta.lowering.loops_from_aten import formulas as f
from cuesta.lowering.loops_from_aten import scalar as s
from cuesta.lowering.loops_from_aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline, round_number
from cuesta.lowering.loops_from_aten.operands import (
    Sizes,
    argument_value,
    common_type,
    element_of,
    sizes_of_value,
    tensor_type_of,
)
from cuesta.lowering.loops_from_aten.scalar import Scalar, where


@dataclass(frozen=True, slots=True)
class Row:
    """A formula and how its parameters are passed; fewer letters than parameters: the rest have the default."""

    formula: Callable[..., Scalar]
    passing: str = ""


def _rows(passing: str, formulas: Mapping[str, Callable[..., Scalar]]) -> dict[str, Row]:
    return {f"aten.{name}": Row(formula, passing) for name, formula in formulas.items()}


def _both(name: str, formula: Callable[..., Scalar]) -> dict[str, Callable[..., Scalar]]:
    return {f"{name}.Tensor": formula, f"{name}.Scalar": formula}


_UNARY = {
    f"{name}.default": formula
    for name, formula in (
        ("neg", lambda x: -x),
        ("abs", abs),
        ("exp", s.exp),
        ("exp2", s.exp2),
        ("expm1", s.expm1),
        ("log", s.log),
        ("log2", s.log2),
        ("log10", s.log10),
        ("log1p", s.log1p),
        ("sqrt", s.sqrt),
        ("rsqrt", s.rsqrt),
        ("reciprocal", lambda x: 1.0 / x),
        ("square", s.square),
        ("sin", s.sin),
        ("cos", s.cos),
        ("tan", s.tan),
        ("asin", s.asin),
        ("acos", s.acos),
        ("atan", s.atan),
        ("sinh", s.sinh),
        ("cosh", s.cosh),
        ("tanh", s.tanh),
        ("asinh", s.asinh),
        ("acosh", s.acosh),
        ("atanh", s.atanh),
        ("erf", s.erf),
        ("erfc", s.erfc),
        ("lgamma", s.lgamma),
        ("floor", s.floor),
        ("ceil", s.ceil),
        ("trunc", s.trunc),
        ("round", s.nearest),
        ("frac", lambda x: x - s.trunc(x)),
        ("sign", f.sign),
        ("sgn", f.sign),
        ("bitwise_not", lambda x: ~x),
        ("relu", lambda x: s.maximum(x, 0)),
        ("relu6", lambda x: f.clamp(x, 0, 6)),
        ("sigmoid", s.sigmoid),
        ("silu", lambda x: x * s.sigmoid(x)),
        ("mish", lambda x: x * s.tanh(s.log1p(s.exp(x)))),
        ("hardswish", lambda x: x * f.hard_gate(x) / 6.0),
        ("hardsigmoid", lambda x: f.hard_gate(x) / 6.0),
        ("log_sigmoid", f.log_sigmoid),
        ("deg2rad", lambda x: x * (math.pi / 180.0)),
        ("rad2deg", lambda x: x * (180.0 / math.pi)),
    )
}

_ARITHMETIC: dict[str, Callable[..., Scalar]] = {
    **_both("add", lambda x, y, alpha: x + f.scaled(x.like(y), alpha)),
    **_both("sub", lambda x, y, alpha: x - f.scaled(x.like(y), alpha)),
    **_both("rsub", lambda x, y, alpha: x.like(y) - f.scaled(x, alpha)),
    **_both("mul", lambda x, y: x * y),
    **_both("div", lambda x, y: x / y),
    "div.Tensor_mode": f.divide,
    "div.Scalar_mode": f.divide,
    "true_divide.Tensor": lambda x, y: x / y,
    "floor_divide.default": f.floor_divide,
    "floor_divide.Scalar": f.floor_divide,
    **_both("remainder", f.remainder),
    **_both("fmod", f.fmod_checked),
    "pow.Tensor_Scalar": f.power_by_number,
    "pow.Tensor_Tensor": f.power_of_floats,
    "pow.Scalar": f.power_of_floats,
    "atan2.default": s.atan2,
    "copysign.Tensor": s.copysign,
    "copysign.Scalar": s.copysign,
    "maximum.default": s.maximum,
    "minimum.default": s.minimum,
    "fmax.default": lambda x, y: where(s.is_nan(x), y, where(s.is_nan(y), x, s.maximum(x, y))),
    "fmin.default": lambda x, y: where(s.is_nan(x), y, where(s.is_nan(y), x, s.minimum(x, y))),
    "clamp.default": f.clamp,
    "clamp.Tensor": f.clamp,
    "clamp_min.default": f.clamp,
    "clamp_min.Tensor": f.clamp,
    "clamp_max.default": lambda x, high: f.clamp(x, None, high),
    "clamp_max.Tensor": lambda x, high: f.clamp(x, None, high),
    "lerp.Scalar": f.lerp,
    "lerp.Tensor": f.lerp,
    "addcmul.default": lambda x, y, z, value: x + f.scaled(y * z, value),
    "addcdiv.default": lambda x, y, z, value: x + f.scaled(y / z, value),
    "xlogy.Tensor": lambda x, y: where(s.is_nan(y), y, where(x.eq(0.0), 0.0, x * s.log(y))),
    "logaddexp.default": f.log_add_exp,
    "nan_to_num.default": f.nan_to_num,
    "heaviside.default": lambda x, y: where(x.eq(0), y, where(s.is_nan(x) | (x < 0), x.like(0), 1)),
    "hypot.default": lambda x, y: _hypot(x, y),
    **{
        name: formula
        for operation, formula in (
            ("bitwise_and", lambda x, y: x & y),
            ("bitwise_or", lambda x, y: x | y),
            ("bitwise_xor", lambda x, y: x ^ y),
        )
        for name, formula in _both(operation, formula).items()
    },
}

_ACTIVATIONS: dict[str, Callable[..., Scalar]] = {
    "gelu.default": f.gelu,
    "gelu_backward.default": f.gelu_backward,
    "silu_backward.default": f.silu_backward,
    "sigmoid_backward.default": lambda gradient, y: gradient * (1.0 - y) * y,
    "tanh_backward.default": lambda gradient, y: gradient * (1.0 - y * y),
    "threshold.default": lambda x, threshold, value: where(x <= threshold, value, x),
    "threshold_backward.default": lambda gradient, x, threshold: where(x <= threshold, 0, gradient),
    "hardtanh.default": f.clamp,
    "hardtanh_backward.default": f.hardtanh_backward,
    "hardswish_backward.default": f.hardswish_backward,
    "hardsigmoid_backward.default": f.hardsigmoid_backward,
    "leaky_relu.default": lambda x, slope: where(x > 0.0, x, x * slope),
    "leaky_relu_backward.default": lambda gradient, x, slope: where(x > 0.0, gradient, gradient * slope),
    "elu.default": f.elu,
    "elu_backward.default": f.elu_backward,
    "softplus.default": f.softplus,
    "softplus_backward.default": f.softplus_backward,
    "mish_backward.default": f.mish_backward,
    "_prelu_kernel.default": lambda x, weight: where(x > 0.0, x, x * weight),
    "native_dropout_backward.default": lambda gradient, mask, scale: gradient * mask * scale,
}

_COMPARISONS: dict[str, Callable[..., Scalar]] = {
    name: formula
    for operation, formula in (
        ("eq", Scalar.eq),
        ("ne", Scalar.ne),
        ("lt", lambda x, y: x < y),
        ("le", lambda x, y: x <= y),
        ("gt", lambda x, y: x > y),
        ("ge", lambda x, y: x >= y),
    )
    for name, formula in _both(operation, formula).items()
}

_SELECTIONS: dict[str, Callable[..., Scalar]] = {
    f"where.{overload}": where for overload in ("self", "ScalarOther", "ScalarSelf", "Scalar")
}

_FILLS: dict[str, Callable[..., Scalar]] = {**_both("masked_fill", lambda x, mask, value: where(mask, value, x))}

_TESTS: dict[str, Callable[..., Scalar]] = {
    "isnan.default": s.is_nan,
    "isinf.default": f.is_infinite,
    "isfinite.default": f.is_finite,
    "isposinf.default": lambda x: x.eq(math.inf) if x.kind == "f" else s.is_nan(x),
    "isneginf.default": lambda x: x.eq(-math.inf) if x.kind == "f" else s.is_nan(x),
    "signbit.default": lambda x: s.copysign(x.like(1.0), x) < 0.0 if x.kind == "f" else _is_negative(x),
}

_LOGICAL: dict[str, Callable[..., Scalar]] = {
    "logical_not.default": lambda x: ~x,
    "logical_and.default": lambda x, y: x & y,
    "logical_or.default": lambda x, y: x | y,
    "logical_xor.default": lambda x, y: x ^ y,
}

_MOVES: dict[str, Callable[..., Scalar]] = {
    f"{name}.default": lambda x: x for name in ("clone", "_to_copy", "positive", "view_copy", "contiguous")
}


def _is_negative(x: Scalar) -> Scalar:
    return x < 0 if x.kind == "i" else s.is_nan(x)


def _hypot(x: Scalar, y: Scalar) -> Scalar:
    x, y = abs(x), abs(y)
    large, small = s.maximum(x, y), s.minimum(x, y)
    ratio = where(large.eq(0.0) | large.eq(math.inf), 0.0, small / large)
    return where(x.eq(math.inf) | y.eq(math.inf), math.inf, large * s.sqrt(1.0 + ratio * ratio))


TABLE: dict[str, Row] = {
    **_rows("", _UNARY),
    **_rows("", _ARITHMETIC),
    **_rows("", _ACTIVATIONS),
    **_rows("cc", _COMPARISONS),
    **_rows("brr", _SELECTIONS),
    **_rows("rbr", _FILLS),
    **_rows("o", _TESTS),
    **_rows("bb", _LOGICAL),
    **_rows("m", _MOVES),
    "aten.copy.default": Row(lambda _, source: source, "pm"),
    "prims::convert_element_type.default": Row(lambda x: x, "m"),
    "aten.to.dtype": Row(lambda x: x, "m"),
}
"""Every pointwise overload."""


# -- the one rule behind the table --------------------------------------------------------------------------------------


def broadcast_indices(sizes: Sizes, out_sizes: Sequence[sym.IndexExpr], indices: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr]:
    """Where an operand of `sizes` is read at `indices` of a result of `out_sizes`: 0 along what is broadcast."""
    offset = len(out_sizes) - len(sizes)
    return [0 if size == 1 else indices[offset + k] for k, size in enumerate(sizes)]


def lower_row(op: AtenCall, builder: LoopBuilder, row: Row) -> Sequence[SSAValue]:
    """One nest over the result, whose body is the row's formula."""
    schema = op.schema
    if schema is None or len(op.results) != 1:
        decline("the schema is unknown")
    out_type = tensor_type_of(op.results[0])
    out_sizes = tuple(sizes_of(out_type))
    letters, formals = row.passing, schema.arguments
    arguments: list[tuple[str, Any]] = []
    for position in range(min(_parameter_count(row.formula), len(formals))):
        value = argument_value(op, formals[position].name)
        default = "r" if isinstance(value, SSAValue) else "p"
        arguments.append((letters[position] if position < len(letters) else default, value))
    compared = [value for letter, value in arguments if letter == "c"]
    types: dict[str, Attribute] = {"r": out_type.element_type}
    if compared:
        types["c"] = common_type(compared)
    builder.stored_type = out_type.element_type
    with builder.nest(out_sizes, [out_type]) as nest:
        passed = [_pass(builder, letter, value, types, out_sizes, nest.indices) for letter, value in arguments]
        builder.store(row.formula(*passed), nest.handles[0], nest.indices)
    return nest.results


def _pass(
    builder: LoopBuilder,
    letter: str,
    value: Any,
    types: Mapping[str, Attribute],
    out_sizes: Sizes,
    indices: Sequence[sym.IndexExpr],
) -> Any:
    if letter == "p" or value is None:
        return value
    if not isinstance(value, SSAValue):
        if isinstance(value, bool | int | float | sym.Expr) and letter in types:
            return builder.constant(round_number(value, types[letter]), compute_type(types[letter]))
        decline(f"{value} does not stand for a tensor")
    raw = builder.load_raw(value, broadcast_indices(sizes_of_value(value), out_sizes, indices))
    if letter == "m":
        return raw if raw.type == types["r"] else builder.convert(raw, compute_type(raw.type))
    if letter == "b":
        return raw.to_bool()
    scalar = builder.convert(raw, compute_type(raw.type))
    return scalar if letter == "o" else builder.convert(scalar, compute_type(types[letter]))


def _parameter_count(formula: Callable[..., Scalar]) -> int:
    code = getattr(formula, "__code__", None)
    return 1 if code is None else code.co_argcount  # a builtin such as abs


def _rule(row: Row) -> Rule:
    return lambda op, builder: lower_row(op, builder, row)


RULES: dict[str, Rule] = {overload: _rule(row) for overload, row in TABLE.items()}
