"""Scatters: one nest that stores every element, and then changes some in a scan over the index.

The parallel domain is the dims that no index addresses, so that no two of its points touch one element; along the
others, the points of the index come in row-major order, and where indices repeat the last one wins, as in eager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, sizes_of, strides_of, tensor_type
from cuesta.lowering.aten.atomics import Held
from cuesta.lowering.aten.builder import (
    AtenCall,
    LoopBuilder,
    Nest,
    compute_type,
    decline,
)
from cuesta.lowering.aten.indexing import IndexList, intersect
from cuesta.lowering.aten.operands import (
    Sizes,
    tensor_type_of,
)
from cuesta.lowering.aten.reductions import Split
from cuesta.lowering.aten.scalar import Scalar, where

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
            for one in each(what.update(outer, inner)):
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
            for change in each(what.update(nest.indices, inner)):
                builder.combine(assign, nothing, changed, change.place, change.mask)
    with builder.scan(what.domain) as inner:
        for change in each(what.update(nest.indices, inner)):
            builder.combine(kind, hold(change.value), changed, change.place, change.mask)


def _is_sparse(sizes: Sizes, points: Sizes) -> bool:
    """Whether there are many more elements than changes; of sizes that are not known, whether there are very many."""
    elements, changes = sym.product_of(sizes), sym.product_of(points)
    if not isinstance(elements, int):
        return False
    return elements > SPARSE * changes if isinstance(changes, int) else elements > MANY


def each(updates: Update | Sequence[Update]) -> Sequence[Update]:
    """The updates of a point."""
    return (updates,) if isinstance(updates, Update) else updates


def zeros(element: Attribute, builder: LoopBuilder) -> Initial:
    """Nothing to start from."""
    return lambda place: builder.constant(0, element)


def elements_of(tensor: SSAValue, builder: LoopBuilder) -> Initial:
    """What a tensor holds, to start from."""
    return lambda place: builder.load_raw(tensor, place)
