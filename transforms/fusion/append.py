"""The move *append*: a consumer becomes further stages of its producer, point by parallel point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import loops, sym
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, is_pointwise, loads_of, remove, stores_of
from cuesta.transforms.fusion.absorb import with_more_outs
from cuesta.transforms.fusion.space import Space, volume


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a consumer's domain is walked by the producer's parallel points and an inner domain.

    `indices[k]` is the consumer's k-th induction variable, over the producer's parallel axes and then the inner axes.
    """

    inner: tuple[sym.IndexExpr, ...]
    indices: tuple[sym.IndexExpr, ...]


def tile_like(producer: loops.NestOp, consumer: loops.NestOp) -> Tiling | str:
    """Splits the consumer's domain into the producer's parallel domain and the rest, both row-major."""
    outer = tuple(producer.sizes)
    outer_volume, all_points = volume(outer), volume(consumer.sizes)
    inner: tuple[sym.IndexExpr, ...] | None = None
    if outer_volume == all_points:
        inner = ()
    elif not is_pointwise(consumer):
        return "the parallel domains differ"
    else:
        inner = _inner_sizes(producer, outer_volume, consumer)
    if inner is None:
        return "the consumer's domain is not the producer's parallel domain times an inner one"
    sizes = (*outer, *inner)
    if sizes == tuple(consumer.sizes):
        return Tiling(inner, tuple(sym.dim(k) for k in range(len(sizes))))
    linear = sym.linearize([sym.dim(k) for k in range(len(sizes))], sizes)
    indices = sym.delinearize(linear, consumer.sizes)
    return Tiling(inner, tuple(sym.simplify(index, sizes) for index in indices))


def _inner_sizes(
    producer: loops.NestOp, outer_volume: sym.IndexExpr, consumer: loops.NestOp
) -> tuple[sym.IndexExpr, ...] | None:
    all_points = volume(consumer.sizes)
    for op in reversed(list(producer.body.ops)):
        if isinstance(op, loops.ForOp) and outer_volume * volume(op.sizes) == all_points:
            return tuple(op.sizes)
    prefix: sym.IndexExpr = 1
    for k, size in enumerate(consumer.sizes):
        if prefix == outer_volume:
            return tuple(consumer.sizes[k:])
        prefix = prefix * size
    return None


def append(producer: loops.NestOp, consumer: loops.NestOp, at_consumer: bool) -> loops.NestOp | str:
    """C; Q(load C …) -> C' = C's stages, then Q's, with the outs of both.

    Law: row-locality. Every element of C that Q reads at the parallel point p was stored by C at p: either both walk
    the tensor in row-major order, or the leading indices of both are the parallel indices.
    Requires: nothing between the two uses C (when the result stands at the consumer) or is used by Q (when at the
    producer).
    Returns the new nest, or why not.
    """
    tiling = tile_like(producer, consumer)
    if isinstance(tiling, str):
        return tiling
    jam = _last_for(producer, tiling) if is_pointwise(consumer) else None
    plan = _plan(producer, consumer, tiling, jam)
    if isinstance(plan, str):
        return plan
    if plan.needs_own_stage:
        jam = None
    if at_consumer:
        producer.detach()
        block = consumer.parent
        assert block is not None
        block.insert_op_before(producer, consumer)
    kept = len(producer.results)
    merged = with_more_outs(producer, [result.type for result in consumer.results])
    _add_stages(merged, consumer, tiling, jam, kept, plan)
    for result in consumer.results:
        result.replace_all_uses_with(merged.results[kept + result.index])
    remove(consumer)
    return merged


def _last_for(producer: loops.NestOp, tiling: Tiling) -> loops.ForOp | None:
    """The producer's last stage, when the consumer's points can join its points."""
    last = producer.body.last_op
    return last if isinstance(last, loops.ForOp) and tiling.inner and tuple(last.sizes) == tiling.inner else None


@dataclass(slots=True)
class _Plan:
    forwarded: dict[loops.LoadOp, SSAValue]
    needs_own_stage: bool


def _plan(producer: loops.NestOp, consumer: loops.NestOp, tiling: Tiling, jam: loops.ForOp | None) -> _Plan | str:
    stores: dict[SSAValue, list[loops.StoreOp]] = {}
    for store in stores_of(producer):
        stores.setdefault(store.target, []).append(store)
    plan = _Plan({}, False)
    for load in loads_of(consumer):
        if load.source.owner is not producer:
            continue
        handle = producer.handles[position_of(load.source)]
        sizes = sizes_of(tensor_type_of(load.source))
        where = _relation(stores[handle], load, producer, consumer, tiling, sizes, jam)
        if isinstance(where, SSAValue):
            plan.forwarded[load] = where
        elif where == "own stage":
            plan.needs_own_stage = True
        elif where is not None:
            return where
    if plan.needs_own_stage:
        # A value of the jammed stage cannot be forwarded out of it.
        plan.forwarded = {load: value for load, value in plan.forwarded.items() if _at_top(value, producer)}
    return plan


