"""What AOTAutograd forgets of the parts of tensor subclasses: that a result lies in one, or another input; and of the
parts of complex numbers: that an operator writes to one.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, cast

from torch import Tensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.dynamo_graph import name_of, nodes_behind, parts_of, value_of, written_by
from cuesta.lowering.capture.memory_ranges import may_meet, memory_of


def lost_view_of_a_part(gm: GraphModule) -> str | None:
    """The result, if there is one, that lies in the memory of a part of an input, which is a tensor subclass, and is
    neither that input nor a view of it: x.to_local() of a DTensor, x.redistribute(…) that has nothing to do.
    AOTAutograd gives it memory of its own: who writes to it does not write to x (torch 2.13).

    Near miss: a part of what is computed.
    """
    given = [node for node in gm.graph.find_nodes(op="placeholder") if is_traceable_wrapper_subclass(value_of(node))]
    parts = {memory_of(part) for node in given for part in parts_of(node)}
    wholes = {memory_of(cast("Tensor", value_of(node))) for node in given}
    for node in gm.graph.output_node().all_input_nodes if given else ():
        value: Any = value_of(node)
        if is_traceable_wrapper_subclass(value) and memory_of(cast("Tensor", value)) in wholes:
            continue
        if any(memory_of(part) in parts for part in parts_of(node)):
            return f"{node.name} is returned, which lies in a part of an input that is a tensor subclass"
    return None


def lost_update_of_a_part(gm: GraphModule) -> str | None:
    """The update in place, if there is one, of memory that is a part of an input, which is a tensor subclass, and lies
    in another input or another part as well: x.add_(1); return y * 2, where y is x.redistribute(…) that had nothing to
    do, x.to_local(), or another pair of the same tensor. AOTAutograd takes each part for memory of its own: y stays as
    it was. (Plain inputs that share memory it makes views of one.)

    Near misses: inputs that are known to be parts of one memory without a common element, as parameters are that lie in
    one buffer; and shared memory that is only read.

    Source: `unwrap_tensor_subclasses` of torch/_functorch/_aot_autograd/subclass_utils.py, beside `merge_view_inputs`
    of runtime_wrappers.py, which looks at the whole tensors.
    """
    given = gm.graph.find_nodes(op="placeholder")
    if not any(is_traceable_wrapper_subclass(value_of(node)) for node in given):
        return None
    parts = [part for node in given for part in parts_of(node)]
    shared = {memory for memory, count in Counter(map(memory_of, parts)).items() if count > 1}
    for module in gm.modules() if shared else ():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            for target in written_by(node) if node.op in ("call_method", "call_function") else ():
                for memory in {memory_of(part) for part in parts_of(target)} & shared:
                    if may_meet([part for part in parts if memory_of(part) == memory]):
                        return f"{name_of(node)} writes to a part of a tensor subclass that another input lies in, too"
                    shared.discard(memory)
    return None


def lost_part_of_a_number(gm: GraphModule) -> str | None:
    """The call of somebody's operator, if there is one, that writes to real numbers that are parts of complex ones:
    library.shift_(x.real). AOTAutograd makes the view anew by `as_strided` of the complex tensor, with strides of real
    numbers: beyond the memory, which raises, or elsewhere in it (with every backend of torch 2.11 and 2.13).

    Near miss: x.view(torch.float32), which it makes anew as that.

    Source: `write_view_information_to_args` of torch/_higher_order_ops/auto_functionalize.py.
    """
    from cuesta.lowering.capture.lost_in_views import is_somebodys

    for node in gm.graph.nodes:
        for written in written_by(node) if node.op == "call_function" and is_somebodys(node) else ():
            chain = (written, *nodes_behind(written))
            for view, base in pairwise(chain):
                of_numbers = isinstance(value_of(base), Tensor) and cast("Tensor", value_of(base)).is_complex()
                is_real = isinstance(value_of(view), Tensor) and not cast("Tensor", value_of(view)).is_complex()
                if of_numbers and is_real and name_of(view) != "view":
                    return f"{name_of(node)} writes to parts of complex numbers"
    return None


def lost_bit_of_what_is_written(gm: GraphModule) -> str | None:
    """The call of somebody's operator, if there is one, that writes to a view with another negative or conjugate bit
    than what it is a view of: library.shift_(torch._neg_view(x)) of an x with the bit. AOTAutograd makes the view anew
    of sizes and strides, with x's sign (torch 2.11 and 2.13; eager refuses to write to what has a bit).

    Near miss: the bit of what is written is its own.

    Source: `write_view_information_to_args` of torch/_higher_order_ops/auto_functionalize.py.
    """
    from cuesta.lowering.capture.lost_in_views import is_somebodys

    for node in gm.graph.nodes:
        for written in written_by(node) if node.op == "call_function" and is_somebodys(node) else ():
            chain = [value_of(one) for one in (written, *nodes_behind(written))]
            if len({(one.is_neg(), one.is_conj()) for one in chain if isinstance(one, Tensor)}) > 1:
                return f"{name_of(node)} writes to a view with another negative or conjugate bit"
    return None


__all__ = ["lost_bit_of_what_is_written", "lost_part_of_a_number", "lost_update_of_a_part", "lost_view_of_a_part"]
