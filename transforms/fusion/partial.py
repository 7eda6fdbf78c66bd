"""The move *partial*: a sum over all that a producer stores is begun by the producer, point by parallel point."""

from __future__ import annotations

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import loads_of
from cuesta.transforms.fusion.space import Space, volume
from cuesta.transforms.fusion.tiling import walk_as_stored, walk_like
from cuesta.transforms.reductions.domains import Parts
from cuesta.transforms.reductions.members import plain_members, splittable_reductions
from cuesta.transforms.reductions.parts import Splitter
from cuesta.transforms.reductions.plan import plan_of


def partial(producer: loops.NestOp, consumer: loops.NestOp) -> tuple[loops.NestOp, loops.NestOp] | str:
    """P (i) { … store v, t[i, j] … }; nest () { sum (i, j) of f(t[i, j]) }
    -> P; nest (i) { sum (j) of f(t[i, j]) } to s; nest () { sum (i) of s[i] }

    The new nest has the producer's domain, and reads at each point what the producer stores there: it can be appended.
    Reassociates: a sum is rounded once for each part. Requires: the consumer has one parallel point.
    Returns the nest with the parts and the one that takes the consumer's place, or why not.
    """
    if volume(consumer.sizes) != 1:
        return "the consumer has more than one parallel point"
    reductions = splittable_reductions(consumer)
    if reductions is None:
        return "the consumer is not made of reductions over one domain"
    domain = reductions[0].sizes
    loads = [load for load in loads_of(consumer) if load.source.owner is producer]
    if any(load.parent_op() not in reductions or not _walks_all(load, domain) for load in loads):
        return "a reduction does not walk the producer's result in its order"
    for walk in (walk_as_stored, walk_like):
        tiling = walk(producer, domain)
        if tiling is not None and tiling.inner:
            parts = Parts(tuple(producer.sizes), tiling.inner, tiling.indices)
            members = plain_members(consumer)
            plan = None if members is None else plan_of(consumer, members, parts)
            if plan is None or plan.rest or any(member.stores for member in plan.members.values()):
                return "one reduction needs another, or what the consumer stores, or a place is asked for"
            of_parts, combination = Splitter(consumer, plan, parts).run()
            return of_parts, combination
    return "the producer does not store the reductions' domain point by parallel point"


def _walks_all(load: loops.LoadOp, domain: tuple[sym.IndexExpr, ...]) -> bool:
    """Whether a reduction over `domain` reads a tensor of just these sizes, each element at its own point."""
    if load.mask is not None or tuple(sizes_of(tensor_type_of(load.source))) != domain:
        return False
    return Space(load).walks_in_order(load, domain)
