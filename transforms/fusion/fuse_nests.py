"""`fuse-nests`: merges nests so that fewer bytes move.

Nests are taken in program order. Each looks at the nests that produce what it reads, nearest first, and one of four
moves is made: *inline* (compute a pointwise producer again at the read), *absorb* (compute it at the first read and
store it there too), *append* (the consumer becomes further stages of the producer), *unroll* (the same, once for each
element that a point of the producer stores). Values are SSA tensors, so legality
is data flow; every pair that is not fused has a reason, printed by `fuse-nests{explain=true}`. Moves of extensions
(`pair.py`) are asked first.

Cost: linear in the size of the graph times the bound on a nest's size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.blame import accuse, blame
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.locations import format_location
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import Apart, active_trace, no_match
from cuesta.dialects.layout import sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import is_pointwise, remove, top_level_nest
from cuesta.transforms import thresholds
from cuesta.transforms.fusion.absorb import absorb
from cuesta.transforms.fusion.append import append
from cuesta.transforms.fusion.cost import MOST_OPS
from cuesta.transforms.fusion.facts import Facts
from cuesta.transforms.fusion.inline import fits_mask, inline_at, times_as_often
from cuesta.transforms.fusion.lifetimes import keeps_longer
from cuesta.transforms.fusion.pair import Move, Pair
from cuesta.transforms.fusion.partial import partial
from cuesta.transforms.fusion.profit import has_few_columns, has_parts, is_much_smaller, recomputing_pays
from cuesta.transforms.fusion.scatters import SCATTERS, scatters_on_gpu
from cuesta.transforms.fusion.siblings import Siblings, are_small, may_be_one, small_groups
from cuesta.transforms.fusion.space import volume
from cuesta.transforms.fusion.unroll import unroll
from cuesta.transforms.reductions.members import plain_members
from cuesta.transforms.reductions.when import choose_part_on_gpu
from cuesta.transforms.views.lanes import has_columns, has_longer_loops, loads_again, turns_across

_MOST_USES = 100
"""What is read more often than this is not merged with its readers: each of them would look at all the others.

Source: a bound against compile-time growth.
"""

_MANY_POINTS = 4096
"""A nest with so few parallel points that there is not work for all threads does not take over work that has so many.

