"""Norms over everything but a channel (batch norm) or a group of channels (group norm). The channel is dim 1."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import LITERAL_TYPE
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.reductions import Row, Split, mean_and_centered_squares
from cuesta.lowering.aten.scalar import Scalar, rsqrt

Index = Sequence[sym.IndexExpr]


def _channel_split(source: SSAValue) -> Split:
    sizes = sizes_of_value(source)
    return Split(sizes, tuple([dim for dim in range(len(sizes)) if dim != 1]))


class _Channel:
    """The parameters of one channel, in the type of the computation."""

    def __init__(self, op: AtenCall, builder: LoopBuilder, channel: sym.IndexExpr, to: Attribute):
        self._op, self._builder, self._channel, self._to = op, builder, channel, to

    def load(self, name: str) -> Scalar:
        """An element of a parameter with one element per channel."""
        return self._builder.load(self._op.tensor(name), [self._channel], self._to)

    def optional(self, name: str) -> Scalar | None:
        """The same, None when there is no such parameter."""
        return None if self._op.optional_tensor(name) is None else self.load(name)

    def affine(self, value: Scalar) -> Scalar:
        """value · weight + bias"""
        weight, bias = self.optional("weight"), self.optional("bias")
        value = value if weight is None else value * weight
        return value if bias is None else value + bias


# -- batch norm --------------------------------------------------------------------------------------------------------


def _batch_norm_with_running_statistics(
    op: AtenCall, builder: LoopBuilder, results: Sequence[SSAValue]
) -> list[SSAValue]:
    """Pointwise: (x − running mean) · rsqrt(running variance + eps) · weight + bias. Other results have size 0."""
    source = op.tensor("input")
    to = compute_type(element_of(source))
    with builder.nest(sizes_of_value(source), [results[0].type]) as nest:
        channel = _Channel(op, builder, nest.indices[1], to)
        scale = rsqrt(channel.load("running_var") + op.floating("eps"))
        x = builder.load(source, nest.indices, to)
        builder.store(channel.affine((x - channel.load("running_mean")) * scale), nest.handles[0], nest.indices)
    return [nest.results[0], *[_fill_with_zero(builder, result) for result in results[1:]]]


def _fill_with_zero(builder: LoopBuilder, result: SSAValue) -> SSAValue:
    with builder.nest(sizes_of_value(result), [result.type]) as nest:
        builder.store(builder.constant(0, element_of(result)), nest.handles[0], nest.indices)
    return nest.results[0]


def _batch_norm_inference(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return _batch_norm_with_running_statistics(op, builder, op.results)


def _batch_norm(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    if not op.boolean("training"):
        if len(op.results) != 3:
            return [
                *_batch_norm_with_running_statistics(op, builder, op.results[:3]),
                op.tensor("running_mean"),
                op.tensor("running_var"),
            ]
        return _batch_norm_with_running_statistics(op, builder, op.results)
    source, running = op.tensor("input"), len(op.results) == 5
    split = _channel_split(source)
    with builder.nest(split.kept_sizes, [result.type for result in op.results]) as nest:
        row = Row(builder, source, split, nest.indices, compute_type(element_of(source)))
        channel = _Channel(op, builder, nest.indices[0], row.to)
        mean, squares = mean_and_centered_squares(row)
        scale = rsqrt(squares / row.count() + op.floating("eps"))
        statistics = [mean, scale]
        if running:
            momentum = op.floating("momentum")
            unbiased = squares / (row.count() - 1.0)
            statistics.append(channel.load("running_mean") * (1.0 - momentum) + mean * momentum)
            statistics.append(channel.load("running_var") * (1.0 - momentum) + unbiased * momentum)
        for statistic, handle in zip(statistics, nest.handles[1:], strict=True):
            builder.store(statistic, handle, nest.indices)
        with builder.loop(split.reduced_sizes) as inner:
            value = channel.affine((row.load(inner) - mean) * scale)
            builder.store(value, nest.handles[0], split.index(nest.indices, inner))
    return nest.results


def _native_batch_norm(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    if op.boolean("training") and op.optional_tensor("running_mean") is not None:
        decline("it updates the running statistics in place")
    return _batch_norm(op, builder)


def _batch_norm_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    gradient, source = op.tensor("grad_out"), op.tensor("input")
    split = _channel_split(source)
    present = [result for result in op.results if result.type != LITERAL_TYPE]
    training = op.boolean("train")
    with builder.nest(split.kept_sizes, [result.type for result in present]) as nest:
        handles = iter(nest.handles)
        x = Row(builder, source, split, nest.indices, compute_type(element_of(source)))
        g = Row(builder, gradient, split, nest.indices, x.to)
        channel = _Channel(op, builder, nest.indices[0], x.to)
        if training:
            mean, scale = channel.load("save_mean"), channel.load("save_invstd")
        else:
            mean, scale = channel.load("running_mean"), rsqrt(channel.load("running_var") + op.floating("eps"))
        total = g.reduce("sum")
        along = builder.reduce("sum", split.reduced_sizes, x.to, lambda j: g.load(j) * (x.load(j) - mean))
        if op.results[0].type != LITERAL_TYPE:
            weight = channel.optional("weight")
            factor = scale if weight is None else scale * weight
            slope, average = along / x.count() * scale * scale, total / x.count()
            handle = next(handles)
            with builder.loop(split.reduced_sizes) as inner:
                rest = g.load(inner)
                if training:
                    rest = rest - average - (x.load(inner) - mean) * slope
                builder.store(rest * factor, handle, split.index(nest.indices, inner))
        for value, result in ((along * scale, op.results[1]), (total, op.results[2])):
            if result.type != LITERAL_TYPE:
                builder.store(value, next(handles), nest.indices)
    values = iter(nest.results)
    return [builder.none() if result.type == LITERAL_TYPE else next(values) for result in op.results]


# -- group norm --------------------------------------------------------------------------------------------------------


def _group_norm(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, groups = op.tensor("input"), op.integer("group")
    batch, channels, *spatial = sizes_of_value(source)
    in_group = channels // groups
    inner_sizes = (in_group, *spatial)
    to = compute_type(element_of(source))
    count = sym.product_of(inner_sizes)
    with builder.nest((batch, groups), [result.type for result in op.results]) as nest:
        sample, group = nest.indices

        def index(inner: Index) -> list[sym.IndexExpr]:
            return [sample, group * in_group + inner[0], *inner[1:]]

        number = builder.constant(count, to)
        mean = builder.reduce("sum", inner_sizes, to, lambda j: builder.load(source, index(j), to)) / number

        def squared_distance(inner: list[sym.IndexExpr]) -> Scalar:
            distance = builder.load(source, index(inner), to) - mean
            return distance * distance

        scale = rsqrt(builder.reduce("sum", inner_sizes, to, squared_distance) / number + op.floating("eps"))
        with builder.loop(inner_sizes) as inner:
            place = index(inner)
            channel = _Channel(op, builder, place[1], to)
            value = channel.affine((builder.load(source, place, to) - mean) * scale)
            builder.store(value, nest.handles[0], place)
        builder.store(mean, nest.handles[1], nest.indices)
        builder.store(scale, nest.handles[2], nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    "aten._native_batch_norm_legit_no_training.default": _batch_norm_inference,
    "aten._native_batch_norm_legit_functional.default": _batch_norm,
    "aten._native_batch_norm_legit.no_stats": _batch_norm,
    "aten.native_batch_norm.default": _native_batch_norm,
    "aten.native_batch_norm_backward.default": _batch_norm_backward,
    "aten.native_group_norm.default": _group_norm,
}
"""Batch norm and its derivative, group norm."""
