"""`join-products`: a product of what a nest makes of another product, in one nest that stores neither.

%s = loops.extern pure "aten.bmm.default"(%q, %k)
%p = loops.nest (%i : 4096) … { %m = maximum (%j) of f(%s[%i, %j]); …; for (%j) store g(%i, %j), %p[%i, %j] }
%o = loops.extern pure "aten.bmm.default"(%p, %v)
→
%o = loops.nest (%i : 4096, %d : 64) … #loops.schedule<rows = 128, columns = 64, depth = 64, …> {
  %m = maximum (%j) of f(sum (%e) of %q[%i, %e] · %k[%e, %j]); …; %a = sum (%j) of g(%i, %j) · %v[%j, %d]
}

Nothing here knows of softmax. Three rewrites, each a law of its own:

    recompute   a read of s[i, j] is Σ_e q[i, e] · k[e, j]: the definition of the product
    contract    o[i, d] = Σ_j p[i, j] · v[j, d] with p[i, j] = g(i, j): what a loop would store is summed instead
    distribute  Σ_j (g(i, j) / c(i)) · v = (Σ_j g(i, j) · v) / c(i): what the points of a sum share is taken out of it

The last reassociates; and a value is not rounded where it was, between the parts, but the factor of the second product
is, as matrix units take it. All reductions of the new nest go over one domain, so that `carry-reductions` makes them
one walk, in which a tile of s is computed once and lives in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.dialects.layout import element_type_of, sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import (
    Substitution,
    clone_into,
    loads_of,
    remove,
    stores_of,
    through_views,
    top_level_nest,
)
from cuesta.dialects.loops.writing import BodyWriter
from cuesta.lowering.kernel.loops_to_kernel import lower_nests
from cuesta.lowering.schedule import joined_points
from cuesta.lowering.schedule.tune_kernels import program_of
from cuesta.transforms.products.narrow_factors import as_factor
from cuesta.transforms.products.pieces import cloned_value
from cuesta.transforms.products.products import (
    Product,
    insert,
    load_in_f32,
    product_of,
    scaled,
    static,
)
from cuesta.transforms.products.recomputing import (
    MORE,
    inline,
    is_narrow,
    one_precision,
    point_of,
    recompute,
    recompute_stored,
    sweep,
)
from cuesta.transforms.products.tiles import LEAST, times_of_walk, walked_tile
from cuesta.transforms.reductions.carry_reductions import carry, members_of

WIDEST = 256
"""The most columns that the second product may have, and the most points of a sum of the first: a program has all of
them in registers.

