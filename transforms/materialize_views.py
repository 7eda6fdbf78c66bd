"""`materialize-views`: what strides cannot say becomes a copy, a nest of its own."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import contiguous_strides, sizes_of, storage_size, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import remove, through_views


class MaterializeViewsPass(ModulePass):
    """Every view that is left is one that strides can say, with the strides of its type.

    copy law: y = nest (i) { store x[m(i)], y[i] } is the view of x by m, element for element.
    """

    name = "materialize-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for view in list(entry_block(op).ops):
            if isinstance(view, loops.ViewOp) and view.result.uses and not view.is_alias:
                materialize(view)


def materialize(view: loops.ViewOp) -> None:
    """Replaces the view by a copy, which reads through the views that its source may be.

    Errors: CuestaError for a view that is returned and whose strides overlap or leave gaps: those of a copy do not.
    """
    result_type = tensor_type_of(view.result)
    sizes = sizes_of(result_type)
    dense = storage_size(result_type) == storage_size(tensor_type(sizes, result_type.element_type))
    if not dense:
        # Memory that overlaps or has gaps cannot be an out; such a type says what eager got from a view. Who reads it
        # does not mind other strides, but the caller does.
        if any(use.operation.has_trait(IsTerminator) for use in view.result.uses):
            fail(view, f"is not strided, and no copy has the strides of {result_type}, which the caller is to get")
        result_type = tensor_type(sizes, result_type.element_type, contiguous_strides(sizes))
    nest = loops.NestOp.build(sizes, [result_type])
    nest.location = view.location
    variables = nest.induction_variables
    source, indices = through_views(view.source, view.map.results)
    load = loops.LoadOp.build(source, [sym.simplify(index, sizes) for index in indices], variables)
    store = loops.StoreOp.build(load.result, nest.handles[0], [sym.dim(k) for k in range(len(sizes))], variables)
    load.location = store.location = view.location
    nest.body.add_ops([load, store])
    block = view.parent
    assert block is not None
    block.insert_op_before(nest, view)
    view.result.replace_all_uses_with(nest.results[0])
    remove(view)
