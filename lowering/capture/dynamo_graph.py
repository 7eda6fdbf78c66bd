"""What only Dynamo's graph shows, before AOTAutograd makes it functional.

An update in place is a node of its own there, with the tensor that it is about as its first argument; later it is one
more value, and who wrote where is forgotten.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.memory_ranges import (
    is_changed_by,
    is_known,
    is_several,
    known_to_meet,
    may_meet,
    memory_of,
    overlaps,
)

_NO_WRITES: Final = frozenset(
    {
        *("as_strided_", "detach_", "rename_", "requires_grad_", "resize_", "resize_as_", "retain_grad_", "set_"),
        *("squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"),
        *("and_", "is_", "not_", "or_"),
    }
)
"""Operators with a name like an update's that change what a tensor is, and no element; or nothing: those of Python that
would be keywords (`operator.and_`).
"""


def update_of_shared_elements(gm: GraphModule) -> str | None:
    """The update in place, if there is one, of a tensor of which several elements are one number in memory, or of a
    view of such.

    x.expand(3, 4).add_(1) raises in eager, and x.expand(3, 4).fill_(1) or x.expand(3, 4)[0].add_(1) write to x.
    AOTAutograd makes neither of it: x becomes the *sum* of what the three rows are after the update. And where
    x = y.as_strided((2, 2), (1, 1)), x[0].neg_() changes x[1, 0], but AOTAutograd writes x[1] back as it was.

    Likewise of a list of tensors that overlap, which eager updates one after the other: torch._foreach_add_([x, x], 1)
    adds 2; and where a tensor is read that was updated before it: torch._foreach_copy_([x, y], [z, x]). AOTAutograd
    computes all updates first, of what the tensors were before.

    Likewise of `slice_scatter` and its kin, which update a copy of the storage of their first argument: where elements
    of that are one number without a stride of 0, those of the copy are, too.

    Likewise of windows that leave elements out: x.unfold(0, 2, 3).zero_() leaves every third element as it was, and
    AOTAutograd makes 0 of it.

    Likewise of what is in part, or in another order, what the update reads: x[1:].add_(x[:-1]) raises in eager, where
    both have no gaps, and else reads what it has written. AOTAutograd reads all before it writes. (Of what is no
    operator of single elements, eager's result may be of what it has written: torch.sum(x, 0, out=x),
    x.masked_scatter_(mask, x).)

    Source: `has_internal_overlap` and `get_overlap_status` of aten/src/ATen/MemoryOverlap.cpp; `expand_copy_inverse`
    and `unfold_inverse` of FunctionalInverses.cpp; `clone_preserve_strides` of aten/src/ATen/native/TensorShape.cpp.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            written = list(written_by(node)) if node.op in ("call_method", "call_function") else []
            if len(written) > 1 and known_to_meet([tensor for one in written for tensor in parts_of(one)]):
                return f"{name_of(node)} writes to tensors that overlap"
            if len(written) > 1 and _reads_what_it_wrote(node, written):
                return f"{name_of(node)} writes to tensors that overlap with what it reads next"
            if any(overlaps(one) for tensor in written for one in views_behind(tensor)):
                return f"{name_of(node)} writes to a tensor of which several elements are one number in memory"
            if any(_reads_a_part(node, target) for target in written):
                return f"{name_of(node)} writes to a part of what it reads"
            if _reduces_to_what_it_reads(node):
                return f"{name_of(node)} writes to what it reads, and is no operator of single elements"
            if any(map(_is_of_windows_with_gaps, written)):
                return f"{name_of(node)} writes to windows that leave elements out"
            if name_of(node).partition(".")[0] in _INSERTIONS and _is_copied_as_it_lies(node):
                return f"{name_of(node)} copies a tensor of which several elements are one number in memory"
    return None


def _reads_what_it_wrote(node: Node, written: Sequence[Node]) -> bool:
    """Whether a call for several tensors, one after the other, reads one of which an earlier one that it wrote to is
    known to be a part.
    """
    before: dict[int, list[tuple[int, torch.Tensor]]] = {}
    for position, target in enumerate(written):
        for tensor in parts_of(target):
            before.setdefault(memory_of(tensor), []).append((position, tensor))
    for argument in (*node.args[1:], *node.kwargs.values()):
        sources = cast("Sequence[Any]", argument) if isinstance(argument, list | tuple) else ()
        for position, source in enumerate(sources):
            for tensor in parts_of(source) if isinstance(source, Node) else ():
                earlier = [one for place, one in before.get(memory_of(tensor), ()) if place < position]
                if any(known_to_meet([one, tensor]) for one in earlier):
                    return True
    return False


