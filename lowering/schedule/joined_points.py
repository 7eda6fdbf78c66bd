"""Products of what is made point by point of other products: all of them, each in one nest, and nothing between stored.

%s = loops.extern pure "aten.bmm.default"(%q, %k)
%p = loops.nest (%i, %j) { exp(%s[%i, %j] - %m[%i]) }
%a = loops.extern pure "aten.bmm.default"(%p.T, %g)
%b = loops.extern pure "aten.bmm.default"(%p, %h)
→
%a = loops.nest (%j, %d) … { sum (%i) of exp((sum (%e) of %q[%i, %e] · %k[%e, %j]) - %m[%i]) · %g[%i, %d] }
%b = loops.nest (%i, %d) … { sum (%j) of exp((sum (%e) of %q[%i, %e] · %k[%e, %j]) - %m[%i]) · %h[%j, %d] }

That is the gradient of an attention, among others: what a backward pass does between its products needs no sum along a
row that is not at hand. Products that walk along the same axis, and have the same columns, become one nest, in which a
tile between them is computed once. A sum that is no product's, and has nothing to do with the points, is taken out of
the nests between first, into one of its own: whoever walks the other way would compute it again in every step.

All or none: as long as somebody stores what is between, to compute it again is no gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.locations import fuse_locations
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, element_type_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import (
    Substitution,
    clone_op,
    loads_of,
    remove,
    stores_of,
    through_views,
    top_level_nest,
)
from cuesta.transforms.products.narrow_factors import as_factor
from cuesta.transforms.products.products import Product, insert, load_in_f32, product_of, scaled, static
from cuesta.transforms.products.recomputing import MORE, inline, one_precision, point_of, recompute, sweep
from cuesta.transforms.products.tiles import PASSES, SPEED, times_of_walk, walked_tile

MOST = 12
"""The most nests between products.

Source: a bound: each is computed again by every product that reads it.
"""


@struct
class Last:
    """A product one of whose factors lies between products."""

    product: Product
    is_left: bool
    walks_rows: bool
    """Whether it sums along what are rows in memory of the tensor between, or else along columns."""

    @property
    def between(self) -> SSAValue:
        """The factor that lies between."""
        return self.product.left if self.is_left else self.product.right

    @property
    def other(self) -> SSAValue:
        """The other factor."""
        return self.product.right if self.is_left else self.product.left

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Those of the tensor between that are not summed, those of the other one, and those that are summed."""
        rows, columns, points = self.product.sizes
        return (rows, columns, points) if self.is_left else (columns, rows, points)


@struct
class Between:
    """What lies between products, whom nobody else reads."""

    first: tuple[Product, ...]
    """The products that the nests read."""
    nests: tuple[loops.NestOp, ...]
    """In the order of the program; each gives its tensors point by point."""
    pointwise: tuple[loops.NestOp, ...]
    """The same, with loads in the place of sums along rows; those of nests that have such sums stand nowhere."""
    rows: tuple[tuple[loops.NestOp, loops.NestOp], ...]
    """What gives the sums along rows, standing nowhere yet, with the nest that it is to stand before."""
    last: tuple[Last, ...]
    summed: tuple[loops.NestOp, ...] = ()
    """The nests that sum what lies between along whole tensors of it, as the gradient of a bias for every score."""
    given: tuple[tuple[SSAValue, SSAValue], ...] = ()
    """What the nests between give besides, one for a row, and what gives it in their place."""


def between(product: Product, positions: dict[Operation, int], widest: int) -> Between | str:
    """What lies between products, one of which reads it; or why there is nothing, or it cannot be recomputed."""
    for value in (product.left, product.right):
        source, _ = through_views(value, [sym.dim(axis) for axis in range(len(sizes_of(tensor_type_of(value))))])
        nest = source.owner
        if isinstance(nest, loops.NestOp) and nest in positions and source in nest.results:
            return _closure(nest, positions, widest)
    return "no nest gives a factor of it"


