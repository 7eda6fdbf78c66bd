"""`as_strided` and its scatter, where addresses are affine: of a tensor that is known to fill its storage in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import OpResult, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import is_contiguous, sizes_of, strides_of
from cuesta.lowering.aten import view_maps as maps
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.indexing import intersect, load_as_stored
from cuesta.lowering.aten.operands import element_of, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.scalar import Scalar


def _as_strided(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, result = op.operands[0], tensor_type_of(op.results[0])
    source_type = tensor_type_of(source)
    strides = op.indices("stride")
    offset = _offset(op)
    sizes, source_sizes = sizes_of(result), sizes_of(source_type)
    if sizes == source_sizes and strides == strides_of(source_type) and offset == 0 and _owns_storage(source):
        return [builder.view(source, maps.dims(len(sizes)), result)]
    _need_whole_storage(source)
    if 0 in sizes:
        return [builder.view(source, [0] * len(source_sizes), result)]
    _need_within(source, sizes, strides, offset)
    address: sym.IndexExpr = offset
    for k, stride in enumerate(strides):
        address = address + sym.dim(k) * stride
    indices = [sym.simplify(e, sizes) for e in sym.delinearize(address, source_sizes)]
    return [builder.view(source, indices, result)]


def _as_strided_scatter(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """x, but y[k] at the address offset + Σ kᵢ · sᵢ, of strides that are nested: none is less than what lies within it
    extends.

    An address less the offset is divided by the strides from the largest down: the quotients are k where they are in
    range, and nothing is left over.
    """
    source, inserted = op.tensor("self"), op.tensor("src")
    strides, offset = op.indices("stride"), _offset(op)
    sizes, whole = sizes_of_value(inserted), sizes_of_value(source)
    element = element_of(op.results[0])
    if element_of(inserted) != element or element_of(source) != element:
        decline("the element types differ")
    _need_whole_storage(source)
    _need_within(source, sizes, strides, offset)
    extents = [size for size in sizes if isinstance(size, int)]
    steps = [stride for stride in strides if isinstance(stride, int)]
    if len(extents) < len(sizes) or len(steps) < len(strides) or 0 in extents:
        decline("a size or a stride is not known, or nothing is inserted")
    axes = sorted((k for k in range(len(sizes)) if extents[k] != 1), key=steps.__getitem__, reverse=True)
    if any(steps[outer] < steps[inner] * extents[inner] for outer, inner in pairwise(axes)):
        decline("the strides are not nested")
    if axes and steps[axes[-1]] == 0:
        decline("elements lie on one another")
    with builder.nest(whole, [op.results[0].type]) as nest:
        rest = sym.linearize(nest.indices, whole) - offset
        inside: Scalar | None = builder.index(rest) >= 0
        place: list[sym.IndexExpr] = [0] * len(sizes)
        for axis in axes:
            place[axis] = rest // steps[axis]
            inside = intersect(inside, builder.index(place[axis]) < extents[axis])
            rest = rest % steps[axis]
        inside = intersect(inside, builder.index(rest).eq(0))
        kept = load_as_stored(builder, source, nest.indices, element)
        builder.store(builder.load_raw(inserted, place, inside, kept), nest.handles[0], nest.indices)
    return nest.results


def _offset(op: AtenCall) -> sym.IndexExpr:
    return 0 if op.argument("storage_offset") is None else op.index("storage_offset")


def _need_whole_storage(source: SSAValue) -> None:
    # The offset counts from the start of the storage, which is known only when nothing else can share it.
    if not is_contiguous(tensor_type_of(source)) or not _owns_storage(source):
        decline("the source is not known to fill its storage in order")


def _need_within(
    source: SSAValue, sizes: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr], offset: sym.IndexExpr
) -> None:
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last = last + (size - 1) * stride
    if not sym.prove_less_equal(last + 1, sym.product_of(sizes_of_value(source)), sizes):
        decline("it is not known to stay within the source")


def _owns_storage(value: SSAValue) -> bool:
    return isinstance(value, OpResult) and isinstance(value.owner, loops.NestOp)


RULES: dict[str, Rule] = {
    "aten.as_strided.default": _as_strided,
    "aten.as_strided_scatter.default": _as_strided_scatter,
}
"""Views by addresses, and what is written through them."""
