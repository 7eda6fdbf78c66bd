"""Which reductions of a nest can be computed part by part, all at once, and by which law of `laws.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, sym
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.access import LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.scans import AtomicOp, CombineOp, RunningOp, ScanOp
from cuesta.dialects.loops.structure import DomainOp, NestOp, ReduceOp
from cuesta.dialects.loops.surgery import stores_of
from cuesta.dialects.sym.syntax import canonical_operands
from cuesta.transforms import thresholds
from cuesta.transforms.reductions.laws import PLACE, PLAIN, SHIFTED, SPLITTABLE, Law

AGAIN = 4096
"""The most points of a reduction that every part does again: what others read just now comes from the cache, and a
program takes few steps for it. What a smaller one would spare is a launch of one program, which takes longer.

Source: a bound: 16 KB are what a program reads in about the time that a launch takes.
"""


@struct
class Member:
    """A reduction that can be computed in parts."""

    reduction: ReduceOp
    law: Law = PLAIN
    value: SSAValue | None = None
    """a of the law, in the reduction's body."""
    shift: SSAValue | None = None
    """c of the law, in the nest's body."""
    partner: ReduceOp | None = None
    """A plain member that gives the greatest a, or the sum of a; None when no member does."""

    @property
    def stores(self) -> list[StoreOp]:
        """What it stores at its points, on the way."""
        return stores_of(self.reduction)

    @property
    def is_independent(self) -> bool:
        """Whether it needs no other member."""
        return self.shift is None


def has_scans(nest: NestOp) -> bool:
    """Whether something in the nest comes in order, or changes what is there already."""
    return any(isinstance(op, ScanOp | RunningOp | CombineOp | AtomicOp) for op in nest.walk())


def splittable_reductions(nest: NestOp) -> list[ReduceOp] | None:
    """The stages of a nest, when they are reductions over one domain of kinds that can be split; None otherwise.

    Whether one of them needs another is not asked: that takes longer (`plain_members`).
    """
    stages = [op for op in nest.body.ops if isinstance(op, DomainOp)]
    reductions = [op for op in stages if isinstance(op, ReduceOp) and op.kind in SPLITTABLE]
    if not stages or len(reductions) < len(stages) or any(op.sizes != reductions[0].sizes for op in reductions):
        return None
    return reductions


def plain_members(nest: NestOp) -> list[Member] | None:
    """The stages of a nest, when they are reductions over one domain that can be split and need nothing of one another;
    None otherwise.
    """
    reductions = splittable_reductions(nest)
    members = members_of(nest) if reductions else []
    if not reductions or len(members) < len(reductions) or not all(member.is_independent for member in members):
        return None
    return members


def members_of(nest: NestOp) -> list[Member]:
    """The reductions of a nest, over the domain of the first of them, that can be computed in parts all at once; but
    over that of a later one where those before it are done again by every part.

    None of them needs a reduction that is neither among them nor done again. What one stores at its points, on the way,
    others may read at the same points; they need nothing else that the nest stores.
    """
    members: list[Member] = []
    needs: dict[SSAValue, set[Operation]] = {}
    handles: set[SSAValue] = set(nest.handles)
    stored: dict[SSAValue, StoreOp] = {}
    again = done_again(nest)
    sizes: Sequence[object] | None = None
    for op in nest.body.ops:
        if op in again:
            continue
        own: set[Operation] = {op} if isinstance(op, LoadOp) and op.source in handles else set()
        for value in read_from(op, nest.body):
            own |= needs.get(value, set())
        if isinstance(op, ReduceOp):
            if sizes is None:
                sizes = op.sizes
            if op.kind in SPLITTABLE and op.sizes == sizes and _keeps_to_its_points(op, handles, stored):
                member = _member(op, own, members, needs)
                if member is not None and (member.is_independent or not member.stores):
                    members.append(member)
                    stored |= {store.target: store for store in member.stores}
            own = {op}
        for result in op.results:
            needs[result] = own
    return members


def done_again(nest: NestOp) -> list[ReduceOp]:
    """The first reductions of a nest, when all of them together are so small beside the one after them that each of its
    parts does them again: the greatest of what rows have found, before a sum over all points of all rows. They store
    nothing, and read nothing that the nest stores; what they need of one another is done again as well.
    """
    handles = set(nest.handles)
    found: list[ReduceOp] = []
    points = 0
    for op in nest.body.ops:
        if any(isinstance(one, LoadOp) and one.source in handles for one in op.walk()):
            return []
        if not isinstance(op, DomainOp):
            if isinstance(op, TensorWriteOp):
                return []
            continue
        size = math.prod(size if isinstance(size, int) else 0 for size in op.sizes)
        if not isinstance(op, ReduceOp) or not size:
            return []
        if points and size >= points * thresholds.SMALL and size > AGAIN:
            return found
        points += size
        if points > AGAIN or any(isinstance(one, TensorWriteOp) for one in op.walk()):
            return []
        found.append(op)
    return []


