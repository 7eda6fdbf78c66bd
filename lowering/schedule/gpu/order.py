"""Which accesses of a nest are in order, in vectors, and in whole sectors of memory."""

from __future__ import annotations

from collections.abc import Iterable

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import step
from cuesta.lowering.schedule.schedule import Schedule


def large(accesses: Iterable[Access]) -> list[Access]:
    """Those that vary along the most axes: what is read over and over is in the caches."""
    every = [access for access in accesses if access.width]
    most = max((access.varies.bit_count() for access in every), default=0)
    return [access for access in every if access.varies.bit_count() == most]


def of_points(leaf: Loop) -> list[Access]:
    """Those of a loop that each of its points has for itself."""
    return [access for access in leaf.accesses if any(access.varies >> axis & 1 for axis in leaf.axes)]


class Order:
    """In which order the accesses of a nest, whose axes are merged, find their elements."""

    def __init__(self, analysis: NestAnalysis, machine: Machine) -> None:
        self.analysis = analysis
        self.machine = machine

    def stride(self, access: Access, axis: int) -> int | None:
        """By how many elements an access moves along an axis, or along the inner of two that it is in memory; None when
        that is not one number.
        """
        stride = None if access.indirect >> axis & 1 else step(access.address, axis, self.analysis)
        return stride if isinstance(stride, int) else None

    def begins_at_sectors(self) -> bool:
        """Whether all rows of the large tensors begin where sectors do, along whatever axis they lie."""
        return all(
            stride * access.width % self.machine.sector == 0
            for access in large(self.analysis.accesses.values())
            for axis in self.analysis.root.axes
            if (stride := self.stride(access, axis)) not in (None, 1)
        )

    def begin_at(self, unit: int, root: Loop, leaves: list[Loop], lane: int) -> bool:
        """Whether what is read in order along an axis is so in rows that begin at multiples of so many bytes."""
        for leaf in leaves:
            for access in large(leaf.accesses):
                if access.is_store or self.stride(access, lane) != 1:
                    continue
                around = (axis for axis in (*root.axes, *leaf.axes) if axis != lane)
                if not access.moves_by(unit, around):
                    return False
        return True

    def are_vectors(self, root: Loop, leaves: list[Loop], lane: int) -> bool:
        """Whether all that is read over and over is so in vectors along an axis."""
        forward = all(self.stride(access, lane) == 1 for leaf in leaves for access in large(leaf.accesses))
        return forward and self.begin_at(self.machine.vector, root, leaves, lane)

    def rows_are_aligned(self, root: Loop, lane: int) -> bool:
        """Whether every row that is stored begins where the last one did, as far as vectors go."""
        return not any(
            access.is_store
            and isinstance(stride := sym.coefficient(access.address, axis), int)
            and stride * access.width % self.machine.vector
            for access in root.accesses
            for axis in root.axes
            if axis != lane
        )

    def is_in_vectors(self, access: Access, root: Loop, lane: int) -> bool:
        """Whether every row that is accessed begins where vectors do."""
        start = sym.substitute(access.address, [0] * len(self.analysis.sizes))
        strides = [self.stride(access, axis) for axis in root.axes if axis != lane]
        places = [*strides, start if isinstance(start, int) else None]
        return self.stride(access, lane) == 1 and all(
            place is not None and place * access.width % self.machine.vector == 0 for place in places
        )

    def is_one_piece(self, access: Access, root: Loop) -> bool:
        """Whether elements follow one another in the order of the points."""
        expected: sym.IndexExpr = 1
        for axis in reversed(root.axes):
            if self.stride(access, axis) != expected:
                return False
            expected = expected * self.analysis.sizes[axis]
        return True

    def masks_split_vectors(self, root: Loop, schedule: Schedule) -> bool:
        """Whether vectors that could be accessed at once are not, as it is asked of each element whether it is there:
        of a tile of a pointwise kernel, or of the points of a part.
        """
        if root.loops:
            return any(self.is_limited(root, loop) for loop in root.walk() if loop is not root)
        if len(schedule.order) != 1 or schedule.around or schedule.lanes < 2:
            return False
        (lane,) = schedule.order
        narrow = min((access.width for access in root.accesses if access.width), default=4)
        size, vector = self.analysis.sizes[lane], self.machine.vector // narrow
        if isinstance(size, int) and (size % vector == 0 or size <= schedule.lanes):
            return False
        return any(self.is_in_vectors(access, root, lane) for access in root.accesses if access.width)

    def is_limited(self, root: Loop, loop: Loop) -> bool:
        """Whether a reduction or scan reads only where an index is less than a number, elements in order."""
        if not isinstance(loop.op, loops.ReduceOp | loops.ScanOp):
            return False
        for access in loop.accesses:
            mask = access.op.mask.owner if isinstance(access.op, loops.LoadOp) and access.op.mask is not None else None
            is_limit = isinstance(mask, elem.TableOp) and mask.row.name == "lt"
            if is_limit and self.is_in_vectors(access, root, loop.axes[-1]):
                return True
        return False


__all__ = ["Order", "large", "of_points"]
