"""Scatters: one nest that stores every element, and then changes some in a scan over the index.

The parallel domain is the dims that no index addresses, so that no two of its points touch one element; along the
others, the points of the index come in row-major order, and where indices repeat the last one wins, as in eager.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, Signedness, TensorType, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, sizes_of, strides_of, tensor_type, traits_of
from cuesta.lowering.aten.arithmetic import floor_quotient
from cuesta.lowering.aten.atomics import Held
from cuesta.lowering.aten.builder import (
    AtenCall,
    LoopBuilder,
    Nest,
    Rule,
    compute_type,
    decline,
)
from cuesta.lowering.aten.indexing import IndexList, broadcast_sizes, in_range, intersect
from cuesta.lowering.aten.operands import (
    Sizes,
    dim_argument,
    element_of,
    number_argument,
    sizes_of_value,
    tensor_type_of,
)
from cuesta.lowering.aten.pointwise import broadcast_indices
from cuesta.lowering.aten.reductions import Split
from cuesta.lowering.aten.scalar import Scalar, minimum, where

SPARSE = 2
"""With so many elements for each that is changed, a wider type costs more than it saves."""
MANY = 1 << 22
"""Elements of a table of which it is not known how many are changed."""

FEW = 32
"""So many points are looked at by every element of a table on a GPU.

