"""A scan whose points come one after the other becomes scans of parts, which begin where the parts before them end.

    loops.nest (%i : 3) { scan (%j : 40960) { %r = running sum f(%i, %j); store g(%r) to o[%i, %j] } }
    →
    loops.nest (%i : 3, %p : 9) { %t = sum (%k : 4096) of f(%i, %p · 4096 + %k) }                             the totals
    loops.nest (%i : 3) { scan (%p : 9) { %c = running sum %t[%i, %p] } }                              what they come to
    loops.nest (%i : 3, %p : 10) { scan (%k : 4096) { %r = %c[%i, %p − 1] + running sum f; store g(%r) to o[…] } }

By the law `running` of `laws.py`, for every kind of `loops.running`. The last part may have fewer points: its total is
not needed. What is read is read twice, by as many programs as there are parts. Loops after the scan become nests of
their own, of as many points as they have: a zero before the sums, say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import layout, sym
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.reductions import JOINS
from cuesta.dialects.elem import kind_of
from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.scans import RunningOp, ScanOp
from cuesta.dialects.loops.structure import DomainOp, ForOp, NestOp, ReduceOp
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove, stores_of
from cuesta.dialects.loops.writing import (
    BodyWriter,
    leading_to,
    nest_before,
    read_only_where,
    store_only_where,
    type_of_positions,
)
from cuesta.transforms.reductions.laws import join_running

_EXTREMES = {"last_argmax": "maximum", "last_argmin": "minimum"}
"""Of a running extreme and its place the kind that gives the extreme. NaN is both the greatest and the least."""


def splittable_scan(nest: NestOp) -> ScanOp | None:
    """The first stage of a nest, where it is a scan over one axis that can be taken apart: what it keeps running does
    not depend on one another, and nothing in it reads what the nest stores, or stores in order. What comes after it are
    loops that store, point by point, what others did not.
    """
    ops = ops_of(nest.body)
    stages = [op for op in ops if isinstance(op, DomainOp | TensorWriteOp)]
    if not stages or not isinstance(scan := stages[0], ScanOp) or nest.operands or len(scan.sizes) != 1:
        return None
    handles, running = set(nest.handles), set[SSAValue]()
    if any(isinstance(op, LoadOp) and op.source in handles for op in ops) or not _store_apart(stages):
        return None
    for op in ops_of(scan.body):
        unordered = isinstance(op, StoreOp) or not isinstance(op, TensorWriteOp)
        if not unordered or isinstance(op, DomainOp | BoundOp) or (isinstance(op, LoadOp) and op.source in handles):
            return None
        depends = not running.isdisjoint(op.operands)
        if isinstance(op, RunningOp) and (depends or kind_of(op.value.type) == "b"):
            return None
        if isinstance(op, RunningOp) or depends:
            running.update(op.results)
    if {op.target for op in nest.walk() if isinstance(op, TensorWriteOp)} != handles:
        return None
    sizes = [size for op in stages if isinstance(op, DomainOp) for size in op.sizes]
    return scan if running and all(isinstance(size, int) for size in (*nest.sizes, *sizes)) else None


def _store_apart(stages: Sequence[Operation]) -> bool:
    """Whether all stages but the first are plain loops, each of which stores to tensors of its own, and reads none of
    these.
    """
    stored = {op.target for op in stages[0].walk() if isinstance(op, TensorWriteOp)}
    for stage in stages[1:]:
        if not isinstance(stage, ForOp):
            return False
        ops = ops_of(stage.body)
        if any(isinstance(op, DomainOp | BoundOp | RunningOp) for op in ops):
            return False
        if any(isinstance(op, TensorWriteOp) and not isinstance(op, StoreOp) for op in ops):
            return False
        own = {op.target for op in ops if isinstance(op, StoreOp)}
        if own & stored or any(isinstance(op, LoadOp) and op.source in own for op in ops):
            return False
        stored |= own
    return True


def split_scan(nest: NestOp, points: int) -> list[NestOp] | None:
    """Replaces a nest by three, whose parts have so many points, and one for every loop after the scan; gives them.
    None, and nothing is changed, when the nest cannot be taken apart, or has no two parts.
    """
    scan = splittable_scan(nest)
    size = scan.sizes[0] if scan is not None else 0
    if scan is None or not isinstance(size, int) or not 0 < points < size:
        return None
    return _Splitter(nest, scan, points).run()


@dataclass
class _Splitter:
    nest: NestOp
    scan: ScanOp
    points: int
    totals: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """For results of running ops the tensors of what a part comes to."""
    before: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """For those the tensors of what all parts up to one come to."""

    def __post_init__(self) -> None:
        (size,) = self.scan.sizes
        assert isinstance(size, int)
        self.size = size
        self.parts = -(-size // self.points)
        self.rows = len(self.nest.sizes)
        self.device = layout.device_of(layout.tensor_type_of(self.nest.results[0]))
        stages = [op for op in ops_of(self.nest.body) if isinstance(op, DomainOp)]
        self.after = [op for op in stages if isinstance(op, ForOp)]
        self.around = [op for op in ops_of(self.nest.body) if op not in stages]
        self.stored = self.targets(self.scan)
        self.running = [op for op in ops_of(self.scan.body) if isinstance(op, RunningOp)]

    def run(self) -> list[NestOp]:
        """Puts nests into the place of the one."""
        new = [self.of_totals(), self.of_sums(), self.of_parts()]
        made: dict[SSAValue, SSAValue] = dict(zip(self.stored, new[-1].results, strict=True))
        new += [self.of_loop(loop, made) for loop in self.after]
        for old, handle in zip(self.nest.results, self.nest.handles, strict=True):
            replace_all_uses(old, made[handle])
            made[handle].name_hint = old.name_hint
        remove(self.nest)
        return new

    def targets(self, domain: DomainOp) -> list[SSAValue]:
        """The tensors that a stage stores to, as the nest has them."""
        found = {op.target for op in domain.walk() if isinstance(op, TensorWriteOp)}
        return [handle for handle in self.nest.handles if handle in found]

    def of_loop(self, loop: ForOp, made: dict[SSAValue, SSAValue]) -> NestOp:
        """A nest of the points of a loop after the scan, which reads what is `made` already, and adds to it."""
        stored = self.targets(loop)
        new, substitution = nest_before(self.nest, (*self.nest.sizes, *loop.sizes), [handle.type for handle in stored])
        substitution.values |= made | dict(zip(stored, new.handles, strict=True))
        for old, variable in zip(loop.induction_variables, new.induction_variables[self.rows :], strict=True):
            substitution.set_index(old, substitution.axis(variable))
            variable.name_hint = old.name_hint
        clone_into([*self.around, *ops_of(loop.body)], InsertPoint.at_end(new.body), substitution)
        made |= dict(zip(stored, new.results, strict=True))
        return new

    def tensors(self, sizes: Sequence[sym.IndexExpr]) -> list[Attribute]:
        """The types of tensors of all running values."""
        shape = (*self.nest.sizes, *sizes)
        return [
            layout.tensor_type(shape, value.type, device=self.device) for op in self.running for value in op.results
        ]

    def values(self) -> list[SSAValue]:
        return [value for op in self.running for value in op.results]

    def walk(self, new: NestOp, domain: DomainOp, substitution: Substitution) -> sym.IndexExpr:
        """Lets the scan's index be that of a point of a part, and gives it."""
        part, inner = (
            substitution.axis(new.induction_variables[self.rows]),
            substitution.axis(domain.induction_variables[0]),
        )
        substitution.set_index(self.scan.induction_variables[0], part * self.points + inner)
        domain.induction_variables[0].name_hint = self.scan.induction_variables[0].name_hint
        return part * self.points + inner

    # The totals

    def of_totals(self) -> NestOp:
        """What every part but the last one comes to."""
        new, substitution = nest_before(self.nest, (*self.nest.sizes, self.parts - 1), self.tensors((self.parts - 1,)))
        self.totals = dict(zip(self.values(), new.results, strict=True))
        clone_into(self.around, InsertPoint.at_end(new.body), substitution)
        if all(op.kind in JOINS or op.kind in _EXTREMES for op in self.running):
            handles = iter(new.handles)
            for op in self.running:
                for total in self.reduced(op, new, substitution):
                    self.put(new, self.here(total, next(handles), new), op)
        else:
            new.body.add_op(self.scanned(new, substitution))
        return new

    def reduced(self, op: RunningOp, new: NestOp, substitution: Substitution) -> list[SSAValue]:
        """The total of a part by a reduction, put at the end of a nest; of an extreme and its last place by two, which
        a device does in less than a scan.
        """
        total = ReduceOp.build(_EXTREMES.get(op.kind, op.kind), (self.points,), op.value.type)
        self.walk(new, total, substitution)
        value = self.value_at(op, total, substitution)
        BodyWriter(total.body, op).end(value)
        self.put(new, total, op)
        extreme = total.results[0]
        if op.kind not in _EXTREMES:
            return [extreme]
        last = ReduceOp.build("maximum", (self.points,), i64)
        position = self.walk(new, last, substitution)
        value, writer = self.value_at(op, last, substitution), BodyWriter(last.body, op)
        has_it = writer.make("eq", value, extreme)
        if kind_of(value.type) == "f":
            nan = writer.make("and", writer.make("ne", value, value), writer.make("ne", extreme, extreme))
            has_it = writer.make("or", has_it, nan)
        number = writer.add(IndexOp.build(position, substitution.axes, i64))
        writer.end(writer.select(has_it, number, writer.constant(-1, i64)))
        self.put(new, last, op)
        return [extreme, last.results[0]]

    def value_at(self, op: RunningOp, domain: DomainOp, substitution: Substitution) -> SSAValue:
        """What runs, at a point of a part, put at the end of a domain's body."""
        clone_into(leading_to(op.value, ops_of(self.scan.body)), InsertPoint.at_end(domain.body), substitution)
        return substitution.value(op.value)

    def scanned(self, new: NestOp, substitution: Substitution) -> ScanOp:
        """A scan that stores what it comes to at the last point of a part."""
        scan = ScanOp.build((self.points,))
        scan.location = self.scan.location
        self.walk(new, scan, substitution)
        needed: set[Operation] = set(self.running)
        for op in self.running:
            needed.update(leading_to(op.value, ops_of(self.scan.body)))
        clone_into([op for op in ops_of(self.scan.body) if op in needed], InsertPoint.at_end(scan.body), substitution)
        writer = BodyWriter(scan.body, self.scan)
        place = writer.add(IndexOp.build(sym.dim(0), scan.induction_variables, i64))
        last = writer.make("eq", place, writer.constant(self.points - 1, i64))
        for value, handle in zip(self.values(), new.handles, strict=True):
            own = self.counted(value, substitution.value(value), new, writer)
            # Of the part's own element, in words that say that no two lanes have one address.
            at = [
                *(sym.dim(k) for k in range(self.rows)),
                sym.dim(self.rows) + sym.dim(self.rows + 1) - self.points + 1,
            ]
            variables = [*new.induction_variables, *scan.induction_variables]
            self.put(scan, StoreOp.build(own, handle, at, variables, last), self.scan)
        return scan

    def counted(self, old: SSAValue, value: SSAValue, new: NestOp, writer: BodyWriter) -> SSAValue:
        """A running value of a part; a point counts from where the whole scan begins."""
        if old is old.owner.results[0]:  # type: ignore[union-attr]
            return value
        first = writer.number(sym.dim(0) * self.points, [new.induction_variables[self.rows]], i64)
        return writer.make("add", first, value)

    @staticmethod
    def here(value: SSAValue, handle: SSAValue, new: NestOp) -> StoreOp:
        """A store at a nest's own point."""
        variables = new.induction_variables
        return StoreOp.build(value, handle, [sym.dim(k) for k in range(len(variables))], variables)

    @staticmethod
    def put(domain: DomainOp, op: Operation, like: Operation) -> None:
        """Ends the body of a domain by an op."""
        op.location = like.location
        domain.body.add_op(op)

    # What they come to

    def of_sums(self) -> NestOp:
        """What the parts up to each come to."""
        new, _ = nest_before(self.nest, self.nest.sizes, self.tensors((self.parts - 1,)))
        self.before = dict(zip(self.values(), new.results, strict=True))
        scan = ScanOp.build((self.parts - 1,))
        writer = BodyWriter(scan.body, self.scan)
        at = [*new.induction_variables, *scan.induction_variables]
        handles = iter(new.handles)
        for op in self.running:
            for value in self.of_earlier(op, at, writer):
                store = StoreOp.build(value, next(handles), [sym.dim(k) for k in range(len(at))], at)
                self.put(scan, store, op)
        self.put(new, scan, self.scan)
        return new

    def of_earlier(self, op: RunningOp, at: Sequence[SSAValue], writer: BodyWriter) -> Sequence[SSAValue]:
        """What the parts up to one come to. A place is that of the last part which had the extreme so far: since places
        only grow, the greatest of those who ever had it.
        """
        totals = [writer.load(self.totals[one], at) for one in op.results]
        running = RunningOp.build(op.kind, totals[0])
        writer.add(running)
        if len(totals) == 1:
            return running.results
        number = writer.add(IndexOp.build(sym.dim(0), at[-1:], i64))
        has_it = writer.make("eq", running.results[1], number)
        place = writer.select(has_it, totals[1], writer.constant(-1, i64))
        return running.results[0], writer.add(RunningOp.build("last_argmax", place))

    # The parts

    def of_parts(self) -> NestOp:
        """The scan of every part, from what is before it."""
        new, substitution = nest_before(
            self.nest, (*self.nest.sizes, self.parts), [handle.type for handle in self.stored]
        )
        substitution.values |= dict(zip(self.stored, new.handles, strict=True))
        clone_into(self.around, InsertPoint.at_end(new.body), substitution)
        part = new.induction_variables[self.rows]
        outside = BodyWriter(new.body, self.scan)
        number = outside.add(IndexOp.build(sym.dim(0), [part], i64))
        later = outside.make("gt", number, outside.constant(0, i64))
        before: dict[SSAValue, SSAValue] = {}
        place = [*(sym.dim(k) for k in range(self.rows)), sym.dim(self.rows) - 1]
        for value in self.values():
            nothing = outside.constant(0, value.type)
            tensor = self.before[value]
            before[value] = outside.add(LoadOp.build(tensor, place, new.induction_variables, later, nothing))
        scan = ScanOp.build((self.points,))
        position = self.walk(new, scan, substitution)
        writer = BodyWriter(scan.body, self.scan)
        there = None
        if self.size % self.points:
            kind = type_of_positions(self.size)
            index = writer.add(IndexOp.build(position, substitution.axes, kind))
            there = writer.make("lt", index, writer.constant(self.size, kind))
        for op in ops_of(self.scan.body):
            clone_into([op], InsertPoint.at_end(scan.body), substitution)
            if isinstance(op, RunningOp):
                writer.location = op.location
                own = [self.counted(value, substitution.value(value), new, writer) for value in op.results]
                joined = join_running(op.kind, [before[value] for value in op.results], own, writer)
                for value, mine, both in zip(op.results, own, joined, strict=True):
                    substitution.values[value] = writer.select(later, both, mine)
        self.put(new, scan, self.scan)
        if there is not None:
            read_only_where(there, scan)
            store_only_where(there, stores_of(scan))
        return new


__all__ = ["split_scan", "splittable_scan"]