def _reduces_to_what_it_reads(node: Node) -> bool:
    """Whether an operator that is not one of single elements is given a tensor of what it reads as its `out`, or reads
    in another argument what it updates: x.masked_scatter_(mask, x).
    """
    out = node.kwargs.get("out")
    if isinstance(out, Node):
        given = [one for argument in node.args for one in _nodes(argument)]
        memory = set(map(memory_of, tensors_of(out)))
        reads = any(memory_of(one) in memory for argument in given for one in tensors_of(argument))
        return reads and not _is_of_elements(node)
    name, target = name_of(node).partition(".")[0], node.args[0] if node.args else None
    if not name.endswith("_") or name.endswith("__") or name in (*_NO_WRITES, "copy_") or not isinstance(target, Node):
        return False
    others = [one for argument in (*node.args[1:], *node.kwargs.values()) for one in _nodes(argument)]
    for written in tensors_of(target) if others else ():
        alike = [one for other in others for one in tensors_of(other) if memory_of(one) == memory_of(written)]
        if any(may_meet([written, one]) for one in alike) and not _is_of_elements(node):
            return True
    return False


def _is_of_elements(node: Node) -> bool:
    """Whether a call is of an operator of single elements."""
    packet = getattr(torch.ops.aten, name_of(node).partition(".")[0], None)
    overloads: list[Any] = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)


def _reads_a_part(node: Node, written: Node) -> bool:
    """Whether a call reads elements that it writes to, which do not lie as those do."""
    copies = name_of(node).partition(".")[0] in ("setitem", "copy_", "_foreach_copy_")
    others = [one for source in node.all_input_nodes if source is not written for one in tensors_of(source)]
    return any(is_changed_by(one, target, copies=copies) for target in tensors_of(written) for one in others)


_INSERTIONS: Final = ("as_strided_scatter", "copy", "diagonal_scatter", "select_scatter", "slice_scatter")
"""Operators that update a copy of the storage of their first argument."""


def _is_copied_as_it_lies(node: Node) -> bool:
    """Whether elements of a call's first argument are one number, and are so in a copy of its storage. (Eager copies
    rows that are repeated one by one.)
    """
    first = node.args[0] if node.args else node.kwargs.get("input", node.kwargs.get("self"))
    for tensor in tensors_of(first) if isinstance(first, Node) else ():
        laid = zip(tensor.stride(), tensor.shape, strict=True)
        if not any(is_known(step == 0) and is_several(size) for step, size in laid) and overlaps(tensor):
            return True
    return False


