"""Sums of rows that an index names, on a GPU: the index is sorted, and every row of the table adds up what is its own.

    t[i[k], d] += v[k, d]    →    order = sort(i);  t[r, d] + Σ v[order[k], d] over first(r) ≤ k < first(r + 1)

So a table is written once, in its own type, in a sum whose order is always the same; with atomics it is filled, changed
at as many places as there are values, in f32, and rounded. Nobody knows how often a row is named: of the sorted values
all parts that lie in one row are added up before, by programs of their own, and rows add up these.

Exact, but for the order of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.aten.arguments import CallArguments, Operand
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, element_type_of, tensor_type
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Nest, compute_type
from cuesta.lowering.aten.operands import tensor_type_of
from cuesta.lowering.aten.scalar import Scalar, where
from cuesta.lowering.aten.scatters import Scatter, Update, scatter_to, zeros

WORTH = 1 << 24
"""So many values are worth a sort. Added up one by one in f32 2²⁶ took 187 us, where sorting 65536 places and finding
the rows in them takes some 30. Of 2²³·⁶ (16384 x 768 bf16) both take as long.

Source: measured on an H200, `docs/decisions/058-sums-of-rows-by-a-sorted-index.md`.
"""
ROW = 64
"""Rows of fewer elements are not worth it: there are more places to sort than sums to take.

Source: an estimate: a place is sorted in four passes over 12 bytes, and an atomic of 16 bytes costs as much.
"""
SHORTEST_PART = 64
"""Values that are added up as one, at least.

