"""Which op of a nest goes where when its reductions are computed in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.access import BoundOp, LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.structure import DomainOp, ForOp, NestOp, ReduceOp
from cuesta.transforms.reductions.domains import Parts
from cuesta.transforms.reductions.laws import PLACE
from cuesta.transforms.reductions.members import Member, done_again, has_scans, read_from


@struct(frozen=False)
class Plan:
    """Which op of the nest's own body goes where."""

    members: dict[ReduceOp, Member]
    pointwise: list[ForOp] = field(default_factory=list["ForOp"])
    """Loops that become nests of their own."""
    rest: list[Operation] = field(default_factory=list[Operation])
    """What needs a reduction that is no member, in order: stages, and ops between them."""
    stores: list[StoreOp] = field(default_factory=list["StoreOp"])
    """Of the nest's own body, not in the rest."""
    dependent: set[Operation] = field(default_factory=set[Operation])
    """Ops outside of the rest that need a member or a reduction that is done again, and these themselves."""
    owners: dict[SSAValue, Operation | None] = field(default_factory=dict[SSAValue, "Operation | None"])
    """For every handle the loop, or the member, that stores it; the nest itself for the rest, None for the combination.
    """


def plan_of(nest: NestOp, members: Sequence[Member], parts: Parts) -> Plan | None:
    """None when a tensor is stored in more than one place, or was there before, or something comes in order; or the
    place of an extreme is asked for and parts are no runs of the domain.
    """
    if parts.limits and any(isinstance(op, BoundOp) for member in members for op in member.reduction.walk()):
        return None  # where there is no point, there may be no index either
    if not members or nest.operands or has_scans(nest):
        return None
    if parts.left_over is not None and any(member.stores for member in members):
        return None
    if not parts.in_order and any(member.law is PLACE for member in members):
        return None
    plan = Plan({member.reduction: member for member in members})
    handles = set(nest.handles)
    again = set[Operation](done_again(nest))
    rest: set[Operation] = set()
    for op in nest.body.ops:
        owners = {value.owner for value in read_from(op, nest.body)}
        late = not owners.isdisjoint(rest) or (isinstance(op, LoadOp) and op.source in handles)
        if op in again or (isinstance(op, ReduceOp) and op in plan.members):
            plan.dependent.add(op)
            continue
        if isinstance(op, ForOp) and not late and not any(isinstance(one, DomainOp) for one in plan.rest):
            plan.pointwise.append(op)
        elif late or isinstance(op, DomainOp):
            plan.rest.append(op)
            rest.add(op)
        elif isinstance(op, StoreOp):
            plan.stores.append(op)
        elif not owners.isdisjoint(plan.dependent):
            plan.dependent.add(op)
    for op in nest.walk():
        if isinstance(op, TensorWriteOp):
            place = _place(op, nest, plan, rest)
            if plan.owners.setdefault(op.target, place) is not place:
                return None
    return plan


def _place(store: TensorWriteOp, nest: NestOp, plan: Plan, rest: set[Operation]) -> Operation | None:
    """The loop or reduction that a store belongs to; the nest for the rest, None for the combination."""
    top: Operation = store
    while top.parent is not nest.body:
        parent = top.parent_op()
        assert parent is not None
        top = parent
    if top in rest:
        return nest
    return top if isinstance(top, ForOp | ReduceOp) else None


__all__ = ["Plan", "plan_of"]
