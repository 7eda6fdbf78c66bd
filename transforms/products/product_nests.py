"""The nests that compute library products together with what is done to their results, and in whose place they stand.

Nothing is decided here. A target computes such a nest well only with the choices of a contraction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, loads_of, remove
from cuesta.dialects.loops.writing import load_only_where, store_only_where, type_of_positions
from cuesta.transforms.products.neighbours import static, weights_of
from cuesta.transforms.products.products import Product, insert, is_there, is_widening, sum_at


def fused_nest(
    product: Product,
    *,
    keep_roundings: bool = False,
    prologues: bool = False,
    group: int = 0,
    beside: bool = False,
) -> loops.NestOp:
    """The nest that computes a product and what its consumer does with it; it stands nowhere yet.

    Its outs are the consumer's, and the product itself where somebody else needs it. With `prologues`, what the
    producers of its factors do is done again wherever a factor is read. Not exact: the consumer takes the sum before
    it is rounded to the product's type, unless `keep_roundings`. With `group`, which divides the points of a sum, these
    are two axes, of groups and of the points of one. With `beside`, it computes the products beside this one, too. Of
    a consumer that reads a part, the nest has the points of the whole product, whose rows begin where vectors may, and
    stores that part.
    """
    consumer = product.consumer
    together = (product, *(product.beside if beside else ()))
    producers = {value: nest for one in together for value, nest in one.producers.items()} if prologues else {}
    result_type = product.result.type
    if consumer is None:
        nest = loops.NestOp.build(product.domain, [result_type])
    else:
        kept = [result_type] if product.is_kept else []
        whole = product.domain if _is_part(product) or product.windows is not None else consumer.sizes
        nest = loops.NestOp.build(whole, [*(result.type for result in consumer.results), *kept])
    nest.location = product.call.location
    if product.windows is not None:
        for variable, name in zip(nest.induction_variables[-2:], ("row", "channel"), strict=True):
            variable.name_hint = name
    place = InsertPoint.at_end(nest.body)
    variables = nest.induction_variables
    dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(variables))]
    if product.windows is not None:
        dims = product.windows.element(dims)
    if consumer is None:
        there = _is_element(product, nest, dims, place)
        _, rounded = sum_at(product, dims, variables, nest.sizes, place, producers, group)
        store = loops.StoreOp.build(rounded, nest.handles[0], dims, variables)
        insert(store, product.call, place)
        if there is not None:
            store_only_where(there, [store])
        return nest
    substitution = Substitution(nest.induction_variables)
    for axis, variable in enumerate(consumer.induction_variables):
        substitution.set_index(variable, sym.dim(axis))
        if product.windows is None:
            nest.induction_variables[axis].name_hint = variable.name_hint
    if product.windows is not None:
        own = next(load for load in loads_of(consumer) if load.source is product.result)
        weights = weights_of(consumer.induction_variables, consumer.sizes, own)
        assert weights is not None
        indices = product.windows.indices(weights, static(consumer.sizes))
        for variable, index in zip(consumer.induction_variables, indices, strict=True):
            substitution.set_index(variable, index)
    for old, new in zip(consumer.handles, nest.handles, strict=False):
        substitution.values[old] = new
        new.name_hint = old.name_hint
    if product.windows is not None:
        there = _is_element(product, nest, dims, place)
    else:
        there = _inside(nest, consumer.sizes, product.call, place)
    exact: dict[SSAValue, SSAValue] = {}
    members = {one.result: one for one in together}
    sums: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
    for op in consumer.body.ops:
        if isinstance(op, loops.LoadOp) and (member := members.get(op.source)) is not None:
            if op.source not in sums:
                dims = substitution.expressions(op.map.results, op.indices)
                dims = [sym.simplify(one, nest.sizes) for one in dims]
                made = sum_at(member, dims, nest.induction_variables, nest.sizes, place, producers, group)
                sums[op.source] = made
                if member.is_kept:
                    store = loops.StoreOp.build(made[1], nest.handles[-1], dims, nest.induction_variables)
                    insert(store, product.call, place)
                    if there is not None and product.windows is not None:
                        store_only_where(there, [store])
            exact[op.result], substitution.values[op.result] = sums[op.source]
        elif not keep_roundings and is_widening(op) and op.operands[0] in exact:
            substitution.values[op.result] = exact[op.operands[0]]
        else:
            copy = clone_op(op, substitution)
            Rewriter.insert_op(copy, place)
            if there is not None and isinstance(copy, loops.LoadOp):
                substitution.values[op.results[0]] = load_only_where(there, copy)
            elif there is not None and isinstance(copy, loops.StoreOp):
                store_only_where(there, [copy])
    for whole, rounded in sums.values():
        if rounded is not whole and not rounded.uses:
            assert isinstance(rounded.owner, Operation)
            remove(rounded.owner)
    return nest


def _is_element(
    product: Product, nest: loops.NestOp, dims: Sequence[sym.IndexExpr], place: InsertPoint
) -> SSAValue | None:
    """Appends whether a point of a nest has an element of a convolution's result; None when all have."""
    if product.windows is None:
        return None
    return is_there(product.windows.stored(dims), nest.induction_variables, nest.sizes, product.call, place)


def _is_part(product: Product) -> bool:
    """Whether the consumer reads a part of the product, element by element."""
    assert product.consumer is not None
    sizes = sizes_of(tensor_type_of(product.result))
    return len(sizes) == len(product.consumer.sizes) and math.prod(static(sizes)) > math.prod(
        static(product.consumer.sizes)
    )


def _inside(nest: loops.NestOp, sizes: Sequence[sym.IndexExpr], like: Operation, place: InsertPoint) -> SSAValue | None:
    """Appends whether a point of a nest is one of a domain of these sizes; None when all are."""
    found: SSAValue | None = None
    for variable, whole, size in zip(nest.induction_variables, nest.sizes, sizes, strict=True):
        if whole == size:
            continue
        assert isinstance(size, int)
        kind = type_of_positions(size)
        index = insert(loops.IndexOp.build(sym.dim(0), [variable], kind), like, place)
        limit = insert(elem.constant(size, kind), like, place)
        assert index is not None and limit is not None
        test = insert(elem.make("lt", index, limit), like, place)
        found = test if found is None or test is None else insert(elem.make("and", found, test), like, place)
    return found


def replace(product: Product, nest: loops.NestOp, choices: dict[str, int]) -> None:
    """Puts the fused nest in the place of the product and its consumer, and of what nobody needs any more; so also of
    the products beside it, where the nest computes these.
    """
    if choices:
        nest.properties["schedule"] = loops.ScheduleAttr.of(choices)
    consumer = product.consumer
    old = consumer or product.call
    Rewriter.insert_op(nest, InsertPoint.before(old))
    replaced: list[SSAValue] = [*(consumer.results if consumer is not None else ())]
    if consumer is None or product.is_kept:
        replaced.append(product.result)
    for before, after in zip(replaced, nest.results, strict=True):
        after.name_hint = before.name_hint
        replace_all_uses(before, after)
    if consumer is not None:
        remove(consumer)
    for one in (product, *product.beside):
        if one is product or not one.result.uses:
            remove_product(one)


def remove_product(product: Product) -> None:
    """Takes a product away that nobody needs, and what only gave its factors."""
    factors = [product.left, product.right]
    remove(product.call)
    for value in factors:
        while not value.uses and isinstance(owner := value.owner, loops.ViewOp):
            value = owner.source
            remove(owner)
        if not value.uses and value in product.producers:
            remove(product.producers[value])


__all__ = ["fused_nest", "remove_product", "replace"]
