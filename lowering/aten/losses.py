"""Losses that capture keeps whole."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, where

Index = Sequence[sym.IndexExpr]
_NONE, _MEAN = 0, 1


class _Samples:
    """One sample per row of the input, whose class is the target."""

    def __init__(self, op: AtenCall, builder: LoopBuilder):
        self.builder = builder
        self.input, self.target, self.weight = op.tensor("self"), op.tensor("target"), op.optional_tensor("weight")
        sizes = list(sizes_of_value(self.input))
        if not 1 <= len(sizes) <= 2:
            decline("more dims than samples and classes")
        self.batch, self.classes = sizes[:-1], sizes[-1]
        # Without a batch a target may be a list; its first number is meant.
        self.listed = [0] * (len(sizes_of_value(self.target)) - len(self.batch))
        self.ignored = op.index("ignore_index")
        self.to = compute_type(element_of(self.input))

    def terms(self, sample: Index) -> tuple[Scalar, Scalar]:
        """The loss of a sample and its weight; both 0 when it is ignored."""
        builder = self.builder
        target = builder.load(self.target, [*sample, *self.listed])
        counts = target.ne(self.ignored)
        row = builder.bound(where(counts, target, 0), self.classes, wrap=False)
        weight = builder.constant(1, self.to)
        if self.weight is not None:
            weight = builder.load(self.weight, [row], self.to)
        loss = -builder.load(self.input, [*sample, row], self.to)
        return where(counts, loss * weight if self.weight is not None else loss, 0), where(counts, weight, 0)


def _nll_loss(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    samples, reduction = _Samples(op, builder), op.integer("reduction")
    if reduction == _NONE and samples.batch:
        with builder.nest(samples.batch, [op.results[0].type]) as nest:
            builder.store(samples.terms(nest.indices)[0], nest.handles[0], nest.indices)
        with builder.nest((), [op.results[1].type]) as total:
            builder.store(builder.constant(0, samples.to), total.handles[0], [])
        return [nest.results[0], total.results[0]]
    with builder.nest((), [result.type for result in op.results]) as nest:
        loss = builder.reduce("sum", samples.batch, samples.to, lambda sample: samples.terms(sample)[0])
        weight = builder.reduce("sum", samples.batch, samples.to, lambda sample: samples.terms(sample)[1])
        builder.store(loss / weight if reduction == _MEAN else loss, nest.handles[0], [])
        builder.store(weight, nest.handles[1], [])
    return nest.results


def _nll_loss_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    samples, reduction = _Samples(op, builder), op.integer("reduction")
    gradient = op.tensor("grad_output")
    with builder.nest(sizes_of_value(samples.input), [op.results[0].type]) as nest:
        *sample, row = nest.indices
        target = builder.load(samples.target, [*sample, *samples.listed])
        chosen = target.eq(builder.index(row, target.type)) & target.ne(samples.ignored)
        place = sample if sizes_of_value(gradient) else []
        slope = -builder.load(gradient, place, samples.to)
        if reduction == _MEAN:
            slope = slope / builder.load(op.tensor("total_weight"), [], samples.to)
        if samples.weight is not None:
            slope = slope * builder.load(samples.weight, [row], samples.to)
        builder.store(where(chosen, slope, 0), nest.handles[0], nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    "aten.nll_loss_forward.default": _nll_loss,
    "aten.nll_loss_backward.default": _nll_loss_backward,
}
"""Negative log likelihood and its derivative."""
