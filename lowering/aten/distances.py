"""Distances of all pairs of rows, by a norm of their difference, and their derivatives.

Euclidean distances of many rows stay a product of matrices, |a|² + |b|² − 2ab: a library's. So do, on a CPU, those of
the pairs of one set, where eager has vectors for the norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f64, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.lowering.aten.arithmetic import floor_quotient
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, number_argument, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, maximum, minimum, power, sqrt, where

MOST_ROWS = 25
"""Of more rows eager's distances are made of a product, unless it is told not to.

Source: `cdist_impl` of aten/src/ATen/native/Distance.cpp.
"""
_ALWAYS, _NEVER = 1, 2
"""What `compute_mode` says of that product."""

VECTOR_COLUMNS = 8
"""On a CPU, the columns from which eager takes distances of pairs in vectors, if the norm is 1, 2 or ∞. Of 100 rows, 8
columns took it a tenth of the time of 7, and us 5.6 to 7.8 times its time; 32 columns 4.4 to 6.3, 300 rows of 128
columns 2.0 to 2.1. By the norms 3 and 0.5 ours took 0.4 to 0.7. The derivatives took 3.0 to 6.0 times its time with 8
columns, 1.4 to 3.8 with 32, 0.8 (norm 1) to 2.1 with 128.

Source: `torch.pdist` and its derivative in f32 beside eager's, in turns, one thread of a Sapphire Rapids.
"""
SIGN_COLUMNS = 128
"""The columns from which the derivative by the norm 1 is ours all the same: 0.76 of eager's time, with 32 columns 1.93.

Source: as of VECTOR_COLUMNS.
"""

Difference = Callable[[sym.IndexExpr], Scalar]
"""The difference of two rows at a column."""


def _exponent(op: AtenCall) -> float:
    p = number_argument(op, "p")
    if not isinstance(p, int | float) or p < 0:
        decline("the norm is not known, or none")
    return float(p)


def _floating(tensor: SSAValue) -> Attribute:
    if kind_of(element_of(tensor)) != "f":
        decline("distances of integers")
    return compute_type(element_of(tensor))


def _norm(builder: LoopBuilder, columns: sym.IndexExpr, to: Attribute, difference: Difference, p: float) -> Scalar:
    """(Σ |d|^p)^(1/p); with p = 0 how many differ, with p = ∞ the greatest |d|."""

    def term(inner: list[sym.IndexExpr]) -> Scalar:
        size = abs(difference(inner[0]))
        if p == 0:
            return where(size.eq(0.0), 0.0, where(size.ne(size), size, 1.0))
        if p == math.inf:
            return where(size > 0.0, size, 0.0)  # eager looks for what is greater, which NaN is not
        if p == 1:
            return size
        return size * size if p == 2 else power(size, p)

    if p == math.inf:
        # From 0 on, also where there are no columns.
        return maximum(builder.reduce("maximum", [columns], to, term), 0.0)
    total = builder.reduce("sum", [columns], to, term)
    return total if p in (0, 1) else sqrt(total) if p == 2 else power(total, 1 / p)


def _slope(difference: Scalar, distance: Scalar, p: float) -> Scalar:
    """The derivative of a distance by one of its differences.

    Source: `Dist<scalar_t>` of aten/src/ATen/native/cpu/DistanceOpsKernel.cpp, which says what it is where there is
    none.
    """
    size = abs(difference)
    sign = where(difference > 0.0, 1.0, where(difference < 0.0, difference.like(-1.0), 0.0))
    if p == 1:
        return sign
    if p == math.inf:
        return where(size.eq(distance), sign, 0.0)
    if p == 2:
        slope = difference / distance
    elif p < 2:
        slope = sign * power(size, p - 1) / power(distance, p - 1)
    else:
        slope = difference * power(size, p - 2) / power(distance, p - 1)
    nowhere = distance.eq(0.0) | difference.eq(0.0) if p < 1 else distance.eq(0.0)
    return where(nowhere, 0.0, slope)


# -- of two sets of rows -----------------------------------------------------------------------------------------------


def _cdist(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    first, second = op.tensor("x1"), op.tensor("x2")
    p, mode, to = _exponent(op), op.argument("compute_mode"), _floating(first)
    *_, rows, columns = sizes_of_value(first)
    few = all(isinstance(count, int) and count <= MOST_ROWS for count in (rows, sizes_of_value(second)[-2]))
    if p == 2 and mode != _NEVER and (mode == _ALWAYS or not few):
        decline("a product of matrices is faster")
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        *batch, row, other = nest.indices

        def difference(column: sym.IndexExpr) -> Scalar:
            return builder.load(first, [*batch, row, column]) - builder.load(second, [*batch, other, column])

        builder.store(_norm(builder, columns, to, difference, p), nest.handles[0], nest.indices)
    return nest.results


def _cdist_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The gradient of the first set of rows."""
    gradient, first, second, distances = (op.tensor(name) for name in ("grad", "x1", "x2", "cdist"))
    p, to = _exponent(op), _floating(first)
    sizes, others = sizes_of_value(op.results[0]), sizes_of_value(second)[-2]
    if sizes != sizes_of_value(first) or len({len(sizes_of_value(one)) for one in (gradient, second, distances)}) > 1:
        decline("the batches differ")
    if sizes[:-2] != sizes_of_value(second)[:-2]:
        decline("the batches differ")
    if p == 2 and not all(isinstance(count, int) and count <= MOST_ROWS for count in (sizes[-2], others)):
        decline("eager's goes through the rows in an order that suits the caches")
    with builder.nest(sizes, [op.results[0].type]) as nest:
        *batch, row, column = nest.indices

        def term(inner: list[sym.IndexExpr]) -> Scalar:
            other = inner[0]
            difference = builder.load(first, [*batch, row, column]) - builder.load(second, [*batch, other, column])
            slope = _slope(difference, builder.load(distances, [*batch, row, other]), p)
            return builder.load(gradient, [*batch, row, other]) * slope

        value = builder.constant(0, to) if p == 0 else builder.reduce("sum", [others], to, term)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


