"""Softmax and layer norms: a nest over the rows, whose stages are reductions and loops over one inner domain."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import LITERAL_TYPE
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type
from cuesta.lowering.aten.operands import element_of, normalize_dim, sizes_of_value
from cuesta.lowering.aten.reductions import Row, Split, mean_and_centered_squares
from cuesta.lowering.aten.scalar import Scalar, exp, log, rsqrt, square

Inner = Sequence[sym.IndexExpr]

# -- softmax -----------------------------------------------------------------------------------------------------------


def _softmax(logarithm: bool) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, result = op.operands[0], op.results[0]
        sizes = sizes_of_value(source)
        split = Split(sizes, _softmax_dims(op, len(sizes)))
        with builder.nest(split.kept_sizes, [result.type]) as nest:
            row = Row(builder, source, split, nest.indices, compute_type(element_of(result)))
            greatest = row.reduce("maximum")
            total = row.reduce("sum", lambda x: exp(x - greatest))
            shift = log(total) if logarithm else total
            with builder.loop(split.reduced_sizes) as inner:
                x = row.load(inner) - greatest
                builder.store(
                    x - shift if logarithm else exp(x) / shift, nest.handles[0], split.index(nest.indices, inner)
                )
        return nest.results

    return lower


def _softmax_dims(op: AtenCall, rank: int) -> tuple[int, ...]:
    return (normalize_dim(op.integer("dim"), rank),) if rank else ()


def _softmax_backward(logarithm: bool) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        gradient, output = op.tensor("grad_output"), op.tensor("output")
        sizes = sizes_of_value(output)
        split = Split(sizes, _softmax_dims(op, len(sizes)))
        with builder.nest(split.kept_sizes, [op.results[0].type]) as nest:
            to = compute_type(element_of(output))
            g = Row(builder, gradient, split, nest.indices, to)
            y = Row(builder, output, split, nest.indices, to)
            if logarithm:
                total = g.reduce("sum")
            else:
                total = builder.reduce("sum", split.reduced_sizes, to, lambda j: g.load(j) * y.load(j))
            with builder.loop(split.reduced_sizes) as inner:
                if logarithm:
                    value = g.load(inner) - exp(y.load(inner)) * total
                else:
                    value = y.load(inner) * (g.load(inner) - total)
                builder.store(value, nest.handles[0], split.index(nest.indices, inner))
        return nest.results

    return lower


# -- layer norm and RMS norm -------------------------------------------------------------------------------------------


def _trailing_split(op: AtenCall, source: SSAValue) -> Split:
    sizes = sizes_of_value(source)
    first = len(sizes) - len(op.indices("normalized_shape"))
    return Split(sizes, tuple(range(first, len(sizes))))


def _affine(
    builder: LoopBuilder, value: Scalar, weight: SSAValue | None, bias: SSAValue | None, inner: Inner
) -> Scalar:
    if weight is not None:
        value = value * builder.load(weight, inner, value.type)
    return value if bias is None else value + builder.load(bias, inner, value.type)


def _statistics_type(op: AtenCall, source: SSAValue) -> Attribute:
    return compute_type(element_of(source))


def _store_statistic(builder: LoopBuilder, value: Scalar, handle: SSAValue, split: Split, outer: Inner) -> None:
    builder.store(value, handle, split.result_index(outer, len(sizes_of_value(handle))))


def _layer_norm(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.tensor("input")
    weight, bias, epsilon = op.optional_tensor("weight"), op.optional_tensor("bias"), op.floating("eps")
    split = _trailing_split(op, source)
    with builder.nest(split.kept_sizes, [result.type for result in op.results]) as nest:
        row = Row(builder, source, split, nest.indices, _statistics_type(op, source))
        mean, squares = mean_and_centered_squares(row)
        scale = rsqrt(squares / row.count() + epsilon)
        with builder.loop(split.reduced_sizes) as inner:
            value = _affine(builder, (row.load(inner) - mean) * scale, weight, bias, inner)
            builder.store(value, nest.handles[0], split.index(nest.indices, inner))
        _store_statistic(builder, mean, nest.handles[1], split, nest.indices)
        _store_statistic(builder, scale, nest.handles[2], split, nest.indices)
    return nest.results


def _default_epsilon(element: Attribute) -> float:
    # That of the type computed in, as torch.finfo says it.
    return 2.0**-52 if str(compute_type(element)) == "f64" else 2.0**-23


def _rms_norm(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, weight = op.tensor("input"), op.optional_tensor("weight")
    epsilon = _default_epsilon(element_of(source)) if op.argument("eps") is None else op.floating("eps")
    split = _trailing_split(op, source)
    with builder.nest(split.kept_sizes, [result.type for result in op.results]) as nest:
        row = Row(builder, source, split, nest.indices, _statistics_type(op, source))
        scale = rsqrt(row.reduce("sum", square) / row.count() + epsilon)
        with builder.loop(split.reduced_sizes) as inner:
            value = _affine(builder, row.load(inner) * scale, weight, None, inner)
            builder.store(value, nest.handles[0], split.index(nest.indices, inner))
        _store_statistic(builder, scale, nest.handles[1], split, nest.indices)
    return nest.results


def _is_none(value: SSAValue) -> bool:
    return value.type == LITERAL_TYPE


class _RowBackward:
    """What the derivative by the input needs of one row: g · weight and the normalized x, at every inner point."""

    def __init__(self, op: AtenCall, builder: LoopBuilder, split: Split, outer: Inner):
        gradient, source = op.tensor("grad_out"), op.tensor("input")
        self.builder, self.weight = builder, op.optional_tensor("weight")
        to = compute_type(element_of(source))
        self.gradient = Row(builder, gradient, split, outer, to)
        self.row = Row(builder, source, split, outer, to)

        def statistic(name: str) -> Scalar:
            value = op.tensor(name)
            return builder.load(value, split.result_index(outer, len(sizes_of_value(value))), to)

        self.mean = statistic("mean") if op.has_argument("mean") else None
        self.scale = statistic("rstd")

    def weighted(self, inner: Inner) -> Scalar:
        return _affine(self.builder, self.gradient.load(inner), self.weight, None, inner)

    def normalized(self, inner: Inner) -> Scalar:
        x = self.row.load(inner)
        return (x if self.mean is None else x - self.mean) * self.scale


def _input_gradient(op: AtenCall, builder: LoopBuilder, split: Split, result: SSAValue) -> SSAValue:
    with builder.nest(split.kept_sizes, [result.type]) as nest:
        at = _RowBackward(op, builder, split, nest.indices)
        count, to = at.row.count(), at.row.to
        along = builder.reduce("sum", split.reduced_sizes, to, lambda j: at.weighted(j) * at.normalized(j)) / count
        average = None if at.mean is None else builder.reduce("sum", split.reduced_sizes, to, at.weighted) / count
        with builder.loop(split.reduced_sizes) as inner:
            rest = at.weighted(inner) - at.normalized(inner) * along
            rest = rest if average is None else rest - average
            builder.store(rest * at.scale, nest.handles[0], split.index(nest.indices, inner))
    return nest.results[0]


def _column_gradient(
    op: AtenCall, builder: LoopBuilder, split: Split, result: SSAValue, *, normalized: bool
) -> SSAValue:
    """Sums over the rows: the derivative by the weight (of g · normalized x) or by the bias (of g)."""
    with builder.nest(split.reduced_sizes, [result.type]) as nest:

        def at_row(outer: list[sym.IndexExpr]) -> Scalar:
            at = _RowBackward(op, builder, split, outer) if normalized else None
            if at is not None:
                return at.gradient.load(nest.indices) * at.normalized(nest.indices)
            return builder.load(op.tensor("grad_out"), split.index(outer, nest.indices), to)

        to = compute_type(element_of(op.tensor("input")))
        builder.store(builder.reduce("sum", split.kept_sizes, to, at_row), nest.handles[0], nest.indices)
    return nest.results[0]


def _norm_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    split = _trailing_split(op, op.tensor("input"))
    values: list[SSAValue] = []
    for position, result in enumerate(op.results):
        if _is_none(result):
            values.append(builder.none())
        elif position == 0:
            values.append(_input_gradient(op, builder, split, result))
        else:
            values.append(_column_gradient(op, builder, split, result, normalized=position == 1))
    return values


RULES: dict[str, Rule] = {
    "aten._softmax.default": _softmax(logarithm=False),
    "aten._log_softmax.default": _softmax(logarithm=True),
    "aten._softmax_backward_data.default": _softmax_backward(logarithm=False),
    "aten._log_softmax_backward_data.default": _softmax_backward(logarithm=True),
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_layer_norm_backward.default": _norm_backward,
    "aten._fused_rms_norm.default": _rms_norm,
    "aten._fused_rms_norm_backward.default": _norm_backward,
}
"""Softmax, layer norm, RMS norm, and their derivatives."""