Source: an estimate: two reads each, which neighbours share, beside a read and a write of the table.
"""

_BYTE = IntegerType(8, Signedness.UNSIGNED)
_OF_BOOLS = {"sum": "maximum", "prod": "minimum", "maximum": "maximum", "minimum": "minimum"}

Initial = Callable[[IndexList], Scalar]
"""An element before anything is scattered to it, as it is stored."""


@struct
class Update:
    """What one point of the index changes: the place, the value as it is stored, and whether at all."""

    place: IndexList
    value: Scalar
    mask: Scalar | None = None


UpdateAt = Callable[[Sequence[sym.IndexExpr], Sequence[sym.IndexExpr]], "Update | Sequence[Update]"]
"""The update, or updates, at a point of the parallel domain and a point of the index."""


@struct
class Scatter:
    """What is scattered: `initial`, changed by `update` along `domain`."""

    walked: Sequence[int]
    """The dims of the result that `update` addresses."""
    domain: Sizes
    """The index."""
    kind: str
    initial: Initial
    update: UpdateAt
    include_self: bool = True
    """Whether what an element was before counts once it is changed."""
    by_rows: bool = False
    """Whether the walked dims of a place, and the mask, are the same at all points of the parallel domain."""

    def split(self, result: TensorType) -> Split:
        """The dims of the result, those that are walked and the others."""
        return Split(sizes_of(result), tuple(sorted(self.walked)))


def scatter(op: AtenCall, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    """The result of a call."""
    return scatter_to(tensor_type_of(op.results[0]), builder, what)


def scatter_to(result: TensorType, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    """A tensor of this type.

    f16 and bf16 are combined in f32, and rounded once at the end.
    """
    if builder.traits.atomics:
        return _scatter_in_any_order(result, builder, what)
    return _scatter_in_order(result, builder, what)


def _scatter_in_order(result: TensorType, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    element = result.element_type
    to, kind = element, what.kind
    if kind != "assign":
        # Of bools, as bytes: whether any is true, or all.
        is_bool = kind_of(element) == "b"
        to, kind = (_BYTE, _OF_BOOLS[kind]) if is_bool else (compute_type(element), kind)
        if kind_of(to) not in "fiu":
            decline(f"{kind} of {to}")
    split = what.split(result)
    outs: list[Attribute] = [result]
    if to != element:
        outs.append(tensor_type(split.sizes, to, device=device_of(result)))
    with builder.nest(split.kept_sizes, outs) as nest:
        changed = nest.handles[-1]
        _combine(builder, nest, what, split, kind, "assign", to, lambda value: value.convert(to))
        if to != element:
            with builder.loop(split.reduced_sizes) as inner:
                place = split.index(nest.indices, inner)
                builder.store(builder.load_raw(changed, place), nest.handles[0], place)
    return nest.results[:1]


def _scatter_in_any_order(result: TensorType, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    """`scatter` on a GPU: in a type that there are atomics for, and back in a nest of its own.

    A device computes the points of a scan side by side, so where indices repeat in an assignment any of them wins, as
    in eager there.
    """
    element, kind = result.element_type, what.kind
    if builder.deterministic:
        decline("deterministic algorithms are asked for: eager has one, or says that there is none")
    to = element
    if kind == "assign" or 0 in what.domain:
        kind = "assign_any"
    elif kind_of(element) == "b":
        to, kind = _BYTE, _OF_BOOLS[kind]
    elif kind_of(element) not in "fiu":
        decline(f"{kind} of {element}")
    if kind == "prod":
        return _multiply_in_each(result, builder, what)
    held = Held.of(kind, element)
    buffer = result
    split = what.split(result)
    if held.type != element and _is_sparse(split.sizes, (*split.kept_sizes, *what.domain)):
        return _scatter_beside(result, builder, what, kind)
    if held.type != element:
        buffer = tensor_type(split.sizes, held.type, strides_of(result), device_of(result))
    with builder.nest(split.kept_sizes, [buffer]) as nest:
        _combine(builder, nest, what, split, kind, "assign_any", to, lambda value: held.hold(value.convert(element)))
    (combined,) = nest.results
    if held.type == element:
        return [combined]
    with builder.nest(split.sizes, [result]) as nest:
        builder.store(held.give(builder.load_raw(combined, nest.indices)), nest.handles[0], nest.indices)
    return nest.results


def _scatter_beside(result: TensorType, builder: LoopBuilder, what: Scatter, kind: str) -> Sequence[SSAValue]:
    """A scatter to a table of few bits of which little changes: what does is combined beside it, in a wider type.

    Of the points that change one element one is chosen, any of them: `chosen[place] = point`. The others are combined
    with what it holds, and it writes the result.
    """
    split, device = what.split(result), device_of(result)
    wide = compute_type(result.element_type) if kind_of(result.element_type) == "f" else i32
    number = i32 if isinstance(count := sym.product_of(what.domain), int) and count < 1 << 31 else i64
    walked = range(len(split.reduced_sizes)) if what.by_rows else what.walked
    outer_count = len(split.kept_sizes)

    def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        one = what.update(outer, inner)
        if not isinstance(one, Update):
            decline("most elements stay as they are, and a point changes several")
        return one

    def address(place: IndexList) -> IndexList:
        return IndexList(place[dim] for dim in sorted(what.walked)) if what.by_rows else place

    def point(inner: Sequence[sym.IndexExpr]) -> Scalar:
        return builder.index(sym.linearize(inner, what.domain), number)

    def choose(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        one = update(outer or [0] * outer_count, inner)
        return Update(address(one.place), point(inner), one.mask)

    sizes = split.reduced_sizes if what.by_rows else split.sizes
    choosing = Scatter(walked, what.domain, "assign", zeros(number, builder), choose)
    (chosen,) = scatter_to(tensor_type(sizes, number, device=device), builder, choosing)

    def chosen_for(one: Update) -> Scalar:
        nothing = None if one.mask is None else builder.constant(0, number)
        return builder.load_raw(chosen, address(one.place), one.mask, nothing)

    def start(place: IndexList) -> Scalar:
        if not what.include_self:
            return builder.constant(identity(kind, wide), wide)
        return what.initial(update(place[:outer_count], place[outer_count:]).place).convert(wide)

    def change(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        one = update(outer, inner)
        position = builder.bound(chosen_for(one).convert(i64), sym.product_of(what.domain), wrap=False)
        return Update([*outer, *sym.delinearize(position, what.domain)], one.value.convert(wide), one.mask)

    beside = tensor_type((*split.kept_sizes, *what.domain), wide, device=device)
    along = range(outer_count, outer_count + len(what.domain))
    (combined,) = scatter_to(beside, builder, Scatter(along, what.domain, kind, start, change))

    def write(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
        one = update(outer, inner)
        value = builder.load_raw(combined, [*outer, *inner]).convert(result.element_type)
        return Update(one.place, value, intersect(one.mask, chosen_for(one).eq(point(inner))))

    writing = Scatter(what.walked, what.domain, "assign", what.initial, write)
    return scatter_to(result, builder, writing)


def _multiply_in_each(result: TensorType, builder: LoopBuilder, what: Scatter) -> Sequence[SSAValue]:
    """Products on a GPU, for which there are no atomics: every element looks at all points, where these are few."""
    split, to = what.split(result), compute_type(result.element_type)
    points = sym.product_of(what.domain)
    if not isinstance(points, int) or points > FEW:
        decline("there are no atomic products, and too many points for every element to look at them all")
    if any(not isinstance(size, int) or size == 0 for size in split.sizes):
        decline("there are no atomic products, and without elements nothing looks at the index")

    with builder.nest(split.sizes, [result]) as nest:
        place = nest.indices
        outer = [place[dim] for dim in split.kept]

        def changes(inner: Sequence[sym.IndexExpr]) -> list[tuple[Scalar, Scalar]]:
            """Values, and whether they are for this element."""
            found: list[tuple[Scalar, Scalar]] = []
            for one in _each(what.update(outer, inner)):
                here = one.mask
                for dim in split.reduced:
                    here = intersect(here, builder.index(one.place[dim]).eq(builder.index(place[dim])))
                found.append((one.value.convert(to), builder.true() if here is None else here))
            return found

        def product(inner: list[sym.IndexExpr]) -> Scalar:
            factors = [where(here, value, 1) for value, here in changes(inner)]
            return reduce(lambda left, right: left * right, factors)

        def is_changed(inner: list[sym.IndexExpr]) -> Scalar:
            return reduce(lambda left, right: left | right, [here for _, here in changes(inner)])

        factor, old = builder.reduce("prod", what.domain, to, product), what.initial(place)
        value = (old.convert(to) * factor).convert(old.type)
        if not what.include_self:
            value = where(builder.reduce("any", what.domain, i1, is_changed), factor.convert(old.type), old)
        builder.store(value, nest.handles[0], place)
    return nest.results


def _combine(
    builder: LoopBuilder,
    nest: Nest,
    what: Scatter,
    split: Split,
    kind: str,
    assign: str,
    to: Attribute,
    hold: Callable[[Scalar], Scalar],
) -> None:
    """Stores all elements of a nest's last out, as `hold` has them, and changes some: by `kind`, in the type `to`;
    where what was there does not count, `assign` takes it away first.
    """
    changed = nest.handles[-1]
    with builder.loop(split.reduced_sizes) as inner:
        place = split.index(nest.indices, inner)
        builder.store(hold(what.initial(place)), changed, place)
    if not what.include_self:
        with builder.scan(what.domain) as inner:
            nothing = hold(builder.constant(identity(kind, to), to))
            for change in _each(what.update(nest.indices, inner)):
                builder.combine(assign, nothing, changed, change.place, change.mask)
    with builder.scan(what.domain) as inner:
        for change in _each(what.update(nest.indices, inner)):
            builder.combine(kind, hold(change.value), changed, change.place, change.mask)


def _is_sparse(sizes: Sizes, points: Sizes) -> bool:
    """Whether there are many more elements than changes; of sizes that are not known, whether there are very many."""
    elements, changes = sym.product_of(sizes), sym.product_of(points)
    if not isinstance(elements, int):
        return False
    return elements > SPARSE * changes if isinstance(changes, int) else elements > MANY


def _each(updates: Update | Sequence[Update]) -> Sequence[Update]:
    return (updates,) if isinstance(updates, Update) else updates


def zeros(element: Attribute, builder: LoopBuilder) -> Initial:
    """Nothing to start from."""
    return lambda place: builder.constant(0, element)


def _of(tensor: SSAValue, builder: LoopBuilder) -> Initial:
    return lambda place: builder.load_raw(tensor, place)


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

    initial = zeros(element_of(gradient), builder)
    what = Scatter((0,), sizes_of_value(indices), "sum", initial, update, by_rows=True)
    return scatter(op, builder, what)


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

    kind = "sum" if op.boolean("accumulate") else "assign"
    return scatter(op, builder, Scatter(indexed, shared, kind, _of(target, builder), update, by_rows=True))


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
        kind, initial = kind_of_call(op), _of(target, builder)
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
        return [Update(one.place, builder.constant(1, to), one.mask) for one in _each(what.update(outer, inner))]

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