# -- of one set of rows, each pair once --------------------------------------------------------------------------------


def _before(row: Scalar, rows: sym.IndexExpr) -> Scalar:
    """How many pairs begin with an earlier row: row · rows − row · (row + 1) / 2."""
    return row * row.builder.index(rows) - floor_quotient(row * (row + 1), row.like(2))


def _pair(builder: LoopBuilder, place: sym.IndexExpr, rows: sym.IndexExpr) -> tuple[Scalar, Scalar]:
    """The rows of a pair: the first is a root of the equation above, rounded down, or where that is off a neighbour."""
    number = builder.index(place)
    middle = builder.index(rows, f64) - 0.5
    root = middle - sqrt(maximum(middle * middle - number.convert(f64) * 2.0, 0.0))
    first = minimum(maximum(root.convert(i64), 0), builder.index(rows) - 1)
    first = where(number < _before(first, rows), first - 1, first)
    first = where(number >= _before(first + 1, rows), first + 1, first)
    return first, number - _before(first, rows) + first + 1


def _has_vectors(builder: LoopBuilder, columns: sym.IndexExpr, p: float) -> bool:
    """Whether eager's distances of pairs are faster than a nest, which looks for the rows of each."""
    many = not isinstance(columns, int) or columns >= VECTOR_COLUMNS
    return many and p in (1, 2, math.inf) and not builder.traits.blocks


def _pdist(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, p = op.tensor("self"), _exponent(op)
    rows, columns = sizes_of_value(source)
    to = _floating(source)
    if _has_vectors(builder, columns, p):
        decline("eager takes the columns in vectors")
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        first, second = (builder.bound(row, rows, wrap=False) for row in _pair(builder, nest.indices[0], rows))

        def difference(column: sym.IndexExpr) -> Scalar:
            return builder.load(source, [first, column]) - builder.load(source, [second, column])

        builder.store(_norm(builder, columns, to, difference, p), nest.handles[0], nest.indices)
    return nest.results


def _pdist_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    gradient, source, distances = op.tensor("grad"), op.tensor("self"), op.tensor("pdist")
    p, to, element = _exponent(op), _floating(source), element_of(source)
    rows, columns = sizes_of_value(source)
    (pairs,) = sizes_of_value(distances)
    signs = p == 1 and isinstance(columns, int) and columns >= SIGN_COLUMNS
    if _has_vectors(builder, columns, p) and not signs:
        decline("eager takes the columns in vectors")
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        row, column = nest.indices

        def term(inner: list[sym.IndexExpr]) -> Scalar:
            one, other = builder.index(row), builder.index(inner[0])
            low, differ = minimum(one, other), one.ne(other)
            number = _before(low, rows) + maximum(one, other) - low - 1
            place = [builder.bound(where(differ, number, 0), pairs, wrap=False)]
            zero = builder.constant(0, element)
            difference = builder.load(source, [row, column]) - builder.load(source, [inner[0], column])
            distance = builder.load_raw(distances, place, differ, zero).convert(to)
            return builder.load_raw(gradient, place, differ, zero).convert(to) * _slope(difference, distance, p)

        none = p == 0 or pairs == 0
        value = builder.constant(0, to) if none else builder.reduce("sum", [rows], to, term)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    "aten._cdist_forward.default": _cdist,
    "aten._cdist_backward.default": _cdist_backward,
    "aten._pdist_forward.default": _pdist,
    "aten._pdist_backward.default": _pdist_backward,
}
"""Distances."""
