"""A nest whose reductions are computed in parts becomes several nests, each with more parallel points.

    loops.nest (%i : 16) { %s = sum (%j : n) of f; %q = sum (%j : n) of (f − %s)²; for (%j : n) { store h(f, %s, %q) } }
    →
    loops.nest (%i : 16, %p : n/8192) { the sum and the sum of squares of a part }    the parts
    loops.nest (%i : 16) { %s, %q from their parts; store them }                      their combination
    loops.nest (%i : 16, %j : n) { store h(f, %s, %q) }                               what comes after

Where no equal parts make up the whole, as with a size that is known at run time only, the combination reduces what is
left over, too. By the laws of `laws.py`; taking stages apart is exact. The result does not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import layout, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.reductions import EXTREMES, JOINS
from cuesta.dialects.loops.access import IndexOp, StoreOp
from cuesta.dialects.loops.structure import DomainOp, ForOp, NestOp, ReduceOp, YieldOp
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove, stores_of
from cuesta.dialects.loops.writing import (
    BodyWriter,
    leading_to,
    nest_before,
    only_where,
    store_only_where,
    type_of_positions,
)
from cuesta.transforms.reductions.domains import LeftOver, Parts
from cuesta.transforms.reductions.laws import PLACE, Count, OfPart
from cuesta.transforms.reductions.members import Member, read_from
from cuesta.transforms.reductions.plan import Plan, plan_of


def split_in_parts(
    nest: NestOp, members: Sequence[Member], parts: Parts, *, beside: bool = False
) -> list[NestOp] | None:
    """Replaces `nest` by the parts of `members`, their combination, and what comes after; gives the new nests in order.
    What a part gives lies beside what the others give for the same point, or `beside` what it gives for other points.

    None, and nothing is changed, when the stages cannot be taken apart.
    Requires: `members` are some that `members_of(nest)` gives, with the partners of each.
    """
    plan = plan_of(nest, members, parts)
    return None if plan is None else Splitter(nest, plan, parts, beside=beside).run()


class Splitter:
    """Takes a nest apart, as a plan says."""

    def __init__(self, nest: NestOp, plan: Plan, parts: Parts, *, beside: bool = False) -> None:
        self.nest = nest
        self.plan = plan
        self.parts = parts
        self.beside = beside
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
        """The ops of the nest's own body that `ops` need, in order; what only gives `without` apart. What comes from
        parts alone needs no more.
        """
        found: set[Operation] = set()
        work = list(ops)
        skipped = set(without)
        while work:
            for value in read_from(work.pop(), self.nest.body):
                owner = value.owner
                assert isinstance(owner, Operation)
                if value not in skipped and owner not in found:
                    found.add(owner)
                    if not self.comes_from_parts(owner):
                        work.append(owner)
        return [op for op in self.nest.body.ops if op in found]

    def comes_from_parts(self, op: Operation) -> bool:
        """Whether the combination makes the op of the parts, and reads nothing of the nest for it."""
        return op in self.plan.members and self.parts.left_over is None

    def tensor(self, value: SSAValue, sizes: Sequence[sym.IndexExpr]) -> Attribute:
        """The type of a tensor of such values."""
        return layout.tensor_type(tuple(sizes), value.type, device=self.device)

    # The parts

    def part_nest(self) -> NestOp:
        """The nest of the parts."""
        outs, types = self.part_tensors()
        stored = [store.target for member in self.plan.members.values() for store in member.stores]
        types += [handle.type for handle in stored]
        new, substitution = nest_before(self.nest, (*self.nest.sizes, *self.parts.outer), types)
        substitution.values |= dict(zip(stored, new.handles[len(outs) :], strict=True))
        self.write_parts(new, substitution, outs)
        self.of_parts |= dict(zip(outs, new.results, strict=False))
        self.results |= dict(zip(stored, new.results[len(outs) :], strict=True))
        return new

    def part_tensors(self) -> tuple[list[tuple[ReduceOp, str]], list[Attribute]]:
        """What a part gives, as `of_parts` has it, and the types of the tensors that hold it."""
        outs: list[tuple[ReduceOp, str]] = []
        for member in self.plan.members.values():
            outs.append((member.reduction, "own"))
            if member.law is PLACE:
                outs.append((member.reduction, "place"))
            if member.shift is not None and member.partner is None:
                outs.append((member.reduction, "partner"))
            if member.law.remainder(member.reduction) is not None:
                outs.append((member.reduction, "remainder"))
        rows, outer = tuple(self.nest.sizes), tuple(self.parts.outer)
        strides = layout.contiguous_strides((*outer, *rows)) if self.beside else None
        if strides is not None:
            strides = (*strides[len(outer) :], *strides[: len(outer)])
        kinds = [one.results[name == "place"].type for one, name in outs]
        return outs, [layout.tensor_type((*rows, *outer), kind, strides, self.device) for kind in kinds]

    def write_parts(self, new: NestOp, substitution: Substitution, outs: Sequence[tuple[ReduceOp, str]]) -> None:
        """Lets a nest compute what a part gives, and store it to its first handles."""
        shifts = [member.shift for member in self.plan.members.values() if member.shift is not None]
        clone_into(self.closure(self.plan.members, shifts), InsertPoint.at_end(new.body), substitution)
        found: dict[tuple[ReduceOp, str], SSAValue] = {}
        writer, rows = BodyWriter(new.body, self.nest), len(self.nest.sizes)
        for member in self.plan.members.values():
            reduction = member.reduction
            writer.location = reduction.location
            if member.shift is not None:
                partner = found.get((member.partner, "own")) if member.partner is not None else None
                if partner is None:
                    partner = self.part(member, member.law.partner, member.value, new, substitution)
                    found[(reduction, "partner")] = partner
                count = self.count(partner.type, new.induction_variables[rows:], writer)
                substitution.values[member.shift] = member.law.shift_of_part(partner, count, writer)
            own = found[(reduction, "own")] = self.part(member, reduction.kind, None, new, substitution)
            if member.law is PLACE:
                pair = own.owner
                assert isinstance(pair, ReduceOp)
                first = writer.number(self.parts.first(reduction.sizes), new.induction_variables[rows:], i64)
                found[(reduction, "place")] = writer.make("add", first, pair.results[1])
            if (difference := member.law.remainder(reduction)) is not None:
                found[(reduction, "remainder")] = self.part(member, "sum", difference, new, substitution)
            if member.shift is not None:
                del substitution.values[member.shift]
        variables = new.induction_variables
        for key, handle in zip(outs, new.handles, strict=False):
            store = StoreOp.build(found[key], handle, [sym.dim(k) for k in range(len(variables))], variables)
            store.location = key[0].location
            new.body.add_op(store)

    def count(self, kind: Attribute, outer: Sequence[SSAValue], writer: BodyWriter) -> Count:
        """Writes the points of a part, as a number of a type."""
        return lambda: writer.number(self.parts.count, outer, kind)

    def part(
        self, member: Member, kind: str, value: SSAValue | None, new: NestOp, substitution: Substitution
    ) -> SSAValue:
        """The reduction of one part: of what the member yields, or of a `value` in its body."""
        reduction = member.reduction
        yielded = reduction.yielded if value is None else value
        part = ReduceOp.build(kind, self.parts.inner, yielded.type)
        part.location = reduction.location
        outer = new.induction_variables[len(self.nest.sizes) :]
        axes = self.walk(reduction, outer, part, substitution)
        ops = [op for op in reduction.body.ops if not isinstance(op, YieldOp)]
        writer = BodyWriter(part.body, reduction)
        there = self.there(writer, axes)
        clone_into(ops if value is None else leading_to(value, ops), InsertPoint.at_end(part.body), substitution)
        writer.end(substitution.value(yielded))
        if there is not None:
            only_where(there, part)
            store_only_where(there, stores_of(part))
        new.body.add_op(part)
        part.results[0].name_hint = reduction.results[0].name_hint
        return part.results[0]

    def walk(
        self, whole: DomainOp, outer: Sequence[SSAValue], part: DomainOp, substitution: Substitution
    ) -> list[SSAValue]:
        """Lets the indices of a domain become those of the point of a part; gives the axes: `outer`, and the part's."""
        axes = [*outer, *part.induction_variables]
        images = [substitution.axis(axis) for axis in axes]
        for old, index in zip(whole.induction_variables, self.parts.indices, strict=True):
            substitution.set_index(old, sym.substitute(index, images))
        for old, inner in zip(whole.induction_variables, part.induction_variables, strict=False):
            inner.name_hint = old.name_hint
        return axes

    def there(self, writer: BodyWriter, axes: Sequence[SSAValue]) -> SSAValue | None:
        """Whether a point of a part is one of the domain; None when all are."""
        found: SSAValue | None = None
        for expression, limit in self.parts.limits:
            kind = type_of_positions(limit)
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
        new, substitution = nest_before(self.nest, sizes, outs)
        for handle, own in zip(handles, new.handles, strict=False):
            substitution.values[handle] = own
            own.name_hint = handle.name_hint
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
        wanted |= {*roots, *self.closure(op for op in roots if not self.comes_from_parts(op))}
        pending = [op for op in wanted if op in plan.members]
        while pending:
            op = pending.pop()
            assert isinstance(op, ReduceOp)
            shift = plan.members[op].shift
            if shift is not None and isinstance(shift.owner, Operation) and shift.owner not in wanted:
                more = {shift.owner, *(() if self.comes_from_parts(shift.owner) else self.closure([shift.owner]))}
                more -= wanted
                wanted |= more
                pending += [one for one in more if one in plan.members]
        return wanted

    def combined(self, wanted: set[Operation], new: NestOp, substitution: Substitution) -> None:
        """Puts ops of the nest's own body into a nest, reductions from their parts."""
        for op in self.nest.body.ops:
            if op not in wanted:
                continue
            if isinstance(op, ReduceOp) and (member := self.plan.members.get(op)) is not None:
                if member.law is PLACE:
                    whole = self.combine_places(op, new)
                else:
                    whole = [self.combine(member, new, substitution)]
                for old, value in zip(op.results, whole, strict=True):
                    substitution.values[old] = value
                    value.name_hint = old.name_hint
            else:
                clone_into([op], InsertPoint.at_end(new.body), substitution)

    def combine(self, member: Member, new: NestOp, substitution: Substitution) -> SSAValue:
        """A reduction from its parts, and from what is left over."""
        reduction = member.reduction
        own = self.of_parts[(reduction, "own")]

        def of_part(writer: BodyWriter, indices: Sequence[SSAValue]) -> SSAValue:
            value = writer.load(own, indices)
            if member.shift is None:
                return value
            key = (reduction, "partner") if member.partner is None else (member.partner, "own")
            partner = writer.load(self.of_parts[key], indices)
            remainders = self.of_parts.get((reduction, "remainder"))
            remainder = None if remainders is None else writer.load(remainders, indices)
            shift = substitution.value(member.shift)
            count = self.count(value.type, indices[len(self.nest.sizes) :], writer)
            return member.law.term(OfPart(value, partner, remainder), shift, count, writer)

        whole = self.over_parts(reduction.kind, reduction.yielded.type, reduction, new, of_part)
        if self.parts.left_over is not None:
            left = self.left_over(reduction, self.parts.left_over, substitution)
            new.body.add_op(left)
            whole = BodyWriter(new.body, reduction).make(JOINS[reduction.kind], whole, left.results[0])
        return whole

    def combine_places(self, reduction: ReduceOp, new: NestOp) -> list[SSAValue]:
        """An extreme and its place, from those of the parts."""
        own, place = self.of_parts[(reduction, "own")], self.of_parts[(reduction, "place")]

        def candidate(writer: BodyWriter, indices: Sequence[SSAValue]) -> SSAValue:
            value, index = writer.load(own, indices), writer.load(place, indices)
            return PLACE.candidate(reduction.kind, value, index, extreme, writer)

        extreme = self.over_parts(
            EXTREMES[reduction.kind], reduction.yielded.type, reduction, new, lambda writer, at: writer.load(own, at)
        )
        least = self.over_parts("minimum", i64, reduction, new, candidate)
        return [extreme, PLACE.of_least(reduction.kind, least, BodyWriter(new.body, reduction))]

    def over_parts(
        self,
        kind: str,
        value_type: Attribute,
        like: ReduceOp,
        new: NestOp,
        write: Callable[[BodyWriter, Sequence[SSAValue]], SSAValue],
    ) -> SSAValue:
        """Ends a nest's body by a reduction over the parts; `write` gives the value of a part, from its indices."""
        result = ReduceOp.build(kind, self.parts.outer, value_type)
        result.location = like.location
        writer = BodyWriter(result.body, like)
        indices = [*new.induction_variables[: len(self.nest.sizes)], *result.induction_variables]
        writer.end(write(writer, indices))
        new.body.add_op(result)
        return result.results[0]

    @staticmethod
    def left_over(reduction: ReduceOp, block: LeftOver, substitution: Substitution) -> ReduceOp:
        """The reduction of what is left over of its domain."""
        new = ReduceOp.build(reduction.kind, block.sizes, reduction.yielded.type)
        new.location = reduction.location
        for old, variable, start in zip(
            reduction.induction_variables, new.induction_variables, block.start, strict=True
        ):
            substitution.set_index(old, start + substitution.axis(variable))
            variable.name_hint = old.name_hint
        clone_into(reduction.body.ops, InsertPoint.at_end(new.body), substitution)
        return new

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
        new, substitution = nest_before(self.nest, (*self.nest.sizes, *loop.sizes), [handle.type for handle in handles])
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
        new, substitution = nest_before(self.nest, self.nest.sizes, [handle.type for handle in handles])
        self.bring(kept, again, new, substitution)
        substitution.values |= dict(zip(handles, new.handles, strict=True))
        clone_into(self.plan.rest, InsertPoint.at_end(new.body), substitution)
        self.results |= dict(zip(handles, new.results, strict=True))
        return new


__all__ = ["Splitter", "split_in_parts"]
