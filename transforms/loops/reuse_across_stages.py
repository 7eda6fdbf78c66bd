"""`reuse-across-stages`: what one stage of a nest computed, a later one reads back instead of computing it again."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.layout import device_of, tensor_type, tensor_type_of, traits_of
from cuesta.dialects.loops.surgery import combines_of
from cuesta.transforms.fusion.absorb import with_more_outs
from cuesta.transforms.fusion.cost import arithmetic_cost
from cuesta.transforms.fusion.space import volume

_WORTH_KEEPING = 8
"""The arithmetic from which on a value is kept: about one exponential.

Source: measured by `make bench-constants ARGS='--only reuse_across_stages._WORTH_KEEPING'`
"""
_MOST_KEPT = 16384
"""The most elements that a program keeps for a later stage: they should stay in the cache.

Source: measured by `make bench-constants ARGS='--only reuse_across_stages._MOST_KEPT'`
"""

_Number = Hashable
_NUMBERED = (loops.LoadOp, loops.IndexOp, elem.ElementwiseOp)


class ReuseAcrossStagesPass(ModulePass):
    """reduce (j) { … v = f(i, j) … }; for (j) { … f(i, j) … }  ->  reduce (j) { … v; store v, t[i, j] … };
    for (j) { … load t[i, j] … }

    Exact: the same value, bit for bit. Softmax computes its exponentials once. Near misses: a cheap f; inner domains
    of other sizes; rows too long for the cache. A read of an out is a value like any other, unless a scan changes it.
    """

    name = "reuse-across-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            # On a GPU what one tile holds stays in registers anyway, and memory is dearer than arithmetic.
            if isinstance(nest, loops.NestOp) and not traits_of(nest.results[0]).arithmetic_is_cheap:
                stages = [stage for stage in nest.body.ops if isinstance(stage, loops.DomainOp)]
                if len(stages) > 1:
                    _Nest(nest, stages).run()


class _Nest:
    def __init__(self, nest: loops.NestOp, stages: list[loops.DomainOp]) -> None:
        self.nest = nest
        self.stages = stages
        self.changing = {combine.target for combine in combines_of(nest)}
        self.numbers: dict[SSAValue, _Number] = {}
        self.known: dict[tuple[Hashable, ...], int] = {}
        self.costs: dict[SSAValue, int] = {}
        self.kept: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        found: dict[tuple[tuple[sym.IndexExpr, ...], _Number], SSAValue] = {}
        for stage in self.stages:
            sizes = tuple(stage.sizes)
            points = volume(sizes)
            if not isinstance(points, int) or points > _MOST_KEPT or _has_inner(stage) or not _runs_along_rows(stage):
                continue
            self.number(stage)
            for op in reversed(ops_of(stage.body)):
                if not isinstance(op, elem.ElementwiseOp) or not op.result.uses:
                    continue
                first = found.get((sizes, self.numbers[op.result]))
                if first is not None and self.costs[op.result] >= _WORTH_KEEPING:
                    self.read_back(op, first, stage)
            for op in stage.body.ops:
                if isinstance(op, elem.ElementwiseOp) and op.result in self.numbers:
                    found.setdefault((sizes, self.numbers[op.result]), op.result)

    def number(self, stage: loops.DomainOp) -> None:
        """Numbers the values of a stage so that equal numbers are equal values at equal points."""
        for position, variable in enumerate(stage.induction_variables):
            self.numbers[variable] = ("point", position)
        for op in stage.body.ops:
            if not isinstance(op, _NUMBERED) or (isinstance(op, loops.LoadOp) and op.source in self.changing):
                continue
            result = op.results[0]
            operands = tuple(self.numbers.get(operand, operand) for operand in op.operands)
            key = (type(op), operands, tuple(op.properties.values()), result.type)
            self.numbers[result] = self.known.setdefault(key, len(self.known))
            self.costs[result] = sum(self.costs.get(operand, 0) for operand in op.operands) + arithmetic_cost(op)

    def read_back(self, op: elem.ElementwiseOp, first: SSAValue, stage: loops.DomainOp) -> None:
        """Replaces `op` by a load of what the earlier stage kept of `first`."""
        handle = self.kept.get(first)
        if handle is None:
            handle = self.kept[first] = self.keep(first)
        variables = [*self.nest.induction_variables, *stage.induction_variables]
        load = loops.LoadOp.build(handle, [sym.dim(k) for k in range(len(variables))], variables)
        load.location = op.location
        Rewriter.insert_op(load, InsertPoint.before(op))
        replace_all_uses(op.result, load.result)

    def keep(self, value: SSAValue) -> SSAValue:
        """Stores `value` where it is computed, in a new out of the nest; gives the out's handle."""
        owner = value.owner
        assert isinstance(owner, Operation)
        stage = owner.parent_op()
        assert isinstance(stage, loops.DomainOp)
        sizes = (*self.nest.sizes, *stage.sizes)
        device = device_of(tensor_type_of(self.nest.results[0]))
        self.nest = with_more_outs(self.nest, [tensor_type(sizes, value.type, device=device)])
        handle = self.nest.handles[-1]
        variables = [*self.nest.induction_variables, *stage.induction_variables]
        store = loops.StoreOp.build(value, handle, [sym.dim(k) for k in range(len(sizes))], variables)
        store.location = owner.location
        Rewriter.insert_op(store, InsertPoint.after(owner))
        return handle


def _has_inner(stage: loops.DomainOp) -> bool:
    return any(isinstance(op, loops.DomainOp) for op in stage.body.ops)


def _runs_along_rows(stage: loops.DomainOp) -> bool:
    """Whether the stage reads some tensor along its last axis, so that what is kept of a row lies together as well."""
    if not stage.induction_variables:
        return False
    last = stage.induction_variables[-1]
    return any(
        isinstance(op, loops.LoadOp)
        and last in op.indices
        and list(op.indices).index(last) in sym.dims_of(op.map.results[-1])
        for op in stage.body.ops
    )
