"""The operators that scatter: index_put, scatter, scatter_reduce, the gradients of rows looked up, histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import Float32Type, Float64Type, i64
from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, sizes_of, tensor_type, traits_of
from cuesta.lowering.aten.arithmetic import floor_quotient
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.indexing import IndexList, broadcast_sizes, in_range, intersect
from cuesta.lowering.aten.operands import (
    dim_argument,
    element_of,
    number_argument,
    sizes_of_value,
    tensor_type_of,
)
from cuesta.lowering.aten.pointwise import broadcast_indices
from cuesta.lowering.aten.scalar import Scalar, minimum, where
from cuesta.lowering.aten.scatters import MANY, Scatter, Update, each, elements_of, scatter, scatter_to, zeros
from cuesta.lowering.aten.sorted_sums import sum_rows

# -- an index that addresses whole rows --------------------------------------------------------------------------------


def _embedding_backward(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    gradient, indices = op.tensor("grad_output"), op.tensor("indices")
    if op.boolean("scale_grad_by_freq"):
        decline("the gradient is scaled by how often a row is used")
    rows, padding = sizes_of_value(op.results[0])[0], op.index("padding_idx")

    def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        row = builder.load_raw(indices, inner)
        mask = None
        if not isinstance(padding, int) or padding >= 0:
            mask = row.ne(padding)
        value = builder.load_raw(gradient, [*inner, *outer])
        return Update([builder.bound(row, rows, wrap=False), *outer], value, mask)

    def value(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr], mask: Scalar) -> Scalar:
        return builder.load_raw(gradient, [*inner, *outer], mask, builder.constant(0, element_of(gradient)))

    initial = zeros(element_of(gradient), builder)
    what = Scatter((0,), sizes_of_value(indices), "sum", initial, update, by_rows=True)
    return sum_rows(op, builder, what, value) or scatter(op, builder, what)


def _index_put(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """x[:, i, :, j] = values, or += values; the shape of the values is that of x[:, i, :, j], or broadcasts to it."""
    target, given, values = op.tensor("self"), op.tensors("indices"), op.tensor("values")
    sizes, value_sizes = sizes_of_value(target), sizes_of_value(values)
    tensors = [index for index in given if index is not None]
    if len(tensors) == 1 and kind_of(element_of(tensors[0])) == "b":
        return _masked_put(op, builder, given.index(tensors[0]), tensors[0])
    if not tensors or any(kind_of(element_of(index)) != "i" for index in tensors):
        decline("an index is a mask, and the number of values is only known from the data")
    indexed = [dim for dim, index in enumerate(given) if index is not None]
    shared = broadcast_sizes([sizes_of_value(index) for index in tensors])
    adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    first = indexed[0] if adjacent else 0
    others = [size for dim, size in enumerate(sizes) if dim not in indexed]
    chosen = [*others[:first], *shared, *others[first:]]
    if any(not _fits(size, there) for size, there in zip(reversed(value_sizes), reversed(chosen), strict=False)):
        decline("whether the values fit is only known from the data")

    def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        rest, place = iter(outer), IndexList()
        for dim, index in enumerate([*given, *[None] * (len(sizes) - len(given))]):
            if index is None:
                place.append(next(rest))
            else:
                position = builder.load_raw(index, broadcast_indices(sizes_of_value(index), shared, inner))
                place.append(builder.bound(position, sizes[dim], wrap=True))
        block = [*outer[:first], *inner, *outer[first:]]
        return Update(place, builder.load_raw(values, broadcast_indices(value_sizes, block, block)))

    def value(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr], mask: Scalar) -> Scalar:
        block, zero = [*outer[:first], *inner, *outer[first:]], builder.constant(0, element_of(values))
        return builder.load_raw(values, broadcast_indices(value_sizes, block, block), mask, zero)

    kind = "sum" if op.boolean("accumulate") else "assign"
    what = Scatter(indexed, shared, kind, elements_of(target, builder), update, by_rows=True)
    return sum_rows(op, builder, what, value) or scatter(op, builder, what)


def _fits(size: sym.IndexExpr, there: sym.IndexExpr) -> bool:
    """Whether a dim is known to broadcast to another."""
    return size == 1 or size == there or sym.prove_equal(size, there, ())


def _masked_put(op: AtenCall, builder: LoopBuilder, dim: int, mask: SSAValue) -> Sequence[SSAValue]:
    """x[:, mask] = values, where one value serves all that are chosen by the mask: no index is needed.

    The dims of the mask, from `dim` on, are one in x[:, mask].
    """
    target, values = op.tensor("self"), op.tensor("values")
    sizes, value_sizes, chosen_sizes = sizes_of_value(target), sizes_of_value(values), sizes_of_value(mask)
    end = dim + len(chosen_sizes)
    if not chosen_sizes:
        decline("eager takes a mask without dims for no index at all")
    if chosen_sizes != sizes[dim:end]:
        decline("the mask is of other sizes")
    block = (*sizes[:dim], 1, *sizes[end:])
    if len(value_sizes) > len(block):
        decline("the values have more dims than what they are put into")
    if any(size not in (1, there) for size, there in zip(reversed(value_sizes), reversed(block), strict=False)):
        decline("the number of values is only known from the data")
    with builder.nest(sizes, [op.results[0].type]) as nest:
        old = builder.load_raw(target, nest.indices)
        inside = [*nest.indices[:dim], 0, *nest.indices[end:]]
        value = builder.load_raw(values, broadcast_indices(value_sizes, block, inside))
        if op.boolean("accumulate"):
            to = compute_type(old.type)
            value = (old.convert(to) + value.convert(to)).convert(old.type)
        chosen = builder.load_raw(mask, nest.indices[dim:end])
        builder.store(builder.select(chosen, value, old), nest.handles[0], nest.indices)
    return nest.results


# -- an index along one dim --------------------------------------------------------------------------------------------

_KINDS = {"sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod", "amax": "maximum", "amin": "minimum"}


def _kind_called(op: AtenCall, name: str) -> str:
    reduction = str(op.argument(name))
    if reduction != "mean" and reduction not in _KINDS:
        decline(f"the reduction {reduction}")
    return _KINDS.get(reduction, reduction)


def _scatter_along(kind_of_call: Callable[[AtenCall], str]) -> Rule:
    """x[…, index[…, j, …], …] ∘= src[…, j, …], or a number, along `dim`; the index may be smaller than x.

    What has no dims is in the place of what has one, of one element.
    """

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        target, index = op.tensor("self"), op.tensor("index")
        sizes, index_sizes = sizes_of_value(target) or (1,), sizes_of_value(index) or (1,)
        if 0 in index_sizes:
            return [builder.copy(target, op.results[0].type)]
        if len(sizes) != len(index_sizes):
            decline("the index has other dims")
        dim = dim_argument(op, "dim", len(sizes))
        kept = [position for position in range(len(sizes)) if position != dim]
        source = op.tensor("src") if op.has_argument("src") else None
        number = number_argument(op, "value") if source is None else 0
        if source is not None and element_of(source) != element_of(target):
            decline("the source is of another type")
        include_self = not op.has_argument("include_self") or op.boolean("include_self")

        def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
            place = IndexList(outer)
            place.insert(dim, inner[0])
            mask: Scalar | None = None
            for other in kept:
                mask = intersect(mask, in_range(builder, place[other], 0, index_sizes[other], sizes[other]))

            def load(tensor: SSAValue) -> Scalar:
                zero = None if mask is None else builder.constant(0, element_of(tensor))
                # A source without dims is in the place of one with one, of one element.
                return builder.load_raw(tensor, place if sizes_of_value(tensor) else [], mask, zero)

            position = builder.bound(load(index), sizes[dim], wrap=False)
            value = builder.constant(number, element_of(target)) if source is None else load(source)
            changed = [*place[:dim], position, *place[dim + 1 :]]
            return Update(changed if sizes_of_value(target) else [], value, mask)

        walked = (dim,) if sizes_of_value(target) else ()
        kind, initial = kind_of_call(op), elements_of(target, builder)
        what = Scatter(walked, (index_sizes[dim],), kind, initial, update, include_self=include_self)
        return _mean(op, builder, what) if kind == "mean" else scatter(op, builder, what)

    return lower


def _mean(op: AtenCall, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    """Sums, and how many numbers each is of; what nothing is scattered to stays. Means of integers are rounded down.

    Source: `scatter_reduce_two` of aten/src/ATen/native/TensorAdvancedIndexing.cpp. As there the number of integers is
    one of their type.
    """
    result = tensor_type_of(op.results[0])
    to = compute_type(result.element_type)
    if kind_of(to) == "b":
        decline("eager knows no mean of bools")
    wide = tensor_type(sizes_of(result), to, device=device_of(result))

    def once(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Sequence[Update]:
        return [Update(one.place, builder.constant(1, to), one.mask) for one in each(what.update(outer, inner))]

    def from_the_start(place: IndexList) -> Scalar:
        return builder.constant(int(what.include_self), to)

    sums = Scatter(what.walked, what.domain, "sum", what.initial, what.update, include_self=what.include_self)
    counts = Scatter(what.walked, what.domain, "sum", from_the_start, once)
    (total,), (number,) = scatter_to(wide, builder, sums), scatter_to(wide, builder, counts)
    with builder.nest(sizes_of(result), [result]) as nest:
        count = builder.load_raw(number, nest.indices)
        count = where(count.eq(0), 1, count)
        value = builder.load_raw(total, nest.indices)
        mean = value / count if kind_of(to) == "f" else floor_quotient(value, count)
        builder.store(mean, nest.handles[0], nest.indices)
    return nest.results


def _masked_scatter(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Where the mask holds, the elements of the source one after the other, in row-major order.

    On a GPU what counts them is a nest of its own, a scan along one axis that can be made in parts.
    """
    target, mask, source = op.tensor("self"), op.tensor("mask"), op.tensor("source")
    sizes, source_sizes = sizes_of_value(op.results[0]), sizes_of_value(source)
    points, count = sym.product_of(sizes), sym.product_of(source_sizes)
    blocks = traits_of(target).blocks
    if blocks and not isinstance(points, int):
        decline("on a GPU one program would go through all of the mask")
    if not isinstance(count, int) or count == 0:
        decline("the source may have no elements")
    if kind_of(element_of(mask)) != "b":
        decline("eager wants a mask of bools")

    def chosen(place: Sequence[sym.IndexExpr]) -> Scalar:
        return builder.load_raw(mask, broadcast_indices(sizes_of_value(mask), sizes, place))

    def put(seen: Scalar, out: SSAValue, place: Sequence[sym.IndexExpr]) -> None:
        is_chosen = chosen(place)
        position = builder.bound(where(is_chosen, seen - 1, 0), count, wrap=False)
        old = builder.load_raw(target, broadcast_indices(sizes_of_value(target), sizes, place))
        builder.store(builder.load_raw(source, sym.delinearize(position, source_sizes), is_chosen, old), out, place)

    if not blocks:
        with builder.nest((), [op.results[0].type]) as nest, builder.scan(sizes or (1,)) as inner:
            place = inner if sizes else []
            (seen,) = builder.running("sum", chosen(place).convert(i64))
            put(seen, nest.handles[0], place)
        return nest.results
    counts = tensor_type((points,), i64, device=device_of(tensor_type_of(op.results[0])))
    with builder.nest((), [counts]) as nest, builder.scan((points,)) as inner:
        (seen,) = builder.running("sum", chosen(sym.delinearize(inner[0], sizes) if sizes else []).convert(i64))
        builder.store(seen, nest.handles[0], inner)
    (numbers,) = nest.results
    with builder.nest(sizes, [op.results[0].type]) as nest:
        put(builder.load_raw(numbers, [sym.linearize(nest.indices, sizes)]), nest.handles[0], nest.indices)
    return nest.results