Source: measured by `make bench-constants ARGS='--only fuse_nests._MANY_POINTS'`
"""


@dataclass(frozen=True)
class FuseNestsPass(ModulePass):
    """Merges nests: vertical fusion, and fusion of nests that share their parallel domain."""

    name = "fuse-nests"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fusion = _Fusion(entry_block(op), symbol_ranges(op), machine_of(op), self.explain)
        fusion.run()
        for remark in fusion.remarks:
            print(remark, file=sys.stderr)


@struct(frozen=False)
class _Fusion:
    block: Block
    ranges: sym.SymbolRanges
    machine: Machine
    explain: bool
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])
    facts: Facts = field(default_factory=Facts)
    siblings: Siblings = field(default_factory=Siblings)
    calls: list[int] = field(default_factory=list[int])
    transient: dict[loops.NestOp, bool] = field(default_factory=dict[loops.NestOp, bool])
    early: dict[loops.NestOp, tuple[Operation, int]] = field(default_factory=dict[loops.NestOp, tuple[Operation, int]])
    """Of a producer an op that reads it early, and as which operand: its first one, when it was looked for."""
    remarks: list[str] = field(default_factory=list[str])
    moves: tuple[Move, ...] = field(default_factory=lambda: active().fusions)

    def run(self) -> None:
        _sink_views(self.block)
        ops = ops_of(self.block)
        self.order = {op: k for k, op in enumerate(ops)}
        for op in ops:
            if isinstance(op, loops.ExternOp):
                self.calls.append(self.order[op])
            if isinstance(op, loops.NestOp) and op.parent is self.block and not op.operands and not op.choices:
                nest = self.fuse_producers_into(op)
                nest = self.merge_with_sibling(nest)
                self.siblings.add(nest, self.facts.sites(nest))
        nests = [op for op in ops_of(self.block) if isinstance(op, loops.NestOp) and not (op.operands or op.choices)]
        for group in small_groups(nests):
            merged: loops.NestOp | None = None
            for nest in group:
                both = merged is not None and may_be_one(merged, nest)
                merged = self.merge_siblings(nest, merged) if merged is not None and both else nest

    def merge_with_sibling(self, nest: loops.NestOp) -> loops.NestOp:
        """S; Q -> one nest with the stages of both, when they have one domain and read one large tensor.

        Horizontal fusion: each point does what it did before. Near misses: one needs the other; a library call stands
        between them, and large results would be kept in memory across it; the pointwise one is to be inlined.
        """
        sibling = self.siblings.of(nest, self.facts.sites(nest))
        return nest if sibling is None else self.merge_siblings(nest, sibling)

    def merge_siblings(self, nest: loops.NestOp, sibling: loops.NestOp) -> loops.NestOp:
        """The same of two; a nest that stays apart is given back."""
        if self.is_to_be_inlined(nest) or self.is_to_be_inlined(sibling):
            return nest
        if scatters_on_gpu(nest) or scatters_on_gpu(sibling):
            self.refuse(nest, sibling, SCATTERS)
            return nest
        if self.facts.cost(sibling).ops + self.facts.cost(nest).ops > MOST_OPS:
            return nest
        # A nest that was merged with its producer may stand before what was met earlier.
        first, second = (sibling, nest) if self.order[sibling] < self.order[nest] else (nest, sibling)
        here, there = self.order[first], self.order[second]
        call_between = bool(self.calls) and self.calls[-1] > here
        users = self.users(first)
        if self.ready_at(second, first) and (not call_between or are_small(second)):
            position, at_second = here, False
        elif (
            users is not None
            and all(self.order[user] > there for user in users)
            and (not call_between or are_small(first))
        ):
            position, at_second = there, True
        else:
            self.refuse(nest, sibling, "something between them uses the one and gives to the other, or is a call")
            return nest
        outcome = append(first, second, at_second)
        if isinstance(outcome, str):
            self.refuse(nest, sibling, outcome)
            return nest
        return self.placed(outcome, position)

    def refuse(self, nest: loops.NestOp, other: loops.NestOp, reason: str) -> None:
        """Notes why a pair stays apart."""
        if self.explain:
            self.remarks.append(f"{_describe(nest)} does not fuse with {_describe(other)}: {reason}")
        if (trace := active_trace()) is not None:
            names = _name_of(nest), _name_of(other)
            inside = _locations_in(nest), _locations_in(other)
            trace.apart.append(Apart(nest, other, reason, _bytes_between(other, nest), names, inside))
            trace.current_pattern = "fuse-nests"
            no_match(nest, f"with {_describe(other)}: {reason}")
            trace.current_pattern = ""

    def fuse_producers_into(self, consumer: loops.NestOp) -> loops.NestOp:
        refused: set[SSAValue] = set()
        while (fused := self.fuse_a_producer_into(consumer, refused)) is not None:
            consumer = fused
        return consumer

    def fuse_a_producer_into(self, consumer: loops.NestOp, refused: set[SSAValue]) -> loops.NestOp | None:
        """The nest to go on with after a move on the consumer and the nearest of its producers with which there is one;
        None when there is none. What stays apart joins `refused`.
        """
        sites = self.facts.sites(consumer)
        owners = [source.owner for source in sites if isinstance(source.owner, Operation)]
        nearest = max(owners, key=self.order.__getitem__, default=None)
        candidates = [
            (source, producer)
            for source in sites
            if isinstance(producer := source.owner, loops.NestOp)
            and source not in refused
            and producer is not consumer
            and not producer.operands  # what is updated is complete when all points are done
            and not producer.choices  # somebody has said how this one is computed
        ]
        asked = bool(self.moves) or self.explain or active_trace() is not None
        for source, producer in sorted(candidates, key=lambda pair: self.order[pair[1]], reverse=True):
            if source in refused:
                continue
            if not asked and (
                self.would_be_stored(producer, consumer, source)
                or (producer is not nearest and self.stays_apart(producer, consumer))
            ):
                refused.update(producer.results)
                continue
            outcome = self.fuse_as_extensions_say(producer, consumer, source, sites) if self.moves else None
            if outcome is None:
                outcome = self.fuse(producer, consumer, source, sites)
            if not isinstance(outcome, str):
                return outcome
            self.refuse(consumer, producer, outcome)
            refused.update(producer.results)
        return None

    def would_be_stored(self, producer: loops.NestOp, consumer: loops.NestOp, source: SSAValue) -> bool:
        """Whether `fuse` is sure to refuse a pair as the consumer is computed where it is read, and its producer cannot
        be: found without looking at every access.
        """
        if isinstance(self.facts.values(producer), dict) or is_much_smaller(consumer, source):
            return False
        return self.is_to_be_inlined(consumer)

    def stays_apart(self, producer: loops.NestOp, consumer: loops.NestOp) -> bool:
        """Whether `fuse` is sure to refuse a pair, without its reason: the producer cannot be computed at a read, and
        where it stands something that the consumer reads is not there yet, nor is the consumer its first reader.

        Of a long sum, each partial one is offered all that the last one refused: pairs are as many as the cube of the
        terms, and are not looked at one by one.
        Requires: the producer is not the nearest of all that the consumer reads.
        """
        if isinstance(self.facts.values(producer), dict) or volume(consumer.sizes) == 1:
            return False
        place = self.order[consumer]
        known, position = self.early.get(producer, (producer, 0))
        # An op that was erased stands nowhere.
        if _reads_at(known, position, producer) and self.order.get(top_level_nest(known), place) < place:
            return True
        uses = [use for result in producer.results for use in islice(result.uses, _MOST_USES + 1)]
        if len(uses) > _MOST_USES:
            return True
        first = min(uses, key=lambda use: self.order[top_level_nest(use.operation)])
        self.early[producer] = first.operation, first.index
        return self.order[top_level_nest(first.operation)] < place

    def fuse_as_extensions_say(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        source: SSAValue,
        sites: dict[SSAValue, list[loops.LoadOp]],
    ) -> loops.NestOp | str | None:
        """As `fuse`, by the first move of an extension that has something to say; None when none has.

        Errors: CuestaError, naming the extension, when it says what is not so.
        """
        for move in self.moves:
            pair = Pair(producer, consumer, tuple(sites[source]), self.pair_moves(producer, consumer, source, sites))
            with blame(move, consumer):
                outcome = move(pair)
            if outcome is None and pair.made is None:
                continue
            owner = active().owner(move)
            if isinstance(outcome, str) and pair.made is None:
                return outcome if owner is None else f"{outcome} (extension {owner.name!r})"
            if not isinstance(outcome, loops.NestOp):
                accuse(move, f"must give the nest that it made, a reason, or None, not {outcome!r}", consumer)
            if outcome.parent is not self.block:
                accuse(move, "gives a nest that does not stand in the program", consumer)
            if pair.made is not outcome:  # made by hand
                self.order.setdefault(outcome, self.order[consumer])
                self.facts.forget(outcome)
            if producer.parent is not None and source in self.facts.sites(outcome):
                accuse(move, "says that the two are one nest, but it still reads what the producer stores", consumer)
            return outcome
        return None

    def pair_moves(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        source: SSAValue,
        sites: dict[SSAValue, list[loops.LoadOp]],
    ) -> tuple[Callable[[], loops.NestOp | str], Callable[[], loops.NestOp | str]]:
        """Our moves on a pair, without asking whether they pay: to compute it again, and to make stages of one nest."""
        values = self.facts.values(producer)
        too_large = self.facts.cost(producer).ops * len(sites[source]) + self.facts.cost(consumer).ops > MOST_OPS

        def inline() -> loops.NestOp | str:
            if too_large:
                return f"the nest would have more than {MOST_OPS} ops"
            if isinstance(values, str):
                return values
            if not all(fits_mask(load, producer) for load in sites[source]):
                return "a read is masked otherwise than the producer can be"
            return self.inlined(producer, consumer, sites[source], values)

        def merge() -> loops.NestOp | str:
            if too_large:
                return f"the nest would have more than {MOST_OPS} ops"
            return self.merge(producer, consumer, sites, values)

        return inline, merge

    def fuse(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        source: SSAValue,
        sites: dict[SSAValue, list[loops.LoadOp]],
    ) -> loops.NestOp | str:
        """Makes one move on the pair. Gives the nest to go on with, or why none was made."""
        producer_cost = self.facts.cost(producer)
        if producer_cost.ops * len(sites[source]) + self.facts.cost(consumer).ops > MOST_OPS:
            return f"the nest would have more than {MOST_OPS} ops"
        values = self.facts.values(producer)
        if self.would_turn_across(producer, consumer, sites[source]):
            return "long loops on a GPU would read or write across what they go along"
        read = self.facts.sites(producer)
        if keeps_longer(producer, read, consumer, self.order, self.calls) and not self.ready_at(consumer, producer):
            return "something large that it reads would be kept in memory across a call"
        pays = False
        if not isinstance(values, str):
            only_reader = len(producer.results) == 1 and self.is_only_reader(consumer, producer)
            if producer_cost.is_free:
                pays = all(fits_mask(load, producer) for load in sites[source])
            else:
                pays = recomputing_pays(
                    producer,
                    producer_cost,
                    self.facts.sites(producer),
                    lambda load: self.times_as_often(load, producer),
                )
            if pays and (producer_cost.is_free or not only_reader or len(sites[source]) == 1):
                if producer_cost.is_free and self.is_stored_anyway(producer, consumer):
                    outcome = self.merge(producer, consumer, sites, values)
                    if isinstance(outcome, loops.NestOp):
                        return outcome
                return self.inlined(producer, consumer, sites[source], values)
        if not is_much_smaller(consumer, source) and self.is_to_be_inlined(consumer):
            return "every reader of the consumer is going to compute it"
        if isinstance(values, str) and has_parts(producer, consumer, source, self.machine):
            split = partial(producer, consumer)
            if isinstance(split, str):
                return split
            parts, combination = split
            self.order[parts] = self.order[combination] = self.order.pop(consumer)
            outcome = self.merge(producer, parts, self.facts.sites(parts), values)
            if isinstance(outcome, str):
                self.refuse(parts, producer, outcome)
            return combination
        outcome = self.merge(producer, consumer, sites, values)
        if isinstance(outcome, str) and pays and not isinstance(values, str):
            return self.inlined(producer, consumer, sites[source], values)
        return outcome

    def would_turn_across(self, producer: loops.NestOp, consumer: loops.NestOp, loads: list[loops.LoadOp]) -> bool:
        """Whether one of a pair transposes, in tiles, what long loops of the other would take one by one."""
        if not traits_of(producer.results[0]).blocks:
            return False
        in_tiles = [isinstance(self.facts.values(nest), dict) for nest in (producer, consumer)]
        if in_tiles == [True, False]:
            if not self.facts.transposes(producer, self.ranges):
                return False
            if not turns_across(producer, consumer, loads, self.ranges):
                return False
            inlined = self.is_to_be_inlined(producer) and not self.is_stored_anyway(producer, consumer)
            return not (inlined and has_columns(producer, consumer, loads, self.ranges))
        if in_tiles != [False, True]:
            return False
        if not self.facts.transposes(consumer, self.ranges) and not self.will_transpose(consumer, producer):
            return False
        if has_longer_loops(producer, consumer.sizes, self.ranges):
            return True
        # In tiles of both axes every lane reads its window by itself; apart, what is between is stored and read again.
        width = max(byte_width(result) for result in producer.results)
        apart = 2 * width / self.machine.memory_rate
        return loads_again(producer, self.ranges) / self.machine.load_rate > apart

    def will_transpose(self, consumer: loops.NestOp, other: loops.NestOp) -> bool:
        """Whether a nest is going to compute what transposes, and what another one computes, if at all, already."""
        fresh = self.facts.sites(consumer).keys() - self.facts.sites(other).keys()
        return any(
            self.facts.transposes(made, self.ranges)
            and isinstance(self.facts.values(made), dict)
            and self.is_to_be_inlined(made)
            for source in fresh
            if isinstance(made := source.owner, loops.NestOp)
        )

    def merge(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        sites: dict[SSAValue, list[loops.LoadOp]],
        values: dict[SSAValue, SSAValue] | str,
    ) -> loops.NestOp | str:
        """Makes one nest of the two, in which each point stores what it stored before."""
        users = self.users(producer)
        if users is None:
            return f"the producer has more than {_MOST_USES} reads"
        if scatters_on_gpu(producer) or scatters_on_gpu(consumer):
            return SCATTERS
        first = min(users, key=self.order.__getitem__)
        absorbs = first is consumer and not isinstance(values, str)
        loads = [load for result in producer.results for load in sites.get(result, ())]
        starves = _starves(producer, consumer)
        if starves and not (absorbs and self.comes_in_parts(consumer, loads)):
            return "too few parallel points would be left for the work"
        not_absorbed = ""
        if absorbs:
            position = self.order[consumer]
            few = has_few_columns(consumer, loads, volume(producer.sizes), self.machine)
            outcome = "there are too few columns for all threads" if few else absorb(producer, consumer, sites)
            if isinstance(outcome, loops.NestOp):
                return self.placed(outcome, position)
            if starves:
                return outcome
            not_absorbed = f"; to compute it at its first read: {outcome}"
        at_consumer = first is consumer
        if not at_consumer and not self.ready_at(consumer, producer):
            return f"something between them uses the one and gives to the other{not_absorbed}"
        position = self.order[consumer] if at_consumer else self.order[producer]
        outcome = append(producer, consumer, at_consumer)
        if isinstance(outcome, loops.NestOp):
            return self.placed(outcome, position)
        unrolled = unroll(producer, consumer, at_consumer, MOST_OPS)
        return self.placed(unrolled, position) if isinstance(unrolled, loops.NestOp) else outcome + not_absorbed

    def inlined(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        loads: list[loops.LoadOp],
        values: dict[SSAValue, SSAValue],
    ) -> loops.NestOp:
        """Computes the producer's value at each of the consumer's loads."""
        last = len(producer.results) == 1 and producer.results[0].has_one_use()
        self.transient.pop(consumer, None)
        for load in list(loads):
            moving = self.facts.before_move(producer, consumer, load) if last else None
            if inline_at(load, producer, values, self.ranges, last=last) and moving is not None:
                self.facts.moved(consumer, load, moving, values[moving.source])
            else:
                self.facts.forget(consumer)
        if not any(result.uses for result in producer.results):
            del self.order[producer]
            remove(producer)
        return consumer

    def is_to_be_inlined(self, nest: loops.NestOp) -> bool:
        """Whether the nest will be computed where it is read: as a stage of its producer it would have to be stored."""
        known = self.transient.get(nest)
        if known is None:
            known = isinstance(self.facts.values(nest), dict) and self.recomputing_pays(nest)
            self.transient[nest] = known
        return known

    def recomputing_pays(self, nest: loops.NestOp) -> bool:
        """Whether every reader of a pointwise nest should compute it."""
        facts = self.facts
        return recomputing_pays(nest, facts.cost(nest), facts.sites(nest), lambda load: self.times_as_often(load, nest))

    def times_as_often(self, load: loops.LoadOp, producer: loops.NestOp) -> float:
        """How many times as often the producer's body would run for a load; infinity where it may not stand for it."""
        times = times_as_often(load, producer, self.ranges) if fits_mask(load, producer) else math.inf
        return times if times == 1 or traits_of(producer.results[0]).arithmetic_is_cheap else math.inf

    def is_only_reader(self, consumer: loops.NestOp, producer: loops.NestOp) -> bool:
        """Whether nobody else reads the producer's first result."""
        return all(top_level_nest(use.operation) is consumer for use in producer.results[0].uses)

    def comes_in_parts(self, consumer: loops.NestOp, loads: list[loops.LoadOp]) -> bool:
        """Whether a nest of few points will be split, on a GPU, and with it what one of its reductions computes at
        `loads`, and stores.
        """
        if not traits_of(consumer.results[0]).blocks or len({load.parent for load in loads}) != 1:
            return False
        members = plain_members(consumer)
        if members is None or loads[0].parent_op() not in [member.reduction for member in members]:
            return False
        choices = choose_part_on_gpu(consumer, self.machine)
        return "part" in choices and "cooperative" not in choices

    def is_stored_anyway(self, producer: loops.NestOp, consumer: loops.NestOp) -> bool:
        """Whether a reduction reads what is kept for others than nests: where it computes it, it may store it, too, and
        what that takes is read once. Pointwise readers become siblings.
        """
        users = self.users(producer)
        if users is None or is_pointwise(consumer) or min(users, key=self.order.__getitem__) is not consumer:
            return False
        return not all(isinstance(user, loops.NestOp) for user in users)

    def placed(self, nest: loops.NestOp, position: int) -> loops.NestOp:
        self.order[nest] = position
        return nest

    def users(self, producer: loops.NestOp) -> set[Operation] | None:
        """The ops of @main that read the producer's results; None when there are too many to look at."""
        found: set[Operation] = set()
        reads = 0
        for result in producer.results:
            for use in result.uses:
                reads += 1
                if reads > _MOST_USES:
                    return None
                found.add(top_level_nest(use.operation))
        return found

    def ready_at(self, consumer: loops.NestOp, producer: loops.NestOp) -> bool:
        """Whether all that the consumer reads, apart from the producer itself, is there before the producer."""
        position = self.order[producer]
        for source in self.facts.sites(consumer):
            owner = source.owner
            if isinstance(owner, Operation) and owner is not producer and self.order[owner] >= position:
                return False
        return True


