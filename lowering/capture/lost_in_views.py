"""What AOTAutograd forgets of tensors that share memory: a bit, a type, a gradient, a derivative, a place, a dim.

It makes results that are views anew when a graph has run, and updates in place before. Where that loses something,
eager runs the graph, or a result gets memory of its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import eq
from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.behind_autograd import lost_leaf
from cuesta.lowering.capture.dynamo_graph import (
    name_of,
    nodes_behind,
    tensors_of,
    value_of,
    views_behind,
    written_by,
)
from cuesta.lowering.capture.lost_in_parts import (
    lost_bit_of_what_is_written,
    lost_part_of_a_number,
    lost_update_of_a_part,
    lost_view_of_a_part,
)
from cuesta.lowering.capture.memory_ranges import (
    fills_memory,
    first_and_last,
    is_known,
    may_meet,
    memory_of,
    overlaps,
)


def lost_gradient(gm: GraphModule) -> str | None:
    """The update of a list of tensors, if there is one, of which one has a gradient and shares memory with another
    value: y = x * 3; z = y[1:]; torch._foreach_mul_([y], 2). AOTAutograd computes the numbers of z, and its gradient
    as if nothing had been written (torch 2.13).

    Near miss: where no gradients are recorded, as in optimizers.
    """
    recorded = torch.is_grad_enabled()
    for module in gm.modules():
        nodes = list(module.graph.nodes) if isinstance(module, GraphModule) else []
        lists = {node for node in nodes if name_of(node).startswith("_foreach_")}
        names = Counter(_storages(nodes) if lists else [])
        for node in nodes:
            if name_of(node) == "_set_grad_enabled":
                recorded = bool(node.args[0])
            if not (recorded and node in lists and any(one.requires_grad for one in _given(node))):
                continue
            if any(names[memory] > 1 for memory in _storages(list(written_by(node)))):
                return f"{name_of(node)} writes to a tensor with a gradient that shares memory"
    return None


def lost_place_of_a_derivative(gm: GraphModule) -> str | None:
    """The forward derivative (`jvp`, `jacfwd`), if there is one, by a tensor of which several elements are one number
    in memory. Eager copies a tangent to where the elements of such a tensor lie: those of one place have the derivative
    that was written last. AOTAutograd makes a value of the copy, and each has its own.

    Source: `set_fw_grad` of torch/csrc/autograd/autograd_meta.cpp.
    """
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op == "call_function" and name_of(node) == "_make_dual":
                primal = node.args[0] if node.args else node.kwargs.get("tensor")
                value = _innermost(value_of(primal)) if isinstance(primal, Node) else None
                if isinstance(value, torch.Tensor) and overlaps(value):
                    return f"{name_of(node)} derives by a tensor of which several elements are one number in memory"
    return None


def _innermost(value: object) -> object:
    """What a tensor of `torch.func` stands for, through all levels."""
    functorch: Any = getattr(torch._C, "_functorch")  # noqa: B009  # pyright: ignore[reportPrivateUsage]
    while isinstance(value, torch.Tensor) and functorch.is_functorch_wrapped_tensor(value):
        value = functorch.get_unwrapped(value)
    return value


def _given(node: Node) -> Iterator[torch.Tensor]:
    return (one for argument in node.all_input_nodes for one in tensors_of(argument))


def lost_bit_of_a_part(gm: GraphModule) -> str | None:
    """The value, if there is one, a tensor subclass of which a part has the negative or the conjugate bit: given,
    computed on the way or returned, or on the way of a gradient, which reads conjugates of complex numbers. AOTAutograd
    asks the subclass, which has none, and reads the part as it lies.

    Near miss: a subclass that has the bit itself, as DTensors have. (Of sizes that are symbols they can be asked for
    nothing but where they are traced.)
    """
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            value = value_of(node)
            if any(part.is_neg() or part.is_conj() for part in _parts(value)):
                return f"{node.name} is a tensor subclass of which a part has the negative or the conjugate bit"
            for one in _tensors_among(value):
                if (
                    one.requires_grad
                    and one.is_complex()
                    and is_traceable_wrapper_subclass(one)
                    and not _is_dtensor(one)
                ):
                    conjugate = one.detach().conj()
                    if not conjugate.is_conj() and any(part.is_conj() for part in _parts(conjugate)):
                        return f"{node.name} has a gradient, of a subclass of which a part has the conjugate bit"
    return None


def _is_dtensor(tensor: torch.Tensor) -> bool:
    imported: Any = sys.modules.get("torch.distributed.tensor")
    return imported is not None and isinstance(tensor, imported.DTensor)


def _tensors_among(value: object) -> Sequence[torch.Tensor]:
    several = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else (value,)
    return [one for one in several if isinstance(one, torch.Tensor)]


def lost_place(gm: GraphModule) -> str | None:
    """The result, if there is one, that is an input or a view of one, where the input shares elements with another and
    one of the two is written to: y = x[1:]; x.add_(1); return y[0]. AOTAutograd makes both views of one tensor, and the
    result anew of that tensor as if it were the input: it would be x[0]. (Of an input itself so does torch 2.11.)

    Near miss: inputs that are known to be parts of one memory without a common element.

    Source: `create_synthetic_base_metadata` of torch/_functorch/_aot_autograd/input_output_analysis.py.
    """
    shared = _shared_and_written(gm)
    for node in gm.graph.output_node().all_input_nodes if shared else ():
        if any(memory in shared for memory in _storages([node])):
            return f"{node.name} is a view of an input that shares memory with another, which is written to"
    return None


def lost_part(gm: GraphModule) -> str | None:
    """The result, if there is one, that has a gradient and is one of several views (`split`, `chunk`, `unbind`) of an
    input that is written to: x.detach().mul_(2); return x.unbind(0)[1]. AOTAutograd does not make such a view anew when
    the graph has run, and so it is one of the updated value, which is copied to the input. (One of what is computed and
    returned, too, does not know of later updates of the other: its version stays.)

    Near miss: an input of which another result is a view as well, made alone.

    Source: `is_cur_tensor_multi_out_view` of torch/_functorch/_aot_autograd/collect_metadata_analysis.py.
    """
    nodes = [node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    if not any(isinstance(value_of(node), (list, tuple)) for node in nodes if node.op != "output"):
        return None
    calls = [node for node in nodes if node.op in ("call_method", "call_function")]
    written = set(_storages([one for node in calls for one in written_by(node)]))
    given = set(_storages(gm.graph.find_nodes(op="placeholder")))
    results = [(node, one) for node in gm.graph.output_node().all_input_nodes for one in tensors_of(node)]
    alone = Counter(memory_of(one) for node, one in results if not _is_one_of_several(node))
    for node, one in results:
        if not one.requires_grad or memory_of(one) not in written or not _is_one_of_several(node):
            continue
        if alone[memory_of(one)] == (memory_of(one) not in given):
            return f"{node.name} is returned, one of several views of what is written to"
    return None


def _is_one_of_several(node: Node) -> bool:
    """Whether a view is one of several that a call has made, or a view of one. (What torch.export calls whole, such as
    a block without gradients, gives results, and no views.)
    """
    sources = (one.args[0] if one.args else None for one in nodes_behind(node))
    return any(
        isinstance(source, Node)
        and isinstance(value_of(source), (list, tuple))
        and not isinstance(source.target, HigherOrderOperator)
        for source in sources
    )


def lost_count(gm: GraphModule) -> str | None:
    """The result, if there is one, that is `x.data`, or a view of it, where x or another view of x is an argument or a
    result. Eager counts changes of the two apart. AOTAutograd makes the result anew as a view of x, and a change of x
    is one of the result: autograd refuses gradients that eager computes (torch 2.13).

    Near miss: several results of one `x.data`, and nothing else of that memory.

    Source: `variable_data` of torch/csrc/autograd/variable.h.
    """
    if not any(name_of(node) == "_get_data_attr" for node in gm.graph.nodes):
        return None
    counted: dict[int, set[Node | None]] = {}
    for node in (*gm.graph.find_nodes(op="placeholder"), *gm.graph.output_node().all_input_nodes):
        for one in tensors_of(node):
            data = next((other for other in nodes_behind(node) if name_of(other) == "_get_data_attr"), None)
            together = counted.setdefault(memory_of(one), {data})
            together.add(data)
            if len(together) > 1:
                return f"changes of {node.name} and of what it shares memory with are counted apart"
    return None


def lost_base(gm: GraphModule) -> str | None:
    """The result, if there is one, that shares computed memory with another and has a gradient, where inputs share
    elements and one of them is written to: x.add_(x); v = y.sin(); return x, v, v.expand(2, n) for a y that x is a view
    of. AOTAutograd makes the view anew of the result with a number, which it has taken for an input's: of another.

    Near miss: inputs that are known to be parts of one memory without a common element.

    Source: `create_synthetic_base_metadata` of torch/_functorch/_aot_autograd/input_output_analysis.py (`base_idx`).
    """
    if not _shared_and_written(gm):
        return None
    given = set(_storages(gm.graph.find_nodes(op="placeholder")))
    results = [(node, one) for node in gm.graph.output_node().all_input_nodes for one in tensors_of(node)]
    counts = Counter(memory_of(one) for _, one in results)
    for node, one in results:
        if one.requires_grad and counts[memory_of(one)] > 1 and memory_of(one) not in given:
            return f"{node.name} shares memory with another result, where an input that shares memory is written to"
    return None


def _shared_and_written(gm: GraphModule) -> set[int]:
    """The storages of inputs that may have elements in common and of which one is written to."""
    inputs = [tensor for node in gm.graph.find_nodes(op="placeholder") for tensor in tensors_of(node)]
    shared = {memory for memory, count in Counter(map(memory_of, inputs)).items() if count > 1}
    if not shared:
        return shared
    nodes = [node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    calls = [node for node in nodes if node.op in ("call_method", "call_function")]
    shared &= set(_storages([one for node in calls for one in written_by(node)]))
    return {memory for memory in shared if may_meet([one for one in inputs if memory_of(one) == memory])}


def lost_layout(gm: GraphModule) -> str | None:
    """The call of somebody's operator, if there is one, that writes to a view of a tensor that was updated before and
    does not fill its memory from the start on: x = y[..., 1]; x.add_(1); library.shift_(x[0]). AOTAutograd computes the
    update anew, densely, and makes the view of that by its place in the old memory: beside the new one.

    Near miss: what fills its memory, whose update lies alike.

    Source: `write_view_information_to_args` of torch/_higher_order_ops/auto_functionalize.py.
    """
    for module in gm.modules():
        nodes = list(module.graph.nodes) if isinstance(module, GraphModule) else []
        theirs = set(filter(is_somebodys, nodes))
        updated = set[int]()
        for node in nodes if theirs else ():
            written = list(written_by(node)) if node.op in ("call_method", "call_function") else []
            for one in written if node in theirs else ():
                roots = list(views_behind(one))[-1:]
                if any(memory_of(root) in updated and not fills_memory(root) for root in roots):
                    return f"{name_of(node)} writes to a view of what was updated, which does not fill its memory"
            updated.update(_storages(written))
    return None


def lost_view_of_a_subclass(gm: GraphModule) -> str | None:
    """The result, if there is one, that is a view of an input which is a tensor subclass, where the subclass does not
    give it for its sizes and strides (`as_strided`): AOTAutograd makes it anew so, when the graph has run. DTensors
    raise, others give plain tensors.

    Near miss: a subclass that takes `as_strided` for what it is of a plain tensor.

    Source: `gen_alias_from_base` of torch/_functorch/_aot_autograd/functional_utils.py.
    """
    given = [value for node in gm.graph.find_nodes(op="placeholder") if _is_subclass(value := value_of(node))]
    for node in gm.graph.output_node().all_input_nodes if given else ():
        value: Any = value_of(node)
        if not _is_subclass(value) or any(value is one for one in given):
            continue
        base = next((one for one in given if memory_of(one) == memory_of(value)), None)
        if base is not None and not _is_strided_so(base, value):
            return f"{node.name} is returned, a view of an input of {type(base).__name__}, which takes no strides"
    return None


def _is_subclass(value: object) -> bool:
    return is_traceable_wrapper_subclass(value)


def _is_strided_so(base: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether a subclass gives a view for its sizes and strides, with parts that lie as those of the view."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    try:
        with torch.enable_grad():
            given = base.detach().requires_grad_(view.requires_grad)
            made = given.as_strided(view.shape, view.stride(), view.storage_offset())
            if view.requires_grad:  # DTensors take their own strides, and not in a gradient
                torch.autograd.grad(made, given, torch.ones_like(made.detach()))
    except (RuntimeError, NotImplementedError, TypeError, AssertionError):
        return False
    ours, theirs = list(_parts(made)), list(_parts(view))
    if type(made) is not type(view) or len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        lies = [[*part.shape, *part.stride(), part.storage_offset()] for part in (one, other)]
        known = len(lies[0]) == len(lies[1]) and all(map(statically_known_true, map(eq, *lies)))
        if not known or one.dtype != other.dtype or memory_of(one) != memory_of(other):
            return False
    return True


def lost_address(gm: GraphModule) -> str | None:
    """The call, if there is one, that counts addresses in the storage (`as_strided` and its kin) of a tensor that is
    written to, has gaps of its own, or has the negative bit: x.add_(1); return x.as_strided((2,), (1,), 0) + 1.
    AOTAutograd makes the update a tensor of its own, in which nothing lies before x, and we make one of what the bit
    means; what is computed has no gaps with us.

    Near miss: what is computed, fills its memory, and holds all that is addressed. (Where an input begins in its
    memory, no guard says.)
    """
    nodes = [node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    calls = [node for node in nodes if node.op in ("call_method", "call_function")]
    addressing = [node for node in calls if name_of(node).partition(".")[0].startswith("as_strided") and node.args]
    written = set(_storages([one for node in calls for one in written_by(node)])) if addressing else set[int]()
    for node in addressing:
        for value in _given(node):
            if value.is_neg() and "scatter" not in name_of(node):  # what inserts, copies before
                return f"{name_of(node)} counts addresses of what has the negative bit"
            if memory_of(value) in written and not _lies_within_what_is_computed(node):
                return f"{name_of(node)} counts addresses in memory that is written to, of which not all is known"
            if _has_gaps_of_its_own(node):
                return f"{name_of(node)} counts addresses of what is computed and does not fill its memory"
    return None


def _has_gaps_of_its_own(node: Node) -> bool:
    """Whether what a view is of is computed, and lies as a part of other memory does: `aten.copy` of x[..., 1]."""
    *views, root = nodes_behind(node)
    whole = value_of(root)
    made = views and root.op in ("call_function", "call_method")
    return bool(made) and isinstance(whole, torch.Tensor) and not fills_memory(whole)


def _lies_within_what_is_computed(node: Node) -> bool:
    """Whether a view is one of a tensor that is computed and fills its memory, and is known to stay within that."""
    *views, root = nodes_behind(node)
    view, whole = value_of(node), value_of(root)
    if not views or root.op in ("placeholder", "get_attr"):
        return False
    if not isinstance(view, torch.Tensor) or not isinstance(whole, torch.Tensor) or not fills_memory(whole):
        return False
    _, last = first_and_last(view)
    return is_known((last + 1) * view.itemsize <= whole.numel() * whole.itemsize)


def lost_gaps(gm: GraphModule) -> str | None:
    """The call of `normal_`, if there is one, on the CPU, for a tensor that does not lie row-major only because it has
    gaps: torch.empty(9, 2)[:, 0].normal_(). Eager makes other numbers, and another number of them, for what is
    row-major than for what is not, and AOTAutograd gives it a copy without gaps.

    Near miss: less than 16 elements, of which each is drawn by itself in either case.

    Source: `normal_` of aten/src/ATen/native/cpu/DistributionTemplates.h.
    """
    for module in gm.modules():
        nodes = module.graph.nodes if isinstance(module, GraphModule) else ()
        for node in nodes:
            if node.op not in ("call_method", "call_function") or name_of(node) not in _NORMAL:
                continue
            for value in _given(node):
                few = is_known(value.numel() < _ONE_BY_ONE) or value.device.type != "cpu"
                if not (few or value.is_contiguous()) and torch.empty_like(value).is_contiguous():
                    return f"{node.name} draws normal numbers for a tensor with gaps"
    return None


_NORMAL = ("normal_", "normal_.default")
_ONE_BY_ONE = 16
"""The least elements that eager draws normal numbers for in one go, where they lie row-major.
Source: `normal_` of aten/src/ATen/native/cpu/DistributionTemplates.h."""


def is_somebodys(node: Node) -> bool:
    """Whether it calls an operator that is not PyTorch's own."""
    target: Any = node.target
    packet = target.overloadpacket if isinstance(target, OpOverload) else target
    name: str = getattr(packet, "_qualified_op_name", "aten::")
    return name.partition("::")[0] not in ("aten", "prims", "_c10d_functional")