def _histogram(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """How many numbers lie in each of so many equal parts of an interval that is given; its end is in the last part.

    Source: the linear kind of aten/src/ATen/native/cpu/HistogramKernel.cpp.
    """
    source, result = op.tensor("self"), tensor_type_of(op.results[0])
    low, high, (bins,) = number_argument(op, "min"), number_argument(op, "max"), sizes_of(result)
    if not isinstance(result.element_type, Float32Type | Float64Type):
        decline(f"a histogram in {result.element_type}")  # which cannot count far; eager has none of integers
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not isinstance(bins, int):
        decline("the parts are not known")
    if not -math.inf < low < high < math.inf or not 0 < bins < MANY:
        decline("the interval is that of the numbers, or wrong")
    sizes, to = sizes_of_value(source), result.element_type

    def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        x = builder.load_raw(source, inner if sizes else [])
        first, last = x.like(float(low)), x.like(float(high))
        inside = ~(x < first) & (x <= last)
        part = minimum((x - first) * float(bins) / (last - first), float(bins - 1))
        part = where(inside, part, 0.0).convert(i64)
        return Update([builder.bound(part, bins, wrap=False)], builder.constant(1, to), inside)

    return scatter(op, builder, Scatter((0,), sizes or (1,), "sum", zeros(to, builder), update))


_assign = _scatter_along(lambda op: "assign")
_reduce = _scatter_along(lambda op: _kind_called(op, "reduce"))

RULES: dict[str, Rule] = {
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten.index_put.default": _index_put,
    "aten._unsafe_index_put.default": _index_put,
    "aten.scatter.src": _assign,
    "aten.scatter.value": _assign,
    "aten.scatter.reduce": _reduce,
    "aten.scatter.value_reduce": _reduce,
    "aten.scatter_add.default": _scatter_along(lambda op: "sum"),
    "aten.scatter_reduce.two": _reduce,
    "aten.masked_scatter.default": _masked_scatter,
    "aten.histc.default": _histogram,
}
"""Scatters."""
