"""A product of few rows and columns and many points, in parts: `#loops.schedule<part = 4096, rows = 64, …>`.

    loops.nest (%i : 256, %j : 256) { %s = sum (%k : 65536) of a[%i, %k] · b[%k, %j]; store g(%s) }
    →
    loops.nest (%p : 16, %i : 256, %j : 256) schedule #loops.schedule<rows = 64, …> {
      %s = sum (%k : 4096) of a[%i, %p · 4096 + %k] · b[%p · 4096 + %k, %j]; store %s to %t[%p, %i, %j]
    }
    loops.nest (%i : 256, %j : 256) { %s = sum (%p : 16) of %t[%p, %i, %j]; store g(%s) }

The parts are in f32, and are added up in order: the result does not depend on who is done first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import device_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove
from cuesta.dialects.loops.writing import BodyWriter, nest_before
from cuesta.transforms.reductions.members import read_from


def product_in_parts(nest: loops.NestOp, part: int) -> tuple[loops.NestOp, loops.NestOp]:
    """Replaces a nest that is a contraction by one that computes parts of `part` points, with the choices of the nest
    but for `part`, and one that adds them up and goes on.

    Reassociates. Errors: CuestaError where the nest is no sum over one axis, or its points are no multiple of `part`.
    """
    sums = summed(nest)
    points = sums[0].sizes[0]
    if not isinstance(points, int) or part <= 0 or points % part or points == part:
        raise _refusal(nest, f"part = {part}, but it sums {points} points")
    count = points // part
    device = device_of(tensor_type_of(nest.results[0]))
    kinds = [tensor_type((count, *nest.sizes), one.yielded.type, device=device) for one in sums]
    parts = loops.NestOp.build((count, *nest.sizes), kinds)
    parts.location = nest.location
    Rewriter.insert_op(parts, InsertPoint.before(nest))
    first, *own = parts.induction_variables
    substitution = Substitution(parts.induction_variables)
    for before, now in zip(nest.induction_variables, own, strict=True):
        substitution.set_index(before, substitution.axis(now))
        now.name_hint = before.name_hint
    clone_into(_needed(nest, sums, set()), InsertPoint.at_end(parts.body), substitution)
    made: list[loops.ReduceOp] = []
    for reduction in sums:
        inner = loops.ReduceOp.build("sum", [part], reduction.yielded.type)
        inner.location = reduction.location
        k, inner_k = reduction.induction_variables[0], inner.induction_variables[0]
        inner_k.name_hint = k.name_hint
        substitution.set_index(k, substitution.axis(first) * part + substitution.axis(inner_k))
        clone_into(list(reduction.body.ops), InsertPoint.at_end(inner.body), substitution)
        parts.body.add_op(inner)
        made.append(inner)
    dims = [sym.dim(axis) for axis in range(len(parts.induction_variables))]
    for inner, handle in zip(made, parts.handles, strict=True):
        store = loops.StoreOp.build(inner.results[0], handle, dims, parts.induction_variables)
        store.location = inner.location
        parts.body.add_op(store)
    parts.properties["schedule"] = loops.ScheduleAttr.of({n: v for n, v in nest.choices.items() if n != "part"})

    new, substitution = nest_before(nest, nest.sizes, [result.type for result in nest.results])
    for before, now in zip(nest.handles, new.handles, strict=True):
        substitution.values[before] = now
        now.name_hint = before.name_hint
    for reduction, result in zip(sums, parts.results, strict=True):
        whole = loops.ReduceOp.build("sum", [count], reduction.yielded.type)
        whole.location = reduction.location
        writer = BodyWriter(whole.body, reduction)
        writer.end(writer.load(result, [whole.induction_variables[0], *new.induction_variables]))
        new.body.add_op(whole)
        substitution.values[reduction.results[0]] = whole.results[0]
        whole.results[0].name_hint = reduction.results[0].name_hint
    stores = [op for op in nest.body.ops if isinstance(op, loops.StoreOp)]
    after = {*stores, *_needed(nest, stores, set(sums))}
    clone_into([op for op in nest.body.ops if op in after], InsertPoint.at_end(new.body), substitution)
    for before, now in zip(nest.results, new.results, strict=True):
        now.name_hint = before.name_hint
        replace_all_uses(before, now)
    remove(nest)
    return parts, new


def summed(nest: loops.NestOp) -> list[loops.ReduceOp]:
    """The sums of a nest, all of as many points.

    Errors: CuestaError for a nest with other loops, or none.
    """
    inner = [op for op in nest.walk() if isinstance(op, loops.DomainOp) and op is not nest]
    found = [op for op in inner if isinstance(op, loops.ReduceOp) and op.parent is nest.body]
    if nest.operands or not found or len(found) < len(inner):
        raise _refusal(nest, "a part, but it has other loops than sums")
    if any(one.kind != "sum" or len(one.sizes) != 1 or one.sizes != found[0].sizes for one in found):
        raise _refusal(nest, "a part, but not all of them are sums along one axis, and of as many points")
    return found


def _needed(nest: loops.NestOp, ops: Sequence[Operation], known: set[Operation]) -> list[Operation]:
    """The ops of the nest's own body that others need, in order, but for what is known."""
    found: set[Operation] = set()
    work = list(ops)
    while work:
        for value in read_from(work.pop(), nest.body):
            owner = value.owner
            if isinstance(owner, Operation) and owner not in found and owner not in known:
                found.add(owner)
                work.append(owner)
    return [op for op in nest.body.ops if op in found]


def _refusal(nest: loops.NestOp, what: str) -> CuestaError:
    return CuestaError(Diagnostic.on(nest, f"its schedule asks for a contraction and says {what}"))


__all__ = ["product_in_parts"]
