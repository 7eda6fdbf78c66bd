"""Which elements of a tensor are touched: sets of indices, counted exactly where that is possible.

An access is a product of parts: groups of axes that share no loop variable, and for each the indices that occur there.
`x[i, 2 * j + k]` with i < 8, j < 16, k < 3 has the parts {0..7} and {0..32}. What several accesses touch together is
the union of such products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

POINTS = 1 << 22
"""So many points are looked at one by one."""
BOX = 1 << 26
"""Of a table of what is touched: elements."""
ACCESSES = 10
"""Of so many different accesses to one tensor the union is counted exactly."""

Indices: TypeAlias = "range | np.ndarray[Any, np.dtype[np.int64]]"
"""Sorted, each once. Of several axes, linear indices in row-major order."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some axes of a tensor, and which indices occur there; only how many, where data say which."""

    axes: tuple[int, ...]
    indices: Indices | None
    count: int
    full: bool
    """Whether all indices occur."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What equal parts have in common."""
        found = self.indices
        if found is None:
            return self.axes, self.count
        return self.axes, (found.start, found.stop, found.step) if isinstance(found, range) else found.tobytes()


@dataclass(frozen=True, slots=True)
class Touched:
    """What one access touches: the product of the parts."""

    parts: tuple[Part, ...]

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(part.count for part in self.parts)

    @property
    def key(self) -> tuple[Any, ...]:
        """What accesses to the same elements have in common."""
        return tuple(part.key for part in self.parts)


def stretch(terms: Sequence[tuple[int, int]], constant: int) -> range | None:
    """The values of constant + Σ step · i with 0 ≤ i < count, as a range; None where they are none."""
    if any(count <= 0 for _, count in terms):
        return range(0)
    first, steps = constant, list[tuple[int, int]]()
    for step, count in terms:
        if step and count > 1:
            first += min(0, step * (count - 1))
            steps.append((abs(step), count))
    steps.sort()
    if not steps:
        return range(first, first + 1)
    unit, length = steps[0]
    for step, count in steps[1:]:
        if step % unit or step // unit > length:
            return None
        length += step // unit * (count - 1)
    return range(first, first + unit * length, unit)


def clipped(values: range, size: int) -> range:
    """Those that are indices of an axis: others are masked."""
    first = values.start if values.start >= 0 else values.start % values.step
    last = min(values.stop, size)
    return range(first, last, values.step) if first < last else range(0)


def union_of(every: Sequence[Touched], volume: int) -> tuple[int, bool]:
    """The number of elements that some access touches, of so many; whether that is exact."""
    distinct = list({one.key: one for one in every if one.count}.values())
    if not distinct:
        return 0, True
    most = max(one.count for one in distinct)
    if most >= volume or len(distinct) == 1:
        return min(most, volume), True
    partitions = {tuple(part.axes for part in one.parts) for one in distinct}
    known = all(part.indices is not None for one in distinct for part in one.parts)
    if len(partitions) > 1 or not known:
        return min(volume, sum(one.count for one in distinct)), False
    merged = _merged(distinct)
    if len(merged) == 1:
        return merged[0].count, True
    if len(merged) > ACCESSES:
        return min(volume, sum(one.count for one in merged)), False
    total = 0
    for size in range(1, len(merged) + 1):
        for chosen in itertools.combinations(merged, size):
            total += (-1) ** (size + 1) * _meet(chosen)
    return total, True


def _merged(every: list[Touched]) -> list[Touched]:
    """The same with accesses that differ in one part joined, as long as there are some."""
    changed = True
    while changed and len(every) > 1:
        changed = False
        for a, b in itertools.combinations(every, 2):
            differ = [k for k, (one, other) in enumerate(zip(a.parts, b.parts, strict=True)) if one.key != other.key]
            if len(differ) != 1:
                continue
            parts = list(a.parts)
            parts[differ[0]] = _joined(a.parts[differ[0]], b.parts[differ[0]])
            every = [one for one in every if one is not a and one is not b] + [Touched(tuple(parts))]
            changed = True
            break
    return every


def _joined(a: Part, b: Part) -> Part:
    one, other = a.indices, b.indices
    assert one is not None and other is not None
    both: Indices
    if (
        isinstance(one, range)
        and isinstance(other, range)
        and one.step == other.step
        and (one.start - other.start) % one.step == 0
        and one.start <= other.stop
        and other.start <= one.stop
    ):
        both = range(min(one.start, other.start), max(one.stop, other.stop), one.step)
    else:
        both = np.union1d(np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64))
    return Part(a.axes, both, len(both), a.full or b.full)


def _meet(chosen: Sequence[Touched]) -> int:
    """How many elements all of them touch."""
    total = 1
    for parts in zip(*(one.parts for one in chosen), strict=True):
        total *= len(_common([part.indices for part in parts if part.indices is not None]))
        if not total:
            return 0
    return total


def _common(every: Sequence[Indices]) -> Indices:
    found = every[0]
    for other in every[1:]:
        if isinstance(found, range) and isinstance(other, range) and found.step == other.step == 1:
            found = range(max(found.start, other.start), max(0, min(found.stop, other.stop)))
        elif found is not other:
            found = np.intersect1d(np.asarray(found), np.asarray(other), assume_unique=True)
    return found
