"""`dce`: drops what nobody reads: pure ops, nests and their outs, views, pure library calls."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from cuesta.dialects import kernel, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import is_used, ops_of, replace_all_uses
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.loops.surgery import combines_of, loads_of, remove, stores_of


class DcePass(ModulePass):
    """Walks @main backwards once; an op whose results have no uses and that does nothing else goes.

    A `loops.bound` stays: it may raise IndexError, as eager would.
    """

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        clean_block(block)


def clean_block(block: Block) -> None:
    """Drops dead ops of a block and of what is nested in it."""
    for op in reversed(ops_of(block)):
        if type(op) is loops.NestOp:
            _clean_nest(op)
        elif op.regions and isinstance(op, loops.DomainOp):
            clean_block(op.body)
            if (isinstance(op, loops.StatementOp) and op.body.is_empty) or (
                isinstance(op, loops.ReduceOp) and not is_used(op) and not _raises(op)
            ):
                remove(op)
            elif isinstance(op, loops.ReduceOp) and op.kind in EXTREMES and not op.results[1].uses:
                _forget_position(op)
        elif not is_used(op) and op.results and _is_pure(op):
            remove(op)


def _forget_position(op: loops.ReduceOp) -> None:
    """%v, %unused = reduce argmax → %v = reduce maximum. Exact: both propagate NaN; of 0 and −0 either may come."""
    new = loops.ReduceOp.create(
        result_types=(op.results[0].type,),
        properties={**op.properties, "kind": StringAttr(EXTREMES[op.kind])},
        attributes=op.attributes.copy(),
        regions=[op.detach_region(0)],
    )
    _take_place(new, op, op.results[:1])


def _clean_nest(nest: loops.NestOp) -> None:
    """What dies with an out may have been the last to read another."""
    clean_block(nest.body)
    while (smaller := drop_unused_outs(nest)) is not None and smaller is not nest:
        clean_block(smaller.body)
        nest = smaller


def _is_pure(op: Operation) -> bool:
    if isinstance(op, loops.LoadOp | kernel.LoadOp):
        return True
    if isinstance(op, loops.ExternOp):
        return op.is_pure
    return is_side_effect_free(op)


def _raises(op: Operation) -> bool:
    return any(isinstance(inner, loops.BoundOp | loops.TensorWriteOp) for inner in op.walk())


def drop_unused_outs(nest: loops.NestOp) -> loops.NestOp | None:
    """The nest without the outs that neither it nor anyone else reads; None when nothing is left of it. One that
    updates others' memory keeps all of its outs as long as one is read.
    """
    read = {load.source for load in loads_of(nest)}
    dead = [
        k
        for k, (handle, result) in enumerate(zip(nest.handles, nest.results, strict=True))
        if not result.uses and handle not in read
    ]
    if not dead or (nest.operands and len(dead) < len(nest.results)):
        return nest
    if len(dead) == len(nest.results) and not any(isinstance(op, loops.BoundOp) for op in nest.walk()):
        remove(nest)
        return None
    dropped = {nest.handles[k] for k in dead}
    if len(dead) == len(nest.results):
        return nest
    for write in (*stores_of(nest), *combines_of(nest)):
        if write.target in dropped:
            remove(write)
    body = nest.body
    for handle in dropped:
        body.erase_arg(handle)
    kept = [result for k, result in enumerate(nest.results) if k not in dead]
    new = loops.NestOp.create(
        result_types=[result.type for result in kept],
        properties=nest.properties.copy(),
        attributes=nest.attributes.copy(),
        regions=[nest.detach_region(0)],
    )
    _take_place(new, nest, kept)
    return new


def _take_place(new: Operation, old: Operation, kept: Sequence[SSAValue]) -> None:
    """Puts an op in the place of another, of whose results it gives those that are `kept`."""
    new.location = old.location
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    for before, after in zip(kept, new.results, strict=True):
        after.name_hint = before.name_hint
        replace_all_uses(before, after)
    remove(old)
