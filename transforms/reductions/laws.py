"""Which reductions of a nest can be computed part by part, also those that need another: by which law.

Let the points j of a domain fall into parts p, of n_p points each.

    plain        op_j f(j) = op_p op_(j in p) f(j)                                      for the kinds in `SPLITTABLE`
    exponential  Σ_j exp(a_j − c) = Σ_p exp(t_p − c) · Σ_(j in p) exp(a_j − t_p)        t_p the greatest a of the part
    squares      Σ_j (a_j − c)² = Σ_p (Q_p + (m_p − c) · (2 · R_p + n_p · (m_p − c)))
                 with Q_p = Σ_(j in p) (a_j − m_p)² and R_p = Σ_(j in p) (a_j − m_p)    m_p about the mean of the part

The last two hold for every c, as long as all points of the domain share it, and for every t_p and m_p. So softmax's sum
need not wait for the greatest of the whole row, nor a variance for the mean: a part has all that it needs, and is read
once.

All reassociate. Infinities and NaN come out the same: where t_p is not finite, 0 stands in for it within the part, and
the factor is that of t_p = −inf, which is 0, for a part that is −inf all over. In `exponential`, exp(t_p − c) overflows
only where a term of the sum does. `squares` has the error of the two-pass formula: R_p makes up for how m_p is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem
from cuesta.dialects.core.reductions import JOINS
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.loops.access import LoadOp, TensorWriteOp
from cuesta.dialects.loops.scans import AtomicOp, CombineOp, RunningOp, ScanOp
from cuesta.dialects.loops.structure import DomainOp, NestOp, ReduceOp

SPLITTABLE = frozenset(JOINS)
"""The kinds of reductions whose parts combine by the same kind."""
PLAIN, EXPONENTIAL, SQUARES = "plain", "exponential", "squares"

_PARTNERS = {EXPONENTIAL: "maximum", SQUARES: "sum"}
"""The reduction of a that a part needs first."""


@dataclass(frozen=True, slots=True)
class Member:
    """A reduction that can be computed in parts."""

    reduction: ReduceOp
    law: str = PLAIN
    value: SSAValue | None = None
    """a of the law, in the reduction's body."""
    shift: SSAValue | None = None
    """c of the law, in the nest's body."""
    partner: ReduceOp | None = None
    """A plain member that gives the greatest a, or the sum of a; None when no member does."""


def has_scans(nest: NestOp) -> bool:
    """Whether something in the nest comes in order, or changes what is there already."""
    return any(isinstance(op, ScanOp | RunningOp | CombineOp | AtomicOp) for op in nest.walk())


def members_of(nest: NestOp) -> list[Member]:
    """The reductions of a nest, over the domain of the first of them, that can be computed in parts all at once.

    None of them needs a reduction that is not among them, nor anything that the nest stores.
    """
    members: list[Member] = []
    needs: dict[SSAValue, set[Operation]] = {}
    handles: set[SSAValue] = set(nest.handles)
    sizes: Sequence[object] | None = None
    for op in nest.body.ops:
        own: set[Operation] = {op} if isinstance(op, LoadOp) and op.source in handles else set()
        for value in read_from(op, nest.body):
            own |= needs.get(value, set())
        if isinstance(op, ReduceOp):
            if sizes is None:
                sizes = op.sizes
            if op.kind in SPLITTABLE and op.sizes == sizes and not _touches(op, handles):
                member = _member(op, own, members, needs)
                if member is not None:
                    members.append(member)
            own = {op}
        for result in op.results:
            needs[result] = own
    return members


def _touches(reduction: ReduceOp, handles: set[SSAValue]) -> bool:
    """Whether it writes, or reads what the nest writes."""
    return any(
        isinstance(op, TensorWriteOp) or (isinstance(op, LoadOp) and op.source in handles) for op in reduction.walk()
    )


