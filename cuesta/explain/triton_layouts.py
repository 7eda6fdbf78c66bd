"""How Triton lays the elements of a block over the threads of a program, and what bringing them together takes.

An access to memory lies so that neighbouring threads touch neighbouring elements, each a vector of them; what is
computed of it lies as it does. So a reduction is first that of the elements that a thread holds, then one between the
threads of a warp, in steps that halve, and then one between warps, in shared memory. In every step all threads take
part, and of what is smaller than the threads are many, several compute the same.

Source: `getOrderFromContiguity`, `CoalescePass`, `AxisInfo`, `ReduceOpToLLVM` and `ScanOpToLLVM` of Triton 3.7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuesta.dialects.core.structs import struct

WARP = 32
"""Threads."""
_VECTOR = 16
"""Bytes that one access of a thread takes at most."""

Shape = tuple[int, ...]
Limits = tuple[int | None, ...]
"""Along each dimension of a block, from which element on nobody needs them; no limits at all are ()."""


@struct
class Spacing:
    """What is known of the whole numbers of a block, or of addresses, along each of its dimensions. A scalar has none,
    and only a divisor.
    """

    contiguity: Shape
    """So many neighbours, from a multiple of that on, follow one another."""
    divisor: Shape
    """It divides the first of each such group."""
    constancy: Shape
    """So many neighbours are equal."""
    of_scalar: int = 1

    @classmethod
    def scalar(cls, divisor: int) -> Spacing:
        """Of one number, that a number divides; 0 is divided by all."""
        return cls((), (), (), divisor & -divisor if divisor else 1 << 30)

    @classmethod
    def lanes(cls, size: int) -> Spacing:
        """0, 1, 2, …"""
        return cls((size,), (1 << 30,), (1,))

    @classmethod
    def unknown(cls, shape: Shape) -> Spacing:
        """Of numbers that follow no rule."""
        ones = (1,) * len(shape)
        return cls(ones, ones, ones)

    def repeated(self, before: Shape, shape: Shape) -> Spacing:
        """Of a block that fills a larger one, along dimensions of size 1."""
        if not shape:
            return self
        if not before:
            return Spacing((1,) * len(shape), (self.of_scalar,) * len(shape), shape)
        grown = [old == 1 and new > 1 for old, new in zip(before, shape, strict=True)]
        every = zip(shape, self.constancy, grown, strict=True)
        return Spacing(self.contiguity, self.divisor, tuple(new if more else old for new, old, more in every))

    def inserted(self, place: int) -> Spacing:
        """With one more dimension, of size 1."""
        if not self.contiguity:
            divisor = self.of_scalar
        else:
            pairs = zip(self.contiguity, self.divisor, strict=True)
            divisor = math.gcd(*(1 if contiguous > 1 else own for contiguous, own in pairs))

        def wider(numbers: Shape, one: int) -> Shape:
            return (*numbers[:place], one, *numbers[place:])

        return Spacing(wider(self.contiguity, 1), wider(self.divisor, divisor), wider(self.constancy, 1))

    def plus(self, other: Spacing, scale: int = 1) -> Spacing:
        """Of sums, of the other `scale` times."""
        if not self.contiguity:
            return Spacing.scalar(math.gcd(self.of_scalar, other.of_scalar * scale))
        contiguity = tuple(
            max(math.gcd(a, d), math.gcd(b, c))
            for a, b, c, d in zip(self.contiguity, self.constancy, other.contiguity, other.constancy, strict=True)
        )
        divisor = tuple(math.gcd(a, b * scale) for a, b in zip(self.divisor, other.divisor, strict=True))
        return Spacing(contiguity, divisor, self.equal(other))

    def times(self, other: Spacing) -> Spacing:
        """Of products."""
        if not self.contiguity:
            return Spacing.scalar(self.of_scalar * other.of_scalar)
        ones = (1,) * len(self.contiguity)
        divisor = tuple(a * b for a, b in zip(self._steady(), other._steady(), strict=True))
        return Spacing(ones, divisor, self.equal(other))

    def over(self, other: Spacing) -> Spacing:
        """Of whole quotients."""
        if not self.contiguity:
            return Spacing.scalar(1)
        ones = (1,) * len(self.contiguity)
        groups = tuple(math.gcd(a, b, c) for a, b, c in zip(self.contiguity, self.divisor, other.divisor, strict=True))
        return Spacing(ones, ones, tuple(max(a, b) for a, b in zip(groups, self.equal(other), strict=True)))

    def modulo(self, other: Spacing) -> Spacing:
        """Of remainders."""
        if not self.contiguity:
            return Spacing.scalar(math.gcd(self.of_scalar, other.of_scalar))
        groups = tuple(math.gcd(a, b, c) for a, b, c in zip(self.contiguity, self.divisor, other.divisor, strict=True))
        divisor = tuple(math.gcd(a, b) for a, b in zip(self.divisor, other.divisor, strict=True))
        return Spacing(groups, divisor, self.equal(other))

    def equal(self, other: Spacing) -> Shape:
        """How many neighbours are equal in both."""
        return tuple(math.gcd(a, b) for a, b in zip(self.constancy, other.constancy, strict=True))

    def _steady(self) -> Shape:
        """The divisors of all numbers, and not of the first of a group only."""
        pairs = zip(self.contiguity, self.divisor, strict=True)
        return tuple(1 if contiguous > 1 else own for contiguous, own in pairs)


@struct
class Layout:
    """For each dimension, how many neighbours a thread holds, and how many lanes of a warp, and warps, lie along it."""

    vector: Shape
    lanes: Shape
    warps: Shape

    @classmethod
    def blocked(cls, shape: Shape, order: Sequence[int], vector: int, warps: int) -> Layout:
        """The dimensions are filled in an order, each thread having `vector` elements along the first."""
        each = [1] * len(shape)
        each[order[0]] = max(1, min(vector, shape[order[0]]))
        along, across = [1] * len(shape), [1] * len(shape)
        threads, lanes, groups = warps * WARP, WARP, warps
        for dim in order[:-1]:
            some = min(max(1, shape[dim] // each[dim]), threads)
            along[dim] = min(some, lanes)
            across[dim] = max(1, min(some // along[dim], groups))
            threads, lanes, groups = threads // some, lanes // along[dim], groups // across[dim]
        along[order[-1]], across[order[-1]] = max(1, lanes), max(1, groups)
        return cls(tuple(each), tuple(along), tuple(across))

    @classmethod
    def of_access(cls, spacing: Spacing, shape: Shape, width: int, warps: int) -> Layout:
        """That of an access to elements of so many bytes, whose addresses are spaced so, in bytes."""
        order = sorted(range(len(shape)), key=lambda dim: (-spacing.contiguity[dim], -dim))
        first = order[0]
        whole = max(1, spacing.divisor[first] // width)
        vector = min(whole, spacing.contiguity[first], shape[first], max(1, _VECTOR // width))
        return cls.blocked(shape, order, min(vector, max(1, math.prod(shape) // (warps * WARP))), warps)

    @classmethod
    def plain(cls, shape: Shape, warps: int) -> Layout:
        """That of what does not come from memory."""
        return cls.blocked(shape, tuple(reversed(range(len(shape)))), 1, warps)

    def threads(self, shape: Shape, dim: int) -> tuple[int, int]:
        """How many lanes of a warp, and how many warps, hold different elements of a block along a dimension."""
        lanes = min(self.lanes[dim], max(1, shape[dim] // self.vector[dim]))
        return lanes, min(self.warps[dim], max(1, shape[dim] // (self.vector[dim] * self.lanes[dim])))

    def held(self, shape: Shape, limits: Limits = ()) -> tuple[int, ...]:
        """How many elements of a block one thread holds, along each dimension; of those beyond the limits only such as
        stand where another thread has one within them.
        """
        found: list[int] = []
        for dim, size in enumerate(shape):
            lanes, warps = self.threads(shape, dim)
            held = max(1, size // (lanes * warps))
            limit = limits[dim] if limits else None
            if limit is not None:
                each = min(self.vector[dim], held)
                held = min(held, each * max(1, -(-limit // (each * lanes * warps))))
            found.append(held)
        return tuple(found)

    def steps_of_reduction(self, shape: Shape, dim: int, limits: Limits = ()) -> int:
        """How many pairs a thread brings together, of a block that is reduced along a dimension. All that is beyond the
        limits is one number.
        """
        held = self.held(shape, limits)
        lanes, warps = self.threads(shape, dim)
        rows = math.prod(held) // held[dim]
        beyond = held[dim] < self.held(shape)[dim]
        steps = rows * (held[dim] - 1 + beyond) + rows * _halvings(lanes)
        if warps > 1:
            parts = math.prod(shape) // shape[dim] * warps
            steps += -(-parts // (math.prod(self.warps) * WARP)) * _halvings(warps)
        return steps

    def steps_of_scan(self, shape: Shape, dim: int) -> float:
        """How many pairs a thread brings together, on average, where the reductions up to each element are wanted."""
        held = self.held(shape)
        lanes, warps = self.threads(shape, dim)
        each = min(self.vector[dim], shape[dim])
        pieces = math.prod(held) // each  # what lies together in a thread
        within = each - 1
        # Lanes that have others so far before them; a power of two in each step.
        between = sum(lanes - (1 << step) for step in range(_halvings(lanes))) / lanes
        rest = each if warps > 1 or shape[dim] > each * lanes else within if lanes > 1 else 0
        # What the warps before come to: the sums of two, of three, …; the last is for the last warp only.
        others = max(0, warps - 3) + 1 / warps if warps > 2 else 0
        return pieces * (within + between + others + rest)


def joint_limits(every: Iterable[Limits]) -> Limits:
    """The narrower ones."""
    found: Limits = ()
    for limits in every:
        if not found or not limits:
            found = found or limits
        else:
            pairs = zip(found, limits, strict=True)
            found = tuple(b if a is None else a if b is None else min(a, b) for a, b in pairs)
    return found


def _halvings(count: int) -> int:
    return max(0, count - 1).bit_length()


__all__ = ["WARP", "Layout", "Limits", "Shape", "Spacing", "joint_limits"]
