"""Reductions over dims: the parallel domain is the kept dims, the reduction domain the reduced ones, both in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Nest, Rule, compute_type, decline
from cuesta.lowering.aten.operands import (
    Sizes,
    element_of,
    normalize_dim,
    optional_dims,
    sizes_of_value,
)
from cuesta.lowering.aten.scalar import Scalar, exp, is_nan, log, maximum, power, sqrt, square, where

_i32 = IntegerType(32)


@struct
class Split:
    """The dims of a tensor, divided into kept and reduced ones."""

    sizes: Sizes
    reduced: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The dims that are not reduced."""
        return tuple([dim for dim in range(len(self.sizes)) if dim not in self.reduced])

    @property
    def kept_sizes(self) -> Sizes:
        """The parallel domain."""
        return tuple([self.sizes[dim] for dim in self.kept])

    @property
    def reduced_sizes(self) -> Sizes:
        """The reduction domain."""
        return tuple([self.sizes[dim] for dim in self.reduced])

    @property
    def count(self) -> sym.IndexExpr:
        """How many elements are reduced to one."""
        return sym.product_of(self.reduced_sizes)

    def index(self, outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr]:
        """The index of an element from its places in the two domains."""
        index: list[sym.IndexExpr] = [0] * len(self.sizes)
        for dim, place in zip(self.kept, outer, strict=True):
            index[dim] = place
        for dim, place in zip(self.reduced, inner, strict=True):
            index[dim] = place
        return index

    def result_index(self, outer: Sequence[sym.IndexExpr], rank: int) -> list[sym.IndexExpr]:
        """Where the result for `outer` is stored: with the reduced dims as size 1 when the result has all dims."""
        if rank == len(outer):
            return list(outer)
        return self.index(outer, [0] * len(self.reduced))


class Row:
    """One row of a reduction: loads and reduces elements of `source` for one point of the parallel domain."""

    def __init__(
        self, builder: LoopBuilder, source: SSAValue, split: Split, outer: Sequence[sym.IndexExpr], to: Attribute
    ):
        self.builder, self.source, self.split, self.outer, self.to = builder, source, split, outer, to

    def load(self, inner: Sequence[sym.IndexExpr]) -> Scalar:
        """The element at a point of the reduction domain, in the type of the computation."""
        return self.builder.load(self.source, self.split.index(self.outer, inner), self.to)

    def reduce(self, kind: str, formula: Callable[[Scalar], Scalar] = lambda x: x) -> Scalar:
        """Reduces `formula(element)`."""
        return self.builder.reduce(kind, self.split.reduced_sizes, self.to, lambda inner: formula(self.load(inner)))

    def count(self) -> Scalar:
        """The number of elements, as a scalar of the computation."""
        return self.builder.constant(self.split.count, self.to)


def lower_reduction(
    op: AtenCall,
    builder: LoopBuilder,
    dims: tuple[int, ...],
    to: Attribute,
    values: Callable[[Row], Sequence[Scalar]],
) -> Sequence[SSAValue]:
    """One nest over the kept dims that stores what `values` gives for a row, a scalar per result, computed in `to`."""
    source = op.operands[0]
    split = Split(sizes_of_value(source), dims)
    with builder.nest(split.kept_sizes, [result.type for result in op.results]) as nest:
        row = Row(builder, source, split, nest.indices, to)
        store_row(builder, nest, split, values(row))
    return nest.results


def store_row(builder: LoopBuilder, nest: Nest, split: Split, values: Sequence[Scalar]) -> None:
    """Stores one value per handle."""
    for handle, value in zip(nest.handles, values, strict=True):
        builder.store(value, handle, split.result_index(nest.indices, len(sizes_of_value(handle))))


def _rank(op: AtenCall) -> int:
    return len(sizes_of_value(op.operands[0]))


def _result_compute_type(op: AtenCall) -> Attribute:
    return compute_type(element_of(op.results[0]))


def _source_compute_type(op: AtenCall) -> Attribute:
    return compute_type(element_of(op.operands[0]))


# -- sums and their like -----------------------------------------------------------------------------------------------


def _over_result_type(values: Callable[[AtenCall, Row], Scalar]) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        dims = optional_dims(op, "dim", _rank(op))
        return lower_reduction(op, builder, dims, _result_compute_type(op), lambda row: [values(op, row)])

    return lower


def _extreme(kind: str, kind_of_bools: str) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        to, dims = _source_compute_type(op), optional_dims(op, "dim", _rank(op))
        _need_elements(op, dims)
        return lower_reduction(op, builder, dims, to, lambda row: [row.reduce(kind_of_bools if to == i1 else kind)])

    return lower


def _need_elements(op: AtenCall, dims: Sequence[int]) -> None:
    sizes = sizes_of_value(op.operands[0])
    if any(sizes[dim] == 0 for dim in dims):
        decline("eager refuses the extreme of no elements")


def _truth(kind: str) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        dims = optional_dims(op, "dim", _rank(op))
        return lower_reduction(op, builder, dims, i1, lambda row: [row.reduce(kind)])

    return lower


def _log_sum_exp(op: AtenCall, row: Row) -> Scalar:
    greatest = row.reduce("maximum")
    # An infinite maximum would give inf − inf.
    shift = where(abs(greatest).eq(math.inf), 0.0, greatest)
    return log(row.reduce("sum", lambda x: exp(x - shift))) + shift


# -- norms -------------------------------------------------------------------------------------------------------------


def _order_of(op: AtenCall) -> float:
    for name in ("ord", "p"):
        if op.has_argument(name):
            value = op.argument(name)
            if value is None:
                return 2.0
            if isinstance(value, bool | int | float):
                return float(value)
    decline("the order of the norm is not a number")


