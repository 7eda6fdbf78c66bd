"""`materialize-views`: what strides cannot say becomes a copy, a nest of its own."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Use
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from cuesta.dialects import loops, sym
from cuesta.dialects.aten import CallArguments, Operand
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.layout import contiguous_strides, sizes_of, storage_size, strides_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import remove, through_views


class MaterializeViewsPass(ModulePass):
    """Every view that is left is one that strides can say, with the strides of its type.

    copy law: y = nest (i) { store x[m(i)], y[i] } is the view of x by m, element for element.
    """

    name = "materialize-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for view in ops_of(entry_block(op)):
            if isinstance(view, loops.ViewOp) and view.result.uses and not view.is_alias:
                materialize(view)


def materialize(view: loops.ViewOp) -> None:
    """Replaces the view by a copy, which reads through the views that its source may be.

    Errors: CuestaError for a view that is returned and whose strides overlap: those of a copy do not.
    """
    promised = result_type = tensor_type_of(view.result)
    sizes = sizes_of(result_type)
    dense = storage_size(result_type) == storage_size(tensor_type(sizes, result_type.element_type))
    returned = [use for use in view.result.uses if use.operation.has_trait(IsTerminator)]
    if not dense:
        # Memory that overlaps or has gaps, or of which nobody knows, cannot be an out; such a type says what eager got
        # from a view. Who reads it does not mind other strides, but the caller does.
        if returned and _overlaps(promised):
            fail(view, f"is not strided, and no copy has the strides of {promised}, which the caller is to get")
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
    if returned and not dense:
        _lay_out(nest, promised, returned)
    replace_all_uses(view.result, nest.results[0])
    remove(view)


def _overlaps(tensor: TensorType) -> bool:
    """Whether two elements are known to share memory."""
    spread = [stride for size, stride in zip(sizes_of(tensor), strides_of(tensor), strict=True) if size != 1]
    used, needed = storage_size(tensor), storage_size(tensor_type(sizes_of(tensor), tensor.element_type))
    return 0 in spread or (isinstance(used, int) and isinstance(needed, int) and used < needed)


def _lay_out(copy: loops.NestOp, promised: TensorType, returned: Sequence[Use]) -> None:
    """The caller gets a clone of the copy: what a library call gives is laid out as its type says."""
    clone = loops.ExternOp.of(
        "aten.clone.default", [copy.results[0]], CallArguments.of((Operand(0),)), [promised], pure=True
    )
    clone.location = copy.location
    block = copy.parent
    assert block is not None
    block.insert_op_after(clone, copy)
    for use in returned:
        use.operation.operands[use.index] = clone.results[0]
