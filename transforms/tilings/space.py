"""Tilings: the pieces in which the programs of a nest on a GPU may take its points, said as scheduling choices.

    along   the parallel axis that a tile has lanes along: 1 the last, 2 the one before it, …; 0 all of them as one
    rows    so many lanes along it, where something is reduced; `lanes` is then along what is reduced
    lanes   so many lanes along it, in a pointwise kernel
    across  another parallel axis that the tile has lanes along, `height` of them, counted like `along`
    joined  so many of the last parallel axes are one, the last, when `along` and `across` count

`tilings` lists those that a nest may have; a model of what each costs chooses among them (`cost.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.dialects.loops.split_axes import usual_step

Tiling = dict[str, int]
"""The choices that say a tiling, and its `warps`."""

LARGEST = 32768
"""Elements of a tile at most.

Source: half of the registers of a multiprocessor, which keeps what it loads and what it computes of that.
"""
SCANNED = 2048
"""The most elements of a tile whose lanes are scanned.

Source: measured by `make bench-constants ARGS='--only schedule_gpu.SCANNED'`
"""
USUAL, LEAST = 4096, 256
"""Elements of a tile that is tried first, where rows are not longer; and of the smallest.

Source: with measured times of 360 nests: the best ones lie between.
"""
EACH, EACH_OF_WINDOWS = 8, 2
"""Elements of a thread that are tried first; where each goes through its own loop.

Source: the same measurements.
"""
MOST, MOST_OF_WINDOWS = 16, 4
"""Elements of a thread at most. Without tilings of more, the best of what is left takes 1.002 times the best.

Source: the same measurements.
"""
WARP = 32
"""Threads of a warp.

Source: a definition (CUDA).
"""
PIECE = 64
"""Elements of a row that is scanned, or of a piece of it, at least. Of rows of 17 and 65 f32 tiles of 8 elements of
many rows are thought the best, and took 1.9 and 2.0 times the best. Columns that are not longer are scanned whole, too:
running maxima of 10 f32 took 215 us on an H100 in steps of 4 and 43 whole, sums 55 and 45.

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
SCANNED_BY_THREADS = (16, 32, 64)
"""Elements of a thread that scans its own points.

Source: machine code for sm_90: 64 f32 are added up in 208 instructions, 128 bf16 spill.
"""
ALONE = 64
"""Points of a reduction that every lane goes through by itself, at most.

Source: the same measurements: where there were 65 and more, it took half as long again as was expected.
"""
JOINED_WASTE, LONG = 1.3, 512
"""So many lanes for each point of the last axis, from which on it is one with the axes around it, unless it has so many
points. Transposes of 33 by 5 by 40000 by 3 bf16, back to front, took 75 us in tiles of 64 or of single points, 42 in
tiles of 512 points of the last three axes by 4 of the first; of 45x7x20000x4 f32 89 and 71, of 48x5x9000x3 32 and 25,
of 40x3x50000x6 bf16 96 and 61.

Source: from seven tilings of each on an H200.
"""
CONTIGUOUS = 3
"""So many axes are tried for the lanes of a tile, the last ones first.

Source: a bound against the time that choosing takes.
"""


def dimension_of(axes: Sequence[int], tiling: Mapping[str, int], name: str = "along") -> Sequence[int]:
    """The axes that lanes go along as if they were one, outermost first; `name` says whether `along` or `across`."""
    number, joined = tiling[name], tiling.get("joined", 1)
    if number == 0:
        return axes
    if number == 1:
        return axes[-joined:]
    end = len(axes) - joined - number + 2
    return axes[end - 1 : end]


def has_tilings(analysis: NestAnalysis) -> bool:
    """Whether a nest has tilings to choose from: it reads something, its sizes are known, and no point waits for
    another.
    """
    return (
        bool(analysis.root.axes)
        and not analysis.meeting
        and all(isinstance(size, int) and size > 0 for size in analysis.sizes)
        and not any(access.ordered for access in analysis.accesses.values())
        and any(access.width and not access.is_store for access in analysis.accesses.values())
    )


def tilings(analysis: NestAnalysis, machine: Machine) -> Iterator[Tiling]:
    """Tilings of a nest, one of each form. Requires: it has tilings."""
    space = _Space(analysis, machine)
    return space.of_loops() if analysis.root.loops else space.of_points()