def lost_rank(gm: GraphModule) -> str | None:
    """The call of `squeeze`, if there is one, of a dim of which only the data knows whether its size is 1. PyTorch
    takes it for another, and the result for one of so many dims, also where it learns of the 1 later.

    Near miss: a size that PyTorch guards, as it does with those of inputs.
    """
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op not in ("call_method", "call_function") or name_of(node).partition(".")[0] != "squeeze":
                continue
            source, result = next(_given(node), None), value_of(node)
            if source is None or not isinstance(result, torch.Tensor):
                continue
            dims: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
            if dims is None:
                dims = range(source.dim())
            sizes: list[Any] = [source.shape[dim] for dim in _in_a_row(dims)] if source.dim() else []
            ones = sum(statically_known_true(size == 1) for size in sizes)
            unknown = (size for size in sizes if not statically_known_true(size == 1))
            if any(free_unbacked_symbols(one) and not statically_known_true(one > 1) for one in unknown):
                return f"{node.name} is of a size of which only the data knows whether it is 1"
            if result.dim() != source.dim() - ones:
                return f"{node.name} is of a size that turned out to be 1"
    return None


def _in_a_row(dims: Any) -> Iterable[int]:
    return cast("Iterable[int]", dims) if isinstance(dims, Iterable) else (dims,)


