"""`materialize-views`: what strides cannot say becomes a copy, a nest of its own."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import (
    contiguous_strides,
    sizes_of,
    storage_size,
    strided_view,
    strides_of,
    tensor_type,
    tensor_type_of,
)
from cuesta.dialects.loops.surgery import remove


class MaterializeViewsPass(ModulePass):
    """Every view that is left is one that strides can say, with the strides of its type.

    copy law: y = nest (i) { store x[m(i)], y[i] } is the view of x by m, element for element.
    """

    name = "materialize-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for view in list(entry_block(op).ops):
            if isinstance(view, loops.ViewOp) and view.result.uses and not has_its_strides(view):
                materialize(view)


def has_its_strides(view: loops.ViewOp) -> bool:
    """Whether the view lies in its source's memory with just the strides that its type says."""
    source_type, result_type = tensor_type_of(view.source), tensor_type_of(view.result)
    sizes = sizes_of(result_type)
    if 0 in sizes:
        return True
    found = strided_view(view.map, source_type, sizes)
    if found is None:
        return False
    return all(size == 1 or a == b for size, a, b in zip(sizes, found[0], strides_of(result_type), strict=True))


def materialize(view: loops.ViewOp) -> None:
    """Replaces the view by a copy."""
    result_type = tensor_type_of(view.result)
    sizes = sizes_of(result_type)
    dense = storage_size(result_type) == storage_size(tensor_type(sizes, result_type.element_type))
    if not dense:
        # Memory that overlaps or has gaps cannot be an out; such a type says what eager got from a view.
        result_type = tensor_type(sizes, result_type.element_type, contiguous_strides(sizes))
    nest = loops.NestOp.build(sizes, [result_type])
    nest.location = view.location
    variables = nest.induction_variables
    load = loops.LoadOp.build(view.source, view.map.results, variables)
    store = loops.StoreOp.build(load.result, nest.handles[0], [sym.dim(k) for k in range(len(sizes))], variables)
    load.location = store.location = view.location
    nest.body.add_ops([load, store])
    block = view.parent
    assert block is not None
    block.insert_op_before(nest, view)
    view.result.replace_all_uses_with(nest.results[0])
    remove(view)