def _closure(start: loops.NestOp, positions: dict[Operation, int], widest: int) -> Between | str:
    """All nests that read or are read by one, as large as it, and the products around them."""
    size = _count(start.results[0])
    first: dict[Operation, Product] = {}
    last: dict[tuple[Operation, bool], Last] = {}
    found: dict[loops.NestOp, None] = {}
    summed: dict[loops.NestOp, None] = {}
    work = [start]
    while work:
        nest = work.pop()
        if nest in found or nest in summed:
            continue
        if nest in positions and sums_whole(nest, size):
            summed[nest] = None
            continue
        if len(found) >= MOST or nest not in positions:
            return "many nests lie between"
        if nest.choices or size <= 0 or any(_count(result) != size for result in _of_points(nest, size)):
            return "a nest between gives something smaller, too, or has a schedule"
        if not _is_pointwise(nest, size):
            return "a nest between does not give its elements point by point"
        found[nest] = None
        for source in dict.fromkeys(load.source for load in loads_of(nest)):
            owner = source.owner
            if _count(source) != size:
                continue
            if isinstance(owner, loops.NestOp) and _is_pointwise(owner, size):
                work.append(owner)
            elif isinstance(owner, loops.ExternOp):
                one = product_of(owner, positions, set(), "")
                if one is not None and one.sizes[2] <= widest and owner not in first:
                    first[owner] = one
                    readers = [top_level_nest(use.operation) for use in source.uses]
                    work += [reader for reader in readers if isinstance(reader, loops.NestOp)]
        values: list[SSAValue] = [*nest.results]
        while values:
            value = values.pop()
            for use in value.uses:
                user = use.operation
                if isinstance(user, loops.ViewOp):
                    values.append(user.results[0])
                elif isinstance(user, loops.ExternOp):
                    one = product_of(user, positions, set(), "")
                    if one is None or one.bias is not None:
                        return "a library call that is no product reads what lies between"
                    for is_left, factor in ((True, one.left), (False, one.right)):
                        if factor is value:
                            walks = _walks_rows(one, factor, is_left)
                            if walks is None:
                                return "a row of a factor is no row or column of what lies between"
                            last[user, is_left] = Last(one, is_left, walks)
                            if last[user, is_left].sizes[1] > widest:
                                return f"a product has more than {widest} columns"
                elif value in nest.results and isinstance(top := top_level_nest(user), loops.NestOp):
                    work.append(top)
                else:
                    return "others read what lies between"
    for call in first:
        if any(top_level_nest(use.operation) not in (*found, *summed) for use in call.results[0].uses):
            return "others read a product"
    if not first or not last:
        return "no product is read, or none reads"
    calls = {call for call, _ in last}
    if len(calls) < len(last):
        return "a product has two such factors"
    if any(call in calls for call in first):
        return "a product stands between, too"
    _add_made(found, positions)
    nests = sorted(found, key=positions.__getitem__)
    given: list[tuple[SSAValue, SSAValue]] = []
    apart = [_apart(nest, _sums(nest, size), given) for nest in nests]
    return Between(
        tuple(sorted(first.values(), key=lambda one: positions[one.call])),
        tuple(nests),
        tuple(pointwise for _, pointwise in apart),
        tuple((row, nest) for nest, (rows, _) in zip(nests, apart, strict=True) for row in rows),
        tuple(sorted(last.values(), key=lambda one: positions[one.product.call])),
        tuple(sorted(summed, key=positions.__getitem__)),
        tuple(given),
    )


def sums_whole(nest: loops.NestOp, size: int) -> bool:
    """Whether all that a nest does is to sum, along whole tensors, what it makes of elements of tensors of `size`: each
    of its results is of so many points as the sums leave.
    """
    domains = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    if nest.operands or nest.choices or len(domains) != 1 or len(nest.sizes) < 2:
        return False
    reduction = domains[0]
    if not isinstance(reduction, loops.ReduceOp) or reduction.kind != "sum":
        return False
    if any(isinstance(op, (loops.DomainOp, *MORE)) and op not in (nest, reduction) for op in nest.walk()):
        return False
    if any(op.source in nest.handles for op in loads_of(nest)) or any(one.mask is not None for one in stores_of(nest)):
        return False
    outside = [load for load in loads_of(nest) if load.parent is nest.body]
    if any(_count(load.source) == size for load in outside):
        return False
    points = math.prod(static(reduction.sizes))
    known = len(static((*nest.sizes, *reduction.sizes))) == len(nest.sizes) + len(reduction.sizes)
    return known and all(_count(result) * points == size and points > 1 for result in nest.results)


