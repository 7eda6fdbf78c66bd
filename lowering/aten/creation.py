"""Tensors from nothing: constants, ranges, masks. And `tril`, `triu`, which are masks over a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import Operand
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, number_argument, sizes_of_value
from cuesta.lowering.aten.scalar import Number, Scalar

Index = Sequence[sym.IndexExpr]


def _fill(value_of: Callable[[AtenCall], Number | SSAValue]) -> Rule:
    """Every element is one number, or the element of a 0-d tensor."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        value, element = value_of(op), element_of(op.results[0])
        with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
            if isinstance(value, SSAValue):
                scalar = builder.load_raw(value, [])
                if scalar.type != element:
                    scalar = scalar.convert(compute_type(scalar.type))
            else:
                scalar = builder.constant(value, element)
            builder.store(scalar, nest.handles[0], nest.indices)
        return nest.results

    return lower


def _number(value: Number) -> Rule:
    return _fill(lambda op: value)


def _number_called(name: str) -> Rule:
    return _fill(lambda op: number_argument(op, name))


def _tensor_or_number_called(name: str) -> Rule:
    return _fill(lambda op: op.tensor(name) if isinstance(op.argument(name), Operand) else number_argument(op, name))


def _range(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """start + i · step"""
    start = number_argument(op, "start") if op.has_argument("start") else 0
    step = number_argument(op, "step") if op.has_argument("step") else 1
    element = element_of(op.results[0])
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        place = nest.indices[0]
        if isinstance(start, float) or isinstance(step, float):
            if kind_of(element) != "f":
                decline("a range of integers with fractions")
            # In f64, as eager does on the CPU: for the last places it matters how the product rounds.
            value = builder.index(place, f64) * step + start
        else:
            value = builder.index(place * step + start)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


def _eye(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    element = element_of(op.results[0])
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        row, column = nest.indices
        on_diagonal = builder.index(row).eq(builder.index(column))
        builder.store(on_diagonal.convert(compute_type(element)), nest.handles[0], nest.indices)
    return nest.results


def _triangle(keep: Callable[[Scalar, sym.IndexExpr], Scalar]) -> Rule:
    """Keeps x[i, j] where `keep(j − i, diagonal)`, else 0."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, diagonal = op.tensor("self"), op.index("diagonal")
        with builder.nest(sizes_of_value(source), [op.results[0].type]) as nest:
            row, column = nest.indices[-2:]
            kept = keep(builder.index(column - row), diagonal)
            zero = builder.constant(0, element_of(source))
            builder.store(builder.load_raw(source, nest.indices, kept, zero), nest.handles[0], nest.indices)
        return nest.results

    return lower


def _named(names: Sequence[str], rule: Rule) -> dict[str, Rule]:
    return {f"aten.{name}": rule for name in names}


FILLS: dict[str, Rule] = {
    **_named(("full.default", "full_like.default", "new_full.default"), _number_called("fill_value")),
    **_named(("zeros.default", "zeros_like.default", "new_zeros.default", "zero.default"), _number(0)),
    **_named(("ones.default", "ones_like.default", "new_ones.default"), _number(1)),
    # Any values will do for these; zeros are the ones that repeat.
    **_named(
        (
            "empty.memory_format",
            "empty_like.default",
            "new_empty.default",
            "empty_strided.default",
            "new_empty_strided.default",
            "empty_permuted.default",
        ),
        _number(0),
    ),
    **_named(("scalar_tensor.default",), _number_called("s")),
    "prims::scalar_tensor.default": _number_called("s"),
    **_named(("fill.Scalar", "fill.Tensor"), _tensor_or_number_called("value")),
}
"""One value everywhere."""

RULES: dict[str, Rule] = {
    **FILLS,
    **_named(("arange.default", "arange.start", "arange.start_step"), _range),
    "prims::iota.default": _range,
    **_named(("eye.default", "eye.m"), _eye),
    "aten.tril.default": _triangle(lambda distance, diagonal: distance <= diagonal),
    "aten.triu.default": _triangle(lambda distance, diagonal: distance >= diagonal),
}
"""Constants, ranges and triangles."""
