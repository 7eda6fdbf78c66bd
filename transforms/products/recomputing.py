"""What a nest reads, computed in the place of reading it: products, element by element, and what other nests store.

recompute   s[i, j] is Σ_e q[i, e] · k[e, j]: the definition of the product
inline      b[i, j] is what a nest computes there
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, index_ranges, loads_of, remove, stores_of
from cuesta.transforms.loops.forward_stores import Stage
from cuesta.transforms.products.pieces import cloned_value, digits_of
from cuesta.transforms.products.products import Product, static, sum_at

MORE = (loops.ScanOp, loops.CombineOp, loops.AtomicOp, loops.MeetOp, loops.FoldOp)
"""What is more than to reduce, to load and to store."""


def recompute(product: Product, nest: loops.NestOp) -> None:
    """s[i, j] = Σ_e q[i, e] · k[e, j], in f32, wherever a nest reads it."""
    for load in [load for load in loads_of(nest) if load.source is product.result]:
        indices = list(load.indices)
        ranges = index_ranges(load, indices)
        assert ranges is not None
        dims = Substitution(indices).expressions(load.map.results, indices)
        total, rounded = sum_at(product, dims, indices, ranges, InsertPoint.before(load))
        _take(load, rounded, total)


def inline(producer: loops.NestOp, nest: loops.NestOp, result: SSAValue, k: int = 0) -> None:
    """b[i, j] is what a nest computes there, wherever another reads `result`, which is the k-th of the nest or of one
    that gives the same: no store, and no memory of all of b.
    """
    places = point_of(producer, k=k)
    assert places is not None
    shape = static(sizes_of(tensor_type_of(producer.results[k])))
    ops = list(producer.body.ops)
    loop = next((op for op in ops if isinstance(op, loops.ForOp)), None)
    if loop is not None:
        ops[ops.index(loop) : ops.index(loop) + 1] = loop.body.ops
    ops = [op for op in ops if not isinstance(op, loops.StoreOp) or op.target is producer.handles[k]]
    for load in [load for load in loads_of(nest) if load.source is result]:
        indices = list(load.indices)
        ranges = index_ranges(load, indices)
        assert ranges is not None
        place: sym.IndexExpr = 0
        for size, index in zip(shape, Substitution(indices).expressions(load.map.results, indices), strict=True):
            place = place * size + index
        substitution = Substitution(indices)
        for domain in (producer, *((loop,) if loop is not None else ())):
            for variable in domain.induction_variables:
                stride, size = places[variable]
                substitution.set_index(variable, sym.simplify(place // stride % size, ranges))
        value = cloned_value(ops, substitution, InsertPoint.before(load))
        _replace(load, value)


def _replace(load: loops.LoadOp, value: SSAValue) -> None:
    """Lets who reads an element take a value, as it was before it was rounded, if that was all."""
    _take(load, value, value.owner.operands[0] if isinstance(value.owner, elem.ConvertOp) else None)


def _leave_wide(value: SSAValue) -> None:
    """Lets who would widen a value that was rounded take it as it was before."""
    if isinstance(value.owner, elem.ConvertOp):
        _widen(value, value, value.owner.operands[0])


def _widen(read: SSAValue, value: SSAValue, wide: SSAValue) -> None:
    if wide.type == f32 and is_narrow(value):
        for use in list(read.uses):
            user = use.operation
            if isinstance(user, elem.ConvertOp) and user.result.type == f32:
                replace_all_uses(user.result, wide)
                remove(user)


def _take(load: loops.LoadOp, value: SSAValue, wide: SSAValue | None) -> None:
    """Lets who reads an element take a value; in f32 who would widen it, if there is one that was not rounded."""
    if wide is not None:
        _widen(load.result, value, wide)
    replace_all_uses(load.result, value)
    remove(load)


def point_of(nest: loops.NestOp, apart: Sequence[Operation] = (), k: int = 0) -> dict[SSAValue, tuple[int, int]] | None:
    """Of a nest that gives its tensors element by element, perhaps in a loop, the digits of the place in the k-th that
    each of its axes is: place // stride % size is the axis. None for another nest. What stands in the nest `apart` is
    taken for known.
    """
    if nest.operands:
        return None
    domains = [op for op in nest.body.ops if isinstance(op, loops.DomainOp) and op not in apart]
    stores = [store for store in stores_of(nest) if store.target is nest.handles[k]]
    variables, sizes = list(nest.induction_variables), list(nest.sizes)
    if domains:
        loop = domains[0]
        if len(domains) > 1 or not isinstance(loop, loops.ForOp):
            return None
        if any(isinstance(op, loops.DomainOp) for op in loop.body.ops):
            return None
        variables += loop.induction_variables
        sizes += loop.sizes
    if len(stores) != 1 or stores[0].mask is not None or any(isinstance(op, MORE) for op in nest.walk()):
        return None
    if any(load.source in nest.handles for load in loads_of(nest)):
        return None
    shape = sizes_of(tensor_type_of(nest.results[k]))
    if len(static(sizes)) < len(sizes) or len(static(shape)) < len(shape):
        return None
    substitution = Substitution(variables)
    place: sym.IndexExpr = 0
    for size, index in zip(shape, substitution.expressions(stores[0].map.results, stores[0].indices), strict=True):
        place = place * size + index
    if len(substitution.axes) > len(variables):
        return None  # an index made of data
    place = sym.simplify(place, sizes)
    return digits_of(place, variables, static(sizes), math.prod(static(shape)))


def recompute_stored(
    nest: loops.NestOp, handles: Collection[SSAValue], *, may_raise: bool = False, try_only: bool = False
) -> str | None:
    """Has a nest compute what it stores in outs that only it reads where it reads that, whatever that costs, in place.
    Why that cannot be done; None when it is, or could be if it is to `try_only`. What was only rounded to be stored, is
    not any more.

    A stage that can raise IndexError is taken with `may_raise`, as where no kernel does.
    """
    for handle in handles:
        stores = [store for store in stores_of(nest) if store.target is handle]
        if len(stores) != 1:
            return "it is not stored, without a mask, by a stage of the nest"
        stage = Stage.of(stores[0], nest, may_raise=may_raise)
        if isinstance(stage, str):
            return stage
        reads = [load for load in loads_of(nest) if load.source is handle]
        if (reason := stage.obstacle(reads)) is not None:
            return reason
        if not try_only:
            for load in reads:
                _replace(load, stage.value_at(load))
            remove(stores[0])
            _leave_wide(stage.value)
    return None


def one_precision(nest: loops.NestOp) -> None:
    """Lets a function that some sums of a nest compute exactly, and others as an approximation, be exact in all: of one
    operand it is computed once.
    """
    by_name: dict[str, list[elem.TableOp]] = {}
    for op in nest.walk():
        if isinstance(op, elem.TableOp) and op.row.approximations and isinstance(op.parent_op(), loops.ReduceOp):
            by_name.setdefault(op.row.name, []).append(op)
    for ops in by_name.values():
        if any(op.precision is None for op in ops):
            for op in ops:
                op.properties.pop("precision", None)


def is_narrow(value: SSAValue) -> bool:
    """Whether a value has 16 bits of a float: to give it up for one of f32 is a matter of rounding alone."""
    return isinstance(value.type, BFloat16Type | Float16Type)


def sweep(nest: loops.NestOp) -> None:
    """Takes out what nobody needs any more."""
    for op in reversed([op for op in nest.walk() if op is not nest]):
        if op.results and not any(result.uses for result in op.results):
            remove(op)


__all__ = [
    "MORE",
    "inline",
    "is_narrow",
    "one_precision",
    "point_of",
    "recompute",
    "recompute_stored",
    "sweep",
]