def _of_points(nest: loops.NestOp, size: int) -> list[SSAValue]:
    """The results of a nest, but for sums along rows that it stores as they are: others ask for them, too."""
    sums = {op.results[0] for op in _sums(nest, size)}
    rows = {store.target for store in stores_of(nest) if store.value in sums and store.parent is nest.body}
    kept = zip(nest.results, nest.handles, strict=True)
    return [result for result, handle in kept if _count(result) == size or handle not in rows]


def _add_made(found: dict[loops.NestOp, None], positions: dict[Operation, int]) -> None:
    """Adds the nests that make what varies along rows and columns, such as a mask, for those that are there alone."""
    work = list(found)
    while work:
        nest = work.pop()
        least = math.prod(static(sizes_of(tensor_type_of(nest.results[0]))[-2:]))
        for source in dict.fromkeys(load.source for load in loads_of(nest)):
            made = source.owner
            if not isinstance(made, loops.NestOp) or made in found or made not in positions or made.choices:
                continue
            if len(made.results) > 1 or point_of(made) is None or _count(source) < least:
                continue
            if all(top_level_nest(use.operation) in found for use in source.uses):
                found[made] = None
                work.append(made)


def _count(value: SSAValue) -> int:
    sizes = sizes_of(tensor_type_of(value))
    known = static(sizes)
    return math.prod(known) if len(known) == len(sizes) else -1


def _walks_rows(product: Product, factor: SSAValue, is_left: bool) -> bool | None:
    """Whether a product sums along the last but one index of the tensor that a factor is a view of; None if it sums
    along neither that nor the last.
    """
    shape = sizes_of(tensor_type_of(factor))
    _, indices = through_views(factor, [sym.dim(axis) for axis in range(len(shape))])
    ends = [sym.simplify(index, shape) for index in indices[-2:]]
    walked, kept = (len(shape) - 1, len(shape) - 2) if is_left else (len(shape) - 2, len(shape) - 1)
    if ends == [sym.dim(kept), sym.dim(walked)]:
        return False
    return True if ends == [sym.dim(walked), sym.dim(kept)] else None


def _is_pointwise(nest: loops.NestOp, size: int) -> bool:
    """Whether a nest gives each of its tensors element by element, but for sums along rows."""
    sums = _sums(nest, size)
    points = _of_points(nest, size)
    return all(point_of(nest, sums, k) is not None for k, one in enumerate(nest.results) if one in points)


def _sums(nest: loops.NestOp, size: int) -> list[loops.ReduceOp]:
    """The sums along rows of a nest, if all are of what is smaller than `size`: at hand without what lies between."""
    found = [op for op in nest.body.ops if isinstance(op, loops.ReduceOp)]
    for op in found:
        if any(isinstance(one, loops.DomainOp) for one in op.body.ops):
            return []
        if any(_count(load.source) >= size for load in loads_of(op)):
            return []
    return found


def _apart(
    nest: loops.NestOp, sums: Sequence[loops.ReduceOp], given: list[tuple[SSAValue, SSAValue]]
) -> tuple[list[loops.NestOp], loops.NestOp]:
    """A nest without its sums along rows, which are loaded, and the nests that give them; both stand nowhere. What of
    these the nest gave itself is `given` by them.
    """
    if not sums:
        return [], nest
    clone = nest.clone()
    rows: list[loops.NestOp] = []
    for op in list(clone.body.ops):
        if not isinstance(op, loops.ReduceOp):
            continue
        device = device_of(tensor_type_of(nest.results[0]))
        own = next((one for one in stores_of(clone) if one.value is op.results[0] and one.parent is clone.body), None)
        kind = tensor_type(nest.sizes, op.results[0].type, device=device) if own is None else own.target.type
        row = loops.NestOp.build(nest.sizes, [kind])
        row.location = op.location
        substitution = Substitution(row.induction_variables)
        for before, now in zip(clone.induction_variables, row.induction_variables, strict=True):
            substitution.set_index(before, substitution.axis(now))
            now.name_hint = before.name_hint
        for needed in _made_of(op):
            Rewriter.insert_op(clone_op(needed, substitution), InsertPoint.at_end(row.body))
        total = substitution.value(op.results[0])
        dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(nest.sizes))]
        if own is not None:
            dims = Substitution(clone.induction_variables).expressions(own.map.results, own.indices)
            given.append((nest.results[clone.handles.index(own.target)], row.results[0]))
            remove(own)
        insert(
            loops.StoreOp.build(total, row.handles[0], dims, row.induction_variables), op, InsertPoint.at_end(row.body)
        )
        row.results[0].name_hint = op.results[0].name_hint
        loaded = loops.LoadOp.build(row.results[0], dims, clone.induction_variables)
        value = insert(loaded, op, InsertPoint.before(op))
        assert value is not None
        replace_all_uses(op.results[0], value)
        remove(op)
        rows.append(row)
    sweep(clone)
    return rows, clone


