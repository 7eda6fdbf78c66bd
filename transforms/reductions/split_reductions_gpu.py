"""Reductions that would leave most of a GPU idle, or read memory too often, are computed in parts, a program each.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 512) { %s = sum (%j : 2048) of f(%p · 2048 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 512) of %t[%p]; store g(%s) }

The same where a reduction needs another (`dialects/loops/part_laws.py`), and where loops come after them: softmax and
norms of long rows become parts that one tile holds, their combination, and a nest that is parallel in every element.
Whether that pays is `gpu_cost.py`'s business; a nest's schedule can say it, too: `#loops.schedule<part = 8192>`.

Reassociates. NaN and infinities come out the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.loops.analysis import Access, NestAnalysis, analyse
from cuesta.dialects.loops.cooperation import cooperate_in_parts
from cuesta.dialects.loops.part_laws import PLAIN, Member, members_of
from cuesta.dialects.loops.parts import Parts, split_in_parts
from cuesta.dialects.loops.surgery import is_pointwise
from cuesta.transforms.reductions import gpu_cost
from cuesta.transforms.reductions.gpu_cost import COLUMN_BYTES

LARGE = 16384
"""Points of a reduction from which on a second launch pays."""
LEAST = 1024
"""The fewest points of a part."""
COLUMNS = 64
"""Parallel points that one program takes at most when it reduces columns."""
FEW, MANY = 2, 8
"""Programs per processor: with fewer than the first a reduction is split, so that there are about the second."""
TILE = 8192
"""Elements of a part that is to stay in registers."""
WORTH = 0.9
"""The share of the cost below which parts are taken."""
MEET = True
"""Whether programs that share a row may meet where no schedule says so."""
SURE = 0.93
"""The share of the cost of parts below which they do."""
SMALL = 8
"""What has fewer than one element per so many points stays in the caches."""
VECTOR = 16
"""Bytes that one load of a thread takes at most."""


def split_reductions(nests: Sequence[loops.NestOp], processors: int) -> None:
    """Splits what is worth it."""
    for nest in nests:
        rest: loops.NestOp | None = nest
        while rest is not None:
            new = split_reduction(rest, processors)
            # What is left may hold further reductions, which needed those that are split now.
            rest = new[-1] if new and any(isinstance(op, loops.ReduceOp) for op in new[-1].body.ops) else None
            if new is not None and len(new) < 3:
                rest = None


def split_reduction(nest: loops.NestOp, processors: int) -> list[loops.NestOp] | None:
    """Replaces a nest by several, the first of which computes its reductions in parts; None when that is not worth it.

    Errors: CuestaError when the nest's schedule asks for parts, and it cannot be split.
    """
    members = members_of(nest)
    choices = nest.choices
    asked, together = choices.get("part"), choices.get("cooperative", 0)
    new: list[loops.NestOp] | None = None
    if members and _is_static((*nest.sizes, *members[0].reduction.sizes)):
        facts = _Facts(nest, members)
        if together:
            points = _Points(meeting=asked or TILE)
        else:
            points = _Points(apart=asked) if asked else facts.choose(processors)
        if points.meeting:
            new = _cooperating(nest, members, facts.parts(points.meeting), choices)
        if new is None and points.apart:
            new = split_in_parts(nest, members, facts.parts(points.apart))
            for one in new or ():
                if is_pointwise(one):
                    # What the parts read last is in the cache.
                    one.properties["schedule"] = loops.ScheduleAttr.of({"reversed": 1})
    if (asked or together) and new is None:
        said = f"part = {asked}" if not together else "cooperative = 1"
        raise CuestaError(Diagnostic.on(nest, f"its schedule says {said}, but it cannot be split"))
    return new


def candidates(nest: loops.NestOp) -> list[dict[str, int]]:
    """The choices of parts that are worth timing for a nest: rows too long for a tile, with loops after them."""
    members = members_of(nest)
    if not members or not _is_static((*nest.sizes, *members[0].reduction.sizes)):
        return []
    points = math.prod(size for size in members[0].reduction.sizes if isinstance(size, int))
    if points < LARGE or not any(isinstance(op, loops.ForOp) for op in nest.body.ops):
        return []
    return [{"part": TILE, "cooperative": 1}, {"part": TILE // 2, "cooperative": 1}, {"part": TILE}]


@dataclass(frozen=True, slots=True)
class _Points:
    """The points that a part should have, where those who share a row meet, and where the nest is taken apart; 0 where
    that is not better than whole rows. Who cannot meet is taken apart.
    """

    meeting: int = 0
    apart: int = 0


def _cooperating(
    nest: loops.NestOp, members: Sequence[Member], parts: Parts, choices: Mapping[str, int]
) -> list[loops.NestOp] | None:
    """One nest whose points have a part each, and meet; None when there is one part only, or the stages are others."""
    if math.prod(size for size in parts.outer if isinstance(size, int)) < 2:
        return None
    joint = cooperate_in_parts(nest, members, parts)
    if joint is None:
        return None
    kept = {key: choices[key] for key in ("warps",) if key in choices}
    if kept:
        joint.properties["schedule"] = loops.ScheduleAttr.of(kept)
    return [joint]


def _is_static(sizes: Sequence[sym.IndexExpr]) -> bool:
    return all(isinstance(size, int) for size in sizes) and 0 not in sizes


class _Facts:
    """What decides about a nest whose `members` could be split."""

    def __init__(self, nest: loops.NestOp, members: Sequence[Member]) -> None:
        self.nest = nest
        self.members = members
        self.sizes = [int(size) for size in members[0].reduction.sizes if isinstance(size, int)]
        self.points = math.prod(self.sizes)
        self.around = math.prod(size for size in nest.sizes if isinstance(size, int))
        self._analysis: NestAnalysis | None = None

    @property
    def analysis(self) -> NestAnalysis:
        """The addresses of all accesses."""
        if self._analysis is None:
            self._analysis = analyse(self.nest, {}, [True] * len(self.nest.results))
        return self._analysis

    # Whether

    def choose(self, processors: int) -> _Points:
        """What is best by the cost model."""
        if self.points < LARGE:
            return _Points()
        stages = [op for op in self.nest.body.ops if isinstance(op, loops.DomainOp)]
        strips = self.reads_strips()
        programs = math.ceil(self.around / COLUMNS) if strips else self.around
        if len(stages) == len(self.members) and all(member.law == PLAIN for member in self.members):
            if programs >= FEW * processors:
                return _Points()
            wanted = min(max(2, MANY * processors // programs), self.points // LEAST)
            points = power_of_two(math.ceil(self.points / wanted))
            # What several of them read is in registers when a tile holds the part.
            return _Points(apart=min(points, self.rows_of_strip()) if strips and len(self.members) > 1 else points)
        rows = self.rows(stages, programs, strips=strips)
        points = self.rows_of_strip() if strips else TILE
        most = WORTH * gpu_cost.of_whole_rows(rows, processors)
        apart = gpu_cost.of_parts(rows, processors)
        meeting = math.inf
        if MEET and not strips and rows.after:
            meeting = gpu_cost.of_meeting(rows, math.ceil(self.points / points), processors)
        meet = points if meeting <= min(most, SURE * apart) else 0
        while points > LEAST and programs * self.points // points < FEW * processors:
            points //= 2
        return _Points(meeting=meet, apart=points if apart <= most else 0)

    def rows_of_strip(self) -> int:
        """How many rows of a strip of columns one tile holds."""
        width = max((access.width for member in self.members for _, access in self.large(member.reduction)), default=4)
        return max(2, TILE * width // COLUMN_BYTES)

    def rows(self, stages: Sequence[loops.DomainOp], programs: int, *, strips: bool) -> gpu_cost.Rows:
        """The nest, as the cost model sees it."""
        elements = self.around * self.points
        reading = [stage for stage in stages if self.large(stage)]
        after = [stage for stage in stages if not isinstance(stage, loops.ReduceOp)]
        tensors = {load.source: access.width for stage in reading for load, access in self.large(stage)}
        readers = Counter(tensor for stage in reading for tensor in {load.source for load, _ in self.large(stage)})
        written = sum(
            access.width
            for op, access in self.analysis.accesses.items()
            if isinstance(op, loops.StoreOp) and op.parent_op() in after
        )
        return gpu_cost.Rows(
            programs,
            self.points,
            elements * len(tensors),
            elements * sum(tensors.values()),
            elements * written,
            max(1, len(reading)),
            sum(stage in after for stage in reading),
            max(1, sum(count > 1 for count in readers.values())),
            strips,
            strips or self.is_aligned(),
            sum(loop.work for loop in self.analysis.root.loops),
        )

    def large(self, stage: loops.DomainOp) -> list[tuple[loops.LoadOp, Access]]:
        """The loads of a stage that read a large tensor: about an element for every point of every row."""
        found: list[tuple[loops.LoadOp, Access]] = []
        inner = self.axes(stage)
        for op in stage.body.ops:
            if isinstance(op, loops.LoadOp):
                access = self.analysis.accesses[op]
                if access.varies & inner and self.values(access) * SMALL >= self.around * self.points:
                    found.append((op, access))
        return found

    def values(self, access: Access) -> int:
        """At how many points an access may be at different places."""
        sizes = enumerate(self.analysis.sizes)
        return math.prod(size for axis, size in sizes if access.varies >> axis & 1 and isinstance(size, int))

    def axes(self, op: loops.DomainOp) -> int:
        """The axes of a domain, as a set of bits."""
        return sum(1 << self.analysis.number[variable] for variable in op.induction_variables)

    def is_aligned(self) -> bool:
        """Whether all rows of what is read in order begin where vectors may."""
        for member in self.members:
            for _, access in self.large(member.reduction):
                for variable in self.nest.induction_variables:
                    stride = sym.coefficient(access.address, self.analysis.number[variable])
                    if not isinstance(stride, int) or stride * access.width % VECTOR:
                        return False
        return True

    def reads_strips(self) -> bool:
        """Whether more is read in order along the parallel axes than along the points of the reductions."""
        along = across = 0
        for member in self.members:
            for _, access in self.large(member.reduction):
                if self.moves_by_one(access, member.reduction):
                    along += access.width
                elif self.moves_by_one(access, self.nest):
                    across += access.width
        return across > along

    def moves_by_one(self, access: Access, domain: loops.DomainOp) -> bool:
        """Whether an access reads neighbours along an axis of a domain."""
        variables = domain.induction_variables
        return any(sym.coefficient(access.address, self.analysis.number[variable]) == 1 for variable in variables)

    # How

    def parts(self, points: int) -> Parts:
        """The domain of the reductions in parts of about so many points: a run of neighbours, or several short runs."""
        order, run = self.memory_order()
        sizes = [self.sizes[axis] for axis in order]
        length = math.prod(sizes[run:])
        if length < points and run:
            return self.runs_together(order, run, max(1, points // length))
        return self.pieces_of_runs(order, run, min(points, power_of_two(length)))

    def memory_order(self) -> tuple[list[int], int]:
        """The axes of the domain, those with long strides first, and from which on they are neighbours in memory."""
        strides = self.strides()
        order = list(range(len(self.sizes)))
        if not strides or any(stride is None for access in strides for stride in access):
            return order, max(0, len(order) - 1)
        order.sort(key=lambda axis: -max(abs(access[axis] or 0) for access in strides))
        run = len(order) - 1
        while run > 0 and all(
            access[order[run - 1]] == (access[order[run]] or 0) * self.sizes[order[run]] for access in strides
        ):
            run -= 1
        return order, max(0, run)

    def strides(self) -> list[list[int | None]]:
        """For every load of the members its strides along the axes of the domain."""
        found: list[list[int | None]] = []
        for member in self.members:
            for op in member.reduction.walk():
                if isinstance(op, loops.LoadOp):
                    access = self.analysis.accesses[op]
                    own: list[int | None] = []
                    for variable in member.reduction.induction_variables:
                        stride = sym.coefficient(access.address, self.analysis.number[variable])
                        own.append(stride if isinstance(stride, int) else None)
                    if any(own):
                        found.append(own)
        return found

    def pieces_of_runs(self, order: Sequence[int], run: int, points: int) -> Parts:
        """Parts of one run of neighbours each: all outer axes, and pieces of the inner ones, taken as one."""
        sizes = [self.sizes[axis] for axis in order]
        length = math.prod(sizes[run:])
        outer = (*sizes[:run], -(-length // points))
        position = sym.dim(run) * points + sym.dim(run + 1)
        space = (*outer, points)
        inner = [sym.simplify(e, space) for e in sym.delinearize(position, sizes[run:])]
        indices = self.in_order(order, [*(sym.dim(k) for k in range(run)), *inner])
        if length % points == 0:
            return Parts(outer, (points,), indices, points)
        count = sym.minimum(points, length - sym.dim(run) * points)
        return Parts(outer, (points,), indices, count, ((position, length),))

    def runs_together(self, order: Sequence[int], run: int, height: int) -> Parts:
        """Parts of several short runs: pieces of the axis around them, and all of the inner ones."""
        sizes = [self.sizes[axis] for axis in order]
        cut = run - 1
        height = min(height, sizes[cut])
        outer = (*sizes[:cut], -(-sizes[cut] // height))
        inner = (height, *sizes[run:])
        position = sym.dim(cut) * height + sym.dim(cut + 1)
        whole = [sym.dim(cut + 2 + k) for k in range(len(sizes) - run)]
        indices = self.in_order(order, [*(sym.dim(k) for k in range(cut)), position, *whole])
        length = math.prod(sizes[run:])
        if sizes[cut] % height == 0:
            return Parts(outer, inner, indices, height * length)
        count = sym.minimum(height, sizes[cut] - sym.dim(cut) * height) * length
        return Parts(outer, inner, indices, count, ((position, sizes[cut]),))

    @staticmethod
    def in_order(order: Sequence[int], indices: Sequence[sym.IndexExpr]) -> tuple[sym.IndexExpr, ...]:
        """Indices of reordered axes, in the order that the axes have."""
        found: list[sym.IndexExpr] = [0] * len(order)
        for axis, index in zip(order, indices, strict=True):
            found[axis] = index
        return tuple(found)


__all__ = ["candidates", "split_reduction", "split_reductions"]
