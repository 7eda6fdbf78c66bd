"""A nest whose reductions are computed in parts becomes several nests, each with more parallel points.

    loops.nest (%i : 16) { %s = sum (%j : n) of f; %q = sum (%j : n) of (f − %s)²; for (%j : n) { store h(f, %s, %q) } }
    →
    loops.nest (%i : 16, %p : n/8192) { the sum and the sum of squares of a part }    the parts
    loops.nest (%i : 16) { %s, %q from their parts; store them }                      their combination
    loops.nest (%i : 16, %j : n) { store h(f, %s, %q) }                               what comes after

By the laws of `laws.py`; taking stages apart is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import layout, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.structure import DomainOp, ForOp, NestOp, ReduceOp, YieldOp
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove
from cuesta.dialects.loops.writing import BodyWriter, leading_to, only_where
from cuesta.transforms.reductions.laws import EXPONENTIAL, PLAIN, SQUARES, Member, has_scans, read_from

_INFINITY = float("inf")
_SMALL = 2**30
"""Up to here 32 bits hold a position, also of a part that reaches beyond the end."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A domain as outer times inner: `indices[k]` is its k-th index, over the outer axes and then the inner ones.

    Requires: every point of the domain belongs to one point of outer times inner, at which every limit holds.
    """

    outer: tuple[sym.IndexExpr, ...]
    inner: tuple[sym.IndexExpr, ...]
    indices: tuple[sym.IndexExpr, ...]
    count: sym.IndexExpr
    """The points of a part, over the outer axes; at least 1."""
    limits: tuple[tuple[sym.IndexExpr, int], ...] = ()
    """Where an expression over all axes is not less than the number, there is no point of the domain."""


def split_in_parts(nest: NestOp, members: Sequence[Member], parts: Parts) -> list[NestOp] | None:
    """Replaces `nest` by the parts of `members`, their combination, and what comes after; gives the new nests in order.

    None, and nothing is changed, when the stages cannot be taken apart.
    Requires: `members` are some that `members_of(nest)` gives, with the partners of each.
    """
    plan = plan_of(nest, members, parts)
    return None if plan is None else Splitter(nest, plan, parts).run()


@dataclass(slots=True)
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
    """Ops outside of the rest that need a member, members included."""
    owners: dict[SSAValue, Operation | None] = field(default_factory=dict[SSAValue, "Operation | None"])
    """For every handle the loop that stores it; the nest itself for the rest, None for the combination."""


def plan_of(nest: NestOp, members: Sequence[Member], parts: Parts) -> Plan | None:
    """None when a tensor is stored in more than one place, or something comes in order."""
    if parts.limits and any(isinstance(op, BoundOp) for member in members for op in member.reduction.walk()):
        return None  # where there is no point, there may be no index either
    if not members or has_scans(nest):
        return None
    plan = Plan({member.reduction: member for member in members})
    handles = set(nest.handles)
    rest: set[Operation] = set()
    for op in nest.body.ops:
        owners = {value.owner for value in read_from(op, nest.body)}
        late = not owners.isdisjoint(rest) or (isinstance(op, LoadOp) and op.source in handles)
        if isinstance(op, ReduceOp) and op in plan.members:
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
    """The top-level op that a store belongs to; the nest for the rest, None for the combination."""
    top: Operation = store
    while top.parent is not nest.body:
        parent = top.parent_op()
        assert parent is not None
        top = parent
    if top in rest:
        return nest
    return top if isinstance(top, ForOp) else None


class Splitter:
    """Takes a nest apart, as a plan says."""

    def __init__(self, nest: NestOp, plan: Plan, parts: Parts) -> None:
        self.nest = nest
        self.plan = plan
        self.parts = parts
        self.device = layout.device_of(layout.tensor_type_of(nest.results[0]))
        self.of_parts: dict[tuple[ReduceOp, str], SSAValue] = {}
        """Of a member the tensor of its parts; by name, since a law may need a second one."""
        self.kept: dict[SSAValue, SSAValue] = {}
        """Values of the nest's body that later nests need, and the tensors that hold them."""
        self.results: dict[SSAValue, SSAValue] = {}
        """For handles the results of the new nests."""

    def run(self) -> list[NestOp]:
        """Puts nests in the place of the nest; gives them, in order."""
        later = [(op, self.needed([op])) for op in self.plan.pointwise]
        rest = self.needed(self.plan.rest)
        kept = dict.fromkeys(value for _, (values, _) in [*later, (self.nest, rest)] for value in values)
        new = [self.part_nest(), self.combination(list(kept))]
        new += [self.pointwise(op, *needed) for op, needed in later]
        if self.plan.rest:
            new.append(self.rest(*rest))
        for handle, result in zip(self.nest.handles, self.nest.results, strict=True):
            replacement = self.results[handle]
            replace_all_uses(result, replacement)
            replacement.name_hint = result.name_hint
        remove(self.nest)
        return new

    def needed(self, ops: Sequence[Operation]) -> tuple[list[SSAValue], list[Operation]]:
        """What `ops` need of the nest's body: values that the combination must keep, and ops to do again, in order."""
        kept: dict[SSAValue, None] = {}
        again: set[Operation] = set()
        work: list[Operation] = list(ops)
        own = set(ops)
        while work:
            for value in read_from(work.pop(), self.nest.body):
                owner = value.owner
                assert isinstance(owner, Operation)
                if owner in own or owner in again:
                    continue
                if owner in self.plan.dependent and not isinstance(value.type, IndexType):
                    kept[value] = None
                else:
                    again.add(owner)
                    work.append(owner)
        return list(kept), [op for op in self.nest.body.ops if op in again]

    def closure(self, ops: Iterable[Operation], without: Iterable[SSAValue] = ()) -> list[Operation]:
        """The ops of the nest's own body that `ops` need, in order; what only gives `without` apart."""
        found: set[Operation] = set()
        work = list(ops)
        skipped = set(without)
        while work:
            for value in read_from(work.pop(), self.nest.body):
                owner = value.owner
                assert isinstance(owner, Operation)
                if value not in skipped and owner not in found:
                    found.add(owner)
                    if owner not in self.plan.members:
                        work.append(owner)
        return [op for op in self.nest.body.ops if op in found]

    def new_nest(self, sizes: Sequence[sym.IndexExpr], outs: Sequence[Attribute]) -> tuple[NestOp, Substitution]:
        """An empty nest before the old one, whose first axes are the old one's."""
        new = NestOp.build(sizes, outs)
        new.location = self.nest.location
        Rewriter.insert_op(new, InsertPoint.before(self.nest))
        substitution = Substitution(new.induction_variables)
        for old, variable in zip(self.nest.induction_variables, new.induction_variables, strict=False):
            substitution.set_index(old, substitution.axis(variable))
            variable.name_hint = old.name_hint
        return new, substitution

    def tensor(self, value: SSAValue, sizes: Sequence[sym.IndexExpr]) -> Attribute:
        """The type of a tensor of such values."""
        return layout.tensor_type(tuple(sizes), value.type, device=self.device)

    # The parts

    def part_nest(self) -> NestOp:
        """The nest of the parts."""
        outs, types = self.part_tensors()
        new, substitution = self.new_nest((*self.nest.sizes, *self.parts.outer), types)
        self.write_parts(new, substitution, outs)
        self.of_parts |= dict(zip(outs, new.results, strict=True))
        return new

    def part_tensors(self) -> tuple[list[tuple[ReduceOp, str]], list[Attribute]]:
        """What a part gives, as `of_parts` has it, and the types of the tensors that hold it."""
        outs: list[tuple[ReduceOp, str]] = []
        for member in self.plan.members.values():
            outs.append((member.reduction, "own"))
            if member.law != PLAIN and member.partner is None:
                outs.append((member.reduction, "partner"))
            if member.law == SQUARES:
                outs.append((member.reduction, "rest"))
        sizes = (*self.nest.sizes, *self.parts.outer)
        return outs, [self.tensor(one.results[0], sizes) for one, _ in outs]

    def write_parts(self, new: NestOp, substitution: Substitution, outs: Sequence[tuple[ReduceOp, str]]) -> None:
        """Lets a nest compute what a part gives, and store it to its first handles."""
        shifts = [member.shift for member in self.plan.members.values() if member.shift is not None]
        clone_into(self.closure(self.plan.members, shifts), InsertPoint.at_end(new.body), substitution)
        found: dict[tuple[ReduceOp, str], SSAValue] = {}
        writer = BodyWriter(new.body, self.nest)
        for member in self.plan.members.values():
            reduction = member.reduction
            writer.location = reduction.location
            if member.shift is not None:
                partner = found.get((member.partner, "own")) if member.partner is not None else None
                if partner is None:
                    kind = "maximum" if member.law == EXPONENTIAL else "sum"
                    partner = self.part(member, kind, member.value, new, substitution)
                    found[(reduction, "partner")] = partner
                substitution.values[member.shift] = self.local_shift(member, partner, writer, new)
            found[(reduction, "own")] = self.part(member, reduction.kind, None, new, substitution)
            if member.law == SQUARES:
                square = reduction.yielded.owner
                assert isinstance(square, Operation)
                found[(reduction, "rest")] = self.part(member, "sum", square.operands[0], new, substitution)
            if member.shift is not None:
                del substitution.values[member.shift]
        variables = new.induction_variables
        for key, handle in zip(outs, new.handles, strict=False):
            store = StoreOp.build(found[key], handle, [sym.dim(k) for k in range(len(variables))], variables)
            store.location = key[0].location
            new.body.add_op(store)

    def local_shift(self, member: Member, partner: SSAValue, writer: BodyWriter, new: NestOp) -> SSAValue:
        """What stands in for c within a part."""
        kind = partner.type
        if member.law == EXPONENTIAL:
            size = writer.make("abs", partner)
            infinite = writer.make("eq", size, writer.constant(_INFINITY, kind))
            return writer.select(infinite, writer.constant(0.0, kind), partner)
        outer = new.induction_variables[len(self.nest.sizes) :]
        return writer.make("div", partner, writer.number(self.parts.count, outer, kind))

    def part(
        self, member: Member, kind: str, value: SSAValue | None, new: NestOp, substitution: Substitution
    ) -> SSAValue:
        """The reduction of one part: of what the member yields, or of a `value` in its body."""
        reduction = member.reduction
        yielded = reduction.yielded if value is None else value
        part = ReduceOp.build(kind, self.parts.inner, yielded.type)
        part.location = reduction.location
        outer = new.induction_variables[len(self.nest.sizes) :]
        axes = [*outer, *part.induction_variables]
        images = [substitution.axis(axis) for axis in axes]
        for old, index in zip(reduction.induction_variables, self.parts.indices, strict=True):
            substitution.set_index(old, sym.substitute(index, images))
        for old, inner in zip(reduction.induction_variables, part.induction_variables, strict=False):
            inner.name_hint = old.name_hint
        ops = [op for op in reduction.body.ops if not isinstance(op, YieldOp)]
        writer = BodyWriter(part.body, reduction)
        there = self.there(writer, axes)
        clone_into(ops if value is None else leading_to(value, ops), InsertPoint.at_end(part.body), substitution)
        writer.end(substitution.value(yielded))
        if there is not None:
            only_where(there, part)
        new.body.add_op(part)
        part.results[0].name_hint = reduction.results[0].name_hint
        return part.results[0]

    def there(self, writer: BodyWriter, axes: Sequence[SSAValue]) -> SSAValue | None:
        """Whether a point of a part is one of the domain; None when all are."""
        found: SSAValue | None = None
        for expression, limit in self.parts.limits:
            kind = i32 if limit < _SMALL else i64
            index = writer.add(IndexOp.build(expression, axes, kind))
            test = writer.make("lt", index, writer.constant(limit, kind))
            found = test if found is None else writer.make("and", found, test)
        return found

    # The combination

    def combination(self, kept: Sequence[SSAValue]) -> NestOp:
        """The nest that combines the parts, and stores the values `kept` for later ones."""
        plan, sizes = self.plan, self.nest.sizes
        handles = [handle for handle in self.nest.handles if plan.owners.get(handle, self.nest) is None]
        outs = [*(handle.type for handle in handles), *(self.tensor(value, sizes) for value in kept)]
        new, substitution = self.new_nest(sizes, outs)
        for handle, own in zip(handles, new.handles, strict=False):
            substitution.values[handle] = own
        self.combined(self.wanted(kept), new, substitution)
        for value, handle, result in zip(kept, new.handles[len(handles) :], new.results[len(handles) :], strict=True):
            variables = new.induction_variables
            place = [sym.dim(k) for k in range(len(variables))]
            store = StoreOp.build(substitution.value(value), handle, place, variables)
            store.location = value.owner.location if isinstance(value.owner, Operation) else self.nest.location
            new.body.add_op(store)
            self.kept[value] = result
            result.name_hint = value.name_hint
        self.results |= dict(zip(handles, new.results, strict=False))
        return new

    def wanted(self, kept: Sequence[SSAValue]) -> set[Operation]:
        """The ops of the nest's own body that what it stores there, and the values `kept`, take."""
        plan = self.plan
        wanted = {*plan.stores, *self.closure(plan.stores)}
        roots = [value.owner for value in kept if isinstance(value.owner, Operation)]
        wanted |= {*roots, *self.closure(op for op in roots if op not in plan.members)}
        pending = [op for op in wanted if op in plan.members]
        while pending:
            op = pending.pop()
            assert isinstance(op, ReduceOp)
            shift = plan.members[op].shift
            if shift is not None and isinstance(shift.owner, Operation) and shift.owner not in wanted:
                more = {shift.owner, *(self.closure([shift.owner]) if shift.owner not in plan.members else ())} - wanted
                wanted |= more
                pending += [one for one in more if one in plan.members]
        return wanted

    def combined(self, wanted: set[Operation], new: NestOp, substitution: Substitution) -> None:
        """Puts ops of the nest's own body into a nest, reductions from their parts."""
        for op in self.nest.body.ops:
            if op not in wanted:
                continue
            if isinstance(op, ReduceOp):
                substitution.values[op.results[0]] = self.combine(self.plan.members[op], new, substitution)
            else:
                clone_into([op], InsertPoint.at_end(new.body), substitution)

    def combine(self, member: Member, new: NestOp, substitution: Substitution) -> SSAValue:
        """A reduction from its parts."""
        reduction = member.reduction
        result = ReduceOp.build(reduction.kind, self.parts.outer, reduction.yielded.type)
        result.location = reduction.location
        writer = BodyWriter(result.body, reduction)
        outer = result.induction_variables
        indices = [*new.induction_variables[: len(self.nest.sizes)], *outer]
        own = writer.load(self.of_parts[(reduction, "own")], indices)
        if member.law != PLAIN:
            assert member.shift is not None
            key = (reduction, "partner") if member.partner is None else (member.partner, "own")
            partner = writer.load(self.of_parts[key], indices)
            shift = substitution.value(member.shift)
            if member.law == EXPONENTIAL:
                own = self.scaled(own, partner, shift, writer)
            else:
                rest = writer.load(self.of_parts[(reduction, "rest")], indices)
                own = self.moved(own, rest, partner, shift, writer, outer)
        writer.end(own)
        new.body.add_op(result)
        result.results[0].name_hint = reduction.results[0].name_hint
        return result.results[0]

    def scaled(self, own: SSAValue, greatest: SSAValue, shift: SSAValue, writer: BodyWriter) -> SSAValue:
        """exp(t_p − c) · own"""
        infinite = writer.make("eq", greatest, writer.constant(_INFINITY, own.type))
        greatest = writer.select(infinite, writer.constant(0.0, own.type), greatest)
        return writer.make("mul", own, writer.make("exp", writer.make("sub", greatest, shift)))

    def moved(
        self,
        own: SSAValue,
        rest: SSAValue,
        total: SSAValue,
        shift: SSAValue,
        writer: BodyWriter,
        outer: Sequence[SSAValue],
    ) -> SSAValue:
        """own + (m_p − c) · (2 · rest + n_p · (m_p − c))"""
        count = writer.number(self.parts.count, outer, own.type)
        off = writer.make("sub", writer.make("div", total, count), shift)
        linear = writer.make("add", writer.make("add", rest, rest), writer.make("mul", off, count))
        return writer.make("add", own, writer.make("mul", off, linear))

    # What comes after

    def bring(
        self, kept: Sequence[SSAValue], again: Sequence[Operation], new: NestOp, substitution: Substitution
    ) -> None:
        """Puts what a later nest needs of the old one's body into it."""
        writer = BodyWriter(new.body, self.nest)
        for value in kept:
            loaded = writer.load(self.kept[value], new.induction_variables[: len(self.nest.sizes)])
            loaded.name_hint = value.name_hint
            substitution.values[value] = loaded
        for handle in self.nest.handles:
            if handle in self.results:
                substitution.values[handle] = self.results[handle]
        clone_into(again, InsertPoint.at_end(new.body), substitution)

    def pointwise(self, loop: ForOp, kept: Sequence[SSAValue], again: Sequence[Operation]) -> NestOp:
        """A loop as a nest of its own."""
        handles = [handle for handle, owner in self.plan.owners.items() if owner is loop]
        new, substitution = self.new_nest((*self.nest.sizes, *loop.sizes), [handle.type for handle in handles])
        self.bring(kept, again, new, substitution)
        inner = new.induction_variables[len(self.nest.sizes) :]
        for old, variable in zip(loop.induction_variables, inner, strict=True):
            substitution.set_index(old, substitution.axis(variable))
            variable.name_hint = old.name_hint
        substitution.values |= dict(zip(handles, new.handles, strict=True))
        clone_into(loop.body.ops, InsertPoint.at_end(new.body), substitution)
        self.results |= dict(zip(handles, new.results, strict=True))
        return new

    def rest(self, kept: Sequence[SSAValue], again: Sequence[Operation]) -> NestOp:
        """The stages that need other reductions."""
        handles = [handle for handle, owner in self.plan.owners.items() if owner is self.nest]
        new, substitution = self.new_nest(self.nest.sizes, [handle.type for handle in handles])
        self.bring(kept, again, new, substitution)
        substitution.values |= dict(zip(handles, new.handles, strict=True))
        clone_into(self.plan.rest, InsertPoint.at_end(new.body), substitution)
        self.results |= dict(zip(handles, new.results, strict=True))
        return new


__all__ = ["Parts", "Plan", "Splitter", "plan_of", "split_in_parts"]
