"""`forward-stores`: a few elements of what a stage stores are computed again where they are read, and not stored."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, combines_of, loads_of, remove, stores_of
from cuesta.transforms.dce import clean_block, drop_unused_outs
from cuesta.transforms.fusion import cost
from cuesta.transforms.fusion.space import Space, volume

_MOST_READS = 4
"""The most places where a stage's value is computed again, instead of being read back.

Source: measured by `make bench-constants ARGS='--only forward_stores._MOST_READS'`
"""

_CHEAPER_THAN_MEMORY, _MOST_LOADS = 64, 4
"""The most arithmetic and loads that cost less than memory on a GPU, where a tile still has most of it in registers.

Source: measured by `make bench-constants ARGS='--only forward_stores._CHEAPER_THAN_MEMORY forward_stores._MOST_LOADS'`
"""

_PURE = (elem.ElementwiseOp, loops.LoadOp, loops.IndexOp)


class ForwardStoresPass(ModulePass):
    """for (j) { v = f(i, j); store v, t[i, j] }; … load t[i, e] …  ->  … f(i, e) …, when nobody else reads t.

    Exact. Cross entropy reads one log-probability of each row: the others are not computed. On a GPU whatever costs
    less to compute than to store and read is computed again. Near misses: what is read as often as it is stored, and
    dear; a masked read; a stage that can raise IndexError; an out that a scan changes.
    """

    name = "forward-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and not all(result.uses for result in nest.results):
                _forward_in(nest)


def _forward_in(nest: loops.NestOp) -> None:
    stores: dict[SSAValue, list[loops.StoreOp]] = {}
    for store in stores_of(nest):
        stores.setdefault(store.target, []).append(store)
    loads: dict[SSAValue, list[loops.LoadOp]] = {}
    for load in loads_of(nest):
        loads.setdefault(load.source, []).append(load)
    changing = {combine.target for combine in combines_of(nest)}
    forwarded = False
    for result, handle in zip(nest.results, nest.handles, strict=True):
        if not result.uses and handle in loads and handle not in changing and len(stores.get(handle, ())) == 1:
            stage = Stage.of(stores[handle][0], nest)
            reason = stage if isinstance(stage, str) else stage.why_not(loads[handle])
            if reason is not None:
                no_match(nest, f"%{result.name_hint or 'an out'} is read back: {reason}")
                continue
            assert isinstance(stage, Stage)
            for load in loads[handle]:
                stage.compute_at(load)
            forwarded = True
    if forwarded and (smaller := drop_unused_outs(nest)) is not None:
        clean_block(smaller.body)


@struct
class Stage:
    """A loop or a reduction right in a nest, and the value that it stores at its own induction variables."""

    nest: loops.NestOp
    loop: loops.ForOp | loops.ReduceOp
    value: SSAValue
    ops: list[Operation]
    """What computes the value, in order."""
    axis_of: list[int]
    """For each induction variable of the loop the axis of the tensor that it walks."""

    @classmethod
    def of(cls, store: loops.StoreOp, nest: loops.NestOp, *, may_raise: bool = False) -> Stage | str:
        loop = store.parent_op()
        if not isinstance(loop, loops.ForOp | loops.ReduceOp) or loop.parent is not nest.body or store.mask is not None:
            return "it is not stored, without a mask, by a stage of the nest"
        if isinstance(loop, loops.ReduceOp) and not traits_of(nest.results[0]).arithmetic_is_cheap:
            return "it is stored by a reduction, and a program's memory is close"
        written = Space(store).expressions(store)
        if written is None:
            return "the stage scatters"
        first = len(nest.sizes)
        inner = [sym.dim(first + k) for k in range(len(loop.sizes))]
        axis_of = [axis for variable in inner for axis, index in enumerate(written) if index is variable]
        others = [index for axis, index in enumerate(written) if axis not in axis_of]
        if len(axis_of) != len(inner) or any(dim >= first for index in others for dim in sym.dims_of(index)):
            return "the stage does not walk axes of the tensor"
        ops = _slice(store.value, loop.body)
        known = (*_PURE, loops.StoreOp, loops.YieldOp, *((loops.BoundOp,) if may_raise else ()))
        if not all(isinstance(op, known) for op in loop.body.ops):
            return "the stage has loops inside, or can raise IndexError"
        return cls(nest, loop, store.value, ops, axis_of)

    def why_not(self, reads: list[loops.LoadOp]) -> str | None:
        """Why the reads stay; None when computing what they read again costs no more."""
        if (reason := self.obstacle(reads)) is not None:
            return reason
        if len(reads) > _MOST_READS:
            return f"there are more than {_MOST_READS} reads"
        here = volume(self.nest.sizes)
        often = any(Space(load).volume != here for load in reads)
        arithmetic, loads = (
            sum(map(cost.arithmetic_cost, self.ops)),
            sum(isinstance(op, loops.LoadOp) for op in self.ops),
        )
        cheap = traits_of(self.nest.results[0]).arithmetic_is_cheap
        most = (_CHEAPER_THAN_MEMORY, _MOST_LOADS) if cheap else (cost.FREE_ARITHMETIC, cost.FREE_LOADS)
        if often and (arithmetic > most[0] or loads > most[1]):
            return "it is read as often as it is stored, and computing it costs more than reading it"
        return None

    def obstacle(self, reads: list[loops.LoadOp]) -> str | None:
        """Why what is read cannot be computed at the reads, whatever that costs."""
        if any(load.mask is not None for load in reads):
            return "a read is masked"
        if not all(self.loop.is_before_in_block(_stage_of(load, self.nest)) for load in reads):
            return "a read does not come after the stage"
        if any(isinstance(op, loops.LoadOp) and op.source in self.nest.handles for op in self.ops):
            return "the stage reads back what an earlier one stored"
        return None

    def compute_at(self, load: loops.LoadOp) -> None:
        """load t[i, e] -> f(i, e)"""
        replace_all_uses(load.result, self.value_at(load))
        remove(load)

    def value_at(self, load: loops.LoadOp) -> SSAValue:
        """f(i, e) before a load of t[i, e]."""
        substitution = Substitution(Space(load).variables)
        expressions = substitution.expressions(load.map.results, load.indices)
        for variable, axis in zip(self.loop.induction_variables, self.axis_of, strict=True):
            substitution.set_index(variable, expressions[axis])
        clone_into(self.ops, InsertPoint.before(load), substitution)
        return substitution.value(self.value)


def _slice(value: SSAValue, body: Block) -> list[Operation]:
    """The ops of a body that compute a value, in order."""
    wanted: set[Operation] = set()
    work = [value]
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner.parent is body and owner not in wanted:
            wanted.add(owner)
            work.extend(owner.operands)
    return [op for op in body.ops if op in wanted]


def _stage_of(op: Operation, nest: loops.NestOp) -> Operation:
    """The op of the nest's own body that `op` is, or stands in."""
    while (parent := op.parent_op()) is not None and parent is not nest:
        op = parent
    return op


__all__ = ["ForwardStoresPass", "Stage"]