def read_from(op: Operation, body: Block) -> set[SSAValue]:
    """The values of a nest's own body that an op, or an op in it, reads."""
    found: set[SSAValue] = set()
    for inner in op.walk():
        for operand in inner.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is body:
                found.add(operand)
    return found


def _member(
    reduction: ReduceOp, own: set[Operation], members: Sequence[Member], needs: dict[SSAValue, set[Operation]]
) -> Member | None:
    """How a reduction can be computed in parts; None when it cannot."""
    if not own:
        return Member(reduction)
    if not own <= {member.reduction for member in members}:
        return None
    found = _exponential(reduction) or _squares(reduction)
    if found is None:
        return None
    law, value, shift = found
    dependent = {read for read in _read_outside(reduction) if needs.get(read)}
    if dependent != {shift} or any(isinstance(op, DomainOp) for op in reduction.body.ops):
        return None
    # Besides the difference nothing in the body may need what the part gives another value.
    if sum(operand is shift for op in reduction.body.ops for operand in op.operands) != 1:
        return None
    partner = next(
        (
            member.reduction
            for member in members
            if member.law == PLAIN
            and member.reduction.kind == _PARTNERS[law]
            and is_same(member.reduction.yielded, value, member.reduction.body, reduction.body)
        ),
        None,
    )
    return Member(reduction, law, value, shift, partner)


def _read_outside(reduction: ReduceOp) -> set[SSAValue]:
    body = reduction.body
    return {
        operand
        for op in body.ops
        for operand in op.operands
        if isinstance(operand.owner, Operation) and operand.owner.parent is not body
    }


def _difference(value: SSAValue, body: Block) -> tuple[SSAValue, SSAValue] | None:
    """(a, c) for a difference a − c of a value of a body and one from around it."""
    owner = value.owner
    if not isinstance(owner, elem.TableOp) or owner.row.name != "sub" or owner.parent is not body:
        return None
    a, c = owner.operands
    if a.type not in (f32, f64) or not _is_in(a, body) or _is_in(c, body):
        return None
    return a, c


def _is_in(value: SSAValue, body: Block) -> bool:
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)


def _exponential(reduction: ReduceOp) -> tuple[str, SSAValue, SSAValue] | None:
    """Σ exp(a − c)"""
    owner = reduction.yielded.owner
    if reduction.kind != "sum" or not isinstance(owner, elem.TableOp) or owner.row.name != "exp":
        return None
    found = _difference(owner.operands[0], reduction.body)
    return None if found is None else (EXPONENTIAL, *found)


def _squares(reduction: ReduceOp) -> tuple[str, SSAValue, SSAValue] | None:
    """Σ (a − c)²"""
    owner = reduction.yielded.owner
    if reduction.kind != "sum" or not isinstance(owner, elem.TableOp) or owner.row.name != "mul":
        return None
    left, right = owner.operands
    if left is not right:
        return None
    found = _difference(left, reduction.body)
    return None if found is None else (SQUARES, *found)


def is_same(one: SSAValue, other: SSAValue, one_body: Block, other_body: Block) -> bool:
    """Whether a value of one body is what a value of another is, at the same point."""
    known: dict[tuple[SSAValue, SSAValue], bool] = {}

    def same(a: SSAValue, b: SSAValue) -> bool:
        if a is b:
            return True
        if a.owner is one_body and b.owner is other_body:
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
        if not constants and (left.parent is not one_body or right.parent is not other_body):
            return False
        return (
            isinstance(left, elem.ElementwiseOp | LoadOp)
            and a.type == b.type
            and left.properties == right.properties
            and len(left.operands) == len(right.operands)
            and all(same(x, y) for x, y in zip(left.operands, right.operands, strict=True))
        )

    return same(one, other)


__all__ = ["EXPONENTIAL", "PLAIN", "SPLITTABLE", "SQUARES", "Member", "has_scans", "is_same", "members_of", "read_from"]
