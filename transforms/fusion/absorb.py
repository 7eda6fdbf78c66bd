"""The move *absorb*: a consumer computes its pointwise producer at its first read, and stores it there too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, all_ops, clone_into, index_ranges, remove
from cuesta.transforms.fusion.space import Space


def with_more_outs(nest: loops.NestOp, outs: Sequence[Attribute]) -> loops.NestOp:
    """The nest with further outs after its own: the region moves, the results are replaced."""
    region = nest.detach_region(0)
    body = region.block
    for out in outs:
        body.insert_arg(out, len(body.args))
    new = loops.NestOp.create(
        result_types=[*(result.type for result in nest.results), *outs],
        properties=nest.properties.copy(),
        attributes=nest.attributes.copy(),
        regions=[region],
    )
    new.location = nest.location
    block = nest.parent
    assert block is not None
    block.insert_op_before(new, nest)
    for old, replacement in zip(nest.results, new.results, strict=False):
        replace_all_uses(old, replacement)
        replacement.name_hint = old.name_hint
    remove(nest)
    return new


def begin_merge(producer: loops.NestOp, consumer: loops.NestOp, at_consumer: bool) -> loops.NestOp:
    """The producer with the consumer's outs after its own, where the nest of both is to stand."""
    if at_consumer:
        producer.detach()
        block = consumer.parent
        assert block is not None
        block.insert_op_before(producer, consumer)
    return with_more_outs(producer, [result.type for result in consumer.results])


def end_merge(merged: loops.NestOp, consumer: loops.NestOp) -> None:
    """Gives the last results of the nest of both to whom the consumer's were for. The consumer is gone."""
    kept = len(merged.results) - len(consumer.results)
    for result in consumer.results:
        replace_all_uses(result, merged.results[kept + result.index])
    remove(consumer)


def row_local(loads: Sequence[loops.LoadOp], sizes: Sequence[sym.IndexExpr], parallel: int) -> str | None:
    """Why not every load reads only what its own parallel point computes; None when it does. The first one computes.

    Law: when two accesses of one nest both walk a tensor in row-major order as their points go by, then what a parallel
    point p touches is the same consecutive run of elements for both. So it is when the first walks every element once,
    in whatever order, and along some axes of the tensor the indices of both are the `parallel` outermost variables;
    then all of the run is there when the loops around the first are done, and nothing in these may read another
    element.
    """
    if any(load.mask is not None for load in loads):
        return "a read is masked"
    first = Space(loads[0])
    walked = first.walks_once(loads[0], sizes)
    if walked is None:
        return "the first read does not walk the producer's result once"
    in_order, around = first.walks_in_order(loads[0], sizes), set(_loops_around(loads[0]))
    for load in loads[1:]:
        space = Space(load)
        if (in_order and space.walks_in_order(load, sizes)) or _same_access(load, loads[0]):
            continue
        if not around.isdisjoint(_loops_around(load)):
            return "a read in the loops around the first one is of another element, which may come later"
        read = space.expressions(load)
        if read is None:
            return "a read is a gather"
        shared = {a for a, b in zip(walked, read, strict=True) if a == b}
        if not all(size == 1 or sym.dim(k) in shared for k, size in enumerate(first.sizes[:parallel])):
            return "a read does not walk the producer's result as the first one does"
    return None


def absorb(
    producer: loops.NestOp, consumer: loops.NestOp, sites: dict[SSAValue, list[loops.LoadOp]]
) -> loops.NestOp | str:
    """P; C(load P …) -> C'(v = P's body; store v; … v …), where C' has P's outs as well.

    `sites` are the consumer's loads by result of P. Requires: P is pointwise and stores element i at point i; C is the
    first user of P. Exact: every element of P is computed once, before its parallel point reads it (see `row_local`).
    Returns the new consumer, or why not.
    """
    every = [load for result in producer.results for load in sites.get(result, [])]
    order = {op: k for k, op in enumerate(all_ops(consumer))}
    every.sort(key=lambda load: order[load])
    if (reason := row_local(every, producer.sizes, len(consumer.sizes))) is not None:
        return reason
    first = every[0]
    for load in every:
        assert sizes_of(tensor_type_of(load.source)) == tuple(producer.sizes)
    outs = [result.type for result in producer.results]
    kept = len(consumer.results)
    space = Space(first)
    consumer = with_more_outs(consumer, outs)
    handles = consumer.handles[kept:]
    substitution = Substitution(space.variables)
    expressions = substitution.expressions(first.map.results, first.indices)
    sizes = index_ranges(first, substitution.axes)
    assert sizes is not None
    for variable, expression in zip(producer.induction_variables, expressions, strict=True):
        substitution.set_index(variable, sym.simplify(expression, sizes))
    for old, new in zip(producer.handles, handles, strict=True):
        substitution.values[old] = new
    clone_into(producer.body.ops, InsertPoint.before(first), substitution)
    values = {op.target: op.value for op in producer.body.ops if isinstance(op, loops.StoreOp)}
    block = first.parent  # which the first read is about to leave
    for result, old_handle, handle in zip(producer.results, producer.handles, handles, strict=True):
        value = substitution.value(values[old_handle])
        for load in sites.get(result, []):
            if load is first or (load.parent is block and _same_access(load, first)):
                replace_all_uses(load.result, value)
                remove(load)
            else:
                load.operands[0] = handle
        replace_all_uses(result, consumer.results[kept + result.index])
    remove(producer)
    return consumer


def _loops_around(load: loops.LoadOp) -> Iterator[Operation]:
    """The loops in its nest that a load is in, the innermost first."""
    op = load.parent_op()
    while op is not None and not isinstance(op, loops.NestOp):
        yield op
        op = op.parent_op()


def _same_access(a: loops.LoadOp, b: loops.LoadOp) -> bool:
    return a.map is b.map and tuple(a.indices) == tuple(b.indices)