def _reads_at(op: Operation, position: int, producer: loops.NestOp) -> bool:
    """Whether an op, which may be erased by now, still reads what a nest gives as that operand."""
    operands = op.operands
    return position < len(operands) and operands[position].owner is producer


def _starves(producer: loops.NestOp, consumer: loops.NestOp) -> bool:
    """Whether merging would take work that is spread over many points into a nest of a few."""
    volumes = [volume(producer.sizes), volume(consumer.sizes)]
    few = min((v for v in volumes if isinstance(v, int)), default=None)
    # A size that is known at run time only may be large.
    many = any(not isinstance(v, int) or v >= _MANY_POINTS for v in volumes)
    return few is not None and few < thresholds.FEW and many


def _describe(nest: loops.NestOp) -> str:
    """The nest's name and the lines of the model that it comes from: `nest %y (model.py:42)`."""
    name, place = _name_of(nest), format_location(nest.location)
    return f"nest{name and f' %{name}'}" + (f" ({place})" if place else "")


def _name_of(nest: loops.NestOp) -> str:
    """What the text calls the first of its results that has a name; empty when none has."""
    return next((result.name_hint for result in nest.results if result.name_hint), "")


def _locations_in(nest: loops.NestOp) -> tuple[LocationAttr, ...]:
    return tuple(dict.fromkeys(op.location for op in nest.walk()))


