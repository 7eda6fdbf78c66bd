"""Pointwise ops: one nest over the result, whose body is the formula of the op's row in `pointwise_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import aten, sym
from cuesta.dialects.aten.schemas import Schema
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import sizes_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline, round_number
from cuesta.lowering.aten.operands import (
    Sizes,
    argument_value,
    common_type,
    sizes_of_value,
    tensor_type_of,
)
from cuesta.lowering.aten.pointwise_table import TABLE, Formula, Row
from cuesta.lowering.aten.scalar import Number, Scalar
from cuesta.lowering.aten.special import fraction_and_exponent
from cuesta.lowering.aten.storages import keeping_storage

Value: TypeAlias = "SSAValue | aten.Argument"


def broadcast_indices(
    sizes: Sizes, out_sizes: Sequence[sym.IndexExpr], indices: Sequence[sym.IndexExpr]
) -> list[sym.IndexExpr]:
    """Where an operand of `sizes` is read at `indices` of a result of `out_sizes`: 0 along what is broadcast."""
    offset = len(out_sizes) - len(sizes)
    return [0 if size == 1 else indices[offset + k] for k, size in enumerate(sizes)]


def lower_row(op: AtenCall, builder: LoopBuilder, row: Row, schema: Schema | None) -> Sequence[SSAValue]:
    """One nest over the result, whose body is the row's formula of the arguments that the schema names."""
    if schema is None or len(op.results) != 1:
        decline("the schema is unknown")
    out_type = tensor_type_of(op.results[0])
    if kind_of(out_type.element_type) in row.refuses or ("h" in row.refuses and _is_half(out_type.element_type)):
        decline(f"eager refuses {out_type.element_type}")
    out_sizes = tuple(sizes_of(out_type))
    letters, formals = row.passing, schema.arguments
    arguments: list[tuple[str, Value]] = []
    for position in range(min(parameter_count(row.formula), len(formals))):
        value = argument_value(op, formals[position].name)
        # A number may stand in a tensor's place: Dynamo writes `3 // x` as floor_divide(3, x).
        default = "r" if formals[position].element == "Tensor" or isinstance(value, SSAValue) else "p"
        arguments.append((letters[position] if position < len(letters) else default, value))
    types: dict[str, Attribute] = {"r": out_type.element_type}
    if "c" in letters:
        types["c"] = common_type([_number_or_tensor(value) for letter, value in arguments if letter == "c"])
    builder.stored_type = out_type.element_type
    builder.wide_operand = any(letter == "w" and _is_one_number(value) for letter, value in arguments)
    with builder.nest(out_sizes, [out_type]) as nest:
        passed = [_pass(builder, letter, value, types, out_sizes, nest.indices) for letter, value in arguments]
        builder.store(row.formula(*passed), nest.handles[0], nest.indices)
    return nest.results


def _is_half(element: Attribute) -> bool:
    return isinstance(element, Float16Type | BFloat16Type)


def _number_or_tensor(value: Value) -> SSAValue | Number:
    if not isinstance(value, SSAValue | bool | int | float | sym.Expr):
        decline(f"{value} does not stand for a tensor")
    return value


def _is_one_number(value: Value) -> bool:
    """Whether an operand is a number, or a tensor of one element."""
    return not isinstance(value, SSAValue) or all(size == 1 for size in sizes_of_value(value))


def _pass(
    builder: LoopBuilder,
    letter: str,
    value: Value,
    types: Mapping[str, Attribute],
    out_sizes: Sizes,
    indices: Sequence[sym.IndexExpr],
) -> Scalar | Value:
    if letter == "p" or value is None:
        if isinstance(value, complex):
            decline("a complex number")
        return value
    value = _number_or_tensor(value)
    if not isinstance(value, SSAValue):
        to = types.get("r" if letter in "wm" else letter)
        if to is None:
            decline(f"{value} does not stand for a tensor")
        if letter == "m" and not (kind_of(to) == "f" or (kind_of(to) in "iu" and isinstance(value, int | sym.Expr))):
            decline(f"{value} is converted to {to}")
        return builder.constant(value if letter == "w" else round_number(value, to), compute_type(to))
    sizes = sizes_of_value(value)
    raw = builder.load_raw(value, broadcast_indices(sizes, out_sizes, indices))
    if letter == "m":
        return raw if raw.type == types["r"] else builder.convert(raw, compute_type(raw.type))
    if letter == "b":
        return raw.to_bool()
    scalar = builder.convert(raw, compute_type(raw.type))
    if letter == "o":
        return scalar
    to = types["r" if letter == "w" else letter]
    if raw.type != to and not (letter == "w" and _is_one_number(value)):
        scalar = builder.convert(scalar, to)
    return builder.convert(scalar, compute_type(to))


def parameter_count(formula: Formula) -> int:
    """How many arguments a formula takes."""
    return formula.__code__.co_argcount


def _rule(row: Row) -> Rule:
    return lambda op, builder: lower_row(op, builder, row, op.schema)


def pointwise(formula: Formula, passing: str = "") -> Rule:
    """The rule of an overload whose result is, at each point, a formula of the elements of its arguments there.

    `passing` has a letter for each parameter of the formula, as in `pointwise_table`: none for tensors that count as
    the result's type (f16 and bf16 as f32), and for numbers as they are.
    """
    row = Row(formula, passing)

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        return lower_row(op, builder, row, op.signature)

    lower.__wrapped__ = formula  # whose file and line messages name  # pyright: ignore[reportFunctionMemberAccess]
    return lower


def _frexp(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Two results at every point."""
    source, types = op.operands[0], [tensor_type_of(result) for result in op.results]
    sizes = tuple(sizes_of(types[0]))
    with builder.nest(sizes, types) as nest:
        for value, handle in zip(fraction_and_exponent(builder.load(source, nest.indices)), nest.handles, strict=True):
            builder.store(value, handle, nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    **{overload: _rule(row) for overload, row in TABLE.items()},
    "aten.frexp.Tensor": _frexp,
    "aten.copy.default": keeping_storage(_rule(TABLE["aten.copy.default"])),
}
"""Every pointwise overload."""
