"""`fuse-nests`: merges nests so that fewer bytes move.

Nests are taken in program order. Each looks at the nests that produce what it reads, nearest first, and one of three
moves is made: *inline* (compute a pointwise producer again at the read), *absorb* (compute it at the first read and
store it there too), *append* (the consumer becomes further stages of the producer). Values are SSA tensors, so legality
is data flow; every pair that is not fused has a reason, printed by `fuse-nests{explain=true}`.

Cost: linear in the size of the graph times the bound on a nest's size.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.locations import format_location
from cuesta.dialects.loops.surgery import producers_of, remove, top_level_nest
from cuesta.transforms.fusion.absorb import absorb
from cuesta.transforms.fusion.append import append
from cuesta.transforms.fusion.cost import Cost, body_cost
from cuesta.transforms.fusion.inline import fits_mask, inline_at, runs_no_more_often, stored_values
from cuesta.transforms.fusion.space import volume

_MOST_OPS = 400
"""A nest is not made larger than this: compile time, and registers, are finite."""


_FEW_POINTS = 16
_MANY_POINTS = 4096
"""A nest with fewer parallel points than the first does not take over work that has more than the second."""


@dataclass(frozen=True)
class FuseNestsPass(ModulePass):
    """Merges nests: vertical fusion, and fusion of nests that share their parallel domain."""

    name = "fuse-nests"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fusion = _Fusion(entry_block(op), symbol_ranges(op), self.explain)
        fusion.run()
        for remark in fusion.remarks:
            print(remark, file=sys.stderr)


@dataclass
class _Fusion:
    block: Block
    ranges: sym.SymbolRanges
    explain: bool
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])
    costs: dict[loops.NestOp, Cost] = field(default_factory=dict[loops.NestOp, Cost])
    remarks: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        _sink_views(self.block)
        ops = list(self.block.ops)
        self.order = {op: k for k, op in enumerate(ops)}
        for op in ops:
            if isinstance(op, loops.NestOp) and op.parent is self.block:
                self.fuse_producers_into(op)

    def fuse_producers_into(self, consumer: loops.NestOp) -> None:
        refused: set[SSAValue] = set()
        while True:
            sites = producers_of(consumer)
            candidates = {
                source: producer
                for source in sites
                if isinstance(producer := source.owner, loops.NestOp)
                and source not in refused
                and producer is not consumer
            }
            if not candidates:
                return
            source, producer = max(candidates.items(), key=lambda candidate: self.order[candidate[1]])
            outcome = self.fuse(producer, consumer, source, sites)
            if isinstance(outcome, str):
                if self.explain:
                    self.remarks.append(f"{_describe(consumer)} does not fuse with {_describe(producer)}: {outcome}")
                refused.update(producer.results)
            elif outcome is not None:
                consumer = outcome

    def fuse(
        self,
        producer: loops.NestOp,
        consumer: loops.NestOp,
        source: SSAValue,
        sites: dict[SSAValue, list[loops.LoadOp]],
    ) -> loops.NestOp | str | None:
        """Makes one move on the pair. Gives the nest to go on with, or why none was made."""
        producer_cost = self.cost(producer)
        loads = sites[source]
        if producer_cost.ops * len(loads) + self.cost(consumer).ops > _MOST_OPS:
            return f"the nest would have more than {_MOST_OPS} ops"
        values = stored_values(producer)
        users = self.users(producer)
        if not isinstance(values, str):
            only_here = users == {consumer} and len(producer.results) == 1
            cheap = producer_cost.is_free or (only_here and len(loads) == 1)
            cheap = cheap and all(
                producer_cost.is_free or runs_no_more_often(load, producer, self.ranges) for load in loads
            )
            if cheap and all(fits_mask(load, producer) for load in loads):
                for load in loads:
                    inline_at(load, producer, values, self.ranges, last=only_here and len(loads) == 1)
                self.costs.pop(consumer, None)
                if not any(result.uses for result in producer.results):
                    del self.order[producer]
                    remove(producer)
                return consumer
        first = min(users, key=self.order.__getitem__)
        if _starves(producer, consumer):
            return "too few parallel points would be left for the work"
        not_absorbed = ""
        if first is consumer and not isinstance(values, str):
            position = self.order[consumer]
            outcome = absorb(producer, consumer, sites)
            if isinstance(outcome, loops.NestOp):
                return self.placed(outcome, position)
            not_absorbed = f"; to compute it at its first read: {outcome}"
        at_consumer = first is consumer
        if not at_consumer and not self.ready_at(consumer, producer):
            return f"something between them uses the one and gives to the other{not_absorbed}"
        position = self.order[consumer] if at_consumer else self.order[producer]
        outcome = append(producer, consumer, at_consumer)
        if isinstance(outcome, loops.NestOp):
            return self.placed(outcome, position)
        return outcome + not_absorbed

    def cost(self, nest: loops.NestOp) -> Cost:
        known = self.costs.get(nest)
        if known is None:
            known = self.costs[nest] = body_cost(nest)
        return known

    def placed(self, nest: loops.NestOp, position: int) -> loops.NestOp:
        self.order[nest] = position
        return nest

    def users(self, producer: loops.NestOp) -> set[Operation]:
        return {top_level_nest(use.operation) for result in producer.results for use in result.uses}

    def ready_at(self, consumer: loops.NestOp, producer: loops.NestOp) -> bool:
        """Whether all that the consumer reads, apart from the producer itself, is there before the producer."""
        position = self.order[producer]
        for source in producers_of(consumer):
            owner = source.owner
            if isinstance(owner, Operation) and owner is not producer and self.order[owner] >= position:
                return False
        return True


def _starves(producer: loops.NestOp, consumer: loops.NestOp) -> bool:
    """Whether merging would take work that is spread over many points into a nest of a few."""
    volumes = [volume(producer.sizes), volume(consumer.sizes)]
    few, many = (
        min((v for v in volumes if isinstance(v, int)), default=None),
        max((v for v in volumes if isinstance(v, int)), default=None),
    )
    return few is not None and many is not None and few < _FEW_POINTS and many >= _MANY_POINTS


def _describe(nest: loops.NestOp) -> str:
    """The nest's name and the lines of the model that it comes from: `nest %y (model.py:42)`."""
    names = [f" %{result.name_hint}" for result in nest.results if result.name_hint]
    place = format_location(nest.location)
    return f"nest{names[0] if names else ''}" + (f" ({place})" if place else "")


def _sink_views(block: Block) -> None:
    """Moves every view to right before its first user, so that it does not hold its source back."""
    read: dict[Operation, list[loops.ViewOp]] = {}
    for op in list(block.ops):
        if isinstance(op, loops.ViewOp) and op.result.uses:
            for user in dict.fromkeys(top_level_nest(use.operation) for use in op.result.uses):
                read.setdefault(user, []).append(op)
            op.detach()

    def place_views_of(user: Operation) -> None:
        for view in read.get(user, ()):
            if view.parent is None:
                block.insert_op_before(view, user)
                place_views_of(view)

    for op in list(block.ops):
        place_views_of(op)
