"""What a scatter on a processor starts from, where it is large: a nest of its own writes it, in the order of memory.

for (%r : 30000) { store 0, %o[%r, %d] }    in a loops.nest (%d : 64)    →    loops.nest (%d : 64, %r : 30000)
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.loops.surgery import Substitution, clone_into, combines_of, remove, stores_of

WORTH_SPLITTING = 16384
"""Elements of an out from which on it is worth a kernel of its own.

Source: measured by `make bench-constants ARGS='--only starts.WORTH_SPLITTING'`
"""

_MOVABLE = (elem.ElementwiseOp, loops.IndexOp, loops.LoadOp)


def split_start(nest: loops.NestOp, written: Sequence[SSAValue] = ()) -> loops.NestOp:
    """Takes out of a nest every stage that only stores what a scan changes later, if that is worth it; gives the nest
    that is left, which `updates` what they store. Of a result that is `written` to an argument it is always worth it:
    where the stage copies the argument, nothing is left of it in the end.
    """
    while (found := _stage_to_split(nest, written)) is not None:
        stage, store = found
        nest = _without_stage(nest, stage, store, _first_nest(nest, stage))
    return nest


def _stage_to_split(nest: loops.NestOp, written: Sequence[SSAValue]) -> tuple[loops.ForOp, loops.StoreOp] | None:
    """The first stage that does nothing but store all of an out that a scan changes later."""
    combined = {combine.target for combine in combines_of(nest)}
    if not combined:
        return None
    stores = stores_of(nest)
    for stage in nest.body.ops:
        if not isinstance(stage, loops.ForOp):
            continue
        own = [store for store in stores if store.parent is stage.body]
        if len(own) != 1 or own[0].mask is not None or own[0].target not in combined:
            continue
        target = own[0].target
        alone = sum(store.target is target for store in stores) == 1
        is_written = nest.results[nest.handles.index(target)] in written
        if alone and (is_written or _is_worth_it((*nest.sizes, *stage.sizes))) and _can_move(nest, stage):
            return stage, own[0]
    return None


def _is_worth_it(sizes: Sequence[sym.IndexExpr]) -> bool:
    count = sym.product_of(sizes)
    return not isinstance(count, int) or count >= WORTH_SPLITTING


def _can_move(nest: loops.NestOp, stage: loops.ForOp) -> bool:
    """Whether the stage, and what it needs of the nest's own body, reads nothing that the nest writes."""
    handles = set(nest.handles)
    for op in (*stage.body.ops, *_needed(nest, stage)):
        if not isinstance(op, (*_MOVABLE, loops.StoreOp)) or (isinstance(op, loops.LoadOp) and op.source in handles):
            return False
    return True


def _needed(nest: loops.NestOp, stage: loops.ForOp) -> list[Operation]:
    """The ops of the nest's own body that a stage depends on, in order."""
    wanted: set[Operation] = set()
    work: list[Operation] = ops_of(stage.body)
    while work:
        for operand in work.pop().operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is nest.body and owner not in wanted:
                wanted.add(owner)
                work.append(owner)
    return [op for op in nest.body.ops if op in wanted]


def _first_nest(nest: loops.NestOp, stage: loops.ForOp) -> SSAValue:
    """Puts the stage before the nest, as a nest of its own; gives what it stores."""
    (store,) = (op for op in stage.body.ops if isinstance(op, loops.StoreOp))
    first = loops.NestOp.build((*nest.sizes, *stage.sizes), [store.target.type])
    first.location = stage.location
    Rewriter.insert_op(first, InsertPoint.before(nest))
    substitution = Substitution(first.induction_variables)
    old_variables = (*nest.induction_variables, *stage.induction_variables)
    for old, new in zip(old_variables, first.induction_variables, strict=True):
        substitution.set_index(old, substitution.axis(new))
        new.name_hint = old.name_hint
    substitution.values[store.target] = first.handles[0]
    clone_into([*_needed(nest, stage), *stage.body.ops], InsertPoint.at_end(first.body), substitution)
    return first.results[0]


def _without_stage(nest: loops.NestOp, stage: loops.ForOp, store: loops.StoreOp, started: SSAValue) -> loops.NestOp:
    """The nest without the stage; the out that it stored becomes the last one, and updates what is `started`."""
    needed = _needed(nest, stage)
    position = nest.handles.index(store.target)  # pyright: ignore[reportArgumentType] # a handle, says the verifier
    remove(stage)
    for op in reversed(needed):
        if not any(result.first_use for result in op.results):
            remove(op)
    body = nest.body
    old = body.args[len(nest.sizes) + position]
    new = body.insert_arg(old.type, len(body.args))
    new.name_hint = old.name_hint
    replace_all_uses(old, new)
    body.erase_arg(old)
    results = [*nest.results[:position], *nest.results[position + 1 :], nest.results[position]]
    rest = loops.NestOp.create(
        operands=[*nest.operands, started],
        result_types=[result.type for result in results],
        properties=nest.properties.copy(),
        attributes=nest.attributes.copy(),
        regions=[nest.detach_region(0)],
    )
    rest.location = nest.location
    Rewriter.insert_op(rest, InsertPoint.before(nest))
    for before, after in zip(results, rest.results, strict=True):
        after.name_hint = before.name_hint
        replace_all_uses(before, after)
    remove(nest)
    return rest


__all__ = ["split_start"]