Source: an estimate: what is read of a part before its sum is worth another program.
"""
Value = Callable[[Sequence[sym.IndexExpr], Sequence[sym.IndexExpr], Scalar], Scalar]
"""What is added to an element of a row, as it is stored, at a point of the parallel domain and a point of the index;
where the mask is false, 0.
"""
_ValueAt = Callable[[sym.IndexExpr, Scalar], Scalar]


def sum_rows(op: AtenCall, builder: LoopBuilder, what: Scatter, value: Value) -> Sequence[SSAValue] | None:
    """The result of a call that scatters by rows, whose values alone `value` gives; None where it is better done as
    other scatters are: on a processor, of few values or of sizes that are not known.
    """
    result = tensor_type_of(op.results[0])
    split, to = what.split(result), compute_type(result.element_type)
    rows, width = sym.product_of(split.reduced_sizes), sym.product_of(split.kept_sizes)
    if not builder.traits.atomics or builder.deterministic or what.kind != "sum" or kind_of(result.element_type) != "f":
        return None
    count = sym.product_of(what.domain)
    if not isinstance(rows, int) or not _is_worth_it(count, rows, width):
        return None
    index = _SortedIndex(builder, device_of(result), what, split.reduced_sizes, len(split.kept))
    parts = index.parts(value, split.kept_sizes, to)
    with builder.nest(split.sizes, [result]) as nest:
        kept, walked = ([nest.indices[dim] for dim in dims] for dims in (split.kept, split.reduced))
        total = index.row(value, parts, kept, sym.linearize(walked, split.reduced_sizes), to)
        builder.store(what.initial(nest.indices).convert(to) + total, nest.handles[0], nest.indices)
    return nest.results


def _is_worth_it(points: sym.IndexExpr, rows: int, width: sym.IndexExpr) -> bool:
    """Whether so many values for so many rows are to be sorted; never where a size is not known."""
    if not isinstance(points, int) or not isinstance(width, int):
        return False
    return width >= ROW and points * width >= WORTH and points < 1 << 31 and 0 < rows < 1 << 31


class _SortedIndex:
    """The index of a scatter, sorted by the rows that it names."""

    def __init__(
        self, builder: LoopBuilder, device: str, what: Scatter, walked: Sequence[sym.IndexExpr], kept: int
    ) -> None:
        self.builder, self.device, self.domain = builder, device, what.domain
        count, rows = sym.product_of(what.domain), sym.product_of(walked)
        assert isinstance(count, int)
        assert isinstance(rows, int)
        self.count, self.rows = count, rows
        self.part = max(SHORTEST_PART, power_of_two(round(count**0.5)))
        with self._each((count,), IntegerType(16) if rows + 1 < 1 << 15 else i32) as nest:
            one = what.update([0] * kept, sym.delinearize(nest.indices[0], what.domain))
            assert isinstance(one, Update)
            row = builder.index(sym.linearize([one.place[dim] for dim in sorted(what.walked)], walked))
            row = row if one.mask is None else where(one.mask, row, rows)
            builder.store(row, nest.handles[0], nest.indices)
        self.keys, self.order = self._sort(nest.results[0])
        self.ends = self._ends()

    def _each(self, sizes: Sequence[int], element: Attribute) -> AbstractContextManager[Nest]:
        """A nest that makes a tensor."""
        return self.builder.nest(sizes, [tensor_type(sizes, element, device=self.device)])

    def _sort(self, keys: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The keys in order, and where each was."""
        arguments = CallArguments.of((Operand(0),), (("stable", True), ("dim", 0), ("descending", False)))
        places = tensor_type((self.count,), i64, device=self.device)
        op = loops.ExternOp.of("aten.sort.stable", (keys,), arguments, [keys.type, places], pure=True)
        self.builder.emit(op)
        return op.results[0], op.results[1]

    def _ends(self) -> SSAValue:
        """Where in the order the points of each row begin, and where they end; the same place where there are none.

        A key that is not as the one before begins its row, and one that is not as the next ends it. What does not
        count has a row after the last.
        """
        builder, count = self.builder, self.count

        def update(outer: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Sequence[Update]:
            (place,) = inner
            here, key = builder.index(place), self.key(place)
            found: list[Update] = []
            for side, other, end in ((0, -1, 0), (1, 1, count - 1)):
                is_inside = here.ne(end)
                nothing = builder.constant(self.rows + 1, element_type_of(self.keys))
                beside = builder.load_raw(self.keys, [place + other], is_inside, nothing).convert(i64)
                row = builder.bound(key, self.rows + 1, checked=True)
                found.append(Update([row, side], builder.index(place + side, i32), key.ne(beside)))
            return found

        table = tensor_type((self.rows + 1, 2), i32, device=self.device)
        (ends,) = scatter_to(table, builder, Scatter((0, 1), (count,), "assign", zeros(i32, builder), update))
        return ends

    def key(self, place: sym.IndexExpr) -> Scalar:
        """The row that a place of the order is of."""
        return self.builder.load_raw(self.keys, [place]).convert(i64)

    def sum(self, count: int, first: sym.IndexExpr, end: sym.IndexExpr, to: Attribute, value: _ValueAt) -> Scalar:
        """Of `count` places those from `first` to before `end`."""

        def at(place: Sequence[sym.IndexExpr]) -> Scalar:
            here = self.builder.index(place[0])
            inside = here < self.builder.index(end)
            if first != 0:
                inside = inside & (here >= self.builder.index(first))
            return where(inside, value(place[0], inside).convert(to), self.builder.constant(0, to))

        return self.builder.reduce("sum", [count], to, at)

    def value_at(self, value: Value, kept: Sequence[sym.IndexExpr], at: sym.IndexExpr, inside: Scalar) -> Scalar:
        """The value at a place of the order; 0 where the mask is false."""
        builder = self.builder
        number = builder.load_raw(self.order, [at], inside, builder.constant(0, i64))
        return value(kept, sym.delinearize(builder.bound(number, self.count, checked=True), self.domain), inside)

    def parts(self, value: Value, kept: Sequence[sym.IndexExpr], to: Attribute) -> SSAValue:
        """The sums of the parts of the order that lie in one row each; of the others 0."""
        builder, part = self.builder, self.part
        sizes = (self.count // part, *kept)
        with builder.nest(sizes, [tensor_type(sizes, to, device=self.device)]) as nest:
            number, *inner = nest.indices
            least, greatest = self.key(number * part), self.key(number * part + (part - 1))
            is_whole = least.eq(greatest) & (least < self.rows)
            end = builder.bound(where(is_whole, builder.constant(part, i64), 0), part + 1, checked=True)
            total = self.sum(
                part, 0, end, to, lambda at, inside: self.value_at(value, inner, number * part + at, inside)
            )
            builder.store(total, nest.handles[0], nest.indices)
        return nest.results[0]

    def row(
        self, value: Value, parts: SSAValue, kept: Sequence[sym.IndexExpr], row: sym.IndexExpr, to: Attribute
    ) -> Scalar:
        """The sum of a row: what comes before its first whole part, these, and what comes after them."""
        builder, part = self.builder, self.part
        first, end = (
            builder.bound(builder.load_raw(self.ends, [row, k]).convert(i64), self.count + 1, checked=True)
            for k in (0, 1)
        )
        # What is in no whole part is two pieces of the order, and one loop goes through both.
        before, after = sym.ceildiv(first, part), end // part
        head = sym.minimum(before * part, end)
        tail = sym.maximum(after * part, head)
        alone, gap = builder.index(head - first), builder.index(tail - head)

        def single(at: sym.IndexExpr, inside: Scalar) -> Scalar:
            number = builder.index(at)
            place = builder.index(first + at) + where(number < alone, 0, gap)
            return self.value_at(value, kept, builder.bound(place, self.count, checked=True), inside)

        def of_part(at: sym.IndexExpr, inside: Scalar) -> Scalar:
            return builder.load_raw(parts, [at, *kept], inside, builder.constant(0, to))

        total = self.sum(self.count, 0, end - first - (tail - head), to, single)
        return total + self.sum(self.count // part, before, after, to, of_part)
