"""`as_strided` and its scatter, where addresses are affine: of a tensor whose elements lie without gaps.

The offset counts from the start of the storage. That is known of what a nest gives, and of views of it; of an argument
only where nothing else is read of it, since it may be a part of a larger storage. Without an offset addresses count
from the tensor's own start.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.layout import is_contiguous, sizes_of, strides_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.indexing import intersect, load_as_stored
from cuesta.lowering.aten.operands import element_of, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.scalar import Scalar
from cuesta.lowering.aten.storages import keeping_storage, storage_of


def _as_strided(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    result = tensor_type_of(op.results[0])
    source, indices = _read_at(op)
    view = builder.view(source, indices, result)
    if isinstance(view.owner, loops.ViewOp) and not view.owner.is_alias:
        # Strides of elements that lie on one another are none of memory that is written.
        decline("it is not seen to be a view that strides can say")
    return [view]


def _as_strided_copy(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, indices = _read_at(op)
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        place = [sym.substitute(index, nest.indices) for index in indices]
        builder.store(builder.load_raw(source, place), nest.handles[0], nest.indices)
    return nest.results


def _read_at(op: AtenCall) -> tuple[SSAValue, Sequence[sym.IndexExpr]]:
    """Where the element of the result at the dims is read."""
    source, offset = _from_its_start(op)
    sizes, strides, source_sizes = op.indices("size"), op.indices("stride"), sizes_of_value(source)
    layout = _dense_strides(source)
    if 0 in sizes:
        return source, [0] * len(source_sizes)
    _need_within(source, sizes, strides, offset)
    address: sym.IndexExpr = offset
    for k, stride in enumerate(strides):
        address = address + sym.dim(k) * stride
    if layout is None:
        indices = sym.delinearize(address, source_sizes)
    else:
        indices = [address // step % size for step, size in zip(layout, source_sizes, strict=True)]
    return source, [sym.simplify(index, sizes) for index in indices]


def _as_strided_scatter(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """x, but y[k] at the address offset + Σ kᵢ · sᵢ, of strides that are nested: none is less than what lies within it
    extends.

    An address less the offset is divided by the strides from the largest down: the quotients are k where they are in
    range, and nothing is left over.
    """
    source, inserted = op.tensor("self"), op.tensor("src")
    root, offset = _from_its_start(op)
    strides = op.indices("stride")
    sizes, whole = sizes_of_value(inserted), sizes_of_value(source)
    element = element_of(op.results[0])
    if element_of(inserted) != element or element_of(source) != element:
        decline("the element types differ")
    if root is not source:
        decline("it is a part of what fills its storage")
    layout = _dense_strides(source)
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
        rest = sym.linearize(nest.indices, whole) if layout is None else _address(nest.indices, layout)
        rest = rest - offset
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


def _from_its_start(op: AtenCall) -> tuple[SSAValue, sym.IndexExpr]:
    """A tensor, and the offset from its first element on."""
    source = op.tensor("self")
    if op.argument("storage_offset") is None:
        return source, 0
    root = storage_of(source)
    if root is None:
        decline("it is not known where the storage begins")
    return root, op.index("storage_offset")


def _dense_strides(source: SSAValue) -> Sequence[int] | None:
    """The strides of a tensor whose elements lie without gaps, in whatever order; None where that is row by row."""
    kind = tensor_type_of(source)
    if is_contiguous(kind):
        return None
    sizes = [size for size in sizes_of(kind) if isinstance(size, int)]
    steps = [step for step in strides_of(kind) if isinstance(step, int)]
    extent = 1
    if len(sizes) < len(sizes_of(kind)) or len(steps) < len(sizes):
        decline("the source has symbolic strides")
    for step, size in sorted(zip(steps, sizes, strict=True)):
        if size != 1 and step != extent:
            decline("there are gaps between the elements of the source")
        extent *= size
    return steps


def _address(indices: Sequence[sym.IndexExpr], strides: Sequence[int]) -> sym.IndexExpr:
    address: sym.IndexExpr = 0
    for index, stride in zip(indices, strides, strict=True):
        address = address + index * stride
    return address


def _need_within(
    source: SSAValue, sizes: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr], offset: sym.IndexExpr
) -> None:
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last = last + (size - 1) * stride
    if not sym.prove_less_equal(last + 1, sym.product_of(sizes_of_value(source)), sizes):
        decline("it is not known to stay within the source")


RULES: dict[str, Rule] = {
    "aten.as_strided.default": _as_strided,
    "aten.as_strided_copy.default": _as_strided_copy,
    "aten.as_strided_scatter.default": keeping_storage(_as_strided_scatter),
}
"""Views by addresses, and what is written through them."""