def update_beside_bits(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """The update in place, if there is one, in a graph of which two inputs share memory and one has the negative or the
    conjugate bit. AOTAutograd makes them views of one tensor, and loses the bits.

    Source: `merge_view_inputs` of torch/_functorch/_aot_autograd/runtime_wrappers.py.
    """
    tensors = [value for value in inputs if isinstance(value, torch.Tensor) and has_memory(value)]
    if not any(tensor.is_neg() or tensor.is_conj() for tensor in tensors):
        return None
    memory = [tensor.untyped_storage()._cdata for tensor in tensors]  # pyright: ignore[reportPrivateUsage]
    if len(set(memory)) == len(memory):
        return None
    for node in gm.graph.nodes:
        if node.op in ("call_method", "call_function") and any(written_by(node)):
            return f"{name_of(node)} writes, and inputs that share memory have the negative or the conjugate bit"
    return None


def name_of(node: Node) -> str:
    """What a call is called, in eager: `add_`."""
    target: Any = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def sets_data(node: Node) -> bool:
    """Whether a call is what Dynamo makes of x.data = y: x.set_(y), whose change of x is not counted."""
    return name_of(node) == "set_" and any(name_of(user) == "_lower_version_count_by_1" for user in node.users)


def written_by(node: Node) -> Iterator[Node]:
    """The tensors that a call updates."""
    target: Any = node.target
    namespace: str = getattr(target, "_qualified_op_name", "aten").partition("::")[0]
    if isinstance(node.target, OpOverloadPacket) and namespace != "aten":  # somebody's: names of those say nothing
        names: list[str] = target.overloads()
        target = getattr(target, "default" if "default" in names else names[0])
    if isinstance(target, OpOverload):
        if target.__name__.partition(".")[0] in _NO_WRITES:
            return
        formals = cast("Any", target)._schema.arguments
        given = [*node.args, *[node.kwargs.get(formal.name) for formal in formals[len(node.args) :]]]
        for formal, value in zip(formals, given, strict=True):
            if formal.alias_info is not None and formal.alias_info.is_write:
                yield from _nodes(value)
        return
    if (out := node.kwargs.get("out")) is not None:
        yield from _nodes(out)
    name = name_of(node)
    in_place = name.endswith("_") and not name.endswith("__") and name not in _NO_WRITES
    if node.args and (in_place or name in _OPERATORS or node.kwargs.get("inplace") is True):
        yield from _nodes(node.args[0])


_OPERATORS: Final = frozenset(
    {
        *("iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub"),
        *("itruediv", "ixor", "setitem"),
    }
)
"""x += y and its like, and x[i] = y."""


def _nodes(value: Any) -> Iterator[Node]:
    for one in cast("Sequence[Any]", value) if isinstance(value, tuple | list) else (value,):
        if isinstance(one, Node):
            yield one


def views_behind(node: Node) -> Iterator[torch.Tensor]:
    """A tensor, what it is a view of, and so on."""
    return (tensor for one in nodes_behind(node) for tensor in tensors_of(one))


def nodes_behind(node: Node) -> Iterator[Node]:
    """The node of a tensor, that of what it is a view of, and so on."""
    memory: int | None = None
    while (tensor := next(tensors_of(node), None)) is not None and memory in (None, memory_of(tensor)):
        memory = memory_of(tensor)
        yield node
        if (source := _viewed_by(node)) is None:
            return
        node = source


def _viewed_by(node: Node) -> Node | None:
    """What a node is a view of, if it is one: of one of several views, what all of them are of."""
    source = node.args[0] if node.args else None
    if isinstance(source, Node) and isinstance(value_of(source), list | tuple) and source.args:
        source = source.args[0]
    return source if isinstance(source, Node) else None


def _is_of_windows_with_gaps(node: Node) -> bool:
    """Whether a tensor is a view of windows (`unfold`) that are not known to hold each element of what they are of."""
    while (view := next(parts_of(node), None)) is not None and (source := _viewed_by(node)) is not None:
        whole = next(parts_of(source), None)
        if whole is None or memory_of(whole) != memory_of(view):
            return False
        if name_of(node).partition(".")[0] == "unfold" and not is_known(whole.numel() == view.numel()):
            return True
        node = source
    return False


def value_of(node: Node) -> object:
    """A fake of the node's value: Dynamo and torch.export have other names for it."""
    return node.meta.get("example_value", node.meta.get("val"))


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether it is a tensor in itself: not one that stands for others, as DTensors and those inside of `vmap` do."""
    batched: Any = getattr(torch._C, "_functorch")  # noqa: B009  # pyright: ignore[reportPrivateUsage]
    if batched.is_functorch_wrapped_tensor(tensor) or is_traceable_wrapper_subclass(tensor):
        return False
    return tensor.layout is torch.strided


@contextmanager
def numbers_of_loops(gm: GraphModule, inputs: Sequence[Any]) -> Generator[None]:
    """Lets a backward pass of `while_loop` be traced in a `with` block: it asks how often the loop ran.

    Dynamo allows that only where it was told that numbers may come out of tensors, or `fullgraph=True`.

    Errors: DataDependentOutputException where such a number would have to be known (x[i], by an `i` of the loop), as if
    none came out: Dynamo runs the graph in eager.
    """
    mode: Any = detect_fake_mode(inputs) if calls(gm, torch.ops.higher_order.while_loop) else None
    if mode is None:
        yield
        return
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    before = mode.allow_scalar_outputs
    mode.allow_scalar_outputs = True
    try:
        yield
    except GuardOnDataDependentSymNode as error:
        if before:
            raise
        raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default) from error
    finally:
        mode.allow_scalar_outputs = before


@contextmanager
def tensors_stay(inputs: Sequence[Any]) -> Generator[None]:
    """Lets a graph be captured in a `with` block without PyTorch's asking Dynamo to trace it again because of a tensor
    of one float64.

    Dynamo gives such an input a symbol, the number that `item` would give. When a pass of AOTAutograd's has no use for
    the symbol, Dynamo traces again and drops the nodes with that number whose users all ask for it, an update in place
    of the input among them, which has no users: x.mul_(2) was lost (torch 2.13). The pass leaves alone what is said to
    be specialized already; that is taken back, since Python floats may lead to another trace, rightly.

    Source: `tensorify_python_scalars` of torch/fx/passes/_tensorify_python_scalars.py;
    `remove_tensorify_specialized_graphargs` of torch/_dynamo/output_graph.py.
    """
    mode: Any = detect_fake_mode(inputs)
    if mode is None or mode.shape_env is None or not any(_is_one_double(value) for value in inputs):
        yield
        return
    from torch._dynamo.source import CallMethodItemSource
    from torch._dynamo.symbolic_convert import TensorifyState
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    sources: Any = mode.shape_env.var_to_sources
    names = {
        str(symbol)
        for symbol, found in sources.items()
        if symbol_is_type(symbol, SymT.FLOAT) and any(isinstance(source, CallMethodItemSource) for source in found)
    } - TensorifyState.force_specializations
    TensorifyState.force_specializations |= names
    try:
        yield
    finally:
        TensorifyState.force_specializations -= names


def _is_one_double(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.float64 and value.dim() == 0


def gather_where_a_tensor_says(gm: GraphModule) -> None:
    """x.narrow(dim, start, length) -> x.index_select(dim, start + arange(length)), in place, where `start` is a tensor.

    AOTAutograd would want the number, and Dynamo then runs the whole graph in eager. Near miss: memory that is written
    to or handed out, for that the result is a view.
    """
    found = [node for node in gm.graph.nodes if node.target in (torch.narrow, "narrow") and _starts_at_tensor(node)]
    if not found:
        return
    handed = [tensor for node in gm.graph.output_node().all_input_nodes for tensor in tensors_of(node)]
    written = [tensor for node in gm.graph.nodes for one in written_by(node) for tensor in tensors_of(one)]
    visible = {tensor.untyped_storage()._cdata for tensor in (*handed, *written)}  # pyright: ignore[reportPrivateUsage]
    for node in found:
        if any(tensor.untyped_storage()._cdata in visible for tensor in tensors_of(node)):  # pyright: ignore[reportPrivateUsage]
            continue
        node.op, node.target = "call_function", _gathered
    gm.recompile()


def expand_nothing_by_views(gm: GraphModule) -> None:
    """x.expand(1, *x.shape) -> x.unsqueeze(0), in place, where memory is written that it is about: no element becomes
    several.

    An update through `expand` AOTAutograd writes as x + sum(y - x), which is y only where all is finite and nothing
    rounded.
    Near miss: an element that is several, which `update_of_shared_elements` is about.

    Source: `expand_copy_inverse` of FunctionalInverses.cpp.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.target in _EXPANDS and _expands_nothing(node)]
        if not found:
            continue
        updated = (one for node in module.graph.nodes for one in written_by(node))
        written = {tensor.untyped_storage()._cdata for one in updated for tensor in tensors_of(one)}  # pyright: ignore[reportPrivateUsage]
        for node in found:
            (tensor,) = tensors_of(node)
            if tensor.untyped_storage()._cdata in written:  # pyright: ignore[reportPrivateUsage]
                node.op, node.target, node.args, node.kwargs = (
                    "call_function",
                    _of_rank,
                    (node.args[0], tensor.dim()),
                    {},
                )
        module.recompile()


