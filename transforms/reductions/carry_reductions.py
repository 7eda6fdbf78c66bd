"""`carry-reductions`: reductions over one domain, one of which needs another, in one walk that carries what it has.

%m = maximum (%j : 4096) of a(%j); %l = sum (%j) of exp(a(%j) - %m); %o = sum (%j) of exp(a(%j) - %m) · v(%j)
→
%m, %l, %o = fold (%c : 64) from (-inf, 0, 0) carries (%m0, %l0, %o0) {
  %m1 = max(%m0, maximum (%j : 64) of a)
  %f = exp(%m0 - %m1)
  carry %m1, %l0 · %f + sum (%j : 64) of exp(a - %m1), %o0 · %f + sum (%j : 64) of exp(a - %m1) · v
}

The law is `exponential` of `laws.py`, of any sum that is linear in the exponential (or in a power of two), with the
points so far as one part and those of a step as the other: Σ_j exp(a_j − c) · b_j = Σ_p exp(t_p − c) · Σ_(j in p)
exp(a_j − t_p) · b_j. What is carried belongs to the greatest a so far, and is rescaled when that grows. Reductions that
need no other are joined as their kind says.

Only in nests whose schedule says `depth`, the points of a step: it is worth it where what is reduced is dear. Those
that say `part` are reduced in parts, by many programs (`split-reductions`).
"""

from __future__ import annotations

from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.reductions import JOINS, identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove
from cuesta.dialects.loops.writing import BodyWriter, only_where, read_only_where, type_of_positions
from cuesta.transforms.reductions.laws import greatest_or_zero, shift_of

EXPONENTIALS = ("exp", "exp2")
"""The functions of which f(a − c) = f(a − t) · f(t − c)."""


class CarryReductionsPass(ModulePass):
    """reductions over (j : n), one after the other  ->  fold (c : n / depth) { reductions over (j : depth), joined }

    Reassociates. Near misses: a nest without `depth`; reductions of elements that are only loaded; domains of several
    axes, or of different sizes; a sum that is not linear in exponentials of what its maximum is of.
    """

    name = "carry-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in list(entry_block(op).ops):
            if (
                not isinstance(nest, loops.NestOp)
                or "depth" not in nest.choices
                or {"part", "batch"} & nest.choices.keys()
            ):
                continue
            members = members_of(nest)
            if isinstance(members, str):
                no_match(nest, f"its reductions are not carried: {members}")
                continue
            carry(nest, members, nest.choices["depth"])


@struct
class Carried:
    """A reduction of a nest that can be carried from step to step."""

    reduction: loops.ReduceOp
    greatest: loops.ReduceOp | None = None
    """Where it is a sum that is linear in exponentials of a − c, the maximum that c is."""
    exponential: str = ""
    """Which of `EXPONENTIALS` these are."""


def members_of(nest: loops.NestOp) -> list[Carried] | str:
    """The reductions of a nest, all of which can be carried along one domain; or why they cannot."""
    found = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    reductions = [op for op in found if isinstance(op, loops.ReduceOp)]
    if not reductions or len(reductions) < len(found):
        return "it does something else than to reduce"
    if not any(isinstance(op, loops.ReduceOp) for one in reductions for op in one.body.ops):
        return "what they reduce is at hand: each is a walk of its own"
    sizes = reductions[0].sizes
    if len(sizes) != 1 or not isinstance(sizes[0], int) or any(one.sizes != sizes for one in reductions):
        return "they have several axes, or not the same"
    members: list[Carried] = []
    results: dict[SSAValue, loops.ReduceOp] = {}
    later: set[SSAValue] = set()
    for op in nest.body.ops:
        if not isinstance(op, loops.ReduceOp):
            if any(operand in results or operand in later for operand in op.operands):
                later.update(op.results)
            continue
        if op.kind not in JOINS:
            return f"no elementwise op does to two values what {op.kind} does"
        needs = {operand for inner in op.walk() for operand in inner.operands if operand in results or operand in later}
        if not needs:
            members.append(Carried(op))
        elif len(needs) == 1 and (greatest := results.get(shift := needs.pop())) is not None:
            if greatest.kind != "maximum" or op.kind != "sum" or not is_linear(op.yielded, op.body, shift):
                return "one needs another, and is no sum that is linear in exponentials of a difference to a maximum"
            (exponential,) = {one.row.name for one in op.body.ops if _is_exponential(one, shift)}
            if any(one.greatest is greatest and one.exponential != exponential for one in members):
                return "exponentials of the same differences have not the same base"
            members.append(Carried(op, greatest, exponential))
        else:
            return "one needs several others, or something made of one"
        results[op.results[0]] = op
    return members


