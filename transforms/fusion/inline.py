"""The move *inline*: compute a pointwise producer again where it is read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import Substitution, clone_op, has_points, index_ranges, loads_of, remove
from cuesta.transforms.fusion.profit import is_large, large_sources
from cuesta.transforms.fusion.space import Space, volume


def stored_values(producer: loops.NestOp) -> dict[SSAValue, SSAValue] | str:
    """The value that a pointwise nest gives at each point, by result; or why it is not of that form."""
    values: dict[SSAValue, SSAValue] = {}
    result_of: dict[SSAValue, SSAValue] = dict(zip(producer.handles, producer.results, strict=True))
    variables = tuple(producer.induction_variables)
    identity = sym.MapAttr.identity(len(variables))
    for op in ops_of(producer.body):
        if op.regions and isinstance(op, loops.DomainOp):
            return "the producer has inner domains"
        if type(op) is loops.LoadOp and op.source in result_of:
            return "the producer reads its own outs"
        if type(op) is loops.StoreOp:
            result = result_of[op.target]
            if op.mask is not None or result in values:
                return "the producer stores an element more than once, or under a mask"
            if not _is_identity(op, variables, producer.sizes, identity):
                return "the producer does not store element i at point i"
            values[result] = op.value
    if len(values) < len(result_of):
        return "the producer has an out without elements, which it does not store"
    return values


def _is_identity(
    store: loops.StoreOp, variables: Sequence[SSAValue], sizes: Sequence[sym.IndexExpr], identity: sym.MapAttr
) -> bool:
    if tuple(store.indices) == variables and store.map is identity:
        return True
    if len(store.map.results) != len(sizes):
        return False
    substitution = Substitution(variables)
    expressions = substitution.expressions(store.map.results, store.indices)
    return all(
        expression is sym.dim(k) or (size == 1 and expression == 0)
        for k, (expression, size) in enumerate(zip(expressions, sizes, strict=True))
    )


def place_of(load: loops.LoadOp, ranges: sym.SymbolRanges) -> InsertPoint:
    """Where the load could stand: before the outermost inner domains whose induction variables it does not use.

    It does not leave a domain that may be empty: there, eager reads nothing.
    """
    place: Operation = load
    used = set(load.operands)
    while isinstance(parent := place.parent_op(), loops.DomainOp) and not isinstance(parent, loops.NestOp):
        if any(_defined_inside(value, parent) for value in used) or not has_points(parent, ranges):
            break
        place = parent
    return InsertPoint.before(place)


def _defined_inside(value: SSAValue, domain: loops.DomainOp) -> bool:
    owner = value.owner
    block: Block | None = owner if isinstance(owner, Block) else owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is domain:
            return True
        block = parent.parent if parent is not None else None
    return False


def inline_at(
    load: loops.LoadOp,
    producer: loops.NestOp,
    values: dict[SSAValue, SSAValue],
    ranges: sym.SymbolRanges,
    *,
    last: bool = False,
) -> bool:
    """load(P, m(i)) -> P's body at m(i).

    With `last` nobody reads P afterwards: where the points are the same, its body then moves instead of being copied,
    which keeps a long chain of nests linear. Returns whether it has.

    Exact. Under a mask the body's own loads take the mask over (so nothing is read where the mask is false), its bounds
    are given an index in range there, and the value is chosen at the end: select(mask, body, other).
    Requires: `fits_mask(load, producer)`.
    """
    place = place_of(load, ranges)
    at = place.insert_before
    assert at is not None
    variables = _variables_at(at)
    substitution = Substitution(variables)
    expressions = substitution.expressions(load.map.results, load.indices)
    sizes = index_ranges(load, substitution.axes)
    for variable, expression in zip(producer.induction_variables, expressions, strict=True):
        substitution.set_index(variable, expression if sizes is None else sym.simplify(expression, sizes))
    mask = load.mask
    new_ops: list[Operation] = []
    if last and mask is None and _move_body(producer, substitution, place):
        replace_all_uses(load.result, values[load.source])
        remove(load)
        return True
    for op in ops_of(producer.body):
        if type(op) is loops.StoreOp:
            continue
        if mask is not None and isinstance(op, loops.BoundOp):
            new_ops += _in_range(op, mask, substitution)
        new = clone_op(op, substitution)
        if mask is not None and isinstance(new, loops.LoadOp):
            new_ops += _masked(op, new, mask, substitution)
        else:
            new_ops.append(new)
    value = substitution.value(values[load.source])
    if mask is not None:
        other = load.other
        assert other is not None
        select = elem.SelectOp.build(mask, value, other)
        select.location = load.location
        new_ops.append(select)
        value = select.result
    Rewriter.insert_op(new_ops, place)
    replace_all_uses(load.result, value)
    remove(load)
    return False


def _move_body(producer: loops.NestOp, substitution: Substitution, place: InsertPoint) -> bool:
    """Moves what a dying producer computes to `place`, when each of its induction variables has become another one."""
    axes = substitution.axes
    becomes: list[SSAValue] = []
    for variable in producer.induction_variables:
        expression = substitution.index(variable)
        axis = next((axis for k, axis in enumerate(axes) if expression is sym.dim(k)), None)
        if axis is None or axis in becomes:
            return False
        becomes.append(axis)
    consumer = place.block.parent_op()
    if isinstance(consumer, loops.NestOp) and tuple(becomes) == consumer.induction_variables:
        _take_over(producer, consumer)
        return True
    for variable, axis in zip(producer.induction_variables, becomes, strict=True):
        replace_all_uses(variable, axis)
    moved = [op for op in producer.body.ops if not isinstance(op, loops.StoreOp)]
    for op in ops_of(producer.body):
        op.detach()
        if isinstance(op, loops.StoreOp):
            op.erase()
    Rewriter.insert_op(moved, place)
    return True


def _take_over(producer: loops.NestOp, consumer: loops.NestOp) -> None:
    """Appends the consumer's ops, over the same points, to the producer's, and gives the consumer that body.

    The body of a long chain of nests is that of the producer: the few ops of the consumer move. The producer's stores
    go; what it stored no op reads but the load that is being replaced.
    """
    body, own = producer.body, consumer.body
    for handle in producer.handles:
        for use in list(handle.uses):
            remove(use.operation)
        body.erase_arg(handle)
    for old, new in zip(consumer.induction_variables, producer.body.args, strict=True):
        replace_all_uses(old, new)
        new.name_hint = old.name_hint
    for handle in consumer.handles:
        argument = body.insert_arg(handle.type, len(body.args))
        argument.name_hint = handle.name_hint
        replace_all_uses(handle, argument)
    for op in ops_of(own):
        op.detach()
        body.add_op(op)
    region, empty = producer.detach_region(0), consumer.detach_region(0)
    consumer.add_region(region)
    producer.add_region(empty)


def _in_range(bound: loops.BoundOp, mask: SSAValue, substitution: Substitution) -> list[Operation]:
    """What `bound` is given becomes 0 where the mask is false: eager does not look at the index there."""
    old = bound.operands[0]
    value = substitution.value(old)
    zero = elem.constant(0, value.type)
    select = elem.SelectOp.build(mask, value, zero.result)
    substitution.values[old] = select.result
    return [zero, select]


def _masked(old: Operation, new: loops.LoadOp, mask: SSAValue, substitution: Substitution) -> list[Operation]:
    """A cloned load that also obeys `mask`; where the mask is false it gives 0, which is in range wherever it is an
    index.
    """
    operands = list(new.indices)
    made: list[Operation] = []
    if new.mask is None:
        zero = elem.constant(0, new.result.type)
        zero.location = new.location
        made.append(zero)
        both, other = mask, zero.result
    else:
        conjunction = elem.make("and", new.mask, mask)
        conjunction.location = new.location
        made.append(conjunction)
        assert new.mask.type == i1 and new.other is not None
        both, other = conjunction.result, new.other
    masked = loops.LoadOp.build(new.source, new.map.results, operands, both, other)
    masked.location = new.location
    substitution.values[old.results[0]] = masked.result
    new.erase()  # it stands nowhere yet
    return [*made, masked]


def _variables_at(op: Operation) -> list[SSAValue]:
    return Space(op).variables


def fits_mask(load: loops.LoadOp, producer: loops.NestOp) -> bool:
    """Whether the body means something where the load is masked out: 0 must be an index for each of its bounds."""
    if load.mask is None:
        return True
    bounds = (op for op in producer.body.ops if isinstance(op, loops.BoundOp))
    return all(isinstance(bound.size, int) and bound.size > 0 for bound in bounds)


def times_as_often(load: loops.LoadOp, producer: loops.NestOp, ranges: sym.SymbolRanges) -> float:
    """How many times as often the body's arithmetic would run at this load as in the producer, 1 if less; infinity
    where more would be loaded than is now, or nobody knows.

    A masked load of a concatenation runs at every point of the whole, but reads each element of its part once. Where
    windows overlap elements are loaded again in any case, those of the only large tensor that the producer reads. What
    is small beside all points stays in the cache.
    """
    at = place_of(load, ranges).insert_before
    assert at is not None
    space = Space(at)
    there, here = volume(producer.sizes), space.volume
    if there == here:
        return 1.0
    if not isinstance(there, int) or not isinstance(here, int):
        return math.inf
    if here <= there:
        return 1.0
    if there and (
        _reads_large_once(producer)
        or (load.mask is not None and _reads_once(load, space))
        or not any(is_large(one.source, here) for one in loads_of(producer))
    ):
        return here / there
    return math.inf


def _reads_large_once(producer: loops.NestOp) -> bool:
    """Whether a nest loads one element of one large tensor for a point, no wider than what it stores."""
    large = large_sources(producer)
    loads = [load for load in loads_of(producer) if load.source in large]
    return len(loads) == 1 and byte_width(loads[0].source) <= min(map(byte_width, producer.results))


def _reads_once(load: loops.LoadOp, space: Space) -> bool:
    """Whether two points of a space read two elements: every axis is, but for its start, an axis of what is read."""
    expressions = space.expressions(load)
    if expressions is None:
        return False
    origin = [0] * len(space.sizes)
    moved = [sym.simplify(index - sym.substitute(index, origin), space.sizes) for index in expressions]
    return all(size == 1 or sym.dim(axis) in moved for axis, size in enumerate(space.sizes))
