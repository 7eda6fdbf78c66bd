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

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import combines_of, is_pointwise, loads_of, remove, top_level_nest
from cuesta.transforms.cse import merge_body
from cuesta.transforms.dce import clean_block
from cuesta.transforms.fusion.cost import MOST_OPS, arithmetic_cost
from cuesta.transforms.fusion.inline import inline_at, stored_values
from cuesta.transforms.fusion.jam import Jammed, Parts, jam, parts_of
from cuesta.transforms.fusion.profit import ACCESS, ARITHMETIC_PER_ACCESS, large_sources
from cuesta.transforms.fusion.space import volume
from cuesta.transforms.tilings.cost import time_whole


class JamPartsPass(ModulePass):
    """nest (i : k · n) { what part i // n does } -> nest (i : n) { what each of the k parts does }; what only it reads
    is computed in it, where no element is computed twice then. The same for parts that lie in turns (i mod k).

    Exact. It comes after fusion, to which a concatenation is a nest that others can take in. On a GPU it is done where
    the model of tilings says that it takes less time; on a processor where parts read or compute something in common,
    or what they join need not be stored before, and parts are as long as vectors.

    Near misses: parts of different sizes; nothing in common (a plain concatenation); what is read is stored for others
    as well (it is read, once).
    """

    name = "jam-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine, ranges = machine_of(op), symbol_ranges(op)
        for nest in ops_of(entry_block(op)):
            # A nest that another one has taken in is gone.
            if isinstance(nest, loops.NestOp) and nest.parent is not None and _may_be_jammed(nest):
                _jam_if_it_pays(nest, machine, ranges)


def _may_be_jammed(nest: loops.NestOp) -> bool:
    if nest.operands or "schedule" in nest.properties or 0 in nest.sizes or not is_pointwise(nest):
        return False
    handles = set(nest.handles)
    return not combines_of(nest) and not any(load.source in handles for load in loads_of(nest))


@struct
class _Candidate:
    """A jammed nest that stands before the one that it is made of; the producers that are computed in it; and by how
    much better it is: µs on a GPU, bytes a point on a processor.
    """

    made: loops.NestOp
    taken_in: Sequence[loops.NestOp]
    gain: float


def _jam_if_it_pays(nest: loops.NestOp, machine: Machine, ranges: sym.SymbolRanges) -> None:
    found = list(_candidates(nest, machine, ranges))
    best = max(found, key=lambda one: one.gain, default=None)
    for one in found:
        if one is not best:
            remove(one.made)
    if best is None:
        return
    for old, new in zip(nest.results, best.made.results, strict=True):
        new.name_hint = old.name_hint
        replace_all_uses(old, new)
    for old in (nest, *best.taken_in):  # what reads a nest goes before it
        remove(old)


def _candidates(nest: loops.NestOp, machine: Machine, ranges: sym.SymbolRanges) -> Iterator[_Candidate]:
    block = nest.parent
    assert block is not None
    for parts in parts_of(nest):
        if parts.count * len(ops_of(nest.body)) > MOST_OPS:
            continue
        jammed = jam(nest, parts)
        made, shared = jammed.nest, _bytes_of(jammed)
        block.insert_op_before(made, nest)
        taken_in = _take_in(made, nest, ranges)
        gain = _gain(nest, made, parts, shared, taken_in, machine) if shared or taken_in else 0.0
        if gain > 0:
            yield _Candidate(made, taken_in, gain)
        else:
            remove(made)


def _take_in(made: loops.NestOp, nest: loops.NestOp, ranges: sym.SymbolRanges) -> list[loops.NestOp]:
    """Computes in the jammed nest what only it and `nest`, or what it has taken in, reads, where no element is computed
    twice then. Gives the nests that are, what reads another before it.
    """
    found: list[loops.NestOp] = []
    readers: set[Operation] = {made, nest}
    while (one := _next_taken_in(made, readers)) is not None:
        producer, values = one
        for load in [load for load in loads_of(made) if load.source.owner is producer]:
            inline_at(load, producer, values, ranges)
        merge_body(made.body, {}, frozenset(made.handles))
        clean_block(made.body)
        readers.add(producer)
        found.append(producer)
    return found


def _next_taken_in(made: loops.NestOp, readers: set[Operation]) -> tuple[loops.NestOp, dict[SSAValue, SSAValue]] | None:
    """A nest that may be computed where the jammed one reads it, with what it stores; None when there is none."""
    reads: dict[loops.NestOp, list[loops.LoadOp]] = {}
    for load in loads_of(made):
        if isinstance(producer := load.source.owner, loops.NestOp):
            reads.setdefault(producer, []).append(load)
    for producer, loads in reads.items():
        if producer.operands or "schedule" in producer.properties or any(load.mask is not None for load in loads):
            continue
        if any(top_level_nest(use.operation) not in readers for result in producer.results for use in result.uses):
            continue
        times = max(Counter(load.source for load in loads).values()) * volume(made.sizes)
        there = volume(producer.sizes)
        if times != there and not (isinstance(times, int) and isinstance(there, int) and times < there):
            continue
        if len(ops_of(made.body)) + len(loads) * len(ops_of(producer.body)) > MOST_OPS:
            continue
        if not isinstance(values := stored_values(producer), str):
            return producer, values
    return None


def _bytes_of(jammed: Jammed) -> float:
    """What parts share, at one point: the bytes of large tensors, and what else arithmetic is worth."""
    large = large_sources(jammed.nest)
    loads = [op for op in jammed.shared if isinstance(op, loops.LoadOp)]
    arithmetic = sum(map(arithmetic_cost, jammed.shared)) * ACCESS / ARITHMETIC_PER_ACCESS
    return arithmetic + sum(byte_width(load.source) for load in loads if load.source in large)


def _gain(
    nest: loops.NestOp,
    made: loops.NestOp,
    parts: Parts,
    shared: float,
    taken_in: Sequence[loops.NestOp],
    machine: Machine,
) -> float:
    """How much better the jammed nest is: µs on a GPU; on a processor, or where sizes are not known, bytes a point."""
    if traits_of(nest.results[0]).blocks:
        alone = nest.clone()
        merge_body(alone.body, {}, frozenset(alone.handles))
        before = [time_whole(one, machine)[0] for one in (alone, *taken_in)]
        alone.erase()
        after = time_whole(made, machine)[0]
        if after and all(before):
            return sum(before) - after
    along = made.sizes[parts.axis]
    is_last = volume(made.sizes[parts.axis + 1 :]) == 1
    if is_last and ((parts.count > 2 and parts.in_turns) or (isinstance(along, int) and along < machine.lanes)):
        return 0.0
    return shared + sum(2 * byte_width(result) for one in taken_in for result in one.results)


__all__ = ["JamPartsPass"]