def _norm(op: AtenCall, row: Row) -> Scalar:
    order = _order_of(op)
    if kind_of(row.to) != "f":
        decline("a norm of integers")
    if order == 2.0:
        return sqrt(row.reduce("sum", square))
    if order == 1.0:
        return row.reduce("sum", abs)
    if math.isinf(order):
        return row.reduce("maximum" if order > 0 else "minimum", abs)
    if order == 0.0:
        return row.reduce("sum", lambda x: x.ne(0.0).convert(row.to))
    return power(_power_sum(op, row), 1.0 / order)


def _power_sum(op: AtenCall, row: Row) -> Scalar:
    """Σ |x|^p: a norm's power, of which those of parts add up."""
    order = _order_of(op)
    if kind_of(row.to) != "f":
        decline("a norm of integers")
    if order in (1.0, 2.0):
        return row.reduce("sum", abs if order == 1.0 else square)
    return row.reduce("sum", lambda x: power(abs(x), order))


# -- positions of extremes ---------------------------------------------------------------------------------------------


def _comparable_type(op: AtenCall) -> Attribute:
    # Bools are compared as integers.
    element = _source_compute_type(op)
    return _i32 if element == i1 else element


def _arg_extreme(kind: str, results: Callable[[Scalar, Scalar], Sequence[Scalar]]) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        rank = _rank(op)
        flat = not op.has_argument("dim") or op.argument("dim") is None
        dims = tuple(range(rank)) if flat or rank == 0 else (normalize_dim(op.integer("dim"), rank),)
        element = element_of(op.operands[0])
        if element == i1 and len(op.results) == 1:
            decline("eager refuses the place of an extreme of bools, unless it is asked for the extreme, too")
        _need_elements(op, dims)

        def values(row: Row) -> Sequence[Scalar]:
            value, position = builder.reduce_all(kind, row.split.reduced_sizes, row.to, row.load)
            return results(value.convert(compute_type(element)) if element != i1 else value.to_bool(), position)

        return lower_reduction(op, builder, dims, _comparable_type(op), values)

    return lower


# -- variance ----------------------------------------------------------------------------------------------------------


def mean_and_centered_squares(row: Row) -> tuple[Scalar, Scalar]:
    """The mean of a row, and the sum of the squares of what is left: two passes, which lose no digits."""
    mean = row.reduce("sum") / row.count()
    return mean, row.reduce("sum", lambda x: square(x - mean))


def _variance_of(op: AtenCall, row: Row) -> tuple[Scalar, Scalar]:
    mean, squares = mean_and_centered_squares(row)
    correction: sym.IndexExpr | float = 1
    if op.has_argument("unbiased"):
        correction = int(op.boolean("unbiased"))
    elif op.has_argument("correction") and (given := op.argument("correction")) is not None:
        correction = op.floating("correction") if isinstance(given, float) else op.index("correction")
    count = row.split.count
    if isinstance(count, int) and isinstance(correction, int | float):
        return mean, squares / max(count - correction, 0)
    return mean, squares / maximum(row.count() - row.builder.constant(correction, row.to), 0.0)


def _variance(results: Callable[[Scalar, Scalar], Sequence[Scalar]]) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        def values(row: Row) -> Sequence[Scalar]:
            mean, variance = _variance_of(op, row)
            return results(variance, mean)

        dims = optional_dims(op, "dim", _rank(op))
        return lower_reduction(op, builder, dims, _result_compute_type(op), values)

    return lower


def _named(names: Sequence[str], rule: Rule) -> dict[str, Rule]:
    return {f"aten.{name}": rule for name in names}


RULES: dict[str, Rule] = {
    **_named(("sum.default", "sum.dim_IntList"), _over_result_type(lambda op, row: row.reduce("sum"))),
    **_named(
        ("nansum.default",),
        _over_result_type(lambda op, row: row.reduce("sum", lambda x: where(is_nan(x), x.like(0), x))),
    ),
    **_named(("mean.default", "mean.dim"), _over_result_type(lambda op, row: row.reduce("sum") / row.count())),
    **_named(("prod.default", "prod.dim_int"), _over_result_type(lambda op, row: row.reduce("prod"))),
    **_named(("amax.default", "max.default"), _extreme("maximum", "any")),
    **_named(("amin.default", "min.default"), _extreme("minimum", "all")),
    **_named(("any.default", "any.dim", "any.dims"), _truth("any")),
    **_named(("all.default", "all.dim", "all.dims"), _truth("all")),
    **_named(("argmax.default",), _arg_extreme("argmax", lambda value, position: [position])),
    **_named(("argmin.default",), _arg_extreme("argmin", lambda value, position: [position])),
    **_named(("max.dim",), _arg_extreme("argmax", lambda value, position: [value, position])),
    **_named(("min.dim",), _arg_extreme("argmin", lambda value, position: [value, position])),
    **_named(("logsumexp.default",), _over_result_type(_log_sum_exp)),
    **_named(
        (
            "linalg_vector_norm.default",
            "norm.Scalar",
            "norm.ScalarOpt_dim",
            "norm.ScalarOpt_dim_dtype",
            "norm.ScalarOpt_dtype",
        ),
        _over_result_type(_norm),
    ),
    **_named(("linalg__powsum.default",), _over_result_type(_power_sum)),
    **_named(("var.default", "var.dim", "var.correction"), _variance(lambda variance, mean: [variance])),
    **_named(("std.default", "std.dim", "std.correction"), _variance(lambda variance, mean: [sqrt(variance)])),
    **_named(
        ("var_mean.default", "var_mean.dim", "var_mean.correction"),
        _variance(lambda variance, mean: [variance, mean]),
    ),
    **_named(("std_mean.correction",), _variance(lambda variance, mean: [sqrt(variance), mean])),
}
"""Every reduction over dims."""