def _keeps_to_its_points(reduction: ReduceOp, handles: set[SSAValue], stored: dict[SSAValue, StoreOp]) -> bool:
    """Whether it stores at most once to a tensor, and reads of what the nest stores only what members `stored` at the
    point at which it is itself.
    """
    own: set[SSAValue] = set()
    for op in reduction.walk():
        if isinstance(op, StoreOp):
            if op.parent is not reduction.body or op.target in own or op.target in stored:
                return False
            own.add(op.target)
        elif isinstance(op, TensorWriteOp):
            return False
        elif isinstance(op, LoadOp) and op.source in handles:
            store = stored.get(op.source)
            if store is None or op.parent is not reduction.body or not _at_same_point(op, reduction, store):
                return False
    return True


def _at_same_point(load: LoadOp, reduction: ReduceOp, store: StoreOp) -> bool:
    """Whether a load reads what a store of another reduction stored at the point that has the same indices."""
    if load.map is not store.map or load.mask is not None or store.mask is not None:
        return False
    other = store.parent_op()
    assert isinstance(other, ReduceOp)
    variables = zip(other.induction_variables, reduction.induction_variables, strict=True)
    same: dict[SSAValue, SSAValue] = {**dict(variables)}
    return [same.get(index, index) for index in store.indices] == list(load.indices)


def read_from(op: Operation, body: Block) -> Sequence[SSAValue]:
    """The values of a nest's own body that an op, or an op in it, reads, in the order in which it does."""
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        for operand in inner.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is body:
                found[operand] = None
    return list(found)


def _member(
    reduction: ReduceOp, own: set[Operation], members: Sequence[Member], needs: dict[SSAValue, set[Operation]]
) -> Member | None:
    """How a reduction can be computed in parts; None when it cannot."""
    if not own:
        return Member(reduction, PLACE if reduction.kind in EXTREMES else PLAIN)
    if not own <= {member.reduction for member in members}:
        return None
    law, found = next(((law, found) for law in SHIFTED if (found := law.match(reduction))), (PLAIN, None))
    if found is None:
        return None
    value, shift = found
    around = reduction.parent
    assert around is not None
    if {read for read in read_from(reduction, around) if needs.get(read)} != {shift}:
        return None
    # Besides the difference nothing in the body may need what the part gives another value.
    if sum(operand is shift for op in reduction.walk() for operand in op.operands) != 1:
        return None
    partner = next(
        (
            member.reduction
            for member in members
            if member.law is PLAIN
            and member.reduction.kind == law.partner
            and is_same(member.reduction.yielded, value, member.reduction.body, reduction.body)
        ),
        None,
    )
    return Member(reduction, law, value, shift, partner)


def is_same(one: SSAValue, other: SSAValue, one_body: Block, other_body: Block) -> bool:
    """Whether a value of one body is what a value of another is, at the same point. What such a body reduces is the
    same where the points are, and what is reduced.
    """
    known: dict[tuple[SSAValue, SSAValue], bool] = {}
    bodies: dict[Block, Block] = {one_body: other_body}

    def same(a: SSAValue, b: SSAValue) -> bool:
        if a is b:
            return True
        if isinstance(a.owner, Block) and bodies.get(a.owner) is b.owner:
            return position_of(a) == position_of(b)
        found = known.get((a, b))
        if found is None:
            found = known[(a, b)] = same_op(a, b)
        return found

    def same_op(a: SSAValue, b: SSAValue) -> bool:
        left, right = a.owner, b.owner
        if not isinstance(left, Operation) or type(left) is not type(right):
            return False
        assert isinstance(right, Operation)
        constants = isinstance(left, elem.ConstantOp)
        if not constants and (left.parent is None or bodies.get(left.parent) is not right.parent):
            return False
        if isinstance(left, LoadOp) and isinstance(right, LoadOp):
            (places, at), (others, there) = _place_of(left), _place_of(right)
            pairs = [
                (left.source, right.source),
                *zip(at, there, strict=False),
                *zip(left.rest, right.rest, strict=False),
            ]
            return places == others and len(left.rest) == len(right.rest) and all(same(x, y) for x, y in pairs)
        alike = (
            a.type == b.type
            and left.properties == right.properties
            and len(left.operands) == len(right.operands)
            and all(same(x, y) for x, y in zip(left.operands, right.operands, strict=True))
        )
        if isinstance(left, ReduceOp) and isinstance(right, ReduceOp):
            bodies[left.body] = right.body
            return alike and position_of(a) == position_of(b) and same(left.yielded, right.yielded)
        return alike and isinstance(left, elem.ElementwiseOp)

    return same(one, other)


def _place_of(load: LoadOp) -> tuple[list[sym.IndexExpr], list[SSAValue]]:
    """Where a load reads, and the indices that this is made of: the first element, where there is one in a dimension,
    whatever index says so.
    """
    sizes = sizes_of(tensor_type_of(load.source))
    places = [0 if size == 1 else place for size, place in zip(sizes, load.map.results, strict=True)]
    used, canonical = canonical_operands(load.indices, places)
    return list(canonical), list(used)


__all__ = [
    "Member",
    "done_again",
    "has_scans",
    "is_same",
    "members_of",
    "plain_members",
    "read_from",
    "splittable_reductions",
]