def lost_negative_bit(gm: GraphModule) -> str | None:
    """The result, if there is one, with a negative bit that AOTAutograd forgets when it makes the view anew of its
    base's memory: where a size of any view of that memory is a symbol, or several results share what is computed.
    """
    for node, value, of_input in _negative_results(gm):
        shared = _storages(gm.graph.output_node().all_input_nodes).count(memory_of(value)) > 1
        if _has_symbolic_views(gm, value) if of_input else shared:
            return f"{node.name} is returned, which shares memory and has the negative bit"
    return None


def lost_bit_of_what_is_set(gm: GraphModule) -> str | None:
    """The tensor, if there is one, that is set to one with another negative or conjugate bit: v = torch._neg_view(x);
    v.set_(y). Eager reads the memory of y with the bit of v, AOTAutograd with that of y.

    Near miss: both have the bit, or neither.
    """
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            given = list(_given(node)) if name_of(node).partition(".")[0] == "set_" else []
            if len({(one.is_neg(), one.is_conj()) for one in given}) > 1:
                return f"{node.name} sets a tensor to one that has another negative or conjugate bit"
    return None


def lost_bit_of_an_input(gm: GraphModule) -> str | None:
    """The result, if there is one, that lies in the memory of an input with the negative or the conjugate bit and has
    not that bit, where a size of any view of it is a symbol: AOTAutograd makes it anew of the input, with the input's
    bit.

    Source: `gen_alias_from_base` of torch/_functorch/_aot_autograd/functional_utils.py.
    """
    given = [one for node in gm.graph.find_nodes(op="placeholder") for one in tensors_of(node)]
    for name, has_bit in (("negative", torch.Tensor.is_neg), ("conjugate", torch.Tensor.is_conj)):
        with_bit = {memory_of(one) for one in given if has_bit(one)}
        for node in gm.graph.output_node().all_input_nodes if with_bit else ():
            for value in tensors_of(node):
                if not has_bit(value) and memory_of(value) in with_bit and _has_symbolic_views(gm, value):
                    return f"{node.name} is returned, which views an input with the {name} bit, of sizes that change"
    return None


