"""`check-first`: a program that writes to its arguments checks indices before it writes anything.

    %y = loops.nest (…) outs(%o) updates(%x) { %j = load %index[%r]; %k = bound %j, 128; combine assign %v, %o[%k] }
    →
    %c = loops.nest (%r : 4) outs(%p) { %j = load %index[%r]; %k = bound %j, 128; store %k, %p[%r] }
    …
    %y = loops.nest (…) outs(%o) updates(%x) { …; %k = bound %j, 128 checked; combine assign %v, %o[%k] }

A call with an index out of range leaves its arguments as they were. So as long as something may still raise an
IndexError, `write-in-place` writes nothing to an argument: all of a cache would be copied for the one row that changes,
and every buffer of a model whose loss looks at labels. A check by itself costs one read of the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, layout, loops, sym
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges, written_arguments
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.loops.structure import enclosing_domains
from cuesta.dialects.loops.surgery import Substitution, clone_into, has_points
from cuesta.transforms.devices import DevicePass, traits_for


class CheckFirstPass(DevicePass):
    """Every check of an index that a tensor holds is made in a nest of its own too, as early as the tensor is there.

    Exact: what raised an IndexError raises one, of the same index or of another one that is out of range.
    Near misses: a program that writes to no argument; an index that is the result of a reduction, or of a scatter in
    the same nest; a check in a loop that may be empty; one of more indices than there are elements to write.
    """

    name = "check-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not (written := written_arguments(entry_function(op))):
            return
        block, ranges = entry_block(op), symbol_ranges(op)
        most = _sum(layout.element_count(layout.tensor_type_of(block.args[place])) for place in written)
        places = {inner: place for place, inner in enumerate(ops_of(block))}
        made: dict[Fingerprint, loops.NestOp] = {}
        for nest in places:
            if isinstance(nest, loops.NestOp) and traits_for(nest, self.target).raises:
                for bound in [inner for inner in all_ops(nest) if isinstance(inner, loops.BoundOp)]:
                    check = None if bound.is_checked else _check_of(bound, nest, most, ranges)
                    if check is not None:
                        _place(check, block, places, made)
                        bound.properties["checked"] = UnitAttr()


def _sum(counts: Iterable[sym.IndexExpr]) -> int:
    """As far as it is known; a symbol counts as a size that is worth it."""
    return sum(count if isinstance(count, int) else 1 << 62 for count in counts)


def _check_of(bound: loops.BoundOp, nest: loops.NestOp, most: int, ranges: sym.SymbolRanges) -> loops.NestOp | None:
    """A nest that makes this check, and no other; None when there is none that does just that."""
    ops = _needed(bound, nest)
    if ops is None:
        no_match(bound, "the index comes from more than elements of tensors")
        return None
    used = {operand for op in ops for operand in op.operands if isinstance(operand, BlockArgument)}
    axes: list[tuple[SSAValue, sym.IndexExpr]] = []
    for domain in reversed(enclosing_domains(bound)):
        found = [(one, size) for one, size in zip(domain.induction_variables, domain.sizes, strict=True) if one in used]
        if len(found) < len(domain.sizes) and not has_points(domain, ranges):
            no_match(bound, "where a loop is empty, nothing is checked")
            return None
        axes += found
    sizes = tuple(size for _, size in axes)
    count = sym.product_of(sizes)
    if isinstance(count, int) and count > most:
        no_match(bound, "more is checked than written")
        return None
    device = layout.device_of(layout.tensor_type_of(nest.results[0]))
    check = loops.NestOp.build(sizes, [layout.tensor_type(sizes, i64, device=device)])
    check.location = bound.location
    check.results[0].name_hint = "checked"
    substitution = Substitution(check.induction_variables)
    for (old, _), variable in zip(axes, check.induction_variables, strict=True):
        substitution.set_index(old, substitution.axis(variable))
        variable.name_hint = old.name_hint
    clone_into(ops, InsertPoint.at_end(check.body), substitution)
    for old, value in substitution.values.items():
        value.name_hint = old.name_hint
    position = loops.IndexOp.build(sym.dim(0), [substitution.values[bound.result]], i64)
    results = [sym.dim(k) for k in range(len(sizes))]
    store = loops.StoreOp.build(position.result, check.handles[0], results, check.induction_variables)
    position.location = store.location = bound.location
    check.body.add_ops([position, store])
    return check


def _needed(bound: loops.BoundOp, nest: loops.NestOp) -> list[Operation] | None:
    """What computes an index, and its check, in order; None when that is more than reading and arithmetic."""
    needed: dict[Operation, None] = {}

    def need(op: Operation) -> bool:
        if op in needed:
            return True
        if isinstance(op, loops.LoadOp) and op.source in nest.handles:
            return False
        if not isinstance(op, loops.LoadOp | loops.IndexOp | loops.BoundOp | elem.ElementwiseOp):
            return False
        owners = (one.owner for one in op.operands)
        if not all(need(owner) for owner in owners if isinstance(owner, Operation) and nest.is_ancestor(owner)):
            return False
        needed[op] = None
        return True

    return list(needed) if need(bound) else None


def _place(
    check: loops.NestOp, block: Block, places: Mapping[Operation, int], made: dict[Fingerprint, loops.NestOp]
) -> None:
    """Puts a check behind the last op that it needs, unless there is an equal one."""
    key = fingerprint(check, by_identity=True)
    if key in made:
        check.erase()
        return
    made[key] = check
    sources = (load.source.owner for load in all_ops(check) if isinstance(load, loops.LoadOp))
    last = max((owner for owner in sources if isinstance(owner, Operation)), key=places.__getitem__, default=None)
    if last is None:
        first = block.first_op
        assert first is not None
        Rewriter.insert_op(check, InsertPoint.before(first))
    else:
        Rewriter.insert_op(check, InsertPoint.after(last))


__all__ = ["CheckFirstPass"]
