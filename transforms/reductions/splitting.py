"""Splitting the reductions of a nest: parts in a nest of their own, and the combination of the parts.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 32) { %s = sum (%j : 32768) of f(%p · 32768 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 32) of %t[%p]; store g(%s) }

Where no equal parts make up the whole, as with a size that is known at run time only, `nest` itself reduces the rest.

Reassociates: each part of a sum is rounded. NaN and infinities come out the same, and the result does not depend on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, layout, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.reductions import JOINS
from cuesta.dialects.loops.access import LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.structure import DomainOp, NestOp, ReduceOp, YieldOp
from cuesta.dialects.loops.surgery import Substitution, clone_into
from cuesta.transforms.reductions.laws import SPLITTABLE


@dataclass(frozen=True, slots=True)
class Splitting:
    """A domain as outer times inner: `indices[k]` is its k-th index, over the outer axes and then the inner ones.

    Requires: every point of the domain belongs to one point of outer times inner, or to one of the rest.
    """

    outer: tuple[sym.IndexExpr, ...]
    inner: tuple[sym.IndexExpr, ...]
    indices: tuple[sym.IndexExpr, ...]
    rest: tuple[sym.IndexExpr, ...] | None = None
    """The sizes of what is left over, as many as the domain has."""
    rest_from: tuple[sym.IndexExpr, ...] = ()
    """The indices at which it begins."""


def splittable_reductions(nest: NestOp) -> list[ReduceOp] | None:
    """The stages of a nest, when they are reductions over one domain that can be split; None otherwise."""
    stages = [op for op in nest.body.ops if isinstance(op, DomainOp)]
    reductions = [op for op in stages if isinstance(op, ReduceOp) and op.kind in SPLITTABLE]
    if not stages or len(reductions) < len(stages) or any(op.sizes != reductions[0].sizes for op in reductions):
        return None
    return reductions


def split_nest(nest: NestOp, reductions: Sequence[ReduceOp], splitting: Splitting) -> NestOp | None:
    """Puts a nest over (`nest.sizes`, `outer`) before `nest`, which reduces over `inner`; `nest` combines the parts.

    None, and nothing is changed, when one of the reductions needs another, or what the nest stores.
    """
    needed = _needed_before(nest, reductions)
    if needed is None:
        return None
    first = _partial_nest(nest, reductions, needed, splitting)
    for reduction, partial in zip(reductions, first.results, strict=True):
        _combine(nest, reduction, partial, splitting)
    return first


def can_split(nest: NestOp, reductions: Sequence[ReduceOp]) -> bool:
    """Whether `split_nest` would split the nest."""
    return _needed_before(nest, reductions) is not None


def _needed_before(nest: NestOp, reductions: Sequence[ReduceOp]) -> list[Operation] | None:
    """The ops of the nest's own body that the reductions depend on, in order; None when the reductions cannot move."""
    wanted: set[Operation] = set()
    work: list[Operation] = list(reductions)
    handles = set(nest.handles)
    while work:
        op = work.pop()
        for inner in op.walk():
            if isinstance(inner, TensorWriteOp) or (isinstance(inner, LoadOp) and inner.source in handles):
                return None
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is nest.body and owner not in wanted:
                    if isinstance(owner, ReduceOp):
                        return None
                    wanted.add(owner)
                    work.append(owner)
    return [op for op in nest.body.ops if op in wanted]


def _partial_nest(
    nest: NestOp, reductions: Sequence[ReduceOp], needed: Sequence[Operation], splitting: Splitting
) -> NestOp:
    sizes = (*nest.sizes, *splitting.outer)
    device = layout.device_of(layout.tensor_type_of(nest.results[0]))
    outs = [layout.tensor_type(sizes, op.results[0].type, device=device) for op in reductions]
    first = NestOp.build(sizes, outs)
    first.location = nest.location
    Rewriter.insert_op(first, InsertPoint.before(nest))
    place = InsertPoint.at_end(first.body)
    variables = first.induction_variables
    substitution = Substitution(variables)
    for old, new in zip(nest.induction_variables, variables, strict=False):
        substitution.set_index(old, substitution.axis(new))
        new.name_hint = old.name_hint
    clone_into(needed, place, substitution)
    for reduction, handle in zip(reductions, first.handles, strict=True):
        part = ReduceOp.build(reduction.kind, splitting.inner, reduction.yielded.type)
        part.location = reduction.location
        axes = [*variables[len(nest.sizes) :], *part.induction_variables]
        images = [substitution.axis(axis) for axis in axes]
        for old, index in zip(reduction.induction_variables, splitting.indices, strict=True):
            substitution.set_index(old, sym.substitute(index, images))
        for old, new in zip(reduction.induction_variables, part.induction_variables, strict=False):
            new.name_hint = old.name_hint
        clone_into(reduction.body.ops, InsertPoint.at_end(part.body), substitution)
        Rewriter.insert_op(part, place)
        _store(part.results[0], handle, variables, place)
    return first


def _store(value: SSAValue, handle: SSAValue, variables: Sequence[SSAValue], place: InsertPoint) -> None:
    store = StoreOp.build(value, handle, [sym.dim(k) for k in range(len(variables))], variables)
    store.location = value.owner.location if isinstance(value.owner, Operation) else store.location
    Rewriter.insert_op(store, place)


def _combine(nest: NestOp, reduction: ReduceOp, partial: SSAValue, splitting: Splitting) -> None:
    """Replaces a reduction by one over its parts, and the rest."""
    new = ReduceOp.build(reduction.kind, splitting.outer, reduction.yielded.type)
    new.location = reduction.location
    indices = [*nest.induction_variables, *new.induction_variables]
    load = LoadOp.build(partial, [sym.dim(k) for k in range(len(indices))], indices)
    result = YieldOp.build(load.result)
    load.location = result.location = reduction.location
    new.body.add_ops([load, result])
    place = InsertPoint.before(reduction)
    Rewriter.insert_op(new, place)
    whole = new.results[0]
    if splitting.rest is not None:
        left = _left_over(reduction, splitting.rest, splitting.rest_from)
        joined = elem.make(JOINS[reduction.kind], whole, left.results[0])
        joined.location = reduction.location
        Rewriter.insert_op([left, joined], place)
        whole = joined.results[0]
    replace_all_uses(reduction.results[0], whole)
    whole.name_hint = reduction.results[0].name_hint
    Rewriter.erase_op(reduction)


def _left_over(reduction: ReduceOp, sizes: Sequence[sym.IndexExpr], start: Sequence[sym.IndexExpr]) -> ReduceOp:
    """The reduction of a block of its domain."""
    new = ReduceOp.build(reduction.kind, sizes, reduction.yielded.type)
    new.location = reduction.location
    substitution = Substitution(new.induction_variables)
    for k, (old, variable) in enumerate(zip(reduction.induction_variables, new.induction_variables, strict=True)):
        substitution.set_index(old, start[k] + sym.dim(k))
        variable.name_hint = old.name_hint
    clone_into(reduction.body.ops, InsertPoint.at_end(new.body), substitution)
    return new


__all__ = ["Splitting", "can_split", "split_nest", "splittable_reductions"]