def lost_type(gm: GraphModule) -> str | None:
    """The result, if there is one, that reads an input's memory as another type, where a size of any view of it is a
    symbol: AOTAutograd makes it anew with strides that count numbers of the input's type, or of that type.

    Near miss: the parts of a complex input, for which it knows what to do.

    Source: `gen_alias_from_base` of torch/_functorch/_aot_autograd/functional_utils.py.
    """
    given = [one for node in gm.graph.find_nodes(op="placeholder") for one in tensors_of(node)]
    types = {memory_of(one): one.dtype for one in given}
    for node in gm.graph.output_node().all_input_nodes:
        for value in tensors_of(node):
            own = types.get(memory_of(value), value.dtype)
            is_part = own.is_complex and value.dtype.is_floating_point
            if value.dtype != own and not is_part and _has_symbolic_views(gm, value):
                return f"{node.name} is returned, which reads an input of {own} as {value.dtype}, of sizes that change"
    return None


def _has_symbolic_views(gm: GraphModule, tensor: torch.Tensor) -> bool:
    """Whether a view of its memory, itself included, has a symbol among its sizes and strides."""
    views = (one for other in gm.graph.nodes for one in tensors_of(other) if memory_of(one) == memory_of(tensor))
    numbers = (number for one in views for number in (*one.shape, *one.stride(), one.storage_offset()))
    return not all(isinstance(number, int) for number in numbers)