def _made_of(op: Operation) -> list[Operation]:
    """An op of a nest's body, and those before it that it needs."""
    block = op.parent
    needed, work = {op}, [op]
    while work:
        for inner in work.pop().walk():
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is block and owner not in needed:
                    needed.add(owner)
                    work.append(owner)
    assert block is not None
    return [one for one in block.ops if one in needed]


def times(found: Between, groups: Sequence[Sequence[Last]], machine: Machine) -> tuple[float, float]:
    """About how many microseconds the walks take, and the products by themselves with what lies between."""
    walks = apart = 0.0
    for group in groups:
        rows, _, points = group[0].sizes
        width = sum(one.sizes[1] for one in group) + sum(one.sizes[2] for one in found.first)
        walk, stored = times_of_walk(rows, points, group[0].product.batch, tile_of(found, group), machine, width)
        walks, apart = walks + walk, apart + stored
    for nest in found.summed:
        *outer, rows, points = static(nest.sizes)
        count = found.last[0].product.batch // max(1, math.prod(outer))
        tile, width = tile_of_summed(), sum(one.sizes[2] for one in found.first)
        walk, _ = times_of_walk(rows, points, math.prod(outer) * count, tile, machine, width)
        walks, apart = walks + walk, apart + PASSES * math.prod((*outer, rows, points)) * count * 2 / SPEED
    return walks, apart


def tile_of_summed() -> dict[str, int]:
    """The choices of a nest that sums tiles of what lies between."""
    return {"batch": 1, "rows": 64, "columns": 64, "depth": 64, "warps": 4, "stages": 2}


def summed_of(found: Between, nest: loops.NestOp) -> loops.NestOp:
    """A nest that sums what lies between, and computes it; it stands nowhere yet."""
    new = nest.clone()
    _compute(found, new)
    return new


def _compute(found: Between, new: loops.NestOp) -> None:
    """Has a nest compute what lies between, and the products that it is made of, where it reads them."""
    for nest, pointwise in reversed(list(zip(found.nests, found.pointwise, strict=True))):
        for k, result in enumerate(nest.results):
            if any(load.source is result for load in loads_of(new)) and point_of(pointwise, (), k) is not None:
                inline(pointwise, new, result, k)
    for first in found.first:
        recompute(first, new)
    one_precision(new)
    sweep(new)


def tile_of(found: Between, group: Sequence[Last]) -> dict[str, int]:
    """The choices of the nest that products become."""
    rows, columns, _ = group[0].sizes
    return walked_tile(rows, columns, max(one.sizes[2] for one in found.first), len(found.first) + len(group))


def groups(found: Between, positions: dict[Operation, int]) -> list[list[Last]]:
    """The last products that become a nest each: those that walk along the same, and give as much."""
    by_kind: dict[object, list[Last]] = {}
    for last in found.last:
        by_kind.setdefault((last.walks_rows, last.sizes, last.product.batch), []).append(last)
    made: list[list[Last]] = []
    for group in by_kind.values():
        place = max(positions[last.product.call] for last in group)
        users = [use.operation for last in group for use in last.product.result.uses]
        together = all(positions.get(top_level_nest(user), place) >= place for user in users)
        made += [group] if together else [[last] for last in group]
    return made


