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

from collections.abc import Callable
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, f32
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
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import element_type_of, sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import (
    Substitution,
    clone_into,
    clone_op,
    index_ranges,
    loads_of,
    remove,
    stores_of,
    through_views,
    top_level_nest,
)
from cuesta.lowering.kernel.loops_to_kernel import lower_nests
from cuesta.lowering.schedule.tune_kernels import program_of
from cuesta.transforms.products.products import (
    Product,
    insert,
    load_in_f32,
    product_of,
    static,
    sum_at,
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
    nest; sizes that only the call knows; heads wider than a tile; a device without matrix units.
    """

    name = "join-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        if not any(isinstance(one, loops.ExternOp) for one in block.ops):
            return
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        for call in list(block.ops):
            if not isinstance(call, loops.ExternOp) or (last := product_of(call, positions, set(), False)) is None:
                continue
            if not traits_of_device(last.device).contractions:
                continue
            chain = chain_of(last, positions)
            if isinstance(chain, str):
                no_match(call, f"is not joined with what gives its left factor: {chain}")
                continue
            tile = tile_of(chain)
            walk, apart = times_of_walk(last.sizes[0], last.sizes[2], last.batch, tile, machine_of(op))
            if walk > apart:
                told = f"a walk is expected to take {walk:.0f} us, the products by themselves {apart:.0f}"
                no_match(call, f"is not joined with what gives its left factor: {told}")
                continue
            new = joined_nest(chain)
            new.properties["schedule"] = loops.ScheduleAttr.of(tile)
            if (reason := obstacle(new, machine_of(op))) is not None:
                new.erase()
                no_match(call, f"is not joined with what gives its left factor: {reason}")
                continue
            replace(chain, new)


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
    if not left.has_one_use() or len(nest.results) != 1 or nest.operands or nest.choices:
        return "others read it, or its nest gives more, or has a schedule"
    if last.bias is not None or last.sizes[1] > WIDEST:
        return f"something is added to the product, or it has more than {WIDEST} columns"
    loop, stores = nest.body.last_op, stores_of(nest)
    if not isinstance(loop, loops.ForOp) or len(loop.sizes) != 1:
        return "its rows are not stored by one loop at the end of the nest"
    if len(stores) != 1 or stores[0].parent is not loop.body:
        return "its rows are not stored by one loop at the end of the nest"
    if any(isinstance(op, _REFUSED) for op in nest.walk()) or stores[0].mask is not None:
        return "the nest does more than to reduce and to store"
    axes = [*nest.induction_variables, *loop.induction_variables]
    substitution = Substitution(axes)
    stored = substitution.expressions(stores[0].map.results, stores[0].indices)
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


_REFUSED = (loops.ScanOp, loops.BoundOp, loops.CombineOp, loops.AtomicOp, loops.MeetOp, loops.FoldOp)


def products_read(nest: loops.NestOp, positions: dict[Operation, int]) -> tuple[Product, ...] | str:
    """The products that only a nest reads, one at least: each point of an inner loop an element of its own row."""
    found: list[Product] = []
    for source in dict.fromkeys(load.source for load in loads_of(nest)):
        call = source.owner
        if not isinstance(call, loops.ExternOp) or (product := product_of(call, positions, set(), False)) is None:
            continue
        if any(top_level_nest(use.operation) is not nest for use in source.uses) or product.sizes[2] > WIDEST:
            continue
        if all(_is_walked(load) for load in loads_of(nest) if load.source is source):
            found.append(product)
    return tuple(found) or "it is not made of a product that nobody else reads"


def made_for(nest: loops.NestOp) -> tuple[loops.NestOp, ...]:
    """The pointwise nests whose only result a nest reads, each as it walks along its rows, and nobody else."""
    found: list[loops.NestOp] = []
    for source in dict.fromkeys(load.source for load in loads_of(nest)):
        made = source.owner
        if not isinstance(made, loops.NestOp) or any(top_level_nest(use.operation) is not nest for use in source.uses):
            continue
        if point_of(made) is not None and all(_is_walked(load) for load in loads_of(nest) if load.source is source):
            found.append(made)
    return tuple(found)


def point_of(nest: loops.NestOp) -> dict[SSAValue, int] | None:
    """Of a nest that gives one tensor element by element, perhaps in a loop at its end, the index of the element that
    each of its axes is; None for another nest.
    """
    if len(nest.results) != 1 or nest.operands:
        return None
    domains = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    stores = stores_of(nest)
    variables = list(nest.induction_variables)
    if domains:
        loop = nest.body.last_op
        if domains != [loop] or not isinstance(loop, loops.ForOp):
            return None
        if any(isinstance(op, loops.DomainOp) for op in loop.body.ops):
            return None
        variables += loop.induction_variables
    if len(stores) != 1 or stores[0].mask is not None or any(isinstance(op, _REFUSED) for op in nest.walk()):
        return None
    if any(load.source in nest.handles for load in loads_of(nest)):
        return None
    stored = Substitution(variables).expressions(stores[0].map.results, stores[0].indices)
    found: dict[SSAValue, int] = {}
    for position, index in enumerate(stored):
        if index == 0:
            continue
        axis = next((axis for axis in range(len(variables)) if index == sym.dim(axis)), None)
        if axis is None or variables[axis] in found:
            return None
        found[variables[axis]] = position
    sizes = [size for domain in (nest, *domains) for size in domain.sizes]
    return found if all(v in found or size == 1 for v, size in zip(variables, sizes, strict=True)) else None


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
    return walked_tile(rows, columns, max(one.sizes[2] for one in chain.first))


def obstacle(nest: loops.NestOp, machine: Machine) -> str | None:
    """Why a joined nest, which stands nowhere yet, cannot be one walk, or has no kernel; found out by making it, on a
    copy: what `carry-reductions` and the schedule ask for stands in one place each.
    """
    if isinstance(members := members_of(nest), str):
        return members
    alone = program_of([nest])
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
    new.results[0].name_hint = last.result.name_hint
    replace_all_uses(last.result, new.results[0])
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
    new = loops.NestOp.build(shape, [last.result.type])
    new.location = last.call.location
    substitution = Substitution(new.induction_variables)
    for variable, index in zip(chain.nest.induction_variables, chain.indices, strict=False):
        substitution.set_index(variable, index)
    before = [op for op in chain.nest.body.ops if op is not chain.loop]
    place = InsertPoint.at_end(new.body)
    clone_into(before, place, substitution)
    total = _contract(chain, new, substitution)
    narrow = element_type_of(last.result)
    if narrow != f32:
        rounded = insert(elem.ConvertOp.build(total, narrow), last.call, place)
        assert rounded is not None
        total = rounded
    dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(shape))]
    insert(loops.StoreOp.build(total, new.handles[0], dims, new.induction_variables), last.call, place)
    for product in chain.first:
        _recompute(product, new)
    for producer in chain.made:
        _inline(producer, new)
    _sweep(new)
    return new


def _recompute(product: Product, nest: loops.NestOp) -> None:
    """s[i, j] = Σ_e q[i, e] · k[e, j], in f32, wherever a nest reads it."""
    for load in [load for load in loads_of(nest) if load.source is product.result]:
        indices = list(load.indices)
        ranges = index_ranges(load, indices)
        assert ranges is not None
        dims = Substitution(indices).expressions(load.map.results, indices)
        total, rounded = sum_at(product, dims, indices, ranges, InsertPoint.before(load))
        _take(load, rounded, total)


def _inline(producer: loops.NestOp, nest: loops.NestOp) -> None:
    """b[i, j] is what a nest computes there, wherever another reads it: no store, and no memory of all of b."""
    (result,) = producer.results
    places = point_of(producer)
    assert places is not None
    ops = list(producer.body.ops)
    if isinstance(loop := ops[-1], loops.ForOp):
        ops[-1:] = loop.body.ops
    for load in [load for load in loads_of(nest) if load.source is result]:
        indices = list(load.indices)
        dims = Substitution(indices).expressions(load.map.results, indices)
        substitution = Substitution(indices)
        for domain in (producer, *((loop,) if isinstance(loop, loops.ForOp) else ())):
            for variable in domain.induction_variables:
                substitution.set_index(variable, dims[places[variable]] if variable in places else 0)
        value = load.result
        for op in ops:
            if isinstance(op, loops.StoreOp):
                value = substitution.value(op.value)
            else:
                Rewriter.insert_op(clone_op(op, substitution), InsertPoint.before(load))
        _take(load, value, value.owner.operands[0] if isinstance(value.owner, elem.ConvertOp) else None)


def _take(load: loops.LoadOp, value: SSAValue, wide: SSAValue | None) -> None:
    """Lets who reads an element take a value; in f32 who would widen it, if there is one that was not rounded."""
    if wide is not None and wide.type == f32 and is_narrow(value):
        for use in list(load.result.uses):
            user = use.operation
            if isinstance(user, elem.ConvertOp) and user.result.type == f32:
                replace_all_uses(user.result, wide)
                remove(user)
    replace_all_uses(load.result, value)
    remove(load)


def _contract(chain: Chain, new: loops.NestOp, substitution: Substitution) -> SSAValue:
    """Σ_j p[i, j] · v[j, d], with p as the loop computes it, but for what all of its points share; in f32."""
    last, loop = chain.last, chain.loop
    reduction = loops.ReduceOp.build("sum", loop.sizes, f32)
    reduction.location = last.call.location
    (old,), (variable,) = loop.induction_variables, reduction.induction_variables
    variable.name_hint = old.name_hint
    substitution.set_index(old, substitution.axis(variable))
    inside = InsertPoint.at_end(reduction.body)
    stored: SSAValue | None = None
    for op in loop.body.ops:
        if isinstance(op, loops.StoreOp):
            stored = substitution.value(op.value)
        else:
            Rewriter.insert_op(clone_op(op, substitution), inside)
    assert stored is not None
    shared: list[_Shared] = []
    weight = _without_shared(stored, reduction, shared, inside)
    axes = [*new.induction_variables, variable]
    *batch, _, column, k = (sym.dim(axis) for axis in range(len(axes)))
    sizes = (*new.sizes, *loop.sizes)
    weight = _as_factor(weight, element_type_of(last.result), last.call, inside)
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
    return total


def _as_factor(value: SSAValue, narrow: object, like: Operation, place: InsertPoint) -> SSAValue:
    """A value as matrix units take it: rounded to 16 bits, in f32 again."""
    owner = value.owner
    if isinstance(owner, elem.ConvertOp) and owner.operands[0].type == narrow:
        return value
    if not isinstance(narrow, BFloat16Type | Float16Type):
        return value
    rounded = insert(elem.ConvertOp.build(value, narrow), like, place)
    assert rounded is not None
    wide = insert(elem.ConvertOp.build(rounded, f32), like, place)
    assert wide is not None
    return wide


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


def is_narrow(value: SSAValue) -> bool:
    """Whether a value has 16 bits of a float: to give it up for one of f32 is a matter of rounding alone."""
    return isinstance(value.type, BFloat16Type | Float16Type)


def _again(old: Operation, value: SSAValue, other: SSAValue) -> Operation:
    return type(old).create(operands=(value, other), result_types=(value.type,), properties=old.properties.copy())


def _chosen(old: Operation, side: int, total: SSAValue) -> Operation:
    condition, *sides = old.operands
    sides[1 - side] = total
    return elem.SelectOp.create(operands=(condition, *sides), result_types=(total.type,))


def _is_in(value: SSAValue, loop: loops.ReduceOp) -> bool:
    owner = value.owner
    return owner is loop.body or (isinstance(owner, Operation) and owner.parent is loop.body)


def _sweep(nest: loops.NestOp) -> None:
    """Takes out what nobody needs any more."""
    for op in reversed([op for op in nest.walk() if op is not nest]):
        if op.results and not any(result.uses for result in op.results):
            remove(op)


__all__ = ["Chain", "JoinProductsPass", "chain_of", "joined_nest"]
