"""EmbeddingBag: what is made of the rows that the indices of a bag name.

    out[b, d]  ←  Σ weight[indices[i], d] over begin(b) ≤ i < end(b), without the index that pads

Every element looks at all indices, and takes those of its bag. On a CPU `narrow-reductions` makes the loop begin and
end where the bag does, unless fusion has put bags side by side; on a GPU they always are, and only few indices are
looked at by all.

Source: `_embedding_bag_cpu_impl_out` of aten/src/ATen/native/EmbeddingBag.cpp, and its neighbour in cuda/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import Float64Type, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.layout import strides_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.scalar import Scalar, is_nan, where
from cuesta.lowering.aten.scatters import FEW

_SUM, _MEAN, _MAX = range(3)

MOST = 1 << 22
"""So many pairs of an index and an element are generated on a CPU: all are looked at should bags lie side by side.

Source: measured on one processor of a Sapphire Rapids. With loops that end where bags do, sums of f32 take 0.95 to 1.6
times as long as in eager, which fetches rows before it needs them, and maxima 0.13 times.
"""

_AtIndex = Callable[[Scalar, sym.IndexExpr], Scalar]
"""A value of an index of the bag, and of its place among all; where it is none of the bag, any value."""


class _Call:
    """The arguments of a call."""

    def __init__(self, op: AtenCall, builder: LoopBuilder) -> None:
        self.builder = builder
        self.weight, self.indices, self.offsets = op.tensor("weight"), op.tensor("indices"), op.tensor("offsets")
        self.mode, self.padding = op.integer("mode"), op.integer("padding_idx")
        self.scales = None if op.argument("per_sample_weights") is None else op.tensor("per_sample_weights")
        self.bags, _ = sizes_of_value(op.results[0])
        (self.count,) = sizes_of_value(self.indices)
        self.rows, _ = sizes_of_value(self.weight)
        self.to = compute_type(element_of(self.weight))
        self.ends_as_said = op.boolean("include_last_offset") and self._believes_the_last_offset()

    def _believes_the_last_offset(self) -> bool:
        """Whether sums are up to the last offset, where it is given: those that eager has a kernel of its own for. All
        else goes on to the end of the indices, also how many a bag has.
        """
        plain = strides_of(tensor_type_of(self.weight))[1] == 1 and not isinstance(self.to, Float64Type)
        if self.scales is not None:
            plain = plain and strides_of(tensor_type_of(self.scales))[0] == 1
        return plain and self.mode != _MAX and self.padding < 0 and not self.builder.traits.blocks

    def bag(self, number: sym.IndexExpr, *, is_summed: bool = False) -> _Bag:
        """A bag, whose ends are checked where eager does so."""
        builder, limit, last = self.builder, self.count + 1, self.bags - 1

        def offset(place: sym.IndexExpr, mask: Scalar | None = None) -> Scalar:
            other = None if mask is None else builder.constant(0, element_of(self.offsets))
            return builder.load_raw(self.offsets, [place], mask, other).convert(i64)

        begin = offset(number)
        if is_summed and self.ends_as_said:
            end = offset(number + 1)
        else:
            is_before = builder.index(number) < builder.index(last)
            end = where(is_before, offset(number + 1, is_before), builder.index(self.count))
        if not builder.traits.raises:
            return _Bag(self, begin, end)
        builder.bound(where(builder.index(number).eq(0), begin, 0), 1, wrap=False)
        first = builder.bound(begin, limit, wrap=False)
        beyond = first + builder.bound(end - begin, limit, wrap=False)
        return _Bag(self, builder.index(first), builder.index(beyond))


class _Bag:
    """One bag: the indices in [first, end)."""

    def __init__(self, call: _Call, first: Scalar, end: Scalar) -> None:
        self.call, self.builder, self.first, self.end = call, call.builder, first, end

    def reduce(self, kind: str, to: Attribute, value: _AtIndex) -> Scalar:
        """A reduction over the bag."""
        builder = self.builder

        def at(inner: Sequence[sym.IndexExpr]) -> Scalar:
            (place,) = inner
            here = builder.index(place)
            inside = (here >= self.first) & (here < self.end)
            if self.call.padding >= 0:
                inside = inside & self.index(place, inside).ne(self.call.padding)
            return where(inside, value(inside, place), builder.constant(identity(kind, to), to))

        return builder.reduce(kind, [self.call.count], to, at)

    def index(self, place: sym.IndexExpr, mask: Scalar) -> Scalar:
        """The index at a place; 0 where the mask is false."""
        tensor = self.call.indices
        return self.builder.load_raw(tensor, [place], mask, self.builder.constant(0, element_of(tensor))).convert(i64)

    def row(self, place: sym.IndexExpr, mask: Scalar, column: sym.IndexExpr) -> Scalar:
        """An element of the row that an index names; 0 where the mask is false."""
        tensor, builder = self.call.weight, self.builder
        row = builder.bound(self.index(place, mask), self.call.rows, wrap=False)
        zero = builder.constant(0, element_of(tensor))
        return builder.load_raw(tensor, [row, column], mask, zero).convert(self.call.to)

    def sum(self, column: sym.IndexExpr) -> Scalar:
        """The sum of a column, every row times its weight."""
        scales = self.call.scales

        def value(mask: Scalar, place: sym.IndexExpr) -> Scalar:
            element = self.row(place, mask, column)
            if scales is None:
                return element
            zero = self.builder.constant(0, element_of(scales))
            return element * self.builder.load_raw(scales, [place], mask, zero).convert(self.call.to)

        return self.reduce("sum", self.call.to, value)

    def count(self) -> Scalar:
        """How many indices count."""
        if self.call.padding < 0:
            return self.end - self.first
        return self.reduce("sum", i64, lambda mask, place: self.builder.constant(1, i64))

    def greatest(self, column: sym.IndexExpr) -> tuple[Scalar, Scalar]:
        """The greatest of a column, and the index that names it first; both 0 of nothing.

        As in eager, whose comparisons are false with NaN: that counts only if it comes first.
        """
        builder, to, count = self.builder, self.call.to, self.call.count
        least = builder.constant(identity("maximum", to), to)

        def number(mask: Scalar, place: sym.IndexExpr) -> Scalar:
            element = self.row(place, mask, column)
            return where(is_nan(element), least, element)

        greatest = self.reduce("maximum", to, number)

        def first_of(mask: Scalar, place: sym.IndexExpr) -> Scalar:
            there = self.row(place, mask, column).eq(greatest)
            return where(there, builder.index(place), builder.index(count))

        first = self.reduce("minimum", i64, lambda mask, place: builder.index(place))
        at = self.reduce("minimum", i64, first_of)
        exists = first < builder.index(count)
        head = self.row(builder.bound(where(exists, first, 0), count, wrap=False), exists, column)
        place = builder.bound(where(exists, where(is_nan(head), first, at), 0), count, wrap=False)
        return where(exists, where(is_nan(head), head, greatest), 0), self.index(place, exists)


def _embedding_bag(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The bags, the bag of every index, how many indices each has, and of the greatest the indices that name them."""
    call = _Call(op, builder)
    if call.mode not in (_SUM, _MEAN, _MAX):
        decline("eager has an error for such a mode")
    if call.count == 0 or call.rows == 0:
        decline("without indices or rows there is nothing to look at")
    looked_at = call.count * sym.product_of(sizes_of_value(op.results[0]))
    if not isinstance(call.count, int) or not isinstance(looked_at, int):
        decline("it is not known how many indices every element would look at")
    if call.count > FEW if builder.traits.blocks else looked_at > MOST:
        decline("every element would look at all indices, of which there are many")
    bags, bag_of, sizes, places = op.results
    outs = [bags.type, places.type] if call.mode == _MAX else [bags.type]
    with builder.nest(sizes_of_value(bags), outs) as nest:
        number, column = nest.indices
        if call.mode == _MAX:
            value, place = call.bag(number).greatest(column)
            builder.store(place, nest.handles[1], nest.indices)
        else:
            value = call.bag(number, is_summed=True).sum(column)
        if call.mode == _MEAN:
            count = call.bag(number).count()
            value = value / where(count.eq(0), 1, count).convert(call.to)
        builder.store(value, nest.handles[0], nest.indices)
    counts = call.mode != _SUM or builder.traits.blocks
    given = [nest.results[0], _bag_of_each(op, call, bag_of), _sizes(call, sizes, counts)]
    return [*given, nest.results[1] if call.mode == _MAX else _sizes(call, places, counts)]


def _sizes(call: _Call, result: SSAValue, counts: bool) -> SSAValue:
    """How many indices each bag has, as eager says: of sums on a CPU 0, and 0 beyond the last bag."""
    builder, sizes = call.builder, sizes_of_value(result)
    with builder.nest(sizes, [result.type]) as nest:
        (number,) = nest.indices
        value = call.bag(number).count() if counts and sizes == (call.bags,) else builder.constant(0, i64)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results[0]


def _bag_of_each(op: AtenCall, call: _Call, result: SSAValue) -> SSAValue:
    """The bag of every index: how many begin before it, or there, less one."""
    builder = call.builder
    with builder.nest(sizes_of_value(result), [result.type]) as nest:
        (place,) = nest.indices

        def begins(inner: Sequence[sym.IndexExpr]) -> Scalar:
            begin = builder.load_raw(call.offsets, inner).convert(i64)
            return (begin <= builder.index(place)).convert(i64)

        builder.store(builder.reduce("sum", [call.bags], i64, begins) - 1, nest.handles[0], nest.indices)
    return nest.results[0]


RULES: dict[str, Rule] = {
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag,
}
"""Bags of embeddings."""
