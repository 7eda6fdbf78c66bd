"""`split-index-sets`: a loop whose loads ask at every point whether they are in range is split where that is known.

    kernel.for (%i = 0 to 28) { … %x[%i * 112 + %w * 56 − 57] if 0 ≤ %i * 2 + %w − 1 < 56 … }        %w in [0, 3)
    →
    kernel.for (%i = 0 to 1) { … as before … }
    kernel.for (%i = 1 to 28) { … %x[%i * 112 + %w * 56 − 57] … }

Index-set splitting (Banerjee's name for it), for windows and padding on a CPU. The points are independent of one
another, so they may run in any order; each runs in exactly one of the loops, because the loops' bounds are the whole
bounds, cut at the same places. Along a lane axis the cuts are at whole vectors. On a GPU a mask costs nothing, and a
second loop a lot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.structs import struct
from cuesta.transforms.kernel.masks import fold_masks, replace_value

LARGEST = 400
"""Ops that the loops which one is split into may have in all.

Source: a bound against compile-time growth.
"""


class SplitIndexSetsPass(ModulePass):
    """Splits loops at the top of kernels for the CPU where masks of loads are true in most of what they run over."""

    name = "split-index-sets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp) and not func.is_for_gpu:
                split_loops(func)


def split_loops(func: kernel.FuncOp) -> None:
    """Splits the loops at the top of a kernel."""
    for loop in [op for op in ops_of(func.body) if isinstance(op, kernel.ForOp)]:
        if next(conditions_of(loop), None) is not None:
            _Splitter(func).split(loop)


@struct
class Condition:
    """low ≤ e ≤ high, as an op says it of an index expression over its operands; None is infinite."""

    op: Operation
    e: sym.IndexExpr
    indices: Sequence[SSAValue]
    low: int | None
    high: int | None


def conditions_of(loop: kernel.LoopOp) -> Iterator[Condition]:
    """The conditions that the masks of the loads in a loop are made of."""
    seen = set[SSAValue]()
    pending = [op.mask for op in all_ops(loop) if isinstance(op, kernel.LoadOp) and op.mask is not None]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, kernel.BroadcastOp | elem.AndOp):
            pending += op.operands
        elif isinstance(op, elem.TableOp) and (found := _condition(op)) is not None:
            yield found


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _condition(op: elem.TableOp) -> Condition | None:
    name = op.row.name
    if name not in _MIRRORED:
        return None
    left, right = (operand.owner for operand in op.operands)
    if isinstance(left, elem.ConstantOp):
        left, right, name = right, left, _MIRRORED[name]
    if not isinstance(left, kernel.IndexOp) or not isinstance(right, elem.ConstantOp):
        return None
    limit = right.value
    if not isinstance(limit, int):
        return None
    low = {"ge": limit, "gt": limit + 1}.get(name)
    high = {"le": limit, "lt": limit - 1}.get(name)
    return Condition(op, left.offset, left.indices, low, high)


@struct(frozen=False)
class _Splitter:
    func: kernel.FuncOp
    ranges: dict[SSAValue, tuple[int, int] | None] = field(default_factory=dict[SSAValue, "tuple[int, int] | None"])

    def split(self, loop: kernel.ForOp) -> None:
        """Puts loops into the place of one."""
        count = len(loop.lowers.results)
        size = len(all_ops(loop))
        pieces = [loop]
        for axis in range(count - (loop.lanes > 1)):
            cuts = self.cuts(pieces[-1], axis)
            if len(pieces) * (len(cuts) + 1) * size <= LARGEST:
                pieces = [part for piece in pieces for part in self.cut(piece, axis, cuts)]
        if loop.lanes > 1 and not loop.dim:
            most = max(pieces, key=self.points)
            place = pieces.index(most)
            pieces[place : place + 1] = self.cut_lanes(most, size)
        for piece in pieces:
            self.fold(piece)

    def points(self, loop: kernel.ForOp) -> int:
        """The most points that a loop has."""
        ranges = [self.range(variable) or (0, 0) for variable in loop.induction_variables]
        return math.prod(last + 1 - first for first, last in ranges)

    # Where

    def cuts(self, loop: kernel.ForOp, axis: int) -> list[int]:
        """The points of an axis at which to cut, so that between them, or beyond, all conditions hold."""
        variable = loop.induction_variables[axis]
        known = self.range(variable)
        if known is None:
            return []
        first, last = known
        for condition in conditions_of(loop):
            low, high = self.where(condition, variable)
            first = first if low is None else max(first, low)
            last = last if high is None else min(last, high)
        lanes = loop.lanes if axis == len(loop.lowers.results) - 1 else 1
        if lanes > 1:
            if not isinstance(loop.lowers.results[axis], int):
                return []
            first = known[0] + -(-(first - known[0]) // lanes) * lanes
            last = last if last == known[1] else known[0] + (last + 1 - known[0]) // lanes * lanes - 1
        if last + 1 - first < max(lanes, (known[1] + 1 - known[0]) // 2):
            return []
        return [cut for cut in (first, last + 1) if known[0] < cut <= known[1]]

    def where(self, condition: Condition, variable: SSAValue) -> tuple[int | None, int | None]:
        """The least and the greatest value of a variable for which a condition holds whatever the others are; None for
        what does not matter, or is not known.
        """
        for k, index in enumerate(condition.indices):
            if index is not variable:
                continue
            slope = sym.coefficient(condition.e, k)
            if not isinstance(slope, int) or slope == 0:
                break
            least, greatest = self.interval(condition.e - slope * sym.dim(k), condition.indices)
            room_below = None if condition.low is None or least is None else condition.low - least
            room_above = None if condition.high is None or greatest is None else condition.high - greatest
            if slope > 0:
                return _up(room_below, slope), _down(room_above, slope)
            return _up(room_above, slope), _down(room_below, slope)
        return None, None

    def range(self, index: SSAValue) -> tuple[int, int] | None:
        """The least and the greatest value of an index, as far as known."""
        if index not in self.ranges:
            self.ranges[index] = self._range(index)
        return self.ranges[index]

    def _range(self, index: SSAValue) -> tuple[int, int] | None:
        if isinstance(index.owner, kernel.ProgramIdOp):
            size = self.func.schedule.grid[index.owner.axis]
            return (0, size - 1) if isinstance(size, int) else None
        loop = index.owner.parent_op() if isinstance(index, BlockArgument) else None
        if not isinstance(loop, kernel.LoopOp):
            return None
        axis = loop.induction_variables.index(index)
        low, _ = self.interval(loop.lowers.results[axis], loop.bound_operands)
        _, high = self.interval(loop.uppers.results[axis], loop.bound_operands)
        return None if low is None or high is None else (low, high - 1)

    def interval(self, e: sym.IndexExpr, indices: Sequence[SSAValue]) -> tuple[int | None, int | None]:
        """Bounds of an expression over index values."""
        images: list[sym.IndexExpr] = [0] * len(indices)
        sizes: list[sym.IndexExpr] = [1] * len(indices)
        for k in sym.dims_of(e):
            known = self.range(indices[k])
            if known is None:
                return None, None
            images[k] = sym.dim(k) + known[0]
            sizes[k] = known[1] + 1 - known[0]
        return sym.bounds(sym.substitute(e, images), sizes, {})

    # How

    def cut(self, loop: kernel.ForOp, axis: int, cuts: Sequence[int]) -> list[kernel.ForOp]:
        """Loops in the place of one, whose bounds along an axis are cut."""
        if not cuts:
            return [loop]
        lowers, uppers = list(loop.lowers.results), list(loop.uppers.results)
        whole = lowers[axis], uppers[axis]
        parts: list[kernel.ForOp] = []
        for lowers[axis], uppers[axis] in _pieces(whole, cuts):
            part = kernel.ForOp.build(lowers, uppers, loop.operands, loop.lanes)
            self.fill(part, [(loop, part)])
            Rewriter.insert_op(part, InsertPoint.before(loop))
            parts.append(part)
        Rewriter.erase_op(loop)
        return parts

    def cut_lanes(self, loop: kernel.ForOp, size: int) -> list[kernel.ForOp]:
        """The same along the axis of lanes, for every point of the others."""
        axis = len(loop.lowers.results) - 1
        cuts = self.cuts(loop, axis)
        if not cuts or (len(cuts) + 1) * size > LARGEST:
            return [loop]
        if axis == 0:
            return self.cut(loop, axis, cuts)
        lowers, uppers = loop.lowers.results, loop.uppers.results
        outer = kernel.ForOp.build(lowers[:-1], uppers[:-1], loop.operands)
        outer.location = loop.location
        for low, high in _pieces((lowers[-1], uppers[-1]), cuts):
            part = kernel.ForOp.build([low], [high], loop.operands, loop.lanes)
            outer.body.add_op(part)
            self.fill(part, [(loop, outer), (loop, part)])
        for new, old in zip(outer.induction_variables, loop.induction_variables, strict=False):
            new.name_hint = old.name_hint
        Rewriter.replace_op(loop, outer, [])
        return [outer]

    def fill(self, part: kernel.ForOp, loops: Sequence[tuple[kernel.ForOp, kernel.ForOp]]) -> None:
        """Copies the body of a loop; `loops` are it and those that have its variables now, from outside in."""
        old = loops[0][0]
        variables = [variable for _, new in loops for variable in new.induction_variables]
        values: dict[SSAValue, SSAValue] = dict(zip(old.induction_variables, variables, strict=True))
        for before, now in zip(old.induction_variables, variables, strict=True):
            now.name_hint = before.name_hint
        for op in ops_of(old.body):
            part.body.add_op(op.clone(values))
        part.location = old.location
        for before, now in zip(old.body.walk(), part.body.walk(), strict=True):
            now.location = before.location

    # What follows

    def fold(self, loop: kernel.ForOp) -> None:
        """Takes out of a loop the conditions that hold at all of its points or at none, and what they guard against."""
        for condition in list(conditions_of(loop)):
            if (value := self.decided(condition)) is not None:
                replace_value(condition.op, elem.constant(value, condition.op.results[0].type))
        fold_masks(loop)

    def decided(self, condition: Condition) -> bool | None:
        """Whether a condition holds everywhere (true) or nowhere (false)."""
        low, high = self.interval(condition.e, condition.indices)
        if low is None or high is None:
            return None
        if (condition.low is not None and high < condition.low) or (
            condition.high is not None and low > condition.high
        ):
            return False
        above = condition.low is None or low >= condition.low
        return True if above and (condition.high is None or high <= condition.high) else None


def _pieces(
    whole: tuple[sym.IndexExpr, sym.IndexExpr], cuts: Sequence[int]
) -> Iterator[tuple[sym.IndexExpr, sym.IndexExpr]]:
    low, high = whole
    ends = [None, *cuts, None]
    for begin, end in pairwise(ends):
        yield low if begin is None else sym.maximum(low, begin), high if end is None else sym.minimum(high, end)


def _up(room: int | None, slope: int) -> int | None:
    """The least v with slope · v ≥ room, or ≤ room where the slope is negative."""
    return None if room is None else -(-room // slope)


def _down(room: int | None, slope: int) -> int | None:
    """The greatest v with slope · v ≤ room, or ≥ room where the slope is negative."""
    return None if room is None else room // slope