def _at_top(value: SSAValue, producer: loops.NestOp) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is producer.body


def _relation(
    stores: list[loops.StoreOp],
    load: loops.LoadOp,
    producer: loops.NestOp,
    consumer: loops.NestOp,
    tiling: Tiling,
    sizes: Sequence[sym.IndexExpr],
    jam: loops.ForOp | None,
) -> SSAValue | str | None:
    """How the load finds its element: a value to use in its place, None to read it back in the stage where the consumer
    goes, "own stage" to read it back in a stage of its own; any other text says why it may not.
    """
    space = Space(load)
    indices = _tiled_expressions(load, consumer, tiling, space, producer)
    if indices is None:
        return "a read of the producer's result is a gather"
    walk, points = indices
    outer = tuple(producer.sizes)
    if len(stores) == 1 and load.mask is None and stores[0].mask is None:
        store = stores[0]
        stored = Space(store)
        written = stored.expressions(store)
        if written is None:
            return "the producer scatters"
        if written == walk and (store.parent is producer.body or (jam is not None and store.parent is jam.body)):
            return store.value
        if stored.walks_in_order(store, sizes) and _in_order(walk, points, sizes):
            return _where(store.parent is producer.body, jam, stores)
    axes = [sym.dim(k) for k in range(len(outer))]
    if len(walk) >= len(outer) and all(w is a or s == 1 for w, a, s in zip(walk, axes, outer, strict=False)):
        for store in stores:
            written = Space(store).expressions(store)
            if written is None or not all(w is a or s == 1 for w, a, s in zip(written, axes, outer, strict=False)):
                return "the producer does not store at its own parallel indices"
        return _where(all(store.parent is producer.body for store in stores), jam, stores)
    return "the consumer reads what other parallel points of the producer store"


def _where(stored_at_top: bool, jam: loops.ForOp | None, stores: list[loops.StoreOp]) -> str | None:
    if stored_at_top or jam is None or not any(_stands_in(store, jam) for store in stores):
        return None
    return "own stage"


def _stands_in(op: Operation, domain: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and parent is not domain:
        parent = parent.parent_op()
    return parent is domain


def _tiled_expressions(
    load: loops.LoadOp, consumer: loops.NestOp, tiling: Tiling, space: Space, producer: loops.NestOp
) -> tuple[list[sym.IndexExpr], list[sym.IndexExpr]] | None:
    """The load's indices over the producer's parallel axes, the inner axes, and the consumer's stage axes; and their
    sizes.
    """
    own = len(consumer.sizes)
    tiled = len(producer.sizes) + len(tiling.inner)
    points: list[sym.IndexExpr] = [*producer.sizes, *tiling.inner, *space.sizes[own:]]
    substitution = Substitution(space.variables)
    expressions = substitution.expressions(load.map.results, load.indices)
    if len(substitution.axes) > len(space.variables):
        return None
    dims = [*tiling.indices, *(sym.dim(tiled + k) for k in range(len(space.sizes) - own))]
    return [sym.simplify(sym.substitute(expression, dims), points) for expression in expressions], points


def _in_order(walk: Sequence[sym.IndexExpr], points: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]) -> bool:
    if volume(points) != volume(sizes):
        return False
    axes = [sym.dim(k) for k in range(len(points))]
    return sym.simplify(sym.linearize(walk, sizes), points) == sym.simplify(sym.linearize(axes, points), points)


def _add_stages(
    merged: loops.NestOp,
    consumer: loops.NestOp,
    tiling: Tiling,
    jam: loops.ForOp | None,
    kept: int,
    plan: _Plan,
) -> None:
    place = InsertPoint.at_end(merged.body)
    variables: list[SSAValue] = list(merged.induction_variables)
    if jam is not None:
        place = InsertPoint.at_end(jam.body)
        variables += jam.induction_variables
    elif tiling.inner:
        stage = loops.ForOp.build(tiling.inner)
        stage.location = consumer.location
        merged.body.add_op(stage)
        place = InsertPoint.at_end(stage.body)
        variables += stage.induction_variables
    substitution = Substitution(variables)
    for variable, index in zip(consumer.induction_variables, tiling.indices, strict=True):
        substitution.set_index(variable, index)
    for result, handle in zip(merged.results[:kept], merged.handles[:kept], strict=True):
        substitution.values[result] = handle
    for old, new in zip(consumer.handles, merged.handles[kept:], strict=True):
        substitution.values[old] = new
    for load, value in plan.forwarded.items():
        load.result.replace_all_uses_with(value)
        remove(load)
    clone_into(consumer.body.ops, place, substitution)
