"""Products of which a nest reduces the rows, or what it makes of them, as one nest that stores no product.

    %m = loops.extern "aten.mm.default"(%a, %b)
    %y = loops.nest (%i : 8192) { %t = maximum (%j : 4096) of f(load %m[%i, %j]); … }
    →
    %y = loops.nest (%i : 8192) { %t = maximum (%j : 4096) of f(sum (%k : 1024) of %a[%i, %k] · %b[%k, %j]); … }

A target computes such a nest well where it reduces it in parts as wide as a tile (`part` and `columns`). Nothing is
decided here.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.surgery import Substitution, clone_op, remove, top_level_nest
from cuesta.transforms.products.picked_elements import picked, points_around, read_from_picked
from cuesta.transforms.products.product_nests import remove_product
from cuesta.transforms.products.products import Product, is_widening, reads_each_once, static, sum_at
from cuesta.transforms.reductions.domains import Runs
from cuesta.transforms.reductions.members import members_of
from cuesta.transforms.reductions.plan import plan_of


@struct
class Reduced:
    """A product that nobody needs but a nest which reduces its rows, and these reductions; and who reads few of its
    elements, which can be computed apart.
    """

    product: Product
    nest: loops.NestOp
    reductions: tuple[loops.ReduceOp, ...]
    picks: tuple[loops.LoadOp, ...] = ()

    @property
    def points(self) -> int:
        """What each reduces."""
        return static(self.reductions[0].sizes)[0]


def reduced(product: Product, block: Block, untouched: Collection[loops.NestOp] = ()) -> Reduced | None:
    """The nest that reduces the rows of a product, when it is the only one that does more than read few elements of it,
    one for a row at most, and does no more.
    """
    users = list(dict.fromkeys(use.operation for use in product.result.uses))
    loads = [user for user in users if isinstance(user, loops.LoadOp)]
    if product.consumer is not None or len(loads) < len(users):
        return None
    few = product.sizes[0] * product.batch
    picks = [load for load in loads if (points := points_around(load)) is not None and points <= few]
    nests = {top_level_nest(load) for load in loads if load not in picks}
    if len(nests) != 1:
        return None
    (nest,) = nests
    if not isinstance(nest, loops.NestOp) or nest in untouched or nest.operands or nest.parent is not block:
        return None
    if any(top_level_nest(load) in untouched for load in picks):
        return None
    inner = [op for op in nest.walk() if isinstance(op, loops.DomainOp) and op is not nest]
    reductions = tuple(op for op in inner if isinstance(op, loops.ReduceOp) and op.parent is nest.body)
    if not reductions or len(reductions) < len(inner):
        return None
    if any(isinstance(op, loops.BoundOp) for reduction in reductions for op in reduction.walk()):
        return None
    sizes = reductions[0].sizes
    if len(sizes) != 1 or len(static((*nest.sizes, *sizes))) <= len(nest.sizes):
        return None
    if any(one.sizes != sizes for one in reductions):
        return None
    for load in loads:
        if load not in picks and not _reads_its_row(load, nest, reductions):
            return None
    return Reduced(product, nest, reductions, tuple(picks))


def _reads_its_row(load: loops.LoadOp, nest: loops.NestOp, reductions: tuple[loops.ReduceOp, ...]) -> bool:
    """Whether the points of a reduction read the elements of the product, each one once."""
    reduction = load.parent_op()
    if not isinstance(reduction, loops.ReduceOp) or reduction not in reductions or load.mask is not None:
        return False
    variables = [*nest.induction_variables, *reduction.induction_variables]
    return reads_each_once(variables, (*nest.sizes, *reduction.sizes), load)


def can_be_in_parts(found: Reduced, part: int) -> bool:
    """Whether its reductions can be computed in equal parts of so many points."""
    if found.points % part or found.points == part:
        return False
    members = members_of(found.nest)
    if len(members) < len(found.reductions):
        return False
    runs = Runs(analyse(found.nest, {}, [True] * len(found.nest.results)), members)
    parts = runs.parts(part)
    return not parts.limits and parts.left_over is None and plan_of(found.nest, members, parts) is not None


def reduced_nest(found: Reduced, *, keep_roundings: bool = False, prologues: bool = False) -> loops.NestOp:
    """The nest that computes a product where it reduces it; it stands nowhere yet. Not exact: it takes the sum before
    it is rounded to the product's type, unless `keep_roundings`.
    """
    old = found.nest
    nest = loops.NestOp.build(old.sizes, [result.type for result in old.results])
    nest.location = old.location
    substitution = Substitution(nest.induction_variables)
    for before, now in zip(old.induction_variables, nest.induction_variables, strict=True):
        substitution.set_index(before, substitution.axis(now))
        now.name_hint = before.name_hint
    for before, now in zip(old.handles, nest.handles, strict=True):
        substitution.values[before] = now
        now.name_hint = before.name_hint
    for op in old.body.ops:
        if isinstance(op, loops.ReduceOp):
            new = _reduction(op, nest, found, substitution, keep_roundings=keep_roundings, prologues=prologues)
            nest.body.add_op(new)
            substitution.values |= dict(zip(op.results, new.results, strict=True))
        else:
            Rewriter.insert_op(clone_op(op, substitution), InsertPoint.at_end(nest.body))
    return nest


def _reduction(
    old: loops.ReduceOp,
    nest: loops.NestOp,
    found: Reduced,
    substitution: Substitution,
    *,
    keep_roundings: bool,
    prologues: bool,
) -> loops.ReduceOp:
    """A reduction with the product in its body."""
    product = found.product
    new = loops.ReduceOp.build(old.kind, old.sizes, old.yielded.type)
    new.location = old.location
    around = [*nest.induction_variables, *new.induction_variables]
    own = Substitution(around)
    own.values = substitution.values
    before = [*found.nest.induction_variables, *old.induction_variables]
    for one, now in zip(before, around, strict=True):
        own.set_index(one, own.axis(now))
        now.name_hint = one.name_hint
    place = InsertPoint.at_end(new.body)
    sums: tuple[SSAValue, SSAValue] | None = None
    exact: dict[SSAValue, SSAValue] = {}
    for op in old.body.ops:
        if isinstance(op, loops.LoadOp) and op.source is product.result:
            if sums is None:
                dims = own.expressions(op.map.results, op.indices)
                ranges = (*nest.sizes, *new.sizes)
                sums = sum_at(product, dims, around, ranges, place, product.producers if prologues else {})
            exact[op.result], own.values[op.result] = sums
        elif not keep_roundings and is_widening(op) and op.operands[0] in exact:
            own.values[op.result] = exact[op.operands[0]]
        else:
            Rewriter.insert_op(clone_op(op, own), place)
    if sums is not None and sums[1] is not sums[0] and not sums[1].uses:
        assert isinstance(sums[1].owner, Operation)
        remove(sums[1].owner)
    return new


def take_out_picks(found: Reduced) -> None:
    """Puts the nests that compute the few elements in the block, and lets those read them who did read the product.
    Requires: `picked` gives all of them.
    """
    for load in found.picks:
        nest = picked(load, found.product)
        assert nest is not None
        read_from_picked(load, nest)


def replace_reduced(found: Reduced, nest: loops.NestOp, choices: dict[str, int]) -> None:
    """Puts the nest in the place of the product and of what reduced it."""
    nest.properties["schedule"] = loops.ScheduleAttr.of(choices)
    Rewriter.insert_op(nest, InsertPoint.before(found.nest))
    for before, after in zip(found.nest.results, nest.results, strict=True):
        after.name_hint = before.name_hint
        replace_all_uses(before, after)
    remove(found.nest)
    remove_product(found.product)


__all__ = ["Reduced", "can_be_in_parts", "reduced", "reduced_nest", "replace_reduced", "take_out_picks"]
