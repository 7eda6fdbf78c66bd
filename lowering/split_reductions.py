"""Large reductions with hardly any parallel points around them become two nests, so that all threads have work.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 32) { %s = sum (%j : 32768) of f(%p · 32768 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 32) of %t[%p]; store g(%s) }

Reassociates. NaN and infinities come out the same, and the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import layout, loops, sym
from cuesta.dialects.loops.surgery import Substitution, clone_into

LARGE = 65536
"""Points of a reduction from which on it is worth a second kernel."""
FEW = 16
"""Parallel points from which on there is work for all threads anyway."""
PARTS = 32
"""About how many parts a reduction is split into."""

_SPLITTABLE = {"sum", "prod", "maximum", "minimum", "any", "all"}


def split_reductions(nests: Sequence[loops.NestOp]) -> None:
    """Splits what is worth it."""
    for nest in nests:
        split_reduction(nest)


def split_reduction(nest: loops.NestOp) -> loops.NestOp | None:
    """Puts a new nest before `nest`, which computes its reductions in parts; None when that is not worth it."""
    stages = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    if not stages or not all(isinstance(op, loops.ReduceOp) and op.kind in _SPLITTABLE for op in stages):
        return None
    reductions = [op for op in stages if isinstance(op, loops.ReduceOp)]
    sizes = reductions[0].sizes
    static = [size for size in (*nest.sizes, *sizes) if isinstance(size, int)]
    if len(static) < len(nest.sizes) + len(sizes) or any(op.sizes != sizes for op in reductions):
        return None
    points = math.prod(static[len(nest.sizes) :])
    if points < LARGE or math.prod(static[: len(nest.sizes)]) >= FEW:
        return None
    split = _axis_and_parts(static[len(nest.sizes) :])
    needed = _needed_before(nest, reductions)
    if split is None or needed is None:
        return None
    first = _partial_nest(nest, reductions, needed, *split)
    for reduction, partial in zip(reductions, first.results, strict=True):
        _combine(nest, reduction, partial, split[1])
    return first


def _axis_and_parts(sizes: Sequence[int]) -> tuple[int, int] | None:
    """The outermost axis that can be cut into a fair number of equal parts, and that number."""
    for axis, size in enumerate(sizes):
        divisors = [parts for parts in range(PARTS // 4, PARTS * 2 + 1) if size % parts == 0]
        if divisors:
            return axis, min(divisors, key=lambda parts: abs(parts - PARTS))
    return None


def _needed_before(nest: loops.NestOp, reductions: Sequence[loops.ReduceOp]) -> list[Operation] | None:
    """The ops of the nest's own body that the reductions depend on, in order; None when the reductions cannot move."""
    wanted: set[Operation] = set()
    work: list[Operation] = list(reductions)
    handles = set(nest.handles)
    while work:
        op = work.pop()
        for inner in op.walk():
            if isinstance(inner, loops.StoreOp) or (isinstance(inner, loops.LoadOp) and inner.source in handles):
                return None
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is nest.body and owner not in wanted:
                    if isinstance(owner, loops.ReduceOp):
                        return None
                    wanted.add(owner)
                    work.append(owner)
    return [op for op in nest.body.ops if op in wanted]


def _partial_nest(
    nest: loops.NestOp, reductions: Sequence[loops.ReduceOp], needed: Sequence[Operation], axis: int, parts: int
) -> loops.NestOp:
    sizes = (*nest.sizes, parts)
    first = loops.NestOp.build(sizes, [layout.tensor_type(sizes, op.results[0].type) for op in reductions])
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
        part_sizes = list(reduction.sizes)
        size = part_sizes[axis]
        assert isinstance(size, int)
        part_sizes[axis] = size // parts
        part = loops.ReduceOp.build(reduction.kind, part_sizes, reduction.yielded.type)
        part.location = reduction.location
        for position, (old, new) in enumerate(
            zip(reduction.induction_variables, part.induction_variables, strict=True)
        ):
            index = substitution.axis(new)
            if position == axis:
                index = substitution.axis(variables[-1]) * (size // parts) + index
            substitution.set_index(old, index)
            new.name_hint = old.name_hint
        clone_into(reduction.body.ops, InsertPoint.at_end(part.body), substitution)
        Rewriter.insert_op(part, place)
        _store(part.results[0], handle, variables, place)
    return first


def _store(value: SSAValue, handle: SSAValue, variables: Sequence[SSAValue], place: InsertPoint) -> None:
    store = loops.StoreOp.build(value, handle, [sym.dim(k) for k in range(len(variables))], variables)
    store.location = value.owner.location if isinstance(value.owner, Operation) else store.location
    Rewriter.insert_op(store, place)


def _combine(nest: loops.NestOp, reduction: loops.ReduceOp, partial: SSAValue, parts: int) -> None:
    """Replaces a reduction by one over its parts."""
    new = loops.ReduceOp.build(reduction.kind, (parts,), reduction.yielded.type)
    new.location = reduction.location
    indices = [*nest.induction_variables, *new.induction_variables]
    load = loops.LoadOp.build(partial, [sym.dim(k) for k in range(len(indices))], indices)
    result = loops.YieldOp.build(load.result)
    load.location = result.location = reduction.location
    new.body.add_ops([load, result])
    Rewriter.insert_op(new, InsertPoint.before(reduction))
    reduction.results[0].replace_all_uses_with(new.results[0])
    new.results[0].name_hint = reduction.results[0].name_hint
    Rewriter.erase_op(reduction)
