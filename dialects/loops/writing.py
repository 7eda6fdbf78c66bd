"""Writing bodies op by op, for the passes that take nests apart."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp
from cuesta.dialects.loops.structure import DomainOp, NestOp, ReduceOp, YieldOp
from cuesta.dialects.loops.surgery import Substitution, remove

_SMALL = 2**30
"""Up to here 32 bits hold a position, also of a part that reaches beyond the end.

Source: a definition: 32 bits with a sign, and as much room again.
"""


def type_of_positions(limit: int) -> IntegerType:
    """The type of positions that are compared with a limit."""
    return i32 if limit < _SMALL else i64


def nest_before(old: NestOp, sizes: Sequence[sym.IndexExpr], outs: Sequence[Attribute]) -> tuple[NestOp, Substitution]:
    """An empty nest before an old one, whose first axes are the old one's; and what the old one's indices become."""
    new = NestOp.build(sizes, outs)
    new.location = old.location
    Rewriter.insert_op(new, InsertPoint.before(old))
    substitution = Substitution(new.induction_variables)
    for before, now in zip(old.induction_variables, new.induction_variables, strict=False):
        substitution.set_index(before, substitution.axis(now))
        now.name_hint = before.name_hint
    return new, substitution


class BodyWriter:
    """Puts ops at the end of a block, all of one location."""

    def __init__(self, block: Block, source: Operation) -> None:
        self.block = block
        self.location = source.location

    def add(self, op: Operation) -> SSAValue:
        """Puts an op there; gives its first result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def make(self, name: str, *operands: SSAValue) -> SSAValue:
        """A row of `elem`'s table."""
        return self.add(elem.make(name, *operands))

    def constant(self, value: float, kind: Attribute) -> SSAValue:
        """A constant."""
        return self.add(elem.constant(value, kind))

    def select(self, condition: SSAValue, true: SSAValue, false: SSAValue) -> SSAValue:
        """One of two values."""
        return self.add(elem.SelectOp.create(operands=(condition, true, false), result_types=(true.type,)))

    def load(self, tensor: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """The element at just these indices."""
        return self.add(LoadOp.build(tensor, [sym.dim(k) for k in range(len(indices))], indices))

    def number(self, e: sym.IndexExpr, indices: Sequence[SSAValue], kind: Attribute) -> SSAValue:
        """An index expression as a number of a type."""
        if isinstance(e, int):
            return self.constant(e, kind)
        index = self.add(IndexOp.build(e, indices, i64))
        return index if kind == i64 else self.add(elem.ConvertOp.create(operands=(index,), result_types=(kind,)))

    def end(self, value: SSAValue) -> None:
        """Ends the body of a reduction."""
        result = YieldOp.build(value)
        result.location = self.location
        self.block.add_op(result)


def leading_to(value: SSAValue, ops: Sequence[Operation]) -> list[Operation]:
    """Those of the ops of a body that a value needs."""
    wanted = {value}
    found: list[Operation] = []
    for op in reversed(ops):
        if any(result in wanted for result in op.results):
            found.append(op)
            wanted.update(op.operands)
    return found[::-1]


def only_where(there: SSAValue, part: ReduceOp) -> None:
    """Lets a reduction read, and take in, only the points where the value `there` of its body is true."""
    read_only_where(there, part)
    end = part.body.last_op
    assert end is not None
    value = part.yielded
    nothing = elem.constant(identity(part.kind, value.type), value.type)
    chosen = elem.SelectOp.create(operands=(there, value, nothing.results[0]), result_types=(value.type,))
    nothing.location = chosen.location = part.location
    Rewriter.insert_op([nothing, chosen], InsertPoint.before(end))
    end.operands[0] = chosen.results[0]


def store_only_where(there: SSAValue, stores: Sequence[StoreOp]) -> None:
    """Lets stores write only at the points where the value `there`, which comes before them, is true."""
    for store in stores:
        mask, before = there, list[Operation]()
        if store.mask is not None:
            both = elem.make("and", there, store.mask)
            both.location = store.location
            mask, before = both.results[0], [both]
        masked = StoreOp.build(store.value, store.target, store.map.results, store.indices, mask)
        masked.location = store.location
        Rewriter.insert_op([*before, masked], InsertPoint.before(store))
        remove(store)


def read_only_where(there: SSAValue, domain: DomainOp) -> None:
    """Lets what stands in a domain read at its points only where the value `there` of its body is true. An index that
    data is made into is 0 elsewhere, whatever the data is: nobody asks whether it is in range.
    """
    own: set[SSAValue] = set(domain.induction_variables)
    for op in list(domain.walk()):
        if isinstance(op, BoundOp):
            own.add(op.results[0])
            zero = elem.constant(0, op.operands[0].type)
            chosen = elem.SelectOp.build(there, op.operands[0], zero.results[0])
            zero.location = chosen.location = op.location
            Rewriter.insert_op([zero, chosen], InsertPoint.before(op))
            op.operands[0] = chosen.results[0]
        elif isinstance(op, LoadOp) and not own.isdisjoint(op.indices):
            load_only_where(there, op)


def load_only_where(there: SSAValue, load: LoadOp) -> SSAValue:
    """Lets a load read only where the value `there`, which comes before it, is true; it gives 0 elsewhere. Gives what
    is loaded.
    """
    mask, other = load.mask, load.other
    before: list[Operation] = []
    if mask is None or other is None:
        mask, zero = there, elem.constant(0, load.result.type)
        other = zero.results[0]
        before.append(zero)
    else:
        both = elem.make("and", there, mask)
        mask = both.results[0]
        before.append(both)
    masked = LoadOp.build(load.source, load.map.results, load.indices, mask, other)
    for op in (*before, masked):
        op.location = load.location
    Rewriter.insert_op([*before, masked], InsertPoint.before(load))
    replace_all_uses(load.result, masked.result)
    remove(load)
    return masked.result


__all__ = [
    "BodyWriter",
    "leading_to",
    "load_only_where",
    "nest_before",
    "only_where",
    "read_only_where",
    "store_only_where",
    "type_of_positions",
]
