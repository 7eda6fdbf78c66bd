"""A scatter on a GPU is a nest for each of its stages: atomics want all that was there before to be in memory.

A nest that cannot be taken apart so stays whole, and its scans run one point after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.surgery import Substitution, all_ops, clone_into, combines_of, loads_of, remove, stores_of

_PURE = (elem.ElementwiseOp, loops.IndexOp, loops.LoadOp, loops.BoundOp, loops.YieldOp, loops.ReduceOp)


def take_apart(nest: loops.NestOp) -> None:
    """Puts a nest for every stage in the place of one that combines, if its stages can be told apart."""
    if combines_of(nest) and (stages := _stages_of(nest)) is not None:
        _take_apart(nest, stages)


@struct(frozen=False)
class _Stage:
    """Ops of the nest's own body that do something, and all the pure ones that they need, in order."""

    ops: list[Operation]
    needed: list[Operation] = field(default_factory=list[Operation])
    stored: list[SSAValue] = field(default_factory=list[SSAValue])
    """The handles it stores."""
    combined: list[SSAValue] = field(default_factory=list[SSAValue])
    """The handles it changes."""


def _stages_of(nest: loops.NestOp) -> list[_Stage] | None:
    """What becomes a nest each; None when the nest cannot be taken apart."""
    stages: list[_Stage] = []
    for op in nest.body.ops:
        if isinstance(op, loops.StoreOp) and stages and isinstance(stages[-1].ops[-1], loops.StoreOp):
            stages[-1].ops.append(op)
        elif isinstance(op, loops.StoreOp | loops.StatementOp):
            stages.append(_Stage([op]))
        elif not _is_pure(op):
            return None
    for stage in stages:
        stage.needed = _needed(nest, stage)
        stage.stored = list({store.target: None for op in stage.ops for store in stores_of(op)})
        stage.combined = list({combine.target: None for op in stage.ops for combine in combines_of(op)})
    checks = {op for op in nest.body.ops if any(isinstance(inner, loops.BoundOp) for inner in all_ops(op))}
    kept = {op for stage in stages for op in (*stage.ops, *stage.needed)}
    return stages if checks <= kept and _is_separable(nest, stages) else None


def _is_pure(op: Operation) -> bool:
    return all(isinstance(inner, _PURE) for inner in all_ops(op))


def _needed(nest: loops.NestOp, stage: _Stage) -> list[Operation]:
    wanted: set[Operation] = set()
    work = [inner for op in stage.ops for inner in all_ops(op)]
    while work:
        for operand in work.pop().operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is nest.body and owner not in wanted:
                wanted.add(owner)
                work += all_ops(owner)
    return [op for op in nest.body.ops if op in wanted]


def _is_separable(nest: loops.NestOp, stages: Sequence[_Stage]) -> bool:
    """Whether every handle is stored by one stage, changed by later ones, and read after that."""
    handles = set(nest.handles)
    whole: set[SSAValue] = set()
    read: set[SSAValue] = set()
    for stage in stages:
        if bool(stage.stored) == bool(stage.combined):
            return False
        if any(load.source in handles for op in stage.needed for load in loads_of(op)):
            return False
        loaded = {load.source for op in stage.ops for load in loads_of(op)} & handles
        if not loaded <= whole or loaded & {*stage.stored, *stage.combined} or whole & set(stage.stored):
            return False
        read |= loaded
        if not set(stage.combined) <= whole - read:
            return False
        whole |= set(stage.stored)
    return whole == handles


def _take_apart(nest: loops.NestOp, stages: Sequence[_Stage]) -> None:
    """Puts a nest for every stage in the place of the nest."""
    now: dict[SSAValue, SSAValue] = {}
    for stage in stages:
        outs = stage.stored or stage.combined
        # What only stores has no order: the axes of its loop are parallel, too.
        (first, *_) = stage.ops
        inner = first if isinstance(first, loops.ForOp) and not stage.combined else None
        sizes = (*nest.sizes, *(inner.sizes if inner is not None else ()))
        updates = [now[out] for out in outs] if stage.combined else ()
        new = loops.NestOp.build(sizes, [out.type for out in outs], updates)
        new.location = first.location
        Rewriter.insert_op(new, InsertPoint.before(nest))
        variables = [*nest.induction_variables, *(inner.induction_variables if inner is not None else ())]
        substitution = Substitution(new.induction_variables)
        for old, variable in zip(variables, new.induction_variables, strict=True):
            substitution.set_index(old, substitution.axis(variable))
            variable.name_hint = old.name_hint
        substitution.values.update(now)
        for out, handle in zip(outs, new.handles, strict=True):
            substitution.values[out] = handle
            handle.name_hint = out.name_hint
        body = stage.ops if inner is None else [*inner.body.ops]
        clone_into([*stage.needed, *body], InsertPoint.at_end(new.body), substitution)
        for old, value in substitution.values.items():
            value.name_hint = value.name_hint or old.name_hint
        if stage.combined and "schedule" in nest.properties:  # said of the scatter, not of what it starts from
            new.properties["schedule"] = nest.properties["schedule"]
        for out, result in zip(outs, new.results, strict=True):
            now[out] = result
    for handle, result in zip(nest.handles, nest.results, strict=True):
        now[handle].name_hint = result.name_hint
        replace_all_uses(result, now[handle])
    remove(nest)


__all__ = ["take_apart"]