def _parts(value: object) -> Iterator[torch.Tensor]:
    """The tensors that a tensor subclass consists of, those of its parts included; those of several, one by one."""
    if isinstance(value, (list, tuple)):
        for one in cast("Sequence[object]", value):
            yield from _parts(one)
    elif is_traceable_wrapper_subclass(value):
        names, _ = cast("Any", value).__tensor_flatten__()
        for part in (getattr(value, name) for name in names):
            if isinstance(part, torch.Tensor):  # not a mesh
                yield part
                yield from _parts(part)


def copy_negative_results(gm: GraphModule) -> None:
    """Returns a copy of what is computed and has the negative bit, in place: numbers in memory of their own, which need
    no bit.
    """
    for node, value, of_input in _negative_results(gm):
        if not of_input:
            _return_instead(gm, node, torch.clone, value.clone())


@contextmanager
def negative_results_flipped(gm: GraphModule) -> Generator[list[int]]:
    """Returns what lies in memory in the place of what is computed and has the negative bit, in place, and says which
    results these are: with the bit, they are what eager gives. An error that ends the `with` block puts them back.

    Near miss: a tensor subclass, of which nobody knows what the bit would be.
    """
    output = gm.graph.output_node()
    given = output.args
    results = list(cast("Sequence[Any]", given[0]))
    flipped: list[int] = []
    for node, value, of_input in _negative_results(gm):
        if not of_input and not is_traceable_wrapper_subclass(value):
            flipped += [position for position, one in enumerate(results) if one is node]
            _return_instead(gm, node, torch.neg, -value)
    try:
        yield flipped
    except BaseException:
        if flipped:
            output.args = given
            gm.recompile()
        raise


