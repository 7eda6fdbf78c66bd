"""A nest whose reductions are computed in parts stays one nest: the points that share a row meet.

    loops.nest (%i : 16) { %s = sum (%j : n) of f; %q = sum (%j : n) of (f − %s)²; for (%j : n) { store h(f, %s, %q) } }
    →
    loops.nest (%i : 16, %p : n/8192) {
      the sum and the sum of squares of the part; store them to %t[%i, %p], %u[%i, %p]
      loops.meet last 1
      %s, %q from %t[%i, %k], %u[%i, %k]
      for (%j : 8192) { store h(f, %s, %q), of the part }
    }

The same laws as in `parts.py`, which takes such a nest apart instead. There what comes after reads the row again; here
a point comes back to its own part, which a target can keep. What is not stored element by element, the first of a row's
parts stores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.loops.access import BoundOp, IndexOp, StoreOp
from cuesta.dialects.loops.meeting import MeetOp
from cuesta.dialects.loops.structure import ForOp, NestOp
from cuesta.dialects.loops.surgery import Substitution, clone_into, loads_of, remove, stores_of
from cuesta.dialects.loops.writing import BodyWriter, nest_before, read_only_where, store_only_where
from cuesta.transforms.reductions.domains import Parts
from cuesta.transforms.reductions.members import Member
from cuesta.transforms.reductions.parts import Splitter
from cuesta.transforms.reductions.plan import Plan, plan_of


def cooperate_in_parts(nest: NestOp, members: Sequence[Member], parts: Parts) -> NestOp | None:
    """Replaces `nest` by one whose points have a part of a row each, and meet.

    None, and nothing is changed, when something in it is neither one of the `members`, nor a loop over their domain,
    nor made of their results, or something of the domain is left over.
    Requires: `members` are some that `members_of(nest)` gives, with the partners of each.
    """
    plan = _joint_plan(nest, members, parts)
    return None if plan is None else _Cooperation(nest, plan, parts).join()


def can_cooperate(nest: NestOp, members: Sequence[Member], parts: Parts) -> bool:
    """Whether `cooperate_in_parts` would replace the nest, by one whose rows have several parts."""
    several = math.prod(size for size in parts.outer if isinstance(size, int)) > 1
    return several and _joint_plan(nest, members, parts) is not None


def _joint_plan(nest: NestOp, members: Sequence[Member], parts: Parts) -> Plan | None:
    plan = None if parts.left_over is not None else plan_of(nest, members, parts)
    if (
        plan is None
        or plan.rest
        or any(member.stores for member in members)
        or not all(_is_over(loop, nest, members, parts) for loop in plan.pointwise)
    ):
        return None
    return plan


def _is_over(loop: ForOp, nest: NestOp, members: Sequence[Member], parts: Parts) -> bool:
    """Whether a loop is over the members' domain, and can be done part by part."""
    if loop.sizes != members[0].reduction.sizes:
        return False
    has_bounds = any(isinstance(op, BoundOp) for op in loop.walk())
    # What it reads of another loop may have come from another part.
    return not (has_bounds and parts.limits) and not any(load.source in nest.handles for load in loads_of(loop))


class _Cooperation(Splitter):
    def __init__(self, nest: NestOp, plan: Plan, parts: Parts) -> None:
        super().__init__(nest, plan, parts)
        self.rows = len(nest.sizes)

    def join(self) -> NestOp:
        outs, types = self.part_tensors()
        nest = self.nest
        new, before = nest_before(
            nest, (*nest.sizes, *self.parts.outer), [*types, *(handle.type for handle in nest.handles)]
        )
        self.write_parts(new, before, outs)
        self.of_parts |= dict(zip(outs, new.handles, strict=False))
        meeting = MeetOp.build(len(self.parts.outer))
        meeting.location = nest.location
        new.body.add_op(meeting)

        after = Substitution(new.induction_variables)
        for old, variable in zip(nest.induction_variables, new.induction_variables, strict=False):
            after.set_index(old, after.axis(variable))
        own = new.handles[len(outs) :]
        after.values |= dict(zip(nest.handles, own, strict=True))
        again: set[Operation] = set()
        kept: dict[SSAValue, None] = {}
        for loop in self.plan.pointwise:
            values, ops = self.needed([loop])
            kept |= dict.fromkeys(values)
            again |= set(ops)
        wanted = self.wanted(list(kept)) | again
        first = self.is_first(new) if self.plan.stores else None
        self.combined(wanted, new, after)
        if first is not None:
            own_stores = [op for op in new.body.ops if isinstance(op, StoreOp) and op.target in own]
            store_only_where(first, own_stores)
        for loop in self.plan.pointwise:
            self.loop(loop, new, after)
        for result, replacement in zip(nest.results, new.results[len(outs) :], strict=True):
            replace_all_uses(result, replacement)
            replacement.name_hint = result.name_hint
        remove(nest)
        return new

    def is_first(self, new: NestOp) -> SSAValue:
        """Whether a point has the first of its row's parts."""
        outer = new.induction_variables[self.rows :]
        position = sym.linearize([sym.dim(k) for k in range(len(outer))], self.parts.outer)
        writer = BodyWriter(new.body, self.nest)
        return writer.make("eq", writer.add(IndexOp.build(position, outer, i32)), writer.constant(0, i32))

    def loop(self, loop: ForOp, new: NestOp, after: Substitution) -> None:
        """The points of a loop that belong to a part."""
        own = ForOp.build(self.parts.inner)
        own.location = loop.location
        outer = new.induction_variables[self.rows :]
        axes = self.walk(loop, outer, own, after)
        new.body.add_op(own)
        there = self.there(BodyWriter(own.body, loop), axes)
        clone_into(loop.body.ops, InsertPoint.at_end(own.body), after)
        if there is not None:
            read_only_where(there, own)
            store_only_where(there, stores_of(own))


__all__ = ["can_cooperate", "cooperate_in_parts"]
