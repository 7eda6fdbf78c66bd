"""Memory that a body writes: its elements, and for each of them who wrote it.

This is where the rules about stores are kept: what is stored twice, read before it is stored, or read from another
point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from xdsl.ir import Operation

from cuesta.dialects.core.structs import struct
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.numerics import bits
from cuesta.targets.reference.scope import Scope

_NOBODY = -1
_GIVEN = -2


@struct
class _Writing:
    """One execution of a store: `Memory._writer` refers to it by its number."""

    op: Operation
    scope: Scope


@struct
class _Reading:
    """One execution of a load, by another name of the memory: what it read, and at which points."""

    op: Operation
    scope: Scope
    chunk: int
    positions: Tensor
    points: Tensor


class Memory:
    """A flat array of elements, nothing of which is defined yet.

    `rewritable`: an element may be stored anew by a later store (scratch memory); never by two points of one store.
    `read_back`: whether anything loads from it. `given`: the elements are there from the start, for every point.
    """

    def __init__(self, data: Tensor, *, rewritable: bool = False, read_back: bool = True, given: bool = False) -> None:
        self.data = data
        self._bits = bits(data)
        self._rewritable = rewritable
        self._read_back = read_back
        self._writer = torch.full(data.shape, _GIVEN if given else _NOBODY, dtype=torch.int32)
        self._point = torch.empty(data.shape, dtype=torch.int64)
        self._writings: list[_Writing] = []
        self._readings: list[_Reading] = []
        self._chunk = 0
        self._first_of_chunk = 0
        self._met = 0, 0
        self._changed_at: Tensor | None = None
        self._parts: Sequence[Memory] = ()

    @classmethod
    def of_parts(cls, parts: Sequence[Memory]) -> Memory:
        """The memories one after the other, which get what is written when `hand_back` is called."""
        whole = cls(torch.cat([part.data for part in parts]))
        whole._writer = torch.cat([part._writer for part in parts])
        whole._parts = parts
        return whole

    def hand_back(self) -> None:
        """Gives the parts that the memory is made of what was written to them."""
        first = 0
        for part in self._parts:
            own = slice(first, first + part.data.numel())
            part.data.copy_(self.data[own])
            part._writer.copy_(self._writer[own])
            first = own.stop

    @property
    def stored(self) -> Tensor:
        """For every element whether something has stored it here."""
        return self._writer >= 0

    def begin_chunk(self) -> None:
        """From here on other points of the parallel domain run: what was stored before is not theirs."""
        self._first_of_chunk = len(self._writings)
        self._chunk += 1
        self._met = 0, 0

    def meet(self, depth: int) -> None:
        """What was stored so far is also of those points that differ only along other axes than the first `depth`."""
        self._met = len(self._writings), depth

    def store(self, op: Operation, scope: Scope, offsets: Tensor, value: Tensor, mask: Tensor | None) -> None:
        """Stores `value` at `offsets`, which are in range, at every point of the scope where the mask is true."""
        positions, values = scope.expand(offsets), scope.expand(bits(value))
        chosen = None if mask is None else mask.expand(scope.shape)
        positions = positions.reshape(-1) if chosen is None else positions[chosen]
        values = values.reshape(-1) if chosen is None else values[chosen]
        place = _slice_of(positions)
        if self._readings:
            points = scope.expand(scope.point_ids())
            self._refuse_to_overtake(op, scope, positions, points.reshape(-1) if chosen is None else points[chosen])
        if not self._rewritable:
            self._refuse_second_store(op, self._writer[place], positions)
        self._writer[place] = len(self._writings)
        if self._read_back or not isinstance(place, slice):
            points = scope.expand(scope.point_ids())
            points = points.reshape(-1) if chosen is None else points[chosen]
            self._point[place] = points
            collisions = self._point[place] != points
            if bool(collisions.any()):
                offset = int(positions[collisions][0])
                fail(op, f"two points of the domain store the element at offset {offset}")
        self._bits[place] = values
        self._writings.append(_Writing(op, scope))

    def _refuse_second_store(self, op: Operation, writers: Tensor, positions: Tensor) -> None:
        stored = writers >= 0
        if not bool(stored.any()):
            return
        offset, writer = int(positions[stored][0]), int(writers[stored][0])
        earlier = self._writings[writer].op
        by = "another point of the domain" if earlier is op else f"another store, {str(earlier).strip()}"
        fail(op, f"the element at offset {offset} was already stored, by {by}")

    def load(self, op: Operation, scope: Scope, offsets: Tensor, mask: Tensor | None) -> Tensor:
        """The elements at `offsets`, which are in range; what was not stored is an error where the mask is true."""
        if self.data.numel() == 0:
            return torch.zeros((), dtype=self.data.dtype)
        writers = self._writer[offsets]
        self._refuse(op, scope, writers == _NOBODY, mask, offsets, "which nothing has stored yet")
        self._refuse_foreign(op, scope, offsets, mask)
        return bits(self.data)[offsets].view(self.data.dtype).clone()

    def _refuse_foreign(self, op: Operation, scope: Scope, offsets: Tensor, mask: Tensor | None) -> None:
        writers = self._writer[offsets]
        foreign = (writers >= 0) & (writers < self._first_of_chunk)
        for number in range(self._first_of_chunk, len(self._writings)):
            theirs = self._writings[number].scope
            shared = theirs.common_depth(scope)
            if number < self._met[0]:
                shared = min(shared, self._met[1])
            inner_points = max(1, math.prod(theirs.shape[shared:]))
            elsewhere = (self._point[offsets] // inner_points) != scope.point_ids(shared)
            foreign = foreign | ((writers == number) & elsewhere)
        self._refuse(op, scope, foreign, mask, offsets, "which another point of the domain stored")

    def read_elsewhere(self, op: Operation, scope: Scope, offsets: Tensor, mask: Tensor | None) -> None:
        """Notes that elements are read by another name of the memory, an input that is the buffer of an out. What lies
        outside of this memory does not count.

        Errors: InterpreterError when another point stores one of them, now or later, and who comes first decides.
        """
        inside = (offsets >= 0) & (offsets < self.data.numel())
        mask = inside if mask is None else inside & mask
        offsets = torch.where(inside, offsets, 0)
        if self.data.numel() == 0 or not bool(scope.expand(mask).any()):
            return
        self._refuse_foreign(op, scope, offsets, mask)
        chosen = scope.expand(mask)
        points = scope.expand(scope.point_ids())[chosen]
        self._readings.append(_Reading(op, scope, self._chunk, scope.expand(offsets)[chosen], points))

    def _refuse_to_overtake(self, op: Operation, scope: Scope, positions: Tensor, points: Tensor) -> None:
        """That nobody else has read, as it was, what a point is about to store."""
        for reading in self._readings:
            if reading.chunk == self._chunk:
                shared = reading.scope.common_depth(scope)
                theirs = reading.points // max(1, math.prod(reading.scope.shape[shared:]))
                ours = points // max(1, math.prod(scope.shape[shared:]))
            else:
                theirs, ours = torch.full_like(reading.points, -2), points
            least = torch.full(self.data.shape, -1, dtype=torch.int64)
            most = least.scatter_reduce(0, reading.positions, theirs, "amax", include_self=False)
            least = least.scatter_reduce(0, reading.positions, theirs, "amin", include_self=False)
            others = (least[positions] != -1) & ((least[positions] != ours) | (most[positions] != ours))
            if bool(others.any()):
                offset = int(positions[others][0])
                by = f"{str(reading.op).strip()}, by another name of this memory"
                fail(op, f"stores the element at offset {offset}, which another point of the domain reads: {by}")

    def change(self, op: Operation, scope: Scope, depth: int, offsets: Tensor, mask: Tensor | None) -> None:
        """Notes that points change elements that are there; the outermost `depth` axes are the parallel domain.

        Errors: InterpreterError when two of its points change the same element.
        """
        chosen = None if mask is None else scope.expand(mask)
        positions, points = scope.expand(offsets), scope.expand(scope.point_ids(depth))
        positions = positions.reshape(-1) if chosen is None else positions[chosen]
        points = points.reshape(-1) if chosen is None else points[chosen]
        points = points + (self._chunk << 40)
        if self._changed_at is None:
            self._changed_at = torch.full(self.data.shape, -1, dtype=torch.int64)
        before = self._changed_at[positions]
        self._changed_at[positions] = points
        twice = ((before >= 0) & (before != points)) | (self._changed_at[positions] != points)
        if bool(twice.any()):
            fail(op, f"two points of the parallel domain change the element at offset {int(positions[twice][0])}")

    def _refuse(
        self, op: Operation, scope: Scope, bad: Tensor, mask: Tensor | None, offsets: Tensor, reason: str
    ) -> None:
        if not bool(bad.any()):
            return
        where = scope.expand(bad if mask is None else bad & mask)
        if bool(where.any()):
            fail(op, f"reads the element at offset {int(scope.expand(offsets)[where][0])}, {reason}")

    def check_complete(self, op: Operation, name: str, offsets: Tensor | None = None) -> None:
        """Reports an element that was never stored; `offsets` are those that must have been (all by default)."""
        writers = self._writer if offsets is None else self._writer[offsets.reshape(-1)]
        missing = writers == _NOBODY
        if bool(missing.any()):
            position = int(missing.nonzero()[0])
            offset = position if offsets is None else int(offsets.reshape(-1)[position])
            count = int(missing.sum())
            fail(op, f"{name}: the element at offset {offset} is never stored ({count} of {writers.numel()} are not)")


def _slice_of(positions: Tensor) -> Tensor | slice:
    """The positions, as a slice when they follow one another, which saves most of the time."""
    count = positions.numel()
    if count == 0:
        return positions
    first, last = int(positions[0]), int(positions[-1])
    if last - first != count - 1 or not torch.equal(positions, torch.arange(first, last + 1)):
        return positions
    return slice(first, last + 1)
