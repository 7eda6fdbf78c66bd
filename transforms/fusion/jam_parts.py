"""`jam-parts`: what the parts of a concatenation share is read and computed once, by points that store to all of them.

%s = loops.nest (%i : 64, %j : 512) { store sigmoid(%b[%i, %j]) }
%y = loops.nest (%i : 64, %j : 1024) { store %j < 512 ? f(%s[%i, %j]) : g(%s[%i, %j - 512]) to %y[%i, %j] }
→
%y = loops.nest (%i : 64, %j : 512) {
  %v = sigmoid(%b[%i, %j])
  store f(%v) to %y[%i, %j]
  store g(%v) to %y[%i, %j + 512]
}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import (
    Substitution,
    clone_into,
    combines_of,
    index_ranges,
    is_pointwise,
    loads_of,
    producers_of,
    remove,
    stores_of,
    top_level_nest,
)
from cuesta.transforms.cse import merge_body
from cuesta.transforms.dce import clean_block
from cuesta.transforms.fusion import profit
from cuesta.transforms.fusion.absorb import with_more_outs
from cuesta.transforms.fusion.cost import MOST_OPS, arithmetic_cost
from cuesta.transforms.fusion.facts import Values
from cuesta.transforms.fusion.inline import inline_at
from cuesta.transforms.fusion.jam import Jammed, Parts, jam, parts_of
from cuesta.transforms.fusion.lifetimes import keeps_longer
from cuesta.transforms.fusion.profit import ACCESS, large_sources
from cuesta.transforms.fusion.space import Space, volume
from cuesta.transforms.tilings.cost import time_whole


class JamPartsPass(ModulePass):
    """nest (i : k · n) { what part i // n does } -> nest (i : n) { what each of the k parts does }; the same for parts
    that lie in turns (i mod k). What it reads is computed in it, where no element is computed twice then, and stored
    there for others that read it later.

    Exact. It comes after fusion, to which a concatenation is a nest that others can take in. On a GPU it is done where
    the model of tilings says that it takes less time; on a processor where parts read or compute something in common,
    or what they join need not be stored before, and parts are as long as vectors.

    Near misses: parts of different sizes; nothing in common (a plain concatenation); what is read is read by others
    before, or something large would be kept across a call for it (it is stored, and read once).
    """

    name = "jam-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jamming = _Jamming(machine_of(op), symbol_ranges(op))
        ops = ops_of(entry_block(op))
        jamming.order = {one: place for place, one in enumerate(ops)}
        jamming.calls = [place for place, one in enumerate(ops) if isinstance(one, loops.ExternOp)]
        for nest in ops:
            # A nest that another one has taken in is gone.
            if isinstance(nest, loops.NestOp) and nest.parent is not None and _may_be_jammed(nest):
                jamming.jam_if_it_pays(nest)


def _may_be_jammed(nest: loops.NestOp) -> bool:
    if nest.operands or "schedule" in nest.properties or 0 in nest.sizes or not is_pointwise(nest):
        return False
    handles = set(nest.handles)
    return not combines_of(nest) and not any(load.source in handles for load in loads_of(nest))


@struct(frozen=False)
class _Candidate:
    """A jammed nest, which stands before the one that it is made of."""

    made: loops.NestOp
    parts: Parts
    shared: float
    """Bytes, or what arithmetic is worth, that parts have in common at one point."""
    taken_in: list[loops.NestOp] = field(default_factory=list[loops.NestOp])
    """What is computed in it; what reads another stands before that."""
    stored: list[SSAValue] = field(default_factory=list[SSAValue])
    """What it stores for others, after its own results: results of what it has taken in."""


@struct(frozen=False)
class _Jamming:
    machine: Machine
    ranges: sym.SymbolRanges
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])
    calls: list[int] = field(default_factory=list[int])
    times: dict[Fingerprint, float] = field(default_factory=dict[Fingerprint, float])

    def jam_if_it_pays(self, nest: loops.NestOp) -> None:
        """Puts the best of the jammed nests in the place of one, if any is better than it."""
        best, most = None, 0.0
        for candidate in self.candidates(nest):
            gain = self.gain(nest, candidate)
            worse = candidate if gain <= most else best
            if gain > most:
                best, most = candidate, gain
            if worse is not None:
                remove(worse.made)
        if best is None:
            return
        for old, new in zip((*nest.results, *best.stored), best.made.results, strict=True):
            new.name_hint = old.name_hint
            replace_all_uses(old, new)
        for old in (nest, *best.taken_in):  # what reads a nest goes before it
            remove(old)
        self.order[best.made] = self.order[nest]

    def candidates(self, nest: loops.NestOp) -> Iterator[_Candidate]:
        """The jammed nests that have parts with something in common."""
        block = nest.parent
        assert block is not None
        readers: set[Operation] = {nest}
        for parts in parts_of(nest):
            if parts.count * len(ops_of(nest.body)) > MOST_OPS:
                continue
            jammed = jam(nest, parts)
            block.insert_op_before(jammed.nest, nest)
            candidate = _Candidate(jammed.nest, parts, _bytes_of(jammed))
            self.take_in(candidate, nest, readers)
            readers.add(candidate.made)
            if candidate.shared or candidate.taken_in:
                yield candidate
            else:
                remove(candidate.made)

    def take_in(self, candidate: _Candidate, nest: loops.NestOp, readers: set[Operation]) -> None:
        """Computes in a jammed nest what it reads and `readers` read, where no element is computed twice then."""
        readers = set(readers)
        while (found := self.next_producer(candidate.made, nest, readers)) is not None:
            producer, loads, values, stored = found
            if len({(load.map, load.indices) for load in loads}) == 1:
                candidate.made = _computed_at(loads, producer, values, candidate.made, stored)
                candidate.stored += stored
            else:
                for load in loads:
                    inline_at(load, producer, values, self.ranges)
            made = candidate.made
            merge_body(made.body, {}, frozenset(made.handles))
            clean_block(made.body)
            readers.add(producer)
            candidate.taken_in.append(producer)

    def next_producer(
        self, made: loops.NestOp, nest: loops.NestOp, readers: set[Operation]
    ) -> tuple[loops.NestOp, list[loops.LoadOp], Values, list[SSAValue]] | None:
        """A nest that may be computed where the jammed one reads it: its loads, what it stores, and its results that
        others read, after `nest`. None when there is none.
        """
        reads: dict[loops.NestOp, list[loops.LoadOp]] = {}
        for load in loads_of(made):
            if isinstance(producer := load.source.owner, loops.NestOp):
                reads.setdefault(producer, []).append(load)
        for producer, loads in reads.items():
            if producer.operands or "schedule" in producer.properties or any(load.mask is not None for load in loads):
                continue
            values = _values_of(producer)
            if any(load.source not in values for load in loads) or not _is_computed_once(loads, made, producer):
                continue
            users = [(top_level_nest(use.operation), result) for result in producer.results for use in result.uses]
            others = [(user, result) for user, result in users if user is not made and user not in readers]
            if any(self.order.get(user, -1) < self.order[nest] for user, _ in others):
                continue
            if others and not _walks_it(loads):
                continue
            if len(ops_of(made.body)) + len(loads) * len(ops_of(producer.body)) > MOST_OPS:
                continue
            if not keeps_longer(producer, producers_of(producer), nest, self.order, self.calls):
                return producer, loads, values, list(dict.fromkeys(result for _, result in others))
        return None

    def gain(self, nest: loops.NestOp, candidate: _Candidate) -> float:
        """How much better a jammed nest is: µs on a GPU; on a processor, or of unknown sizes, bytes a point."""
        made, parts = candidate.made, candidate.parts
        if traits_of(nest.results[0]).blocks:
            alone = nest.clone()
            merge_body(alone.body, {}, frozenset(alone.handles))
            before = [self.time_of(one) for one in (alone, *candidate.taken_in)]
            alone.erase()
            after = self.time_of(made)
            if after and all(before):
                return sum(before) - after
        along = made.sizes[parts.axis]
        is_last = volume(made.sizes[parts.axis + 1 :]) == 1
        if is_last and (
            (parts.count > 2 and parts.in_turns) or (isinstance(along, int) and along < self.machine.lanes)
        ):
            return 0.0
        # What is stored for others is not read, and all else is not stored either.
        stored = [result for one in candidate.taken_in for result in one.results]
        return candidate.shared + sum(map(byte_width, stored)) * 2 - sum(map(byte_width, candidate.stored))

    def time_of(self, nest: loops.NestOp) -> float:
        """How long a nest takes on a GPU, in µs; 0 where that is not known. Layers have nests that are alike."""
        key = fingerprint(nest)
        if key not in self.times:
            self.times[key] = time_whole(nest, self.machine)[0]
        return self.times[key]


def _values_of(producer: loops.NestOp) -> Values:
    """The values that a nest of points stores once at each, by result; others may be parts that it stores to."""
    handles: dict[SSAValue, SSAValue] = dict(zip(producer.handles, producer.results, strict=True))
    if not is_pointwise(producer) or any(load.source in handles for load in loads_of(producer)):
        return {}
    points = [sym.simplify(sym.dim(axis), producer.sizes) for axis in range(len(producer.sizes))]
    stores = stores_of(producer)
    times = Counter(store.target for store in stores)
    return {
        handles[store.target]: store.value
        for store in stores
        if times[store.target] == 1 and store.mask is None and Space(store).expressions(store) == points
    }


def _is_computed_once(loads: Sequence[loops.LoadOp], made: loops.NestOp, producer: loops.NestOp) -> bool:
    """Whether a producer is computed at no more points at these loads than it has."""
    there, here = volume(producer.sizes), volume(made.sizes)
    places = len({(load.map, load.indices) for load in loads})
    if places == 1 and here == there:
        return True
    return isinstance(here, int) and isinstance(there, int) and places * here <= there


def _walks_it(loads: Sequence[loops.LoadOp]) -> bool:
    """Whether all loads of a nest's results are of one element, and as their points go by of each element once."""
    first = loads[0]
    if any(load.map is not first.map or load.indices != first.indices for load in loads):
        return False
    return Space(first).walks_once(first, sizes_of(tensor_type_of(first.source))) is not None


def _computed_at(
    loads: Sequence[loops.LoadOp],
    producer: loops.NestOp,
    values: Values,
    made: loops.NestOp,
    stored: Sequence[SSAValue],
) -> loops.NestOp:
    """P; C(load P …) -> C'(v = P's body; store v; … v …), as `absorb`, but that P stays. Gives C'.

    Requires: the loads, in the nest's own body, are of one element; where something is stored, they walk all of P.
    """
    kept = len(made.results)
    made = with_more_outs(made, [result.type for result in stored])
    first = loads[0]
    substitution = Substitution(made.induction_variables)
    expressions = substitution.expressions(first.map.results, first.indices)
    ranges = index_ranges(first, substitution.axes)
    for variable, expression in zip(producer.induction_variables, expressions, strict=True):
        substitution.set_index(variable, expression if ranges is None else sym.simplify(expression, ranges))
    outs: dict[SSAValue, SSAValue] = dict(zip(producer.results, producer.handles, strict=True))
    substitution.values.update((outs[result], made.handles[kept + k]) for k, result in enumerate(stored))
    dropped = {handle for result, handle in outs.items() if result not in stored}
    body = [op for op in ops_of(producer.body) if not isinstance(op, loops.StoreOp) or op.target not in dropped]
    clone_into(body, InsertPoint.before(first), substitution)
    for load in loads:
        replace_all_uses(load.result, substitution.value(values[load.source]))
        remove(load)
    return made


def _bytes_of(jammed: Jammed) -> float:
    """What parts share, at one point: the bytes of large tensors, and what else arithmetic is worth."""
    large = large_sources(jammed.nest)
    loads = [op for op in jammed.shared if isinstance(op, loops.LoadOp)]
    arithmetic = sum(map(arithmetic_cost, jammed.shared)) * ACCESS / profit.ARITHMETIC_PER_ACCESS
    return arithmetic + sum(byte_width(load.source) for load in loads if load.source in large)


__all__ = ["JamPartsPass"]