Source: a bound: a tile of 64 rows by 256 f32 is half of the registers that a processor of sm_90 has.
"""


class JoinProductsPass(ModulePass):
    """p = nest(s = q · k); o = p · v  ->  o = nest(q, k, v)

    Reassociates. Near misses: a nest that others read; one that stores more than p; a factor that is no row of the
    nest; sizes that only the call knows; heads wider than a tile; a device without matrix units, or whose kernels raise
    IndexError.
    """

    name = "join-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        if not any(isinstance(one, loops.ExternOp) for one in block.ops):
            return
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        for call in list(block.ops):
            if call.parent is not block or not isinstance(call, loops.ExternOp):
                continue
            if (last := product_of(call, positions, set(), "")) is None:
                continue
            traits = traits_of_device(last.device)
            if not traits.contractions or traits.raises:  # points that are left out would raise no IndexError
                continue
            reason = _join(last, positions, machine_of(op))
            if reason is not None:
                no_match(call, f"is not joined with what gives its factors: {reason}")


def _join(last: Product, positions: dict[Operation, int], machine: Machine) -> str | None:
    """Joins a product with what gives its factors, in place; or says why not."""
    chain = chain_of(last, positions)
    if not isinstance(chain, str):
        tile = tile_of(chain)
        width = last.sizes[1] + sum(one.sizes[2] for one in chain.first)
        walk, apart = times_of_walk(last.sizes[0], last.sizes[2], last.batch, tile, machine, width)
        if walk > apart:
            return _compared(walk, apart)
        new = joined_nest(chain)
        new.properties["schedule"] = loops.ScheduleAttr.of(tile)
        if (reason := obstacle(new, machine)) is not None:
            new.erase()
            return reason
        chose(last.call, f"is one nest with what gives its factors: {_compared(walk, apart)}")
        replace(chain, new)
        positions[new] = positions[last.call]
        return None
    found = joined_points.between(last, positions, WIDEST)
    if isinstance(found, str):
        return f"{chain}; {found}"
    groups = joined_points.groups(found, positions)
    walk, apart = joined_points.times(found, groups, machine)
    if walk > apart:
        joined_points.drop(found)
        return _compared(walk, apart)
    made: list[tuple[list[joined_points.Last], loops.NestOp]] = []
    for group in groups:
        new = joined_points.walk_of(found, group)
        new.properties["schedule"] = loops.ScheduleAttr.of(joined_points.tile_of(found, group))
        made.append((group, new))
        if (reason := obstacle(new, machine)) is not None:
            for _, one in made:
                one.erase()
            joined_points.drop(found)
            return reason
    sums: list[loops.NestOp] = []
    for nest in found.summed:
        sums.append(joined_points.summed_of(found, nest))
        sums[-1].properties["schedule"] = loops.ScheduleAttr.of(joined_points.tile_of_summed())
        if (reason := obstacle(sums[-1], machine)) is not None:
            for one in (*(new for _, new in made), *sums):
                one.erase()
            joined_points.drop(found)
            return reason
    for one in found.last:
        chose(one.product.call, f"is one nest with what gives its factors: {_compared(walk, apart)}")
    joined_points.replace_between(found, made, sums, positions)
    return None


def _compared(walk: float, apart: float) -> str:
    return f"a walk is expected to take {walk:.0f} us, the products by themselves {apart:.0f}"


@struct
class Chain:
    """Two products with a nest between them, which is to become one nest."""

    first: tuple[Product, ...]
    """The products that the nest reads; nobody else does."""
    nest: loops.NestOp
    loop: loops.ForOp
    """What stores the left factor of the last product, row by row."""
    made: tuple[loops.NestOp, ...]
    """The nests that compute what it reads point by point of its rows; nobody else reads that."""
    last: Product
    indices: tuple[sym.IndexExpr, ...]
    """The point of the nest and of the loop that gives element (batch…, row, k) of the left factor."""


def chain_of(last: Product, positions: dict[Operation, int]) -> Chain | str:
    """The chain that ends in a product, or why there is none."""
    left = last.left
    while isinstance(view := left.owner, loops.ViewOp):
        if not left.has_one_use():
            return "others read it"
        left = view.source
    nest = left.owner
    if not isinstance(nest, loops.NestOp):
        return "no nest gives it"
    if not left.has_one_use() or nest.operands or nest.choices:
        return "others read it, or its nest has a schedule"
    if last.bias is not None or last.sizes[1] > WIDEST:
        return f"something is added to the product, or it has more than {WIDEST} columns"
    result = nest.results.index(left)
    scratch = read_back(nest)
    own = [store for store in stores_of(nest) if store.target is nest.handles[result]]
    others = [store for store in stores_of(nest) if store not in own and store.target not in scratch]
    loop = own[0].parent_op() if len(own) == 1 else None
    if not isinstance(loop, loops.ForOp) or len(loop.sizes) != 1 or loop.parent is not nest.body:
        return "its rows are not stored by one loop of the nest"
    if any(one.parent is not nest.body for one in others):
        return "its nest gives more than it and what is one for a row"
    if any(isinstance(op, MORE) for op in nest.walk()) or any(one.mask is not None for one in (*own, *others)):
        return "the nest does more than to reduce and to store"
    if any(load.source in nest.handles for load in loads_of(nest) if load.source not in scratch):
        return "the nest reads what it stores"
    if (reason := recompute_stored(nest, scratch, may_raise=True, try_only=True)) is not None:
        return f"the nest reads what it stores: {reason}"
    axes = [*nest.induction_variables, *loop.induction_variables]
    substitution = Substitution(axes)
    stored = substitution.expressions(own[0].map.results, own[0].indices)
    sizes = (*nest.sizes, *loop.sizes)
    if len(stored) != len(axes):
        return "it is not stored in the order of the nest's axes"
    points = enumerate(zip(stored, sizes, strict=True))
    if any(not (e == sym.dim(axis) or (size == 1 and e == 0)) for axis, (e, size) in points):
        return "it is not stored in the order of the nest's axes"
    shape = sizes_of(tensor_type_of(last.left))
    _, indices = through_views(last.left, [sym.dim(axis) for axis in range(len(shape))])
    indices = tuple(sym.simplify(index, shape) for index in indices)
    inner = len(shape) - 1
    if indices[-1] != sym.dim(inner) or any(inner in sym.dims_of(index) for index in indices[:-1]):
        return "a row of it is no row of the nest"
    if len(static(sizes)) < len(sizes) or static(loop.sizes)[0] < LEAST:
        return "its sizes are not known, or it has few columns"
    first = products_read(nest, positions)
    return first if isinstance(first, str) else Chain(first, nest, loop, made_for(nest), last, indices)


def read_back(nest: loops.NestOp) -> list[SSAValue]:
    """The outs that nobody but the nest itself reads: what it stores there, it can compute where it reads it."""
    return [handle for result, handle in zip(nest.results, nest.handles, strict=True) if not result.uses]


def products_read(nest: loops.NestOp, positions: dict[Operation, int]) -> tuple[Product, ...] | str:
    """The products that only a nest reads, one at least: each point of an inner loop an element of its own row."""
    found: list[Product] = []
    for source in dict.fromkeys(load.source for load in loads_of(nest)):
        call = source.owner
        if not isinstance(call, loops.ExternOp) or (product := product_of(call, positions, set(), "")) is None:
            continue
        if any(top_level_nest(use.operation) is not nest for use in source.uses) or product.sizes[2] > WIDEST:
            continue
        if all(_is_walked(load) for load in loads_of(nest) if load.source is source):
            found.append(product)
    return tuple(found) or "it is not made of a product that nobody else reads"


def made_for(nest: loops.NestOp) -> tuple[loops.NestOp, ...]:
    """The pointwise nests whose only result a nest reads, each as it walks along its rows, and nobody else; and those
    that are read so by these alone, each as large as a matrix of theirs.
    """
    found: list[loops.NestOp] = []
    work = [nest]
    for reader in work:  # grows meanwhile
        least = math.prod(static(sizes_of(tensor_type_of(reader.results[0]))[-2:]))
        for source in dict.fromkeys(load.source for load in loads_of(reader)):
            made = source.owner
            if not isinstance(made, loops.NestOp) or made in found or len(made.results) > 1 or made.choices:
                continue
            if any(top_level_nest(use.operation) is not reader for use in source.uses) or point_of(made) is None:
                continue
            read = [load for load in loads_of(reader) if load.source is source]
            is_matrix = math.prod(static(sizes_of(tensor_type_of(source)))) >= least
            if is_matrix if reader is not nest else all(map(_is_walked, read)):
                found.append(made)
                work.append(made)
    return tuple(found)


def _is_walked(load: loops.LoadOp) -> bool:
    """Whether a load stands in a loop of one axis, which is one index of the element, and an axis of the nest the
    other.
    """
    loop = load.parent_op()
    if load.mask is not None or not isinstance(loop, loops.DomainOp) or len(loop.sizes) != 1:
        return False
    substitution = Substitution(load.indices)
    row, column = substitution.expressions(load.map.results, load.indices)[-2:]
    (variable,) = loop.induction_variables
    if variable not in load.indices:
        return False
    walked = sym.dim(list(load.indices).index(variable))
    other = row if column == walked else column
    return walked in (row, column) and other != walked and isinstance(other, sym.Expr) and len(other.dims) == 1


def tile_of(chain: Chain) -> dict[str, int]:
    """The choices of the nest that a chain becomes."""
    rows, columns, _ = chain.last.sizes
    return walked_tile(rows, columns, max(one.sizes[2] for one in chain.first), len(chain.first) + 1)


def obstacle(nest: loops.NestOp, machine: Machine) -> str | None:
    """Why a joined nest, which stands nowhere yet, cannot be one walk, or has no kernel; found out by making it, on a
    copy: what `carry-reductions` and the schedule ask for stands in one place each.
    """
    alone = program_of([nest])
    if "batch" not in nest.choices:
        if isinstance(members := members_of(nest), str):
            return members
        copy = next(op for op in entry_block(alone).ops if isinstance(op, loops.NestOp))
        members = members_of(copy)
        assert not isinstance(members, str)
        carry(copy, members, copy.choices["depth"])
    try:
        lower_nests(alone, machine)
    except CuestaError as error:
        return error.diagnostics[0].message
    return None


def replace(chain: Chain, new: loops.NestOp) -> None:
    """Puts a nest in the place of a chain."""
    nest, last = chain.nest, chain.last
    Rewriter.insert_op(new, InsertPoint.before(last.call))
    given = [nest.results[nest.handles.index(op.target)] for op in nest.body.ops if isinstance(op, loops.StoreOp)]
    for old, result in zip((last.result, *given), new.results, strict=True):
        result.name_hint = old.name_hint
        replace_all_uses(old, result)
    left = last.left
    remove(last.call)
    while isinstance(view := left.owner, loops.ViewOp):
        left = view.source
        remove(view)
    remove(nest)
    for product in chain.first:
        remove(product.call)
    for producer in chain.made:
        remove(producer)


def joined_nest(chain: Chain) -> loops.NestOp:
    """The nest that computes a chain; it stands nowhere yet."""
    last = chain.last
    shape = sizes_of(tensor_type_of(last.result))
    nest, loop = chain.nest, chain.loop
    if scratch := read_back(nest):
        nest = nest.clone()
        loop = list(nest.body.ops)[list(chain.nest.body.ops).index(loop)]
        assert isinstance(loop, loops.ForOp)
        copies = [nest.handles[chain.nest.handles.index(handle)] for handle in scratch]
        reason = recompute_stored(nest, copies, may_raise=True)
        assert reason is None, reason
    rows = [op for op in nest.body.ops if isinstance(op, loops.StoreOp)]
    kept = [chain.nest.results[nest.handles.index(store.target)] for store in rows]
    new = loops.NestOp.build(shape, [last.result.type, *(result.type for result in kept)])
    new.location = last.call.location
    substitution = Substitution(new.induction_variables)
    for variable, index in zip(nest.induction_variables, chain.indices, strict=False):
        substitution.set_index(variable, index)
    before = [op for op in nest.body.ops if op is not loop and op not in rows]
    place = InsertPoint.at_end(new.body)
    clone_into(before, place, substitution)
    total = _contract(chain, loop, new, substitution)
    narrow = element_type_of(last.result)
    if narrow != f32:
        rounded = insert(elem.ConvertOp.build(total, narrow), last.call, place)
        assert rounded is not None
        total = rounded
    dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(shape))]
    insert(loops.StoreOp.build(total, new.handles[0], dims, new.induction_variables), last.call, place)
    for store, handle in zip(rows, new.handles[1:], strict=True):
        _store_once(store, handle, new, substitution)
    if nest is not chain.nest:
        nest.erase()
    for product in chain.first:
        recompute(product, new)
    for producer in chain.made:
        inline(producer, new, producer.results[0])
    one_precision(new)
    sweep(new)
    return new


def _store_once(store: loops.StoreOp, handle: SSAValue, nest: loops.NestOp, substitution: Substitution) -> None:
    """What a row has once is stored by the first of its points."""
    writer = BodyWriter(nest.body, store)
    column = writer.number(sym.dim(0), [nest.induction_variables[-1]], i64)
    is_first = writer.make("eq", column, writer.constant(0, i64))
    results = substitution.expressions(store.map.results, store.indices)
    value = substitution.value(store.value)
    stored = loops.StoreOp.build(value, handle, results, substitution.axes, is_first)
    insert(stored, store, InsertPoint.at_end(nest.body))


def _contract(chain: Chain, loop: loops.ForOp, new: loops.NestOp, substitution: Substitution) -> SSAValue:
    """Σ_j p[i, j] · v[j, d], with p as the loop computes it, but for what all of its points share; in f32."""
    last = chain.last
    reduction = loops.ReduceOp.build("sum", loop.sizes, f32)
    reduction.location = last.call.location
    (old,), (variable,) = loop.induction_variables, reduction.induction_variables
    variable.name_hint = old.name_hint
    substitution.set_index(old, substitution.axis(variable))
    inside = InsertPoint.at_end(reduction.body)
    stored = cloned_value(loop.body.ops, substitution, inside)
    shared: list[_Shared] = []
    weight = _without_shared(stored, reduction, shared, inside)
    axes = [*new.induction_variables, variable]
    *batch, _, column, k = (sym.dim(axis) for axis in range(len(axes)))
    sizes = (*new.sizes, *loop.sizes)
    weight = as_factor(weight, element_type_of(last.result), last.call, inside)
    value = load_in_f32(last.right, [*batch, k, column], axes, sizes, last.call, inside)
    product = insert(elem.make("mul", weight, value), last.call, inside)
    assert product is not None
    insert(loops.YieldOp.build(product), last.call, inside)
    place = InsertPoint.at_end(new.body)
    total = insert(reduction, last.call, place)
    assert total is not None
    for again in reversed(shared):
        total = insert(again(total), last.call, place)
        assert total is not None
    return scaled(total, last.alpha, last.call, place)


_Shared = Callable[[SSAValue], Operation]
"""Does again, to the sum, what was done to each of its terms."""


def _without_shared(value: SSAValue, loop: loops.ReduceOp, shared: list[_Shared], place: InsertPoint) -> SSAValue:
    """A value in f32 without the factors that all points share, which are appended to `shared`, the last done first.

    Σ_j (g(j) / c) · v(j) = (Σ_j g(j) · v(j)) / c, and so for a factor, a sign, and 0 in the place of all of a row.
    """
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not loop.body:
        return value
    if isinstance(owner, elem.ConvertOp):
        source = owner.operands[0]
        if is_narrow(value) and isinstance(source.type, Float32Type):  # rounded later, as a factor
            return _without_shared(source, loop, shared, place)
        if is_narrow(source) and isinstance(source.owner, elem.ConvertOp) and value.type == f32:
            return _without_shared(source, loop, shared, place)
        return value
    if isinstance(owner, elem.MulOp | elem.DivOp) and value.type == f32:
        left, right = owner.operands
        if isinstance(owner, elem.MulOp) and not _is_in(left, loop):
            left, right = right, left
        if not _is_in(right, loop):
            shared.append(partial(_again, owner, other=right))
            return _without_shared(left, loop, shared, place)
        inner = _without_shared(left, loop, shared, place)
        if inner is left:
            return value
        new = _again(owner, inner, right)
        new.location = owner.location
        Rewriter.insert_op(new, place)
        return new.results[0]
    if isinstance(owner, elem.SelectOp) and value.type == f32 and not _is_in(owner.operands[0], loop):
        for side, chosen in enumerate(owner.operands[1:]):
            other = owner.operands[2 - side]
            if isinstance(chosen.owner, elem.ConstantOp) and chosen.owner.value == 0:
                shared.append(partial(_chosen, owner, side))
                return _without_shared(other, loop, shared, place)
    return value


def _again(old: Operation, value: SSAValue, other: SSAValue) -> Operation:
    return type(old).create(operands=(value, other), result_types=(value.type,), properties=old.properties.copy())


def _chosen(old: Operation, side: int, total: SSAValue) -> Operation:
    condition, *sides = old.operands
    sides[1 - side] = total
    return elem.SelectOp.create(operands=(condition, *sides), result_types=(total.type,))


def _is_in(value: SSAValue, loop: loops.ReduceOp) -> bool:
    owner = value.owner
    return owner is loop.body or (isinstance(owner, Operation) and owner.parent is loop.body)


__all__ = ["Chain", "JoinProductsPass", "chain_of", "joined_nest"]
