"""Cutting and joining bodies: cloning ops under a substitution of values and of indices, and asking what a nest is
made of.

This is what fusion and scheduling are written with. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import sym
from cuesta.dialects.core.operation import all_ops, ops_of, replace_all_uses
from cuesta.dialects.core.typed import position_of
from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp
from cuesta.dialects.loops.folds import FoldOp
from cuesta.dialects.loops.graph import ViewOp
from cuesta.dialects.loops.scans import AtomicOp, CombineOp
from cuesta.dialects.loops.structure import DomainOp, NestOp, ReduceOp, StatementOp


class Substitution:
    """What old values, and old indices, become in the place where ops are cloned to.

    An index value (an induction variable) becomes an *expression* over the index values in `axes`: dim k of the
    expression stands for `axes[k]`. Any other value becomes a value. What is not named stays as it is.
    """

    def __init__(self, axes: Iterable[SSAValue] = ()) -> None:
        self.axes: list[SSAValue] = list(axes)
        self.values: dict[SSAValue, SSAValue] = {}
        self._indices: dict[SSAValue, sym.IndexExpr] = {}
        self._position: dict[SSAValue, int] = {axis: k for k, axis in enumerate(self.axes)}

    def axis(self, value: SSAValue) -> sym.IndexExpr:
        """The dim that stands for the index value `value` of the new place."""
        position = self._position.get(value)
        if position is None:
            position = self._position[value] = len(self.axes)
            self.axes.append(value)
        return sym.dim(position)

    def set_index(self, old: SSAValue, expression: sym.IndexExpr) -> None:
        """Lets the old index value become `expression` over `axes`."""
        self._indices[old] = expression

    def index(self, old: SSAValue) -> sym.IndexExpr:
        """What an old index value becomes."""
        found = self._indices.get(old)
        return self.axis(self.values.get(old, old)) if found is None else found

    def expressions(self, results: Sequence[sym.IndexExpr], operands: Sequence[SSAValue]) -> list[sym.IndexExpr]:
        """Index expressions over the old `operands`, as expressions over `axes`."""
        dims = [self.index(operand) for operand in operands]
        return [sym.substitute(result, dims) for result in results]

    def value(self, old: SSAValue) -> SSAValue:
        """What an old value that is not an index becomes."""
        return self.values.get(old, old)


def clone_op(op: Operation, substitution: Substitution) -> Operation:
    """A copy of `op` under the substitution, which learns the results of the copy (and inside, of what is in its
    regions).
    """
    values = substitution.value
    new: Operation
    if isinstance(op, LoadOp):
        rest = op.rest
        mask, other = (values(rest[0]), values(rest[1])) if rest else (None, None)
        new = LoadOp.build(
            values(op.source), substitution.expressions(op.map.results, op.indices), substitution.axes, mask, other
        )
    elif isinstance(op, StoreOp):
        mask = op.mask
        results = substitution.expressions(op.map.results, op.indices)
        new = StoreOp.build(
            values(op.value), values(op.target), results, substitution.axes, None if mask is None else values(mask)
        )
    elif isinstance(op, CombineOp | AtomicOp):
        mask = op.mask
        results = substitution.expressions(op.map.results, op.indices)
        kept = None if mask is None else values(mask)
        new = type(op).build(op.kind, values(op.value), values(op.target), results, substitution.axes, kept)
    elif isinstance(op, IndexOp):
        expression = substitution.expressions(op.map.results, op.indices)[0]
        new = IndexOp.build(expression, substitution.axes, op.result.type)
    elif isinstance(op, DomainOp):
        return _clone_domain(op, substitution)
    else:
        new = type(op).create(
            operands=[values(operand) for operand in op.operands],
            result_types=[result.type for result in op.results],
            properties=op.properties.copy(),
            attributes=op.attributes.copy(),
        )
    new.location = op.location
    for old_result, new_result in zip(op.results, new.results, strict=True):
        substitution.values[old_result] = new_result
    return new


def _clone_domain(op: DomainOp, substitution: Substitution) -> DomainOp:
    new: DomainOp
    if isinstance(op, ReduceOp):
        new = ReduceOp.build(op.kind, op.sizes, op.yielded.type)
    elif isinstance(op, FoldOp):
        new = FoldOp.build(op.sizes, [substitution.value(operand) for operand in op.operands])
        for old_carried, new_carried in zip(op.carried, new.carried, strict=True):
            substitution.values[old_carried] = new_carried
    elif isinstance(op, StatementOp):
        new = type(op).build(op.sizes)
    else:
        raise TypeError(f"{op.name} does not stand inside of a body")
    new.location = op.location
    for old_variable, new_variable in zip(op.induction_variables, new.induction_variables, strict=True):
        substitution.set_index(old_variable, substitution.axis(new_variable))
    clone_into(ops_of(op.body), InsertPoint.at_end(new.body), substitution)
    for old_result, new_result in zip(op.results, new.results, strict=True):
        substitution.values[old_result] = new_result
    return new


def clone_into(ops: Iterable[Operation], place: InsertPoint, substitution: Substitution) -> list[Operation]:
    """Clones `ops` in order to `place`; returns the copies."""
    new = [clone_op(op, substitution) for op in ops]
    Rewriter.insert_op(new, place)
    return new


def remove(op: Operation) -> None:
    """Takes an op out of its block and erases it. Requires: nobody uses its results."""
    op.detach()
    op.erase()


def join_nest(nest: NestOp, loop: StatementOp) -> None:
    """nest (i) { a; loop (j) { b } } → nest (i, j) { a; b }, in place: the points of the loop become the nest's."""
    body, count = nest.body, len(nest.sizes)
    sizes = (*nest.sizes, *loop.sizes)
    for position, old in enumerate(loop.induction_variables, start=count):
        new = body.insert_arg(old.type, position)
        new.name_hint = old.name_hint
        replace_all_uses(old, new)
    nest.properties["sizes"] = sym.MapAttr.get(0, sizes)
    for op in ops_of(loop.body):
        op.detach()
        body.insert_op_before(op, loop)
    remove(loop)


