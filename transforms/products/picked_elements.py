"""Few elements of a product, as a tensor of their own: each is a sum, and nobody needs the product for them.

    %m = loops.extern "aten.mm.default"(%a, %b)
    %y = loops.nest () { %t = sum (%i : 4096) of f(load %m[%i, bound %labels[%i]]) … }
    →
    %p = loops.nest (%i : 4096) { store sum (%k : 1024) of %a[%i, %k] · %b[%k, bound %labels[%i]] }
    %y = loops.nest () { %t = sum (%i : 4096) of f(load %p[%i]) … }

So reads a cross entropy the logit of the label, beside a nest that reduces the row. Not exact: the sums are not rounded
to the product's type, and are added up in another order. Nothing is decided here.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import device_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, index_ranges, remove, top_level_nest
from cuesta.transforms.products.products import Product, is_widening, static, sum_at

_READS = elem.ElementwiseOp | loops.LoadOp | loops.IndexOp | loops.BoundOp
"""What an index may be made of."""


def points_around(load: loops.LoadOp) -> int | None:
    """How often a load runs; None where that is not known, or where something around it comes in order."""
    sizes = [size for domain in _around(load) for size in domain.sizes]
    known = static(sizes)
    in_order = any(isinstance(one, loops.ScanOp | loops.FoldOp) for one in _around(load))
    return None if in_order or len(known) < len(sizes) else math.prod(known)


def picked(load: loops.LoadOp, product: Product) -> loops.NestOp | None:
    """The nest that computes what a load reads of a product at every point around it; it stands nowhere yet. None where
    its index is made of what the nest around it computes otherwise.
    """
    domains = _around(load)
    made = _made_of(load, domains)
    if load.mask is not None or points_around(load) is None or made is None:
        return None
    variables = [variable for domain in domains for variable in domain.induction_variables]
    sizes = [size for domain in domains for size in domain.sizes]
    nest = loops.NestOp.build(sizes, [tensor_type(sizes, f32, device=device_of(tensor_type_of(product.result)))])
    nest.location = load.location
    substitution = Substitution(nest.induction_variables)
    for old, new in zip(variables, nest.induction_variables, strict=True):
        substitution.set_index(old, substitution.axis(new))
        new.name_hint = old.name_hint
    place = InsertPoint.at_end(nest.body)
    for op in made:
        Rewriter.insert_op(clone_op(op, substitution), place)
    dims = substitution.expressions(load.map.results, load.indices)
    axes = list(substitution.axes)
    known = [size for index in load.indices for size in index_ranges(load, [index]) or ()]
    limits = dict(zip([_image(index, substitution, axes) for index in load.indices], known, strict=True))
    ranges = [limits.get(axis) or nest.sizes[nest.induction_variables.index(axis)] for axis in axes]
    exact, rounded = sum_at(product, dims, axes, ranges, place)
    if rounded is not exact:
        assert isinstance(rounded.owner, Operation)
        remove(rounded.owner)
    at = [sym.dim(k) for k in range(len(variables))]
    store = loops.StoreOp.build(exact, nest.handles[0], at, nest.induction_variables)
    store.location = load.location
    Rewriter.insert_op(store, place)
    return nest


def read_from_picked(load: loops.LoadOp, nest: loops.NestOp) -> None:
    """Puts the nest before the one that the load stands in, which reads its result instead of the product's. What only
    gave the load's index is in the new nest now, with the question whether it is in range.
    """
    made = _made_of(load, _around(load)) or []
    Rewriter.insert_op(nest, InsertPoint.before(top_level_nest(load)))
    nest.results[0].name_hint = load.source.name_hint
    variables = [variable for domain in _around(load) for variable in domain.induction_variables]
    new = loops.LoadOp.build(nest.results[0], [sym.dim(k) for k in range(len(variables))], variables)
    rounded = elem.ConvertOp.build(new.result, load.result.type)
    new.location = rounded.location = load.location
    Rewriter.insert_op([new, rounded], InsertPoint.before(load))
    for use in list(load.result.uses):
        if is_widening(use.operation):
            replace_all_uses(use.operation.results[0], new.result)
            remove(use.operation)
    replace_all_uses(load.result, rounded.result)
    remove(load)
    for op in (rounded, *reversed(made)):
        if not any(result.uses for result in op.results):
            remove(op)


def _around(load: loops.LoadOp) -> list[loops.DomainOp]:
    """The nest that a load stands in, and the loops in it, the outermost first."""
    found: list[loops.DomainOp] = []
    parent = load.parent_op()
    while isinstance(parent, loops.DomainOp):
        found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


def _made_of(load: loops.LoadOp, domains: list[loops.DomainOp]) -> list[Operation] | None:
    """The ops that give a load's index, in order; None where others than of numbers and of what is read do."""
    handles = {handle for one in domains if isinstance(one, loops.NestOp) for handle in one.handles}
    bodies: set[Block | None] = {one.body for one in domains}
    found: set[Operation] = set()
    work = list(load.indices)
    while work:
        owner = work.pop().owner
        if not isinstance(owner, Operation) or owner.parent not in bodies or owner in found:
            continue
        if not isinstance(owner, _READS) or (isinstance(owner, loops.LoadOp) and owner.source in handles):
            return None
        found.add(owner)
        work += owner.operands
    return [op for op in domains[0].walk() if op in found]


def _image(index: SSAValue, substitution: Substitution, axes: list[SSAValue]) -> SSAValue:
    """The axis that an index has become."""
    (number,) = sym.dims_of(substitution.index(index))
    return axes[number]


__all__ = ["picked", "points_around", "read_from_picked"]
