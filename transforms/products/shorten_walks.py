"""`shorten-walks`: what a walk computes at each score, in fewer instructions.

    %s = Σ (%k : 64) of q · k                          %s = Σ (%k : 64) of q · k
    %b = convert (%j - %i : i64) : f32          →      %b = (convert %j) - (convert %i) : f32
    %x = %s · 0.125 + %b · slope                       %x = multiply_add(%s, 0.125 · l, %b · (slope · l)), l = log2 e
    yield %x                for a maximum %m           yield %x
    yield exp(%x - %m)      for a sum                  yield exp2(%x - %m) precision weight

A score is two instructions of a matrix unit's time away from the next one: what is done to it is what attention takes.
The laws, each on its own:

    exp(x − c) = exp2(x · l − c · l)        l = log2 e: where x · l is as little work as x (`_Scores`), since numbers in
                                            it can be multiplied now; c is the maximum of such x, or read for a row
    convert(i − j) = convert i − convert j  numbers of points up to 2^24, which f32 has: what a row, or a column,
                                            shares is converted once
    i < j : i64 = i < j : i32               numbers of points that 32 bits hold
    convert(b) · c = select(b, c, 0)        a mask and what it is scaled by
    Σ round(a · s) · b = s · Σ round(a) · b a constant, where numbers are rounded to bf16, which has f32's range

What lies between products was never rounded to 16 bits here, so that a product which is rounded only after something is
added to it, and an exponential of 2 ulp, are as near to the real number as before. An exponential below 2^-126 may be 0
(`precision weight`): the greatest of a row is 1, or its sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, StringAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.loops.prove_indices import interval
from cuesta.transforms.products.recomputing import sweep

LOG2_E = 1.4426950408889634
"""log2 e.

Source: a definition.
"""
LN_2 = 0.6931471805599453
"""log e of 2.

Source: a definition.
"""
WEIGHT = "weight"
"""The precision of an exponential that weighs what belongs to a score."""

_EXACT = 2**24
"""f32 holds every integer up to here.

Source: a definition: 24 bits of a significand.
"""
_GREATEST = 2.0**60
"""A constant that bounded numbers are multiplied by is no larger, nor is one that is added: log2 e times it is finite.

