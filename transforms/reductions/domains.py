"""How a domain falls into parts: equal ones, ones of a size and a rest, or runs of neighbours in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects import loops, sym
from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import UNKNOWN_SIZE, NestAnalysis
from cuesta.dialects.loops.memory_orders import best_order, moves_of
from cuesta.transforms.reductions.members import Member

ROWS = 8
"""The most rows of a part where neither their number nor a row's length is known.

Source: measured by `make bench-constants ARGS='--only domains.ROWS'`
"""


@struct
class LeftOver:
    """A block of a domain that belongs to no part: its sizes, as many as the domain has, and the indices at which it
    begins.
    """

    sizes: tuple[sym.IndexExpr, ...]
    start: tuple[sym.IndexExpr, ...]


@struct
class Parts:
    """A domain as outer times inner: `indices[k]` is its k-th index, over the outer axes and then the inner ones.

    Requires: every point of the domain belongs to one point of outer times inner, at which every limit holds, or to
    what is left over.
    """

    outer: tuple[sym.IndexExpr, ...]
    inner: tuple[sym.IndexExpr, ...]
    indices: tuple[sym.IndexExpr, ...]
    limits: tuple[tuple[sym.IndexExpr, int], ...] = ()
    """Where an expression over all axes is not less than the number, there is no point of the domain."""
    within_limits: sym.IndexExpr | None = None
    """The points of a part, over the outer axes, where there are limits; at least 1."""
    left_over: LeftOver | None = None
    in_order: bool = False
    """Whether a part's points are a run of the domain in its own order, and none are left over."""

    def first(self, sizes: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
        """The number that the first point of a part has in a domain of these sizes, over the outer axes. Of parts in
        order point k has k more.
        """
        outer = [sym.dim(k) for k in range(len(self.outer))]
        start = [sym.substitute(index, [*outer, *(0 for _ in self.inner)]) for index in self.indices]
        return sym.simplify(sym.linearize(start, sizes), self.outer)

    @property
    def count(self) -> sym.IndexExpr:
        """The points of a part, over the outer axes."""
        return sym.product_of(self.inner) if self.within_limits is None else self.within_limits


def split_domain(sizes: Sequence[sym.IndexExpr], part: int) -> Parts | None:
    """The points of a domain in parts of `part` points each, or about that, and a rest where a size is not known; None
    where there are no such equal parts.
    """
    static = [size for size in sizes if isinstance(size, int)]
    return _equal_parts(static, part) if len(static) == len(sizes) else _parts_of_some_size(sizes, part)


def _equal_parts(sizes: Sequence[int], part: int) -> Parts | None:
    """The outermost axis that can be cut so is."""
    points = math.prod(sizes)
    if points == 0 or points % part:
        return None
    parts = points // part
    axis = next((axis for axis, size in enumerate(sizes) if size and size % parts == 0), None)
    if axis is None:
        return None
    inner = [size // parts if k == axis else size for k, size in enumerate(sizes)]
    indices: list[sym.IndexExpr] = [sym.dim(k + 1) for k in range(len(sizes))]
    indices[axis] = sym.dim(0) * inner[axis] + indices[axis]
    return Parts((parts,), tuple(inner), tuple(indices), in_order=all(size == 1 for size in sizes[:axis]))


def _parts_of_some_size(sizes: Sequence[sym.IndexExpr], part: int) -> Parts:
    """The points of a domain, the first symbolic axis of which is cut into parts of one size, and a rest."""
    axis = next(k for k, size in enumerate(sizes) if not isinstance(size, int))
    others = [size for k, size in enumerate(sizes) if k != axis]
    around = math.prod(size if isinstance(size, int) else UNKNOWN_SIZE for size in others)
    length = max(1, part // max(1, around))
    if not all(isinstance(size, int) for size in others):
        length = min(length, ROWS)
    size = sizes[axis]
    parts, left = size // length, size % length
    inner = [length if k == axis else size for k, size in enumerate(sizes)]
    indices: list[sym.IndexExpr] = [sym.dim(k + 1) for k in range(len(sizes))]
    indices[axis] = sym.dim(0) * length + indices[axis]
    if left == 0:
        in_order = all(size == 1 for size in sizes[:axis])
        return Parts((parts,), tuple(inner), tuple(indices), in_order=in_order)
    rest = [left if k == axis else size for k, size in enumerate(sizes)]
    start = [parts * length if k == axis else 0 for k in range(len(sizes))]
    return Parts((parts,), tuple(inner), tuple(indices), left_over=LeftOver(tuple(rest), tuple(start)))


class Runs:
    """The domain of a nest's `members`, by how what they read lies in memory."""

    def __init__(self, analysis: NestAnalysis, members: Sequence[Member]) -> None:
        self.analysis = analysis
        self.members = members
        self.sizes = [int(size) for size in members[0].reduction.sizes if isinstance(size, int)]

    def parts(self, points: int) -> Parts:
        """The domain of the reductions in parts of about so many points: a run of neighbours, or several short runs."""
        order, run = self.memory_order()
        sizes = [self.sizes[axis] for axis in order]
        length = math.prod(sizes[run:])
        if length < points and run:
            return self.runs_together(order, run, max(1, points // length))
        return self.pieces_of_runs(order, run, min(points, power_of_two(length)))

    def memory_order(self) -> tuple[list[int], int]:
        """The axes of the domain, those of one point first, which lie nowhere, then by falling strides, or as fewest
        sectors are read where tensors lie in different orders; and from which on they are neighbours in memory.
        """
        strides = self.strides()
        order = list(range(len(self.sizes)))
        if not strides or any(stride is None for access in strides for stride in access):
            return order, max(0, len(order) - 1)
        order.sort(key=lambda axis: (self.sizes[axis] != 1, -max(abs(access[axis] or 0) for access in strides)))
        order = list(best_order(self.sizes, self.moves(), tuple(order)))
        return order, self.first_of_steps(order, max(0, len(order) - 1))

    def moves(self) -> list[list[int]]:
        """By how many bytes every load of the members moves along the axes, where that is a number."""
        found: list[list[int]] = []
        for member in self.members:
            for op in member.reduction.walk():
                if isinstance(op, loops.LoadOp) and (access := self.analysis.accesses[op]).width:
                    axes = [self.analysis.number[variable] for variable in member.reduction.induction_variables]
                    found.append(moves_of(access, axes))
        return found

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
        in_order = self.is_in_order(order)
        if length % points == 0:
            return Parts(outer, (points,), indices, in_order=in_order)
        count = sym.minimum(points, length - sym.dim(run) * points)
        return Parts(outer, (points,), indices, ((position, length),), count, in_order=in_order)

    def runs_together(self, order: Sequence[int], run: int, height: int) -> Parts:
        """Parts of several short runs: pieces of the axes around them that go on in equal steps, and all of the inner
        ones.
        """
        sizes = [self.sizes[axis] for axis in order]
        cut = self.first_of_steps(order, run - 1)
        runs = math.prod(sizes[cut:run])
        height = min(height, runs)
        outer = (*sizes[:cut], -(-runs // height))
        inner = (height, *sizes[run:])
        position = sym.dim(cut) * height + sym.dim(cut + 1)
        space = (*outer, *inner)
        around = [sym.simplify(e, space) for e in sym.delinearize(position, sizes[cut:run])]
        whole = [sym.dim(cut + 2 + k) for k in range(len(sizes) - run)]
        indices = self.in_order(order, [*(sym.dim(k) for k in range(cut)), *around, *whole])
        length = math.prod(sizes[run:])
        in_order = self.is_in_order(order)
        if runs % height == 0:
            return Parts(outer, inner, indices, in_order=in_order)
        count = sym.minimum(height, runs - sym.dim(cut) * height) * length
        return Parts(outer, inner, indices, ((position, runs),), count, in_order=in_order)

    def first_of_steps(self, order: Sequence[int], last: int) -> int:
        """The first of the axes up to one of them that all accesses go along like one: rows of pixels are pixels."""
        strides, first = self.strides(), last
        while first and all(self._goes_on(access, order[first - 1], order[first]) for access in strides):
            first -= 1
        return first

    def _goes_on(self, strides: Sequence[int | None], outer: int, inner: int) -> bool:
        """Whether an access with these strides goes along two axes like one."""
        step = strides[inner]
        return step is not None and strides[outer] == step * self.sizes[inner]

    def is_in_order(self, order: Sequence[int]) -> bool:
        """Whether reordered axes are in the order of the domain, apart from those of one point."""
        moving = [axis for axis in order if self.sizes[axis] != 1]
        return moving == sorted(moving)

    @staticmethod
    def in_order(order: Sequence[int], indices: Sequence[sym.IndexExpr]) -> tuple[sym.IndexExpr, ...]:
        """Indices of reordered axes, in the order that the axes have."""
        found: list[sym.IndexExpr] = [0] * len(order)
        for axis, index in zip(order, indices, strict=True):
            found[axis] = index
        return tuple(found)


__all__ = ["ROWS", "LeftOver", "Parts", "Runs", "split_domain"]