def _bytes_between(producer: loops.NestOp, consumer: loops.NestOp) -> int | None:
    """What lies in memory between two: the tensors that one gives the other; of siblings, those that both read. None
    where only a call knows the sizes.
    """
    read = {op.source for op in consumer.walk() if isinstance(op, loops.LoadOp)}
    given = read.intersection(producer.results)
    shared = given or read & {op.source for op in producer.walk() if isinstance(op, loops.LoadOp)}
    sizes = [sizes_of(tensor_type_of(one)) for one in shared]
    if not all(isinstance(size, int) for one in sizes for size in one):
        return None
    return sum(_product(size) * byte_width(one) for size, one in zip(sizes, shared, strict=True))


def _product(sizes: Sequence[sym.IndexExpr]) -> int:
    return math.prod(size for size in sizes if isinstance(size, int))


def _sink_views(block: Block) -> None:
    """Moves every view to right before its first user, so that it does not hold its source back."""
    read: dict[Operation, list[loops.ViewOp]] = {}
    for op in ops_of(block):
        if isinstance(op, loops.ViewOp) and op.result.uses:
            for user in dict.fromkeys(top_level_nest(use.operation) for use in op.result.uses):
                read.setdefault(user, []).append(op)
            op.detach()

    def place_views_of(user: Operation) -> None:
        for view in read.get(user, ()):
            if view.parent is None:
                block.insert_op_before(view, user)
                place_views_of(view)

    for op in ops_of(block):
        place_views_of(op)
