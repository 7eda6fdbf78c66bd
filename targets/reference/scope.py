"""Grids of points. A body runs once, for all points of its domain at a time.

Every induction variable has an axis. A value is a tensor whose axis k runs along axis k of the scope in which it was
made, with size 1 where it does not vary; in a deeper scope it gets axes of size 1 at its end. Nothing is ever repeated
in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

POINTS_PER_CHUNK = 1 << 21
"""Grids with more points than this (inner axes included) are evaluated in pieces."""


class Axis:
    """One axis of the grid; its identity says which execution of which loop it belongs to."""

    __slots__ = ("lanes", "size")

    def __init__(self, size: int, *, lanes: bool = False) -> None:
        self.size, self.lanes = size, lanes


class Scope:
    """The axes around a point of the program, and which of the grid's points there are: `active` None means all."""

    def __init__(self, axes: tuple[Axis, ...] = (), active: Tensor | None = None) -> None:
        self.axes = axes
        self.active = active
        self.depth = len(axes)
        self.shape = tuple(axis.size for axis in axes)

    def inner(self, sizes: Sequence[int], active: Tensor | None = None, *, lanes: bool = False) -> Scope:
        """The scope within a loop of these sizes. `lanes`: the last axis is one of lanes."""
        last = len(sizes) - 1
        axes = [Axis(size, lanes=lanes and position == last) for position, size in enumerate(sizes)]
        return Scope((*self.axes, *axes), active)

    def align(self, value: Tensor) -> Tensor:
        """A value of this scope or one around it, with an axis for each of this scope's."""
        missing = self.depth - value.dim()
        return value if missing == 0 else value.reshape(tuple(value.shape) + (1,) * missing)

    def along(self, axis: int, values: Tensor) -> Tensor:
        """A one-dimensional tensor laid along an axis."""
        return values.reshape((1,) * axis + (-1,) + (1,) * (self.depth - axis - 1))

    def mask(self, condition: Tensor | None) -> Tensor | None:
        """Which points are active and meet the condition, aligned; None means all."""
        active = None if self.active is None else self.align(self.active)
        if condition is None:
            return active
        condition = self.align(condition)
        return condition if active is None else condition & active

    def common_depth(self, other: Scope) -> int:
        """How many axes, from the outermost in, two scopes share."""
        count = 0
        for ours, theirs in zip(self.axes, other.axes, strict=False):
            if ours is not theirs:
                break
            count += 1
        return count

    def point_ids(self, depth: int | None = None) -> Tensor:
        """A number for every point of the outermost `depth` axes (all of them by default), aligned."""
        depth = self.depth if depth is None else depth
        result = torch.zeros((1,) * self.depth, dtype=torch.int64)
        stride = 1
        for axis in reversed(range(depth)):
            size = self.axes[axis].size
            result = result + self.along(axis, torch.arange(size) * stride)
            stride *= size
        return result

    def expand(self, value: Tensor) -> Tensor:
        """The value at every point."""
        return self.align(value).expand(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether there are no points at all."""
        return 0 in self.shape


def chunks(sizes: Sequence[int], points: int, together: int = 0) -> Iterator[tuple[range, ...]]:
    """Cuts a domain into pieces of at most `points` points (but at least one), cutting the outermost axes first.

    Of the last `together` axes every piece has all points.
    """
    if together:
        whole = sizes[len(sizes) - together :]
        for piece in chunks(sizes[: len(sizes) - together], max(1, points // max(1, math.prod(whole)))):
            if 0 not in whole:
                yield (*piece, *map(range, whole))
        return
    if not sizes:
        yield ()
        return
    if 0 in sizes:
        return
    rest = math.prod(sizes[1:])
    if rest <= points:
        step = max(1, points // rest)
        for start in range(0, sizes[0], step):
            yield (range(start, min(start + step, sizes[0])), *(range(size) for size in sizes[1:]))
        return
    for first in range(sizes[0]):
        for piece in chunks(sizes[1:], points):
            yield (range(first, first + 1), *piece)
