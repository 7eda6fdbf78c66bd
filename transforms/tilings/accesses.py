"""Accesses of a nest, as a tiling looks at them: what lanes find where, and how much of memory that touches.

Units: bytes, elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import Access, Loop

if TYPE_CHECKING:
    from cuesta.transforms.tilings.cost import TileCosts

Group = tuple[tuple[int, int], ...]
"""One dimension of a tile: axes and how many lanes go along each, the innermost first."""
Axes = tuple[int, ...]
"""Those that a dimension of a tile goes along, as if they were one."""


class Use:
    """An access, as a tiling looks at it."""

    __slots__ = ("_common", "data", "key", "moves", "sizes", "source", "start", "stored", "touched", "width")

    def __init__(self, access: Access, loop: Loop, costs: TileCosts) -> None:
        self.sizes = sizes = costs.sizes
        op = access.op
        self.width = width = access.width
        self.stored = access.is_store
        assert isinstance(op, loops.LoadOp | loops.TensorWriteOp)
        self.source: SSAValue = op.source if isinstance(op, loops.LoadOp) else op.target
        strides = [costs.stride(access, axis) for axis in range(len(sizes))]
        self.data = [axis for axis, stride in enumerate(strides) if stride is None]
        self.moves = [0 if stride is None else abs(stride) * width for stride in strides]
        self.key = self.source, *(self.moves[axis] for axis in (*costs.axes, *loop.axes))
        start = sym.substitute(access.address, [0] * len(sizes))
        self.start = start * width if isinstance(start, int) else 1
        self._common: dict[tuple[Axes, ...], int] = {}
        held = costs.held(self.source)
        self.touched = min(
            held, math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride != 0) * width
        )

    def common(self, tile: tuple[Axes, ...]) -> int:
        """What divides every place, in bytes, where a run of neighbours begins that lanes go along: those of a tile
        whose dimensions go along so many axes each, as if they were one. In memory these may be one as well; if not,
        neighbours end with each row, wherever lanes are then.
        """
        found = self._common.get(tile)
        if found is None:
            found, joined = self.start, set[int]()
            for axes in tile:
                expected, left = self.width, len(axes)
                while left and axes[left - 1] not in self.data and self.moves[axes[left - 1]] == expected:
                    left -= 1
                    joined.add(axes[left])
                    expected *= self.sizes[axes[left]]
                if 0 < left < len(axes):
                    found = math.gcd(found, expected)
            others = (move for axis, move in enumerate(self.moves) if axis not in joined)
            found = self._common[tile] = math.gcd(found, *(move for move in others if move not in (0, self.width)))
        return found

    def is_apart_from(self, other: Use) -> bool:
        """Whether no element is one of both: uses of one tensor that move alike, from other places on."""
        distance = abs(self.start - other.start)
        for move, size in sorted(zip(self.moves, self.sizes, strict=True), reverse=True):
            if move:
                steps, distance = divmod(distance, move)
                if steps >= size:
                    return True
        return distance != 0


def side_by_side(uses: Sequence[Use]) -> dict[Use, tuple[int, int]]:
    """Of uses that move alike through one tensor, and touch other elements each, those that lie as far apart each from
    the next: by how many bytes, and how many they are. Parts of a concatenation that one point reads, or stores.
    """
    alike: dict[tuple[Any, bool], list[Use]] = {}
    for use in uses:
        alike.setdefault((use.key, use.stored), []).append(use)
    found: dict[Use, tuple[int, int]] = {}
    for group in alike.values():
        starts = sorted(use.start for use in group)
        gaps = {after - before for before, after in pairwise(starts)}
        if len(gaps) != 1 or not all(a.is_apart_from(b) for a, b in combinations(group, 2)):
            continue
        (gap,) = gaps
        found.update({use: (gap, len(group)) for use in group})
    return found


@struct
class Shape:
    """What the lanes of a tile find of a use: bytes of a vector; lanes; lanes that data lead; bytes from lane to lane,
    and lanes; the same by dimension, with the nearest; and whether runs of neighbours begin at sectors.
    """

    vector: int
    padded: int
    scattered: int
    steps: tuple[tuple[int, int], ...]
    groups: tuple[tuple[float, Group], ...]
    aligned: bool

    @property
    def nearest(self) -> int:
        """The axis along which lanes go first; -1 without one."""
        return min(self.groups, default=(0.0, ((-1, 1),)))[1][0][0]


def pieces(use: Use, aligned: bool, steps: Sequence[tuple[int, float]], scattered: float, size: int) -> float:
    """The pieces of `size` bytes that lanes touch, which `steps` tell: bytes from lane to lane, and lanes, of which the
    last may be a part of a row, in the mean.
    """
    width = use.width
    run, runs = float(width), float(scattered)
    for step, lanes in steps:
        if step <= run or (step < size and runs == scattered):
            run += (lanes - 1) * step
        else:
            runs *= lanes
    return runs * max(1.0, run / size) if aligned else runs * (1.0 + (run - width) / size)


def broken(use: Use, aligned: bool, steps: Sequence[tuple[int, int]], scattered: int, size: int) -> float:
    """Of the pieces of `size` bytes that lanes touch, those that they touch a part of: at both ends of every run, and
    all of those with gaps.
    """
    run, runs, width = use.width, scattered, use.width
    for step, lanes in steps:
        if step <= run:
            run += (lanes - 1) * step
        else:
            runs *= lanes
    if aligned:
        ends = float(run % size != 0)
    else:
        ends = 1.0 + (run - width) / size if run < size else 2.0 - 2.0 * width / size
    return min(runs * ends, pieces(use, aligned, steps, scattered, size))


__all__ = ["Axes", "Group", "Shape", "Use", "broken", "pieces", "side_by_side"]