_EXPANDS: Final = frozenset({"expand", "expand_as", "broadcast_to", torch.broadcast_to, torch.ops.aten.expand.default})


def _expands_nothing(node: Node) -> bool:
    if not node.args or not isinstance(source := node.args[0], Node):
        return False
    before, after = list(tensors_of(source)), list(tensors_of(node))
    if not before or not after:
        return False
    old, new = before[0].shape, after[0].shape
    added = len(new) - len(old)
    return all(is_known(size == 1) for size in new[:added]) and all(
        is_known(one == other) for one, other in zip(old, new[added:], strict=True)
    )


def copy_what_is_resolved(gm: GraphModule) -> None:
    """x.resolve_neg() -> x.clone(), in place, of what has the negative bit: the same to eager.

    To AOTAutograd it is x itself once `_neg_view` is decomposed into a negation, and an update of it is one of x.

    _neg_view(_neg_view(x)) -> alias(x), in place: a view of x, and no numbers of its own.

    select_scatter(x, …) -> select_scatter(x.clone(), …), in place, and its kin, of what has a bit: eager resolves it
    before, and what it copies then is no part of a storage.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [node for node in module.graph.nodes if _resolves(node)]
        for node in found:
            node.op, node.target, node.args, node.kwargs = "call_method", "clone", node.args[:1], {}
        for node in list(module.graph.nodes):
            if (chain := _views_since_negated(node)) is not None:
                plain = chain[-1].args[0]
                for view in reversed(chain[:-1]):
                    with module.graph.inserting_before(node):
                        again = module.graph.node_copy(view, lambda one: one)
                    again.args = (plain, *view.args[1:])
                    again.meta = {**view.meta, "example_value": torch.ops.aten._neg_view(value_of(view))}
                    plain = again
                node.target, node.args = torch.ops.aten.alias.default, (plain,)
                found.append(node)
        copied = [(node, given) for node in module.graph.nodes for given in _bits_inserted_into(node)]
        for node, given in copied:
            with module.graph.inserting_before(node):
                copy = module.graph.call_method("clone", (given,))
            copy.meta = {**given.meta, "example_value": cast("torch.Tensor", value_of(given)).clone()}
            first = {name: copy if name in ("input", "self") else value for name, value in node.kwargs.items()}
            node.args, node.kwargs = (copy, *node.args[1:]) if node.args else (), first
        if found or copied:
            module.recompile()


def draw_in_rows(gm: GraphModule) -> None:
    """x.bernoulli(p) -> x.contiguous().bernoulli(p), in place: eager draws row by row for what does not lie so. In
    place it draws in the order of memory, and AOTAutograd writes both as one operator.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        nodes = list(module.graph.nodes)
        found = [node for node in nodes if name_of(node) in ("bernoulli", "bernoulli.p") and node.all_input_nodes]
        for node in found:
            given = node.all_input_nodes[0]
            for value in tensors_of(given):
                if not value.is_contiguous():
                    with module.graph.inserting_before(node):
                        rows = module.graph.call_method("contiguous", (given,))
                    rows.meta = {**given.meta, "example_value": value.contiguous()}
                    node.replace_input_with(given, rows)
        if found:
            module.recompile()


