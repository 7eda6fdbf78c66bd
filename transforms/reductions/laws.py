"""The algebra of reductions in parts: the one place that says it. Passes only decide where, and `parts.py` writes.

Let the points j of a domain fall into parts p, of n_p points each, and perhaps some points r that are left over.

    plain        op_j f(j) = op_p op_(j in p) f(j)                                      for the kinds in `SPLITTABLE`
    exponential  Σ_j exp(a_j − c) = Σ_p exp(t_p − c) · Σ_(j in p) exp(a_j − t_p)        t_p the greatest a of the part
    squares      Σ_j (a_j − c)² = Σ_p (Q_p + (m_p − c) · (2 · R_p + n_p · (m_p − c)))
                 with Q_p = Σ_(j in p) (a_j − m_p)² and R_p = Σ_(j in p) (a_j − m_p)    m_p about the mean of the part
    place        (v, i) of f = (op_p v_p, min over the p with v_p = v of i_p)           for the kinds in `EXTREMES`
                 with (v_p, k_p) of f in p and i_p the number that the point k_p of p has in the whole domain
    running      op_(k ≤ j) f(k) = c_p op op_(k ≤ j, k in p) f(k), c_p = op_(q < p) t_q  for j in p, parts in order
                 with t_q = op_(k in q) f(k); of an extreme and its last place: `join_running`
    left over    op_j f(j) = (op of the parts) op (op_r f(r))                           the elementwise op of `JOINS`

The second and third hold for every c, as long as all points of the domain share it, and for every t_p and m_p. So
softmax's sum need not wait for the greatest of the whole row, nor a variance for the mean: a part has all that it
needs, and is read once. What is left over is reduced where c is known.

The fourth holds where the points of a part lie in it in the order that they have in the domain, whatever order the
parts have; NaN is equal to NaN there. Where the last of several NaN counts, it is the greatest of their i_p.

`place` is exact (of 0 and −0 either may come), the others reassociate. Infinities and NaN come out the same: where t_p
is not finite, 0 stands in for it within the part, and the factor is that of t_p = −inf, which is 0, for a part that is
−inf all over. In `exponential`, exp(t_p − c) overflows only where a term of the sum does. `squares` has the error of
the two-pass formula: R_p makes up for how m_p is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import AnyFloat, f32, f64, i64
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem
from cuesta.dialects.core.reductions import EXTREMES, JOINS, REDUCTIONS
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.structure import ReduceOp
from cuesta.dialects.loops.writing import BodyWriter

SPLITTABLE = frozenset((*JOINS, *EXTREMES))
"""The kinds of reductions that can be computed in parts."""

_INFINITY = float("inf")
_NOWHERE = 2**63 - 1
"""More than the number of any point.

Source: a definition: the greatest number of 64 bits.
"""


@struct
class OfPart:
    """What the combination knows of one part."""

    own: SSAValue
    """What the reduction gives in the part, with the part's own c."""
    partner: SSAValue
    """The greatest a of the part, or the sum of a."""
    remainder: SSAValue | None
    """R_p, where the law has one."""


Count = Callable[[], SSAValue]
"""Writes n_p, as a number of the type of a."""


