"""`split-walks`: the steps of a walk in which a mask takes out nothing are a loop of their own, without it.

    %m = kernel.fold (%c = 0 to min(%p + 1, 64)) … { … select(%c * 64 + %j > %p * 64 + %i, -inf, %s) … }
    →
    %n = kernel.fold (%c = %p to %p + 1) … { … select(…) … }                    %i, %j in [0, 64), %p in [0, 64)
    %m = kernel.fold (%c = 0 to %p) from (%n) … { … %s … }

Index-set splitting, for walks on a GPU: a comparison and a choice for each score are a fifth of what a step of causal
attention does, and its gradients carry the outcome of each comparison from product to product.

The steps with masks come first, and there is one at least. Where the first of two loops may have no step, what it would
hand on is a constant; NVIDIA's assembler then finds sums of matrix units defined by something else while they are being
computed, and lets each product wait for the one before it ("wgmma.mma_async instructions are serialized", C7515, of
ptxas 12.8 and 12.9).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.transforms.reductions.carry_reductions import EXPONENTIALS

_ANY = sym.symbol("any")
LEAST = 2
"""A fold has more steps than this: of few, most are at an edge.

Source: a choice; not timed.
"""
_NEGATED = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}


class SplitWalksPass(ModulePass):
    """fold over all steps  ->  fold over those with masks, then over the others

    Reassociates what is summed; of a fold that sums and rescales as `carry-reductions` writes it (`any_order`), so that
    its steps may come in any order. Near misses: masks that data makes; masks at both ends of a walk (a window), whose
    steps are mostly at an edge; few steps; a walk of which some programs have no step with a mask.
    """

    name = "split-walks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp) and func.is_for_gpu:
                for fold in [inner for inner in func.body.walk() if isinstance(inner, kernel.FoldOp)]:
                    if any(isinstance(inner, kernel.ContractOp) for inner in fold.body.ops):
                        split(fold, func)


@struct
class _Number:
    """step · the number of the step + rest, and how often it counts each lane, counted from 0, of so many."""

    step: int
    rest: sym.IndexExpr
    lanes: dict[tuple[SSAValue, int], int]


@struct
class Free:
    """The steps in which a choice is always the same: those before `limit`, or from it on."""

    before: bool
    limit: sym.IndexExpr
    """Over the operands of `Splitter.operands`."""


def split(fold: kernel.FoldOp, func: kernel.FuncOp) -> bool:
    """Splits a fold whose choices are the same in all steps on one side of some step; gives whether it was one."""
    splitter = _Splitter(fold)
    chosen: dict[int, bool] = {}
    found: list[Free] = []
    for k, op in enumerate(fold.body.walk()):
        if isinstance(op, elem.SelectOp) and (one := splitter.free(op)) is not None:
            side, free = one
            found += free
            chosen[k] = side
    if not found:
        return False
    if len({one.before for one in found}) > 1:
        no_match(fold, "masks take out points at both ends of it")
        return False
    lower, upper = splitter.bounds()
    if isinstance(steps := _most(upper) - lower, int) and steps <= LEAST:
        no_match(fold, f"it has no more than {steps} steps")
        return False
    before = found[0].before
    limit = found[0].limit
    for one in found[1:]:
        limit = sym.minimum(limit, one.limit) if before else sym.maximum(limit, one.limit)
    if not all(any_order(fold, k) for k in range(len(fold.carried))):
        no_match(fold, "its steps have an order")
        return False
    sizes = [
        func.schedule.grid[one.owner.axis] if isinstance(one.owner, kernel.ProgramIdOp) else _ANY
        for one in splitter.operands
    ]
    lower, upper = sym.simplify(lower, sizes), sym.simplify(upper, sizes)
    edge = sym.simplify(sym.minimum(sym.maximum(limit, lower), upper), sizes)
    masked, free = ((edge, upper), (lower, edge)) if before else ((lower, edge), (edge, upper))
    if (sym.bounds(masked[1] - masked[0], sizes)[0] or 0) < 1:
        no_match(fold, "nobody knows that each program has a step with a mask")
        return False
    first = _part(fold, splitter, masked, fold.initials, {})
    second = _part(fold, splitter, free, first.results, chosen)
    for old, new in zip(fold.results, second.results, strict=True):
        new.name_hint = old.name_hint
        replace_all_uses(old, new)
    Rewriter.erase_op(fold)
    return True


def _part(
    fold: kernel.FoldOp,
    splitter: _Splitter,
    bounds: tuple[sym.IndexExpr, sym.IndexExpr],
    initials: Sequence[SSAValue],
    chosen: dict[int, bool],
) -> kernel.FoldOp:
    """The fold over some of the steps, in which these choices, counted in order, are what they are."""
    copy = fold.clone()
    part = kernel.FoldOp.build(*bounds, splitter.operands, initials)
    part.location = fold.location
    for old, new in zip(copy.body.args, part.body.args, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    choices = [(op, chosen[k]) for k, op in enumerate(copy.body.walk()) if k in chosen]
    for op in list(copy.body.ops):
        op.detach()
        part.body.add_op(op)
    copy.erase()
    for op, side in choices:
        replace_all_uses(op.results[0], op.operands[1 if side else 2])
    for op in reversed(list(part.body.walk())):
        if isinstance(op, elem.ElementwiseOp | kernel.IndexOp | kernel.BroadcastOp) and not any(
            result.uses for result in op.results
        ):
            Rewriter.erase_op(op)
    Rewriter.insert_op(part, InsertPoint.before(fold))
    return part


def _most(e: sym.IndexExpr) -> sym.IndexExpr:
    """A number that an upper bound is not above, where one of what it is the least of is one; or the bound."""
    return next((one for one in sym.alternatives(e) if isinstance(one, int)), e)


def any_order(fold: kernel.FoldOp, k: int) -> bool:
    """Whether what a fold hands on in place k is max(m, t), l + s, or l · f(m − m') + s with f an exponential and m'
    the maximum that is handed on: a maximum, or a sum, of what the steps are of.
    """
    before, now = fold.carried[k], fold.handed_on[k]
    name, operands = _made(now)
    if name not in ("maximum", "add") or before in _needs(fold, operands[1], fold.carried):
        return False
    if operands[0] is before:
        return True
    scaled, factors = _made(operands[0])
    if name != "add" or scaled != "mul" or factors[0] is not before:
        return False
    exponential, (difference, *_) = _made(_source(factors[1]))
    subtracted, ends = _made(difference)
    if exponential not in EXPONENTIALS or subtracted != "sub":
        return False
    greatest = [
        (one, then) for one, then in zip(fold.carried, fold.handed_on, strict=True) if _made(then)[0] == "maximum"
    ]
    return any(_finite(ends[0]) is one and _finite(ends[1]) is then for one, then in greatest)


def _made(value: SSAValue) -> tuple[str, Sequence[SSAValue]]:
    """The row of the table that a value is made by, and of what; nothing of another."""
    owner = value.owner
    return (owner.row.name, owner.operands) if isinstance(owner, elem.TableOp) else ("", (value,))


def _finite(value: SSAValue) -> SSAValue:
    """m of 0 in the place of m where that is infinite."""
    return value.owner.operands[2] if isinstance(value.owner, elem.SelectOp) else value


def _needs(fold: kernel.FoldOp, value: SSAValue, among: Sequence[SSAValue]) -> set[SSAValue]:
    """Which of some values a value of a fold is made of."""
    work, seen = [value], {value}
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation):
            new = {operand for inner in owner.walk() for operand in inner.operands} - seen
            seen |= new
            work += new
    return seen & set(among)


class _Splitter:
    """Where the choices of a fold are constant."""

    def __init__(self, fold: kernel.FoldOp) -> None:
        self.fold = fold
        self.operands: list[SSAValue] = list(fold.bound_operands)
        """What bounds are over: dim k is `operands[k]`."""

    def bounds(self) -> tuple[sym.IndexExpr, sym.IndexExpr]:
        """Of the fold."""
        return self.fold.lowers.results[0], self.fold.uppers.results[0]

    def place(self, value: SSAValue) -> sym.IndexExpr:
        """The dim of a value that does not change in the fold."""
        if value not in self.operands:
            self.operands.append(value)
        return sym.dim(self.operands.index(value))

    def free(self, op: elem.SelectOp) -> tuple[bool, list[Free]] | None:
        """Which side a choice takes in all steps but some, and in which: the side that is no constant."""
        condition, *sides = op.operands
        constant = [isinstance(_source(side).owner, elem.ConstantOp) for side in sides]
        if constant == [True, False]:
            found = self.where(condition, holds=False)
        elif constant == [False, True]:
            found = self.where(condition, holds=True)
        else:
            return None
        return None if found is None else (constant[1], found)

    def where(self, value: SSAValue, *, holds: bool) -> list[Free] | None:
        """The steps in which a condition holds at all points, or at none; all of what is given must be so."""
        owner = _source(value).owner
        if not isinstance(owner, elem.TableOp):
            return None
        name = owner.row.name
        if name == "not":
            return self.where(owner.operands[0], holds=not holds)
        if name == ("and" if holds else "or"):
            parts = [self.where(one, holds=holds) for one in owner.operands]
            return None if None in parts else [one for part in parts if part is not None for one in part]
        if name not in _NEGATED:
            return None
        return self.compared(name if holds else _NEGATED[name], *owner.operands)

    def compared(self, name: str, left: SSAValue, right: SSAValue) -> list[Free] | None:
        """Where left > right, and so on, at all points."""
        ends = [self.number(one) for one in (left, right)]
        if ends[0] is None or ends[1] is None:
            return None
        a, b = ends[0], ends[1]
        step, rest = a.step - b.step, a.rest - b.rest
        lanes = a.lanes | {lane: a.lanes.get(lane, 0) - n for lane, n in b.lanes.items()}
        if name in ("lt", "le"):
            step, rest, lanes = -step, -rest, {lane: -n for lane, n in lanes.items()}
        least = rest + sum(min(0, n * (size - 1)) for (_, size), n in lanes.items())
        if name in ("ge", "le"):
            least += 1  # at least 0 is more than −1
        # step · c + least ≥ 1
        if step > 0:
            return [Free(False, sym.ceildiv(1 - least, step))]
        return [Free(True, (least - 1) // -step + 1)] if step < 0 else None

    def number(self, value: SSAValue) -> _Number | None:
        """An integer, as the steps count; None where nothing says so."""
        source = _source(value)
        owner = source.owner
        if isinstance(owner, elem.ConstantOp):
            return _Number(0, int(owner.value), {}) if elem.kind_of(source.type) == "i" else None
        if isinstance(owner, elem.ConvertOp):
            integers = elem.kind_of(owner.operands[0].type) == elem.kind_of(source.type) == "i"
            return self.number(owner.operands[0]) if integers else None
        if not isinstance(owner, kernel.IndexOp):
            return None
        e = owner.map.results[0]
        step, lanes = 0, dict[tuple[SSAValue, int], int]()
        images: list[sym.IndexExpr] = []
        for k, index in enumerate(owner.indices):
            lane = self.lane(index)
            if index is not self.fold.induction_variables[0] and lane is None:
                if not self.is_outside(index):
                    return None
                images.append(self.place(index))
                continue
            scale = sym.coefficient(e, k)
            if not isinstance(scale, int):
                return None
            if lane is None:
                step += scale
                images.append(0)
            else:
                first, count = lane
                lanes[index, count] = scale
                images.append(first)
        return _Number(step, sym.substitute(e, images), lanes)

    def lane(self, index: SSAValue) -> tuple[sym.IndexExpr, int] | None:
        """The first point of a loop, all of whose points are lanes, and how many lanes there are; None for others."""
        loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
        if (
            not isinstance(loop, kernel.LoopOp)
            or isinstance(loop, kernel.FoldOp)
            or loop.induction_variables[-1] is not index
        ):
            return None
        lower, upper = loop.lowers.results[-1], loop.uppers.results[-1]
        sizes = [one - lower for one in sym.alternatives(upper)]
        if not any(isinstance(size, int) and size <= loop.lanes for size in sizes):
            return None
        if not all(self.is_outside(one) for one in loop.bound_operands):
            return None
        return sym.substitute(lower, [self.place(one) for one in loop.bound_operands]), loop.lanes

    def is_outside(self, index: SSAValue) -> bool:
        """Whether an index value is there before the fold, and the same in all lanes."""
        owner: Operation | None = index.owner if isinstance(index.owner, Operation) else index.owner.parent_op()
        while owner is not None:
            if owner is self.fold:
                return False
            owner = owner.parent_op()
        return isinstance(index.owner, kernel.ProgramIdOp)


def _source(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, kernel.BroadcastOp):
        value = value.owner.operands[0]
    return value


__all__ = ["SplitWalksPass", "split"]