def loads_of(root: Operation) -> list[LoadOp]:
    """Every load inside `root`, in program order."""
    return [op for op in all_ops(root) if type(op) is LoadOp]


def stores_of(root: Operation) -> list[StoreOp]:
    """Every store inside `root`, in program order."""
    return [op for op in all_ops(root) if type(op) is StoreOp]


def combines_of(root: Operation) -> list[CombineOp | AtomicOp]:
    """Every change of an element that is there already inside `root`, in program order."""
    return [op for op in all_ops(root) if isinstance(op, CombineOp | AtomicOp)]


def producers_of(nest: NestOp) -> dict[SSAValue, list[LoadOp]]:
    """The tensors that a nest reads from outside, each with its loads, in order of first load."""
    found: dict[SSAValue, list[LoadOp]] = {}
    handles = set(nest.handles)
    for load in loads_of(nest):
        source = load.source
        if source not in handles:
            found.setdefault(source, []).append(load)
    return found


def is_pointwise(nest: NestOp) -> bool:
    """Whether a nest has no inner domains: one point of the domain, one element of every out."""
    return not any(op.regions and isinstance(op, DomainOp) for op in ops_of(nest.body))


def through_views(source: SSAValue, results: Sequence[sym.IndexExpr]) -> tuple[SSAValue, tuple[sym.IndexExpr, ...]]:
    """Where `source[results]` is read when it is not read through views: view(x, m)[i] = x[m(i)]."""
    indices = tuple(results)
    while isinstance(view := source.owner, ViewOp):
        indices = tuple(view.map.apply(indices))
        source = view.source
    return source, indices


def has_points(domain: DomainOp, ranges: sym.SymbolRanges) -> bool:
    """Whether a domain is known not to be empty: what stands in it runs at least once."""
    return all(sym.prove_less_equal(1, size, (), ranges) for size in domain.sizes)


def top_level_nest(op: Operation) -> Operation:
    """The op of @main's block that `op` is, or stands in."""
    current = op
    while isinstance(parent := current.parent_op(), DomainOp):
        current = parent
    return current


def index_ranges(op: Operation, indices: Sequence[SSAValue]) -> tuple[sym.IndexExpr, ...] | None:
    """The size of every index value in `indices` as seen from `op`: what `sym.simplify` needs; None when one is
    unknown.
    """
    sizes: list[sym.IndexExpr] = []
    for index in indices:
        owner = index.owner
        if isinstance(owner, BoundOp):
            sizes.append(owner.size)
        elif isinstance(owner, Block) and isinstance(domain := owner.parent_op(), DomainOp):
            sizes.append(domain.sizes[position_of(index)])
        else:
            return None
    return tuple(sizes)


__all__ = [
    "Substitution",
    "all_ops",
    "clone_into",
    "clone_op",
    "combines_of",
    "has_points",
    "index_ranges",
    "is_pointwise",
    "join_nest",
    "loads_of",
    "producers_of",
    "remove",
    "stores_of",
    "through_views",
    "top_level_nest",
]