def refinements(analysis: NestAnalysis, machine: Machine, tiling: Tiling) -> Iterator[Tiling]:
    """Tilings like one of these: half and twice its lanes along each dimension, and its warps."""
    space = _Space(analysis, machine)
    for name in ("warps", "rows", "lanes", "height"):
        for value in (tiling.get(name, 1) * 2, tiling.get(name, 1) // 2):
            if name in tiling and value and space.allows(one := {**tiling, name: value}):
                yield one


class _Space:
    """Where the tilings of a nest are sought."""

    def __init__(self, analysis: NestAnalysis, machine: Machine) -> None:
        self.machine = machine
        self.root = root = analysis.root
        self.axes = root.axes
        self.sizes = [size if isinstance(size, int) else 1 for size in analysis.sizes]
        self.candidates = _contiguous(analysis)
        if len(self.axes) > 1:
            self.candidates.insert(0, 0)
        leaves = [loop for loop in root.walk() if loop is not root and not loop.loops]
        points = max((self.volume(leaf.axes) for leaf in leaves), default=1)
        self.goes_alone = points <= ALONE
        self.runs = any(leaf.running for leaf in leaves)
        self.longest = min(power_of_two(points), SCANNED if self.runs else LARGEST)
        self.shared = _shared(analysis)
        self.joined = _joined(analysis, self.sizes)
        in_order = any(
            usual_step(one, axis, analysis) in (1, -1) for leaf in leaves for axis in leaf.axes for one in leaf.accesses
        )
        self.fewest = min(self.longest, PIECE) if self.runs and (in_order or self.longest <= PIECE) else 1
        self.one_by_one = self.fewest == 1 or not in_order
        """Whether a lane may go along what is reduced by itself."""
        self.can_have_rows = not any(inner.loops for inner in root.loops)

    def volume(self, axes: Sequence[int]) -> int:
        return max(1, math.prod(self.sizes[axis] for axis in axes))

    def most(self, tiling: Tiling, name: str = "along") -> int:
        """The lanes that the axes of a tile fill, along one dimension of it."""
        return power_of_two(self.volume(dimension_of(self.axes, tiling, name)))

    def of_points(self) -> Iterator[Tiling]:
        """Of a pointwise kernel."""
        for along in self.candidates:
            for lanes in dict.fromkeys(min(lanes, self.most({"along": along})) for lanes in (512, 1024, 2048)):
                if lanes > 1:
                    yield self.with_warps({"along": along, "lanes": lanes})
        single = [one for one in self.candidates if one]
        shared = [one for one in self.shared if one not in single]
        for rectangle, lanes in self.rectangles([*single, *shared]):
            yield self.with_warps({**rectangle, "lanes": lanes})

    def of_loops(self) -> Iterator[Tiling]:
        """Of a kernel that reduces or scans."""
        for along in self.candidates:
            most = self.most({"along": along})
            rows = 1
            while rows <= min(most, 512):
                if rows == 1 and along == self.candidates[-1] and along != 0:
                    yield from (self.with_warps({"along": 1, "rows": 1, "lanes": lanes}) for lanes in self.own_lanes(1))
                elif rows > 1 and self.can_have_rows:
                    for lanes in self.own_lanes(rows):
                        yield self.with_warps({"along": along, "rows": rows, "lanes": lanes})
                rows *= 2 if rows > 1 else 4
        if self.can_have_rows and self.runs and self.fewest == 1:
            yield from self.scans_of_threads()
        if self.can_have_rows and self.goes_alone:
            for rectangle, rows in self.rectangles([one for one in self.candidates if one]):
                yield self.with_warps({**rectangle, "rows": rows, "lanes": 1})

    def scans_of_threads(self) -> Iterator[Tiling]:
        """Tiles so narrow, or of so few warps, that threads go along rows only, and each scans what it has by itself:
        nothing is exchanged. A thread has one row, or as many as a vector has.
        """
        for along in self.candidates:
            for warps, beside in product((1, 2, 4, 8), (1, 2, 4, 8)):
                rows = WARP * warps * beside
                for each in SCANNED_BY_THREADS:
                    lanes = min(self.longest, each // beside)
                    if lanes > 1 and rows <= self.most({"along": along}):
                        yield {"along": along, "rows": rows, "lanes": lanes, "warps": warps}

    def own_lanes(self, rows: int) -> list[int]:
        """Lanes along what is reduced, beside so many rows: a tile of usual size, all there are, or one."""
        found = {min(self.longest, max(1, USUAL // rows))}
        if rows * self.longest <= 2 * USUAL or rows == 1:
            found.add(self.longest)
        if rows >= 128 and self.goes_alone:
            found.add(1)
        return sorted(lanes for lanes in found if lanes * rows > 1 and self.has_lanes(lanes))

    def has_lanes(self, lanes: int) -> bool:
        """Whether so many lanes may go along what is reduced."""
        return lanes >= self.fewest or (lanes == 1 and self.one_by_one)

    def rectangles(self, every: Sequence[int]) -> Iterator[tuple[Tiling, int]]:
        """Tiles of two dimensions, the other one along one of these axes: where accesses disagree about which axis is
        contiguous, or something is the same for all its points. Each without its lanes along the first, and these.
        """
        for along in (one for one in self.candidates if one):
            for across in every:
                if across == along or (across < along and across in self.candidates):
                    continue
                yield from self.of_rectangle({"along": along, "across": across})
        for across in (one for one in every if self.joined > 1 and one > self.joined):
            yield from self.of_rectangle({"along": 1, "across": across - self.joined + 1, "joined": self.joined})

    def of_rectangle(self, tiling: Tiling) -> Iterator[tuple[Tiling, int]]:
        """Tiles along two dimensions, high and wide. Where one is short, the other takes what it leaves."""
        wide, high = self.most(tiling), self.most(tiling, "across")
        for height, lanes in ((32, 32), (64, 64), (16, 64), (64, 16), (32, 128), (128, 32)):
            own = min(height * max(1, lanes // wide), high), min(lanes * max(1, height // high), wide)
            if min(own) > 1:
                yield {**tiling, "height": own[0]}, own[1]

    def elements(self, tiling: Tiling) -> int:
        """Of a tile."""
        return tiling.get("rows", 1) * tiling["lanes"] * tiling.get("height", 1)

    def with_warps(self, tiling: Tiling) -> Tiling:
        """With so many warps that each thread has a few elements."""
        each = EACH_OF_WINDOWS if self.root.loops and tiling["lanes"] == 1 else EACH
        return {**tiling, "warps": max(1, min(self.machine.warps, self.elements(tiling) // (WARP * each)))}

    def allows(self, tiling: Tiling) -> bool:
        """Whether tilings like this are among the best at times."""
        windows = bool(self.root.loops) and tiling["lanes"] == 1
        elements, warps = self.elements(tiling), tiling["warps"]
        each = elements / (warps * WARP)
        return (
            warps <= self.machine.warps
            and elements <= LARGEST
            and (not self.root.loops or self.has_lanes(tiling["lanes"]))
            and (tiling["lanes"] <= self.longest if self.root.loops else tiling["lanes"] <= self.most(tiling))
            and tiling.get("rows", 1) <= self.most(tiling)
            and (tiling.get("rows", 1) == 1 or self.can_have_rows)
            and (not tiling.get("height") or tiling["height"] <= self.most(tiling, "across"))
            and (each <= (MOST_OF_WINDOWS if windows else MOST) or warps == self.machine.warps)
            and (each >= (1 if windows else 2) or warps == 1)
            and (not windows or self.goes_alone)
            and (not windows or bool(tiling.get("height")) or tiling.get("rows", 1) >= LEAST // 2)
        )


def _contiguous(analysis: NestAnalysis) -> list[int]:
    """The parallel axes along which something is contiguous, and the last, counted from the last."""
    axes = analysis.root.axes
    accesses = [access for access in analysis.accesses.values() if access.width]
    found = [
        k
        for k in range(1, len(axes) + 1)
        if k == 1 or any(usual_step(one, axes[-k], analysis) == 1 for one in accesses)
    ]
    return found[:CONTIGUOUS]


def _joined(analysis: NestAnalysis, sizes: Sequence[int]) -> int:
    """How many of the last parallel axes fill lanes together where the last does not, and are one for what lies in
    order along them; 1 where there are none.
    """
    axes = analysis.root.axes
    accesses = [access for access in analysis.accesses.values() if access.width]
    points, count = sizes[axes[-1]] if axes else WARP, 1
    accesses = [access for access in accesses if axes and usual_step(access, axes[-1], analysis) == 1]
    while not _fills_lanes(points) and count + 1 < len(axes):
        axis = axes[-count - 1]
        accesses = [access for access in accesses if usual_step(access, axis, analysis) == points]
        points, count = points * sizes[axis], count + 1
    return count if accesses and points >= WARP else 1


def _fills_lanes(points: int) -> bool:
    """Whether so many points along a dimension of a tile leave few of its lanes without one."""
    return points >= WARP and (points >= LONG or power_of_two(points) < JOINED_WASTE * points)


def _shared(analysis: NestAnalysis) -> list[int]:
    """The parallel axes along which something that varies is the same for all points, counted from the last: where rows
    do not begin where vectors may, it is loaded element by element, and in a tile of several rows once for all of them.
    """
    axes = analysis.root.axes
    loads = [access for access in analysis.accesses.values() if access.width and not access.is_store and access.varies]
    found = [k for k in range(1, len(axes) + 1) if any(not one.varies >> axes[-k] & 1 for one in loads)]
    return found[:CONTIGUOUS]


__all__ = ["WARP", "Tiling", "dimension_of", "has_tilings", "refinements", "tilings"]