def walk_of(found: Between, group: Sequence[Last]) -> loops.NestOp:
    """The nest that computes products of what lies between; it stands nowhere yet."""
    rows, columns, points = group[0].sizes
    batch = sizes_of(tensor_type_of(group[0].product.result))[:-2]
    new = loops.NestOp.build([*batch, rows, columns], [last.product.result.type for last in group])
    new.location = fuse_locations(*(last.product.call.location for last in group))
    place = InsertPoint.at_end(new.body)
    products: list[tuple[Operation, Last]] = []
    for last, handle in zip(group, new.handles, strict=True):
        call = last.product.call
        reduction = loops.ReduceOp.build("sum", [points], f32)
        reduction.induction_variables[0].name_hint = "k"
        axes = [*new.induction_variables, *reduction.induction_variables]
        *outer, row, column, k = (sym.dim(axis) for axis in range(len(axes)))
        sizes = (*new.sizes, points)
        inside = InsertPoint.at_end(reduction.body)
        own, others = ([row, k], [k, column]) if last.is_left else ([k, row], [column, k])
        left = load_in_f32(last.between, [*outer, *own], axes, sizes, call, inside)
        right = load_in_f32(last.other, [*outer, *others], axes, sizes, call, inside)
        product = elem.make("mul", left, right)
        multiplied = insert(product, call, inside)
        assert multiplied is not None
        insert(loops.YieldOp.build(multiplied), call, inside)
        total = insert(reduction, call, place)
        assert total is not None
        scalar = element_type_of(last.product.result)
        total = scaled(total, last.product.alpha, call, place)
        rounded = insert(elem.ConvertOp.build(total, scalar), call, place)
        assert rounded is not None
        end = [row, column] if last.is_left else [column, row]
        insert(loops.StoreOp.build(rounded, handle, [*outer, *end], new.induction_variables), call, place)
        products.append((product, last))
    _compute(found, new)
    for product, last in products:
        call = last.product.call
        scalar = element_type_of(last.product.result)
        product.operands[0] = as_factor(product.operands[0], scalar, call, InsertPoint.before(product))
    sweep(new)
    return new


def drop(found: Between) -> None:
    """Erases what stands nowhere."""
    for nest, pointwise in zip(found.nests, found.pointwise, strict=True):
        if pointwise is not nest:
            pointwise.erase()
    for row, _ in found.rows:
        if row.parent is None:
            row.erase()


def replace_between(
    found: Between,
    walks: Sequence[tuple[Sequence[Last], loops.NestOp]],
    sums: Sequence[loops.NestOp],
    positions: dict[Operation, int],
) -> None:
    """Puts nests in the place of all that they compute, and says where they stand."""
    for row, nest in found.rows:
        Rewriter.insert_op(row, InsertPoint.before(nest))
        positions[row] = positions[nest]
    for before, now in found.given:
        replace_all_uses(before, now)
    for old, new in zip(found.summed, sums, strict=True):
        Rewriter.insert_op(new, InsertPoint.before(old))
        positions[new] = positions[old]
        for result, now in zip(old.results, new.results, strict=True):
            now.name_hint = result.name_hint
            replace_all_uses(result, now)
        remove(old)
    left = dict.fromkeys(last.between for last in found.last)
    for group, new in walks:
        Rewriter.insert_op(new, InsertPoint.before(group[-1].product.call))
        positions[new] = positions[group[-1].product.call]
        for last, result in zip(group, new.results, strict=True):
            result.name_hint = last.product.result.name_hint
            replace_all_uses(last.product.result, result)
            remove(last.product.call)
    for value in left:
        while isinstance(view := value.owner, loops.ViewOp) and not value.uses and view.parent is not None:
            value = view.source
            remove(view)
    drop(found)
    for nest in reversed(found.nests):
        remove(nest)
    for product in found.first:
        remove(product.call)


__all__ = [
    "Between",
    "Last",
    "between",
    "drop",
    "groups",
    "replace_between",
    "summed_of",
    "tile_of",
    "tile_of_summed",
    "times",
    "walk_of",
]