def _is_exponential(op: Operation, shift: SSAValue) -> TypeGuard[elem.TableOp]:
    """Whether an op is an exponential of a difference to `shift`."""
    if not isinstance(op, elem.TableOp) or op.row.name not in EXPONENTIALS:
        return False
    difference = op.operands[0].owner
    return isinstance(difference, elem.SubOp) and difference.operands[1] is shift


def is_linear(value: SSAValue, body: Block, shift: SSAValue) -> bool:
    """Whether a value of a body is exp(a − shift) times something that does not depend on `shift`, perhaps rounded."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not body:
        return False
    if isinstance(owner, elem.ConvertOp) and not isinstance(value.type, AnyFloat):
        return False  # truncated, or whether it is 0
    if isinstance(owner, elem.ConvertOp) or (isinstance(owner, elem.TableOp) and owner.row.name == "neg"):
        return is_linear(owner.operands[0], body, shift)
    if not isinstance(owner, elem.TableOp):
        return False
    if owner.row.name in EXPONENTIALS:
        difference = owner.operands[0].owner
        return (
            isinstance(difference, elem.TableOp)
            and difference.row.name == "sub"
            and difference.operands[1] is shift
            and not depends(difference.operands[0], shift, body)
        )
    if owner.row.name in ("mul", "div"):
        left, right = owner.operands
        if owner.row.name == "mul" and not depends(left, shift, body):
            left, right = right, left
        return is_linear(left, body, shift) and not depends(right, shift, body)
    return False


def depends(value: SSAValue, on: SSAValue, body: Block) -> bool:
    """Whether a value of a body is made of another one."""
    work, seen = [value], set[SSAValue]()
    while work:
        one = work.pop()
        if one is on:
            return True
        owner = one.owner
        if one not in seen and isinstance(owner, Operation) and owner.parent is body:
            work += owner.operands
            work += [operand for inner in owner.walk() if inner is not owner for operand in inner.operands]
        seen.add(one)
    return False


def carry(nest: loops.NestOp, members: list[Carried], points: int) -> None:
    """Makes the reductions of a nest one walk, `points` at a time."""
    reductions = {member.reduction for member in members}
    (size,) = members[0].reduction.sizes
    assert isinstance(size, int)
    first, last = members[0].reduction, members[-1].reduction
    body = list(nest.body.ops)
    between = body[body.index(first) : body.index(last)]
    # What stands between them and needs none of them, before them; what needs one, after.
    held: set[SSAValue] = {result for one in reductions for result in one.results}
    for op in between:
        if op in reductions:
            continue
        if any(operand in held for operand in op.operands):
            held.update(op.results)
            op.detach()
            nest.body.insert_op_after(op, last)
            last = op
        else:
            op.detach()
            nest.body.insert_op_before(op, first)
    start = [
        elem.constant(identity(one.kind, one.yielded.type), one.yielded.type)
        for one in (member.reduction for member in members)
    ]
    for op in start:
        op.location = first.location
    fold = loops.FoldOp.build([-(-size // points)], [op.results[0] for op in start])
    fold.location = first.location
    fold.induction_variables[0].name_hint = "c"
    writer = BodyWriter(fold.body, first)
    step = sym.dim(0) * points
    factors: dict[loops.ReduceOp, tuple[SSAValue, SSAValue]] = {}
    carried: list[SSAValue] = []
    for member, before in zip(members, fold.carried, strict=True):
        old = member.reduction
        before.name_hint = old.results[0].name_hint
        shift, factor = (None, None) if member.greatest is None else factors[member.greatest]
        own = writer.add(_part(member, fold, step, size, points, shift))
        joined = writer.make(JOINS[old.kind], before if factor is None else writer.make("mul", before, factor), own)
        if exponential := next((one.exponential for one in members if one.greatest is old), ""):
            shift = shift_of(joined, writer)
            difference = writer.make("sub", greatest_or_zero(before, writer), shift)
            factors[old] = shift, writer.make(exponential, difference)
        carried.append(joined)
    end = loops.CarryOp.build(carried)
    end.location = first.location
    fold.body.add_op(end)
    Rewriter.insert_op([*start, fold], InsertPoint.before(first))
    results = dict(zip((member.reduction for member in members), fold.results, strict=True))
    after = PlainBlock()
    finishing = BodyWriter(after, first)
    ends: dict[loops.ReduceOp, SSAValue] = {}
    for member in members:
        total = results[member.reduction]
        if exponential := next((one.exponential for one in members if one.greatest is member.reduction), ""):
            difference = finishing.make("sub", greatest_or_zero(total, finishing), total)
            ends[member.reduction] = finishing.make(exponential, difference)
        if member.greatest is not None:
            total = finishing.make("mul", total, ends[member.greatest])
        total.name_hint = member.reduction.results[0].name_hint
        for use in list(member.reduction.results[0].uses):
            if not _is_within(use.operation, reductions):
                use.operation.operands[use.index] = total
    for op in list(after.ops):
        op.detach()
        nest.body.insert_op_before(op, first)
    for member in reversed(members):
        remove(member.reduction)


def _is_within(op: Operation, reductions: set[loops.ReduceOp]) -> bool:
    current: Operation | None = op
    while current is not None:
        if current in reductions:
            return True
        current = current.parent_op()
    return False


def _part(
    member: Carried, fold: loops.FoldOp, step: sym.IndexExpr, size: int, points: int, shift: SSAValue | None
) -> loops.ReduceOp:
    """The reduction of the points of one step, with `shift` for the maximum it needs."""
    old = member.reduction
    new = loops.ReduceOp.build(old.kind, [points], old.yielded.type)
    new.location = old.location
    (variable,), (counter,) = new.induction_variables, fold.induction_variables
    variable.name_hint = old.induction_variables[0].name_hint or "j"
    substitution = Substitution([counter, variable])
    position = step + sym.dim(1)
    substitution.set_index(old.induction_variables[0], position)
    if member.greatest is not None:
        assert shift is not None
        substitution.values[member.greatest.results[0]] = shift
    there: SSAValue | None = None
    if size % points:
        writer = BodyWriter(new.body, old)
        kind = type_of_positions(size)
        number = writer.number(position, [counter, variable], kind)
        there = writer.make("lt", number, writer.constant(size, kind))
    clone_into(old.body.ops, InsertPoint.at_end(new.body), substitution)
    if there is not None:
        factor = _narrow_factor(new)
        if factor is None:
            only_where(there, new)
        else:
            read_only_where(there, new)
            zero = elem.constant(0, factor.operands[0].type)
            chosen = elem.SelectOp.build(there, factor.operands[0], zero.results[0])
            for op in (zero, chosen):
                op.location = old.location
            Rewriter.insert_op([zero, chosen], InsertPoint.before(factor))
            factor.operands[0] = chosen.results[0]
    return new


def _narrow_factor(reduction: loops.ReduceOp) -> elem.ConvertOp | None:
    """Of a sum of products of two numbers of 16 bits, the rounding of the one that is computed: it must be 0 where
    there is no point, and the product remain one that matrix units see.
    """
    owner = reduction.yielded.owner
    if reduction.kind != "sum" or not isinstance(owner, elem.MulOp):
        return None
    for operand in owner.operands:
        wide = operand.owner
        if isinstance(wide, elem.ConvertOp) and isinstance(rounded := wide.operands[0].owner, elem.ConvertOp):
            return rounded
    return None


__all__ = ["EXPONENTIALS", "CarryReductionsPass", "carry", "members_of"]
