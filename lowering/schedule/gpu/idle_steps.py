"""Which steps of a fold change nothing, since a mask takes out all of their points: those before and after some step.

    %m, %l, %o = fold (%c : 64) { … maximum (%j : 64) of select(%c * 64 + %j > %i, -inf, a) … }
    →  a program of rows p · 128 … p · 128 + 127 walks from 0 to min(p * 2 + 2, 64)

A point whose a is −inf is no maximum, and weighs exp(−inf − t) = 0 in every sum that is rescaled with it, and in sums
of what is a factor of such exponentials; a step of such points carries on what it was given. What it would have
multiplied by 0 is not read: an infinity or a NaN among the values of keys that nobody sees has no effect, where in
eager it is a NaN (docs/differences.md).

Conditions are comparisons of numbers of points that are linear in the step, the point and the row, and joined by `and`,
`or` and `not`. What is no such mask is taken never to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.transforms.reductions.carry_reductions import EXPONENTIALS

_INFINITY = float("inf")
_NEGATED = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}


@struct
class Bound:
    """All steps c of which `scale · c + point + row · i + rest` has a sign for every point and row of a tile change
    nothing: where it is positive all later ones do not either (`above`), and where it is negative all earlier ones.
    """

    above: bool
    scale: int
    """Of the step; positive."""
    point: tuple[int, int]
    """The least and the greatest that points add."""
    row: int
    """What a row counts."""
    rest: int

    def limit(self, first: sym.IndexExpr, rows: int) -> sym.IndexExpr:
        """The first step of a tile, whose first row is `first`, that does anything; or, above, one past the last."""
        ends = (self.row * first, self.row * (first + rows - 1))
        least, greatest = ends if self.row >= 0 else ends[::-1]
        if self.above:  # scale · c ≤ −(least of the others)
            return (-(least + self.point[0] + self.rest)) // self.scale + 1
        return sym.ceildiv(-(greatest + self.point[1] + self.rest), self.scale)


def idle_steps(analysis: NestAnalysis, fold: loops.FoldOp, rows: int) -> list[Bound]:
    """The bounds of the steps of a fold of which tiles of rows along axis `rows` need no others.

    Holds of what `carry-reductions` writes: a maximum, and sums of what is linear in exponentials of the same
    differences, which are rescaled as that maximum grows. A fold that hands anything else on has no bounds.
    """
    if not all(is_kept(fold, k) for k in range(len(fold.carried))):
        return []
    common: list[Bound] | None = None
    for reduction in fold.body.ops:
        if not isinstance(reduction, loops.ReduceOp):
            continue
        values = masked_values(reduction)
        if values is None:
            return []
        for value in values:
            found = _Masks(analysis, fold, reduction, rows).of_value(value)
            common = found if common is None else [bound for bound in common if bound in found]
    return common or []


def is_kept(fold: loops.FoldOp, k: int) -> bool:
    """Whether a step whose maximum is −inf and whose sums are 0 hands on what it was given: max(m, t), l + s, or
    l · exp(m − m') + s, with m' the maximum that is handed on.
    """
    before, now = fold.carried[k], fold.handed_on[k]
    kind, operands = _made(now)
    if kind not in ("maximum", "add") or len(operands) != 2 or not isinstance(operands[1].owner, loops.ReduceOp):
        return False
    if operands[1].owner.kind != {"maximum": "maximum", "add": "sum"}[kind]:
        return False
    if operands[0] is before:
        return True
    scaled, factors = _made(operands[0])
    if kind != "add" or scaled != "mul" or factors[0] is not before:
        return False
    exponential, (difference, *_) = _made(factors[1])
    subtracted, ends = _made(difference)
    if exponential not in EXPONENTIALS or subtracted != "sub":
        return False
    earlier, later = (_finite(end) for end in ends)
    return any(
        earlier == (one, False) and later == (then, True) and _made(then)[0] == "maximum"
        for one, then in zip(fold.carried, fold.handed_on, strict=True)
    )


def _made(value: SSAValue) -> tuple[str, Sequence[SSAValue]]:
    """The row of the table that a value is made by, and of what; nothing of another."""
    owner = value.owner
    return (owner.row.name, owner.operands) if isinstance(owner, elem.TableOp) else ("", (value,))


def _finite(value: SSAValue) -> tuple[SSAValue, bool] | None:
    """m of 0 in the place of m where that is infinite (true), or is infinity (false): `laws.shift_of`,
    `laws.greatest_or_zero`.
    """
    if not isinstance(value.owner, elem.SelectOp):
        return None
    condition, zero, m = value.owner.operands
    kind, compared = _made(condition)
    if kind != "eq" or not _is(zero, 0.0) or not _is(compared[1], _INFINITY):
        return None
    size, inner = _made(compared[0])
    if compared[0] is m:
        return m, False
    return (m, True) if size == "abs" and inner[0] is m else None


def _is(value: SSAValue, number: float) -> bool:
    return isinstance(value.owner, elem.ConstantOp) and value.owner.value == number


def masked_values(reduction: loops.ReduceOp) -> list[SSAValue] | None:
    """What must be −inf for a point to add nothing to a reduction; None where nothing says so."""
    if reduction.kind == "maximum":
        return [reduction.yielded]
    if reduction.kind != "sum":
        return None
    return _exponents(reduction.yielded, reduction)


def _exponents(value: SSAValue, reduction: loops.ReduceOp) -> list[SSAValue] | None:
    """a of the exponentials exp(a − c) that a value is linear in."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not reduction.body:
        return None
    if isinstance(owner, elem.ConvertOp) or (isinstance(owner, elem.TableOp) and owner.row.name in ("neg", "div")):
        return _exponents(owner.operands[0], reduction)
    if isinstance(owner, elem.SelectOp):  # 0 for points that there are not, or that a mask takes out
        _, *sides = owner.operands
        weights = [side for side in sides if not _is(side, 0)]
        return _exponents(weights[0], reduction) if len(weights) == 1 else None
    if not isinstance(owner, elem.TableOp):
        return None
    if owner.row.name in ("add", "sub"):  # 0 where both are
        left, right = (_exponents(operand, reduction) for operand in owner.operands)
        return None if left is None or right is None else list(dict.fromkeys((*left, *right)))
    if owner.row.name == "mul":
        found = [_exponents(operand, reduction) for operand in owner.operands]
        return found[0] if found[0] is not None else found[1]
    difference = owner.operands[0].owner
    if owner.row.name in EXPONENTIALS and isinstance(difference, elem.TableOp) and difference.row.name == "sub":
        return [difference.operands[0]]
    return None


class _Masks:
    """Where a value of a reduction is −inf."""

    def __init__(self, analysis: NestAnalysis, fold: loops.FoldOp, reduction: loops.ReduceOp, rows: int) -> None:
        self.analysis, self.rows = analysis, rows
        self.step = analysis.number[fold.induction_variables[0]]
        self.point = analysis.number[reduction.induction_variables[0]]
        (self.points,) = reduction.sizes

    def of_value(self, value: SSAValue) -> list[Bound]:
        """The bounds of the steps in which a value is not −inf all over."""
        owner = value.owner
        if not isinstance(owner, elem.SelectOp):
            return []
        condition, true, false = owner.operands
        if _is_least(true):
            return [*self.of_condition(condition, holds=True), *self.of_value(false)]
        if _is_least(false):
            return [*self.of_condition(condition, holds=False), *self.of_value(true)]
        return []

    def of_condition(self, value: SSAValue, *, holds: bool) -> list[Bound]:
        """The bounds of the steps in which it is not so that a condition holds at all points; or at none."""
        owner = value.owner
        if not isinstance(owner, elem.TableOp):
            return []
        name = owner.row.name
        if name == "not":
            return self.of_condition(owner.operands[0], holds=not holds)
        if name == ("or" if holds else "and"):  # one that does is enough
            return [bound for operand in owner.operands for bound in self.of_condition(operand, holds=holds)]
        if name in _NEGATED:
            return self.of_comparison(name if holds else _NEGATED[name], *owner.operands)
        return []

    def of_comparison(self, name: str, left: SSAValue, right: SSAValue) -> list[Bound]:
        """left − right > 0, and so on, at all points of a step."""
        ends = [_number(self.analysis, one) for one in (left, right)]
        if ends[0] is None or ends[1] is None or not isinstance(self.points, int):
            return []
        difference = ends[0] - ends[1]
        if name in ("lt", "le"):
            difference, name = -difference, "gt" if name == "lt" else "ge"
        scales = [sym.coefficient(difference, axis) for axis in (self.step, self.point, self.rows)]
        if not all(isinstance(scale, int) for scale in scales):
            return []
        step, point, row = (scale for scale in scales if isinstance(scale, int))
        rest = difference - sym.dim(self.step) * step - sym.dim(self.point) * point - sym.dim(self.rows) * row
        if not isinstance(rest, int) or step == 0:
            return []
        rest += name == "ge"  # at least 0 is more than −1
        if step < 0:  # −difference < 0 at all points: steps before some step
            ends_of_points = sorted((0, -point * (self.points - 1)))
            return [Bound(False, -step, (ends_of_points[0], ends_of_points[1]), -row, -rest)]
        ends_of_points = sorted((0, point * (self.points - 1)))
        return [Bound(True, step, (ends_of_points[0], ends_of_points[1]), row, rest)]


def _number(analysis: NestAnalysis, value: SSAValue) -> sym.IndexExpr | None:
    """The index expression that a number is."""
    owner = value.owner
    if isinstance(owner, loops.IndexOp):
        return analysis.accesses[owner].address
    if isinstance(owner, elem.ConstantOp) and isinstance(owner.value, int):
        return owner.value
    if isinstance(owner, elem.ConvertOp) and elem.kind_of(value.type) == "i":  # which holds it: `shorten-walks`
        return _number(analysis, owner.operands[0]) if elem.kind_of(owner.operands[0].type) == "i" else None
    if isinstance(owner, elem.TableOp) and owner.row.name in _ARITHMETIC:
        left, right = (_number(analysis, operand) for operand in owner.operands)
        return None if left is None or right is None else _ARITHMETIC[owner.row.name](left, right)
    return None


_ARITHMETIC: dict[str, Callable[[sym.IndexExpr, sym.IndexExpr], sym.IndexExpr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
}


def _is_least(value: SSAValue) -> bool:
    return _is(value, -_INFINITY)


__all__ = ["Bound", "idle_steps"]