def _return_instead(gm: GraphModule, node: Node, function: Callable[..., Any], value: torch.Tensor) -> None:
    """Returns a function of a result in its place, whose value is given."""
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        other = gm.graph.call_function(function, (node,))
    # A size that the node finds in the data is not found again.
    other.meta = {name: one for name, one in node.meta.items() if name not in ("example_value", "unbacked_bindings")}
    other.meta["example_value"] = value
    output.replace_input_with(node, other)
    gm.recompile()


def _negative_results(gm: GraphModule) -> list[tuple[Node, torch.Tensor, bool]]:
    """The results with the negative bit, and whether their memory is that of an input."""
    found = [(node, value) for node in gm.graph.output_node().all_input_nodes for value in tensors_of(node)]
    found = [(node, value) for node, value in found if value.is_neg()]
    inputs = set(_storages(gm.graph.find_nodes(op="placeholder"))) if found else set[int]()
    return [(node, value, memory_of(value) in inputs) for node, value in found]


def _storages(nodes: Sequence[Node]) -> list[int]:
    """The storages of their tensors."""
    return [memory_of(tensor) for node in nodes for tensor in tensors_of(node)]


_LOST: Sequence[Callable[[GraphModule], str | None]] = (
    lost_gradient,
    lost_place,
    lost_bit_of_a_part,
    lost_negative_bit,
    lost_bit_of_what_is_set,
    lost_bit_of_an_input,
    lost_type,
    lost_place_of_a_derivative,
    lost_base,
    lost_layout,
    lost_view_of_a_subclass,
    lost_view_of_a_part,
    lost_update_of_a_part,
    lost_part_of_a_number,
    lost_bit_of_what_is_written,
    lost_address,
    lost_rank,
    lost_leaf,
    lost_gaps,
    lost_part,
    lost_count,
)


def lost(gm: GraphModule) -> str | None:
    """Why eager is to run a Dynamo graph: the first that is lost in it, if anything is."""
    return next((reason for find in _LOST if (reason := find(gm)) is not None), None)
