"""`cse`: what was computed once is not computed again, in bodies and among the ops of @main."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import aten, elem, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import fingerprint, key_of
from cuesta.dialects.core.operation import PlainOperation, ops_of, replace_all_uses
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.host.aliasing import escapes

_Key = tuple[object, ...]


class CsePass(ModulePass):
    """Scoped value numbering. Two ops are one when class, operands, properties and *result types* agree.

    Upstream's CSE ignores the result types and would merge two casts of one value. A load of an out may see another
    value each time; it is left alone.
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        merge_graph(block)
        for top in ops_of(block):
            if type(top) is loops.NestOp:
                merge_body(top.body, {}, frozenset(top.handles))


def _key(op: PlainOperation) -> _Key:
    return (
        type(op),
        tuple(map(id, op.operand_values)),
        tuple([(name, key_of(attribute)) for name, attribute in op.properties.items()]),
        tuple([key_of(result.type) for result in op.results]),
    )


def merge_body(block: Block, known: dict[_Key, Operation], handles: frozenset[SSAValue]) -> None:
    """Merges within a body; what an outer scope knows is known inside, not the other way round."""
    for op in ops_of(block):
        if op.regions and isinstance(op, loops.DomainOp):
            merge_body(op.body, dict(known), handles)
            continue
        if type(op) is loops.LoadOp:
            if op.source in handles:
                continue
        elif not isinstance(op, elem.ElementwiseOp | loops.IndexOp | loops.BoundOp):
            continue
        key = _key(op)
        first = known.get(key)
        if first is None:
            known[key] = op
        else:
            _replace(op, first)


def merge_graph(block: Block) -> None:
    """Merges views, nests, literals and pure library calls of @main."""
    known: dict[object, Operation] = {}
    alone: dict[_Key, loops.NestOp | None] = {}  # of one outline, the only nest so far
    ops = ops_of(block)
    # Of what a nest takes over there has to be one for each that does.
    taken_over = {operand.owner for op in ops if type(op) is loops.NestOp for operand in op.operands}
    for op in ops:
        if isinstance(op, loops.NestOp):
            if op in taken_over:
                continue
            outline = _outline(op)
            if outline not in alone:
                alone[outline] = op
                continue
            if (other := alone[outline]) is not None:
                known[fingerprint(other, by_identity=True)] = other
                alone[outline] = None
            key: object = fingerprint(op, by_identity=True)
        elif isinstance(op, loops.ViewOp | loops.WordsOp | aten.LiteralOp) or (
            isinstance(op, loops.ExternOp) and op.is_pure
        ):
            key = _key(op)
        else:
            continue
        first = known.get(key)
        if first is None:
            known[key] = op
        elif not (escapes(op) and escapes(first)):  # two tensors that are returned must stay two
            _replace(op, first)


def _outline(nest: loops.NestOp) -> _Key:
    """What nests that are one have in common, and few others do: how many points and results, what comes first, and
    what that reads of other ops. A fingerprint is some hundred times as dear.
    """
    first: Operation | None = nest.body.first_op
    while first is not None and first.regions:
        inner = first.regions[0].first_block
        first = None if inner is None else inner.first_op
    operands = () if first is None else first.operands
    read = [value for value in operands if not isinstance(value, BlockArgument) or value.owner is nest.parent]
    return (nest.sizes, len(nest.results), type(first), *read)


def _replace(op: Operation, by: Operation) -> None:
    for old, new in zip(op.results, by.results, strict=True):
        replace_all_uses(old, new)
    remove(op)