def view_what_may_be_seen(gm: GraphModule) -> None:
    """_unsafe_view(x, …) -> view(x, …), in place: whoever calls it may go on to write to x, whatever its name says.

    unsafe_split(x, …) -> split(x, …), and its kin, of an x without a gradient: with one, autograd knows nothing of what
    is written to the parts. (Of what has a bit eager makes a copy.)
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            view: Any = _UNSAFE_VIEWS.get(node.target) if node.op in ("call_function", "call_method") else None
            given: list[Node] = node.all_input_nodes if view is not None else []
            is_copy = any(one.is_neg() or one.is_conj() for source in given for one in tensors_of(source))
            if not is_copy and view and (view is _aten.view.default or not any(map(_has_gradient, given))):
                node.target = view
                module.recompile()


_aten: Final = torch.ops.aten
_UNSAFE_VIEWS: Final[dict[Any, Any]] = {
    **dict.fromkeys((_aten._unsafe_view, _aten._unsafe_view.default), _aten.view.default),
    **{f"unsafe_{name}": name for name in ("chunk", "split", "split_with_sizes")},
    torch.unsafe_chunk: torch.chunk,
    torch.unsafe_split: torch.split,
    torch.unsafe_split_with_sizes: torch.split_with_sizes,
    _aten.unsafe_chunk.default: _aten.chunk.default,
    _aten.unsafe_split.Tensor: _aten.split.Tensor,
    _aten.unsafe_split_with_sizes.default: _aten.split_with_sizes.default,
}


def _has_gradient(node: Node) -> bool:
    value = value_of(node)
    return isinstance(value, torch.Tensor) and value.requires_grad


def _resolves(node: Node) -> bool:
    if node.target not in ("resolve_neg", torch.resolve_neg, torch.ops.aten.resolve_neg.default) or not node.args:
        return False
    return isinstance(node.args[0], Node) and any(tensor.is_neg() for tensor in tensors_of(node.args[0]))


_NEGATES: Final = ("_neg_view", "_neg_view.default")


def _negates(node: Node) -> bool:
    return node.op == "call_function" and name_of(node) in _NEGATES and len(node.args) == 1


def _views_since_negated(node: Node) -> list[Node] | None:
    """Of a view that takes a negative bit back: the views between it and the one that gave it, which is the last. None
    where something is written on the way, which must not be done again.
    """
    found: list[Node] = []
    value = value_of(node)
    if not _negates(node) or not isinstance(value, torch.Tensor) or value.is_neg():
        return None
    while isinstance(view := (found[-1] if found else node).args[0], Node):
        value = value_of(view)
        if not isinstance(value, torch.Tensor) or not has_memory(value) or not value.is_neg() or not view.args:
            return None
        if any(written_by(view)):
            return None
        found.append(view)
        source = value_of(view.args[0]) if isinstance(view.args[0], Node) else None
        if not isinstance(source, torch.Tensor) or not has_memory(source) or memory_of(source) != memory_of(value):
            return None
        if _negates(view):
            return None if source.is_neg() else found
    return None


def _bits_inserted_into(node: Node) -> Iterator[Node]:
    """What a call inserts into, if that has the negative or the conjugate bit."""
    if name_of(node).partition(".")[0] in _INSERTIONS:
        given = node.args[0] if node.args else node.kwargs.get("input", node.kwargs.get("self"))
        value = value_of(given) if isinstance(given, Node) else None
        if isinstance(given, Node) and isinstance(value, torch.Tensor) and (value.is_neg() or value.is_conj()):
            yield given


def _of_rank(input: torch.Tensor, rank: int) -> torch.Tensor:
    """A view with dims of one element in front."""
    for _ in range(rank - input.dim()):
        input = input.unsqueeze(0)
    return torch.ops.aten.alias.default(input)


def _starts_at_tensor(node: Node) -> bool:
    start = node.kwargs.get("start", node.args[2] if len(node.args) > 2 else None)
    value = value_of(start) if isinstance(start, Node) else None
    whole = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    return isinstance(value, torch.Tensor) and value.ndim == 0 and value.dtype in whole and bool(list(tensors_of(node)))


def tensors_of(node: Node) -> Iterator[torch.Tensor]:
    """The value of a node, if it is a tensor with memory of its own."""
    value = value_of(node)
    if isinstance(value, torch.Tensor) and has_memory(value):
        yield value


def parts_of(node: Node) -> Iterator[torch.Tensor]:
    """The same, and of a subclass of tensors the plain ones that it consists of."""

    def plain(value: object) -> Iterator[torch.Tensor]:
        if is_traceable_wrapper_subclass(value):
            names, _ = cast("Any", value).__tensor_flatten__()
            for name in names:
                yield from plain(getattr(value, name))
        elif isinstance(value, torch.Tensor) and has_memory(value):
            yield value

    yield from plain(value_of(node))


def _gathered(input: torch.Tensor, dim: int, start: torch.Tensor, length: int) -> torch.Tensor:
    """What `narrow` sees, in memory of its own, in the same order. An index that there is not is an error as any is."""
    from torch import _prims_common as prims

    start = start.to(torch.int64)
    places = torch.where(start < 0, start + input.shape[dim], start) + torch.arange(length, device=input.device)
    order: list[int] = prims.compute_elementwise_output_logical_to_physical_perm(input)[0]  # pyright: ignore[reportUnknownMemberType]
    chosen = input.permute(order).index_select(order.index(dim % input.ndim), places)
    return chosen.permute([order.index(axis) for axis in range(input.ndim)])


def calls(gm: GraphModule, target: Any) -> bool:
    """Whether a graph, or one that it holds, calls an operator."""
    modules = [module for module in gm.modules() if isinstance(module, GraphModule)]
    return any(module.graph.find_nodes(op="call_function", target=target) for module in modules)