Source: a choice; masks of -1e9 and slopes are below it, the least number of a type, which some masks use, is not.
"""
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BOUNDED = ("tanh", "sigmoid", "sin", "cos", "erf")


class ShortenWalksPass(DevicePass):
    """exp(x − max x)  ->  exp2(y − max y), y = x · log2 e; numbers of points as f32 or i32; factors out of sums

    Not exact, by the laws above; infinities and NaN stay what they are where scores are below 2^127 / 0.7.
    Near misses: a nest without `depth`, or whose products are of more than 16 bits; a score that is read, or whose mask
    is the least number of a type: log2 e times that is no number. There the exponential alone is shorter.
    """

    name = "shorten-walks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if not isinstance(nest, loops.NestOp) or "depth" not in nest.choices or "part" in nest.choices:
                continue
            if not traits_for(nest, self.target).contractions:
                continue
            walks = [one for one in ops_of(nest.body) if isinstance(one, loops.ReduceOp) and _is_walk(one)]
            if walks:
                _shorten(nest, walks)


def _is_walk(reduction: loops.ReduceOp) -> bool:
    """Whether a reduction is of what products of 16 bits give."""
    products = [one for one in reduction.body.ops if isinstance(one, loops.ReduceOp)]
    loads = [one for product in products for one in product.body.ops if isinstance(one, loops.LoadOp)]
    return bool(loads) and all(isinstance(one.results[0].type, BFloat16Type | Float16Type) for one in loads)


def _shorten(nest: loops.NestOp, walks: list[loops.ReduceOp]) -> None:
    for walk in walks:
        _use_short_numbers(walk)
        _choose_for_masks(walk)
        _take_scale_out(walk)
    sweep(nest)
    maxima = {walk.results[0]: walk for walk in walks if walk.kind == "maximum"}
    for value, walk in maxima.items():
        _greatest_in_powers_of_two(nest, walk, value)
    for walk in walks:
        for op in list(walk.body.ops):
            if isinstance(op, elem.TableOp) and op.row.name == "exp" and isinstance(op.result.type, Float32Type):
                difference = _difference(op)
                of_greatest = difference is not None and difference.operands[1] in maxima
                if of_greatest or (op.precision and (difference is None or not _in_powers_of_two(op, difference))):
                    op.properties["precision"] = StringAttr(WEIGHT)
    sweep(nest)


# Numbers of points


def _use_short_numbers(walk: loops.ReduceOp) -> None:
    for op in list(walk.body.ops):
        if isinstance(op, elem.ConvertOp) and isinstance(op.result.type, Float32Type):
            inner = op.operands[0].owner
            if isinstance(inner, elem.TableOp) and inner.row.name == "sub" and _fit(inner.operands, _EXACT):
                ends = [_as_i32(one, op) for one in inner.operands]
                floats = [elem.ConvertOp.build(one, op.result.type) for one in ends]
                _replace(op, [*floats, elem.make("sub", *(one.results[0] for one in floats))])
        elif isinstance(op, elem.TableOp) and op.row.name in _COMPARISONS:
            wide = elem.kind_of(op.operands[0].type) == "i" and op.operands[0].type != i32
            if (
                wide
                and _fit(op.operands, 2**31 - 1)
                and any(isinstance(one.owner, loops.IndexOp) for one in op.operands)
            ):
                _replace(op, [elem.make(op.row.name, *(_as_i32(one, op) for one in op.operands))])


def _as_i32(value: SSAValue, user: Operation) -> SSAValue:
    """The same integer as an i32; Requires: 32 bits hold it."""
    if value.type == i32:
        return value
    made = value.owner
    if isinstance(made, loops.IndexOp):
        op: Operation = loops.IndexOp.build(made.map.results[0], made.indices, i32)
        place = InsertPoint.after(made)
    elif isinstance(made, elem.ConstantOp):
        op, place = elem.constant(made.value, i32), InsertPoint.before(user)
    else:
        op, place = elem.ConvertOp.build(value, i32), InsertPoint.before(user)
    op.location = user.location
    Rewriter.insert_op([op], place)
    return op.results[0]


def _fit(operands: Sequence[SSAValue], most: int) -> bool:
    """Whether integers are known to be within ± most."""
    found = [interval(one) for one in operands]
    return all(one is not None and -most <= one[0] and one[1] <= most for one in found)


def _replace(op: Operation, new: list[Operation]) -> None:
    for one in new:
        one.location = op.location
    Rewriter.insert_op(new, InsertPoint.before(op))
    replace_all_uses(op.results[0], new[-1].results[0])


# Factors


def _choose_for_masks(walk: loops.ReduceOp) -> None:
    """convert(b) · c -> select(b, c, 0), where c is a finite constant"""
    for op in list(walk.body.ops):
        if not isinstance(op, elem.TableOp) or op.row.name != "mul":
            continue
        for mask, scale in (op.operands, op.operands[::-1]):
            made = mask.owner
            if not isinstance(made, elem.ConvertOp) or elem.kind_of(made.operands[0].type) != "b":
                continue
            if (number := _number(scale)) is not None and math.isfinite(number) and number > 0:
                zero = elem.constant(0.0, op.result.type)
                _replace(op, [zero, elem.SelectOp.build(made.operands[0], scale, zero.results[0])])
                break


def _take_scale_out(walk: loops.ReduceOp) -> None:
    """Σ round(a · s) · b -> s · Σ round(a) · b, where the rounding is to bf16"""
    product = walk.yielded.owner
    if walk.kind != "sum" or not isinstance(product, elem.TableOp) or product.row.name != "mul":
        return
    for factor in product.operands:
        rounded = factor.owner.operands[0].owner if isinstance(factor.owner, elem.ConvertOp) else None
        if not isinstance(rounded, elem.ConvertOp) or not isinstance(rounded.result.type, BFloat16Type):
            continue
        scaled = rounded.operands[0].owner
        if not isinstance(scaled, elem.TableOp) or scaled.row.name != "mul":
            continue
        for value, scale in (scaled.operands, scaled.operands[::-1]):
            number = _number(scale)
            if number is not None and 2.0**-20 <= number <= 2.0**20:
                rounded.operands[0] = value
                uses = list(walk.results[0].uses)
                again = elem.constant(number, walk.results[0].type)
                times = elem.make("mul", walk.results[0], again.results[0])
                again.location = times.location = walk.location
                for use in uses:
                    use.operation.operands[use.index] = times.results[0]
                Rewriter.insert_op([again, times], InsertPoint.after(walk))
                return


# Powers of two


def _greatest_in_powers_of_two(nest: loops.NestOp, walk: loops.ReduceOp, value: SSAValue) -> None:
    """A maximum of x becomes one of x · log2 e, and so do the exponentials of differences to it."""
    inside: list[elem.TableOp] = []
    outside: list[tuple[Operation, int]] = []
    for use in value.uses:
        if use.operation.parent is nest.body:
            outside.append((use.operation, use.index))
        elif isinstance(use.operation, elem.SubOp) and use.index == 1:
            inside.append(use.operation)
        else:
            return
    exponentials = [use.operation for one in inside for use in one.result.uses]
    if not all(isinstance(one, elem.ExpOp) for one in exponentials):
        return
    end = walk.body.last_op
    assert end is not None
    scores = [(walk.yielded, end), *((one.operands[0], one) for one in inside)]
    if not all(_Scores(user).is_free(score) for score, user in scores):
        no_match(walk, "its scores times log2 e are more work than its scores")
        return
    for score, user in scores:
        user.operands[0] = _Scores(user).scaled(score)
    for one in exponentials:
        _become_exp2(one, one.operands[0])
    if outside:
        scale = elem.constant(LN_2, value.type)
        natural = elem.make("mul", value, scale.results[0])
        scale.location = natural.location = walk.location
        Rewriter.insert_op([scale, natural], InsertPoint.after(walk))
        for user, index in outside:
            user.operands[index] = natural.results[0]


def _in_powers_of_two(op: elem.TableOp, difference: elem.TableOp) -> bool:
    """exp(x − c) of a c that is read for a row or a column becomes exp2(x · l − c · l); whether it did."""
    score, shift = difference.operands
    if not isinstance(shift.owner, loops.LoadOp) or len(list(difference.result.uses)) > 1:
        return False
    writer = _Scores(op)
    if not writer.is_free(score):
        no_match(op, "its score times log2 e is more work than its score")
        return False
    owner = score.owner
    if isinstance(owner, elem.TableOp) and owner.row.name == "mul" and (parts := writer.parts_of(owner)) is not None:
        less = writer.make("mul", shift, writer.constant(-LOG2_E, shift))
        _become_exp2(op, writer.make("multiply_add", parts[0], writer.times(parts[1]), less))
    else:
        less = writer.make("mul", shift, writer.constant(LOG2_E, shift))
        _become_exp2(op, writer.make("sub", writer.scaled(score), less))
    return True


def _become_exp2(op: Operation, exponent: SSAValue) -> None:
    new = elem.make("exp2", exponent)
    new.properties["precision"] = StringAttr(WEIGHT)
    new.location = op.location
    Rewriter.insert_op([new], InsertPoint.before(op))
    replace_all_uses(op.results[0], new.results[0])
    Rewriter.erase_op(op)


def _difference(op: elem.TableOp) -> elem.TableOp | None:
    owner = op.operands[0].owner
    return owner if isinstance(owner, elem.SubOp) else None


def _number(value: SSAValue) -> float | None:
    return float(value.owner.value) if isinstance(value.owner, elem.ConstantOp) else None


class _Scores:
    """Writes x · log2 e before an op of a walk, where that is as little work as x.

    A constant, or what the walk does not change, is multiplied once for all; so is what stands beside it in a product.
    """

    def __init__(self, before: Operation) -> None:
        self.before = before
        self.body = before.parent
        self.written: dict[SSAValue, SSAValue] = {}

    def is_invariant(self, value: SSAValue) -> bool:
        """Whether a value is the same at all points of the walk."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return owner is not self.body
        if owner.parent is not self.body:
            return True
        return isinstance(owner, elem.ElementwiseOp | loops.LoadOp) and all(map(self.is_invariant, owner.operands))

    def is_free(self, value: SSAValue) -> bool:
        """Whether the value times log2 e is as little work, and finite where the value is, but for the last octave."""
        number = _number(value)
        if number is not None:
            return math.isinf(number) or abs(number) <= _GREATEST
        owner = value.owner
        if isinstance(owner, elem.SelectOp):
            return all(map(self.is_free, owner.operands[1:]))
        if not isinstance(owner, elem.TableOp):
            return False
        if owner.row.name in ("add", "sub"):
            return all(map(self.is_free, owner.operands))
        return owner.row.name == "mul" and self.parts_of(owner) is not None

    def parts_of(self, product: elem.TableOp) -> tuple[SSAValue, SSAValue] | None:
        """What a product is of, second the factor that can be multiplied once."""
        for value, scale in (product.operands, product.operands[::-1]):
            number = _number(scale)
            if number is None:
                if self.is_invariant(scale) and self.is_number_of_point(value):
                    return value, scale
            elif abs(number) <= LN_2 or (abs(number) <= _GREATEST and self.is_bounded(value)):
                return value, scale
        return None

    def is_number_of_point(self, value: SSAValue) -> bool:
        """Whether a value is an integer as a float, or a difference of two."""
        owner = value.owner
        if isinstance(owner, elem.SubOp):
            return all(map(self.is_number_of_point, owner.operands))
        return isinstance(owner, elem.ConvertOp) and elem.kind_of(owner.operands[0].type) in "iu"

    def is_bounded(self, value: SSAValue) -> bool:
        owner = value.owner
        of_table = isinstance(owner, elem.TableOp) and owner.row.name in _BOUNDED
        return of_table or self.is_number_of_point(value)

    # Writing

    def make(self, name: str, *operands: SSAValue) -> SSAValue:
        """A row of `elem`'s table."""
        return self._add(elem.make(name, *operands))

    def constant(self, number: float, like: SSAValue) -> SSAValue:
        """A constant of the type of a value."""
        return self._add(elem.constant(number, like.type))

    def _add(self, op: Operation) -> SSAValue:
        op.location = self.before.location
        Rewriter.insert_op([op], InsertPoint.before(self.before))
        return op.results[0]

    def times(self, value: SSAValue) -> SSAValue:
        """The value times log2 e; one number where it is a number."""
        number = _number(value)
        if number is not None:
            return self.constant(number * LOG2_E, value)
        return self.make("mul", value, self.constant(LOG2_E, value))

    def scaled(self, value: SSAValue) -> SSAValue:
        """The value times log2 e. Requires: it is free."""
        found = self.written.get(value)
        if found is None:
            found = self.written[value] = self._scaled(value)
        return found

    def _scaled(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if isinstance(owner, elem.ConstantOp):
            return self.times(value)
        if isinstance(owner, elem.SelectOp):
            condition, *sides = owner.operands
            return self._add(elem.SelectOp.build(condition, *map(self.scaled, sides)))
        assert isinstance(owner, elem.TableOp)
        if owner.row.name == "mul":
            parts = self.parts_of(owner)
            assert parts is not None
            return self.make("mul", parts[0], self.times(parts[1]))
        left, right = owner.operands
        if owner.row.name == "add":
            for product, other in ((left, right), (right, left)):
                made = product.owner
                if isinstance(made, elem.TableOp) and made.row.name == "mul" and (parts := self.parts_of(made)):
                    return self.make("multiply_add", parts[0], self.times(parts[1]), self.scaled(other))
        return self.make(owner.row.name, self.scaled(left), self.scaled(right))


__all__ = ["ShortenWalksPass"]
