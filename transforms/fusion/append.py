"""The move *append*: a consumer becomes further stages of its producer, point by parallel point."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import (
    Substitution,
    clone_into,
    combines_of,
    index_ranges,
    is_pointwise,
    loads_of,
    remove,
    stores_of,
)
from cuesta.transforms.fusion.absorb import begin_merge, end_merge
from cuesta.transforms.fusion.space import Space, volume
from cuesta.transforms.fusion.tiling import Tiling, tile_as_stored, tile_by_read, tile_like


def append(producer: loops.NestOp, consumer: loops.NestOp, at_consumer: bool) -> loops.NestOp | str:
    """C; Q(load C …) -> C' = C's stages, then Q's, with the outs of both.

    Law: row-locality. Every element of C that Q reads at the parallel point p was stored by C at p: either both walk
    the tensor in row-major order, or along some axes of the tensor the indices of both are the parallel indices (the
    others may be data: a gather within the row), or Q reads each element just where C stores it. Under a mask the value
    is chosen: load t[p] if c else y -> select(c, value stored at p, y).
    Requires: nothing between the two uses C (when the result stands at the consumer) or is used by Q (when at the
    producer).
    Returns the new nest, or why not.
    """
    reason = ""
    for tile in (tile_like, tile_as_stored, tile_by_read):
        tiling = tile(producer, consumer)
        plan = _plan(producer, consumer, tiling) if isinstance(tiling, Tiling) else tiling
        if isinstance(tiling, Tiling) and isinstance(plan, _Plan):
            return _merged(producer, consumer, tiling, plan, at_consumer)
        reason = reason or plan
    return str(reason)


def _merged(
    producer: loops.NestOp, consumer: loops.NestOp, tiling: Tiling, plan: _Plan, at_consumer: bool
) -> loops.NestOp:
    jam = _last_stage(producer, tiling) if is_pointwise(consumer) else None
    if plan.needs_own_stage:
        jam = None
    kept = len(producer.results)
    merged = begin_merge(producer, consumer, at_consumer)
    _add_stages(merged, consumer, tiling, jam, kept, plan)
    end_merge(merged, consumer)
    return merged


def _last_stage(producer: loops.NestOp, tiling: Tiling) -> loops.StatementOp | None:
    """The producer's last stage, when the consumer's points can join its points.

    What stands after it, outside of any stage, may be moved before it: a loop gives no value, only stores. Near miss: a
    load, which may read what the stage stored.
    """
    last = producer.body.last_op
    while last is not None and not isinstance(last, loops.DomainOp):
        if isinstance(last, loops.LoadOp) and last.source in producer.handles:
            return None
        last = last.prev_op
    return last if isinstance(last, loops.StatementOp) and tiling.inner and tuple(last.sizes) == tiling.inner else None


def _make_last(stage: loops.StatementOp) -> None:
    """Moves what stands after the stage before it."""
    block = stage.parent
    assert block is not None
    while (op := stage.next_op) is not None:
        op.detach()
        block.insert_op_before(op, stage)


@struct(frozen=False)
class _Plan:
    forwarded: dict[loops.LoadOp, SSAValue]
    needs_own_stage: bool


def _plan(producer: loops.NestOp, consumer: loops.NestOp, tiling: Tiling) -> _Plan | str:
    jam = _last_stage(producer, tiling) if is_pointwise(consumer) else None
    changing = {combine.target for combine in combines_of(producer)}
    stores: dict[SSAValue, list[loops.StoreOp]] = {}
    for store in stores_of(producer):
        stores.setdefault(store.target, []).append(store)
    plan = _Plan({}, False)
    for load in loads_of(consumer):
        if load.source.owner is not producer:
            continue
        handle = producer.handles[position_of(load.source)]
        sizes = sizes_of(tensor_type_of(load.source))
        where = _relation(stores.get(handle, []), load, producer, consumer, tiling, sizes, jam)
        if handle in changing and (isinstance(where, SSAValue) or where is None):
            # What was stored is not what a later combination made of it; that is read back, once the scan is over.
            where = None if jam is None or not _changes(jam, handle) else "own stage"
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


def _changes(stage: loops.StatementOp, handle: SSAValue) -> bool:
    return any(combine.target is handle for combine in combines_of(stage))


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
    jam: loops.StatementOp | None,
) -> SSAValue | str | None:
    """How the load finds its element: a value to use in its place, None to read it back in the stage where the consumer
    goes, "own stage" to read it back in a stage of its own; any other text says why it may not.
    """
    walk, points, gathers = _tiled_expressions(load, consumer, tiling, Space(load), producer)
    if not gathers and len(stores) == 1 and stores[0].mask is None:
        store = stores[0]
        stored = Space(store)
        written = stored.expressions(store)
        if written is None:
            return "the producer scatters"
        if written == walk and (store.parent is producer.body or (jam is not None and store.parent is jam.body)):
            return store.value
        if written == walk and stored.sizes == points and load.mask is None:
            return _where(False, jam, stores)
        if load.mask is None and stored.walks_in_order(store, sizes) and _in_order(walk, points, sizes):
            return _where(store.parent is producer.body, jam, stores)
    own = range(len(walk))
    for store in stores:
        written = Space(store).expressions(store)
        if written is None:
            return "the producer scatters"
        own = [axis for axis in own if written[axis] == walk[axis]]
    found = {walk[axis] for axis in own}
    if all(size == 1 or sym.dim(k) in found for k, size in enumerate(producer.sizes)):
        return _where(all(store.parent is producer.body for store in stores), jam, stores)
    if gathers:
        return "the consumer gathers what other parallel points of the producer may store"
    return "the consumer reads what other parallel points of the producer store"


def _where(stored_at_top: bool, jam: loops.StatementOp | None, stores: list[loops.StoreOp]) -> str | None:
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
) -> tuple[list[sym.IndexExpr], list[sym.IndexExpr], bool]:
    """The load's indices over the producer's parallel axes, the inner axes, the consumer's stage axes, and indices that
    are data; the sizes of all but the last; and whether there are any of these: whether it is a gather.
    """
    own = len(consumer.sizes)
    tiled = len(producer.sizes) + len(tiling.inner)
    points: list[sym.IndexExpr] = [*producer.sizes, *tiling.inner, *space.sizes[own:]]
    substitution = Substitution(space.variables)
    expressions = substitution.expressions(load.map.results, load.indices)
    data = substitution.axes[len(space.variables) :]
    ranges = index_ranges(load, data)
    further = range(len(space.sizes) - own + len(data))
    dims = [*tiling.indices, *(sym.dim(tiled + k) for k in further)]
    expressions = [sym.substitute(expression, dims) for expression in expressions]
    if ranges is not None:
        expressions = [sym.simplify(expression, [*points, *ranges]) for expression in expressions]
    return expressions, points, bool(data)


def _in_order(walk: Sequence[sym.IndexExpr], points: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]) -> bool:
    if volume(points) != volume(sizes):
        return False
    axes = [sym.dim(k) for k in range(len(points))]
    return sym.simplify(sym.linearize(walk, sizes), points) == sym.simplify(sym.linearize(axes, points), points)


def _add_stages(
    merged: loops.NestOp,
    consumer: loops.NestOp,
    tiling: Tiling,
    jam: loops.StatementOp | None,
    kept: int,
    plan: _Plan,
) -> None:
    place = InsertPoint.at_end(merged.body)
    variables: list[SSAValue] = list(merged.induction_variables)
    if jam is not None:
        _make_last(jam)
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
        replace_all_uses(load.result, _as_read(load, value))
        remove(load)
    clone_into(consumer.body.ops, place, substitution)


def _as_read(load: loops.LoadOp, value: SSAValue) -> SSAValue:
    """What a load of a stored value gives: load t[p] if c else y -> select(c, value, y)."""
    if load.mask is None or load.other is None:
        return value
    select = elem.SelectOp.build(load.mask, value, load.other)
    select.location = load.location
    Rewriter.insert_op(select, InsertPoint.before(load))
    return select.result