class Law:
    """op_j f(j) = op_p op_(j in p) f(j)"""

    name = "plain"
    partner = ""
    """The kind of reduction of a that a part needs first; empty where a part needs nothing but its points."""

    def match(self, reduction: ReduceOp) -> tuple[SSAValue, SSAValue] | None:
        """(a, c) of a reduction that the law is about; None when it is another."""
        return None

    def remainder(self, reduction: ReduceOp) -> SSAValue | None:
        """What of the reduction's body a part sums up, too; None where the law needs no such sum."""
        return None

    def shift_of_part(self, partner: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """Writes what stands in for c within a part, from the part's partner."""
        raise TypeError(f"the law {self.name!r} has no c")

    def term(self, part: OfPart, shift: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """Writes what a part adds to the whole, where c is `shift`."""
        return part.own


class Exponential(Law):
    """Σ_j exp(a_j − c) = Σ_p exp(t_p − c) · Σ_(j in p) exp(a_j − t_p)"""

    name = "exponential"
    partner = "maximum"

    def match(self, reduction: ReduceOp) -> tuple[SSAValue, SSAValue] | None:
        """Σ exp(a − c)"""
        owner = reduction.yielded.owner
        if reduction.kind != "sum" or not isinstance(owner, elem.TableOp) or owner.row.name != "exp":
            return None
        return _difference(owner.operands[0], reduction.body)

    def shift_of_part(self, partner: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """t_p, or 0 where that is not finite"""
        return shift_of(partner, writer)

    def term(self, part: OfPart, shift: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """own · exp(t_p − c)"""
        greatest = greatest_or_zero(part.partner, writer)
        return writer.make("mul", part.own, writer.make("exp", writer.make("sub", greatest, shift)))


def shift_of(greatest: SSAValue, writer: BodyWriter) -> SSAValue:
    """Writes what stands in for c within a part of that maximum: t_p, or 0 where that is not finite."""
    infinite = writer.make("eq", writer.make("abs", greatest), writer.constant(_INFINITY, greatest.type))
    return writer.select(infinite, writer.constant(0.0, greatest.type), greatest)


def greatest_or_zero(greatest: SSAValue, writer: BodyWriter) -> SSAValue:
    """Writes t_p as its factor exp(t_p − c) has it: 0 for infinity, and −inf for a part that is −inf all over."""
    infinite = writer.make("eq", greatest, writer.constant(_INFINITY, greatest.type))
    return writer.select(infinite, writer.constant(0.0, greatest.type), greatest)


class Squares(Law):
    """Σ_j (a_j − c)² = Σ_p (Q_p + (m_p − c) · (2 · R_p + n_p · (m_p − c)))"""

    name = "squares"
    partner = "sum"

    def match(self, reduction: ReduceOp) -> tuple[SSAValue, SSAValue] | None:
        """Σ (a − c)²"""
        owner = reduction.yielded.owner
        if reduction.kind != "sum" or not isinstance(owner, elem.TableOp) or owner.row.name != "mul":
            return None
        left, right = owner.operands
        return _difference(left, reduction.body) if left is right else None

    def remainder(self, reduction: ReduceOp) -> SSAValue | None:
        """a − c, of which R_p is the sum"""
        square = reduction.yielded.owner
        assert isinstance(square, elem.TableOp)
        return square.operands[0]

    def shift_of_part(self, partner: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """m_p"""
        return writer.make("div", partner, count())

    def term(self, part: OfPart, shift: SSAValue, count: Count, writer: BodyWriter) -> SSAValue:
        """Q_p + (m_p − c) · (2 · R_p + n_p · (m_p − c))"""
        points, remainder = count(), part.remainder
        assert remainder is not None
        off = writer.make("sub", writer.make("div", part.partner, points), shift)
        linear = writer.make("add", writer.make("add", remainder, remainder), writer.make("mul", off, points))
        return writer.make("add", part.own, writer.make("mul", off, linear))


class Place(Law):
    """(v, i) of f = (op_p v_p, min over the p with v_p = v of i_p)"""

    name = "place"

    @staticmethod
    def candidate(kind: str, own: SSAValue, place: SSAValue, extreme: SSAValue, writer: BodyWriter) -> SSAValue:
        """Writes what the least is taken of: i_p where v_p = v, and more than any elsewhere; below 0 for a NaN, where
        the last counts.
        """
        found = writer.make("eq", own, extreme)
        if isinstance(own.type, AnyFloat):
            nan = writer.make("ne", own, own)
            if REDUCTIONS[kind].last_nan:
                place = writer.select(nan, writer.make("neg", place), place)
            found = writer.make("or", found, writer.make("and", nan, writer.make("ne", extreme, extreme)))
        return writer.select(found, place, writer.constant(_NOWHERE, i64))

    @staticmethod
    def of_least(kind: str, least: SSAValue, writer: BodyWriter) -> SSAValue:
        """Writes i, from the least of the candidates."""
        return writer.make("abs", least) if REDUCTIONS[kind].last_nan else least


def join_running(kind: str, before: Sequence[SSAValue], own: Sequence[SSAValue], writer: BodyWriter) -> list[SSAValue]:
    """Writes c_p op what runs within the part, for a kind of `loops.running`."""
    if kind in JOINS:
        return [writer.make(JOINS[kind], before[0], own[0])]
    if kind == "logaddexp":
        # greatest + log(1 + exp(least − greatest)); of infinities, the greatest
        greatest, least = (writer.make(name, before[0], own[0]) for name in ("maximum", "minimum"))
        difference = writer.make("exp", writer.make("sub", least, greatest))
        infinite = writer.make("eq", writer.make("abs", greatest), writer.constant(_INFINITY, greatest.type))
        both = writer.make("add", greatest, writer.make("log1p", difference))
        return [writer.select(infinite, greatest, both)]
    # Of equals, and of several NaN, the last one: what is in the part is later.
    better = writer.make("ge" if kind == "last_argmax" else "le", own[0], before[0])
    if isinstance(own[0].type, AnyFloat):
        better = writer.make("or", better, writer.make("ne", own[0], own[0]))
    return [writer.select(better, mine, earlier) for mine, earlier in zip(own, before, strict=True)]


PLAIN, EXPONENTIAL, SQUARES, PLACE = Law(), Exponential(), Squares(), Place()
SHIFTED: tuple[Law, ...] = (EXPONENTIAL, SQUARES)
"""The laws of reductions that need another."""


def _difference(value: SSAValue, body: Block) -> tuple[SSAValue, SSAValue] | None:
    """(a, c) for a difference a − c of a value of a body and one from around it."""
    owner = value.owner
    if not isinstance(owner, elem.TableOp) or owner.row.name != "sub" or owner.parent is not body:
        return None
    a, c = owner.operands
    if a.type not in (f32, f64) or not _is_in(a, body) or _is_in(c, body):
        return None
    return a, c


def _is_in(value: SSAValue, body: Block) -> bool:
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)


__all__ = [
    "EXPONENTIAL",
    "PLACE",
    "PLAIN",
    "SHIFTED",
    "SPLITTABLE",
    "SQUARES",
    "Count",
    "Law",
    "OfPart",
    "greatest_or_zero",
    "join_running",
    "shift_of",
]
