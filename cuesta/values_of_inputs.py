"""Inputs whose memory is not what they mean: numbers that Dynamo wraps, tensors that are still received, and tensors
with a bit.

Machine code reads memory. A tensor of torch may say besides that its elements are those of its memory with the other
sign (`z.conj().imag`), or conjugated (`z.conj()`), and Dynamo hands some Python numbers over in another type than its
graph says. Both are put right before a compiled function runs. Which inputs these are is known when a graph is
compiled: Dynamo guards the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from cuesta.dialects.core.structs import struct
from cuesta.finishing import BoxedFunction, make_boxed
from cuesta.lowering.capture.said_of_nodes import is_view

aten = torch.ops.aten


# --- Numbers ----------------------------------------------------------------------------------------------------------


def wrapped_numbers(gm: GraphModule) -> Mapping[int, torch.dtype]:
    """The inputs of a graph of Dynamo's that are Python numbers in tensors, by position, with the types it says.

    A float comes as float64 whatever the graph says (`random.uniform(0, 1)` inside a model).
    Source: `GraphArg.pass_arg_as_tensor` of torch/_dynamo/variables/builder.py.
    """
    found: dict[int, torch.dtype] = {}
    for position, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        said = node.meta.get("example_value")
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and isinstance(said, torch.Tensor):
            found[position] = said.dtype
    return found


def numbers_as_said(function: Callable[..., Any], numbers: Mapping[int, torch.dtype]) -> Callable[..., Any]:
    """The function, given the numbers in the types that the graph says."""
    if not numbers:
        return function

    def call(*args: Any) -> Any:
        taken = list(args)
        for position, dtype in numbers.items():
            taken[position] = taken[position].to(dtype)
        return function(*taken)

    return call


# --- Where inputs begin in their storages -----------------------------------------------------------------------------


# --- Tensors that are still received ----------------------------------------------------------------------------------


_STILL_WRITTEN = "torch.distributed._functional_collectives", "AsyncCollectiveTensor"
"""By name: the module takes long to import, and who has such a tensor has imported it."""


def still_arriving(example_inputs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
    """The examples with the tensors themselves in place of those that eager's communication still writes and that have
    a gradient, and the positions of these.

    AOTAutograd would take such a tensor apart, and with it the way back that its gradient takes (torch 2.13).
    """
    taken, found = list(example_inputs), list[int]()
    for position, value in enumerate(example_inputs):
        kind = type(value)
        if (kind.__module__, kind.__name__) == _STILL_WRITTEN and value.requires_grad:
            taken[position] = value.elem.detach().requires_grad_()
            found.append(position)
    return taken, found


def arrived(function: Callable[..., Any], positions: Sequence[int]) -> Callable[..., Any]:
    """The function, given each of these inputs when it is there."""
    if not positions:
        return function

    def call(*args: Any) -> Any:
        taken = list(args)
        for position in positions:
            taken[position] = _Arrived.apply(taken[position])
        return function(*taken)

    return call


class _Arrived(torch.autograd.Function):
    """A tensor that is waited for; its gradient is its own."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.wait()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


# --- The bits of a sign and of a conjugate ----------------------------------------------------------------------------


@struct
class _Bit:
    """What a tensor may say of its memory: that it means the other sign, or the conjugates."""

    is_set: Callable[[Any], bool]
    flipped: Callable[..., Any]
    """The same memory, with the bit the other way."""
    applied: Callable[..., Any]
    """What it means, computed. Its own inverse, also of NaN, ±0 and the least integer."""
    resolved: Callable[..., Any]
    """The same tensor without the bit."""


_BITS: Final = (
    _Bit(torch.Tensor.is_neg, aten._neg_view.default, aten.neg.default, aten.resolve_neg.default),
    _Bit(torch.Tensor.is_conj, aten._conj.default, aten._conj_physical.default, aten.resolve_conj.default),
)


def read_memory(gm: GraphModule) -> Sequence[tuple[int, Callable[..., Any]]]:
    """Lets a graph of ATen calls read the memory of the inputs that have a bit, and gives their positions, with what
    makes of such an input the tensor of its memory.

    x with the negative bit, of the memory b           x  ->  neg(b)        copy_(x, v)  ->  copy_(b, neg(v))
    a result with the bit, of what we do not generate  y  ->  resolve_neg(y)
    a view that has it, which was not taken apart      _neg_view(x)  ->  neg(x)

    With the conjugate bit as with the negative one: conj in the place of neg; but for the view, which we generate.
    """
    found: list[tuple[int, Callable[..., Any]]] = []
    _compute_negations(gm)
    for bit in _BITS:
        for position, node in enumerate(gm.graph.find_nodes(op="placeholder")):
            if _has_bit(node, bit):
                found.append((position, bit.flipped))
                _read_memory(gm, node, bit)
        for node in list(gm.graph.nodes):
            if node.op == "call_function" and _is_foreign(node) and _has_bit(node, bit):
                _follow(gm, node, bit.resolved)
    return found


def _compute_negations(gm: GraphModule) -> None:
    """_neg_view(x) -> neg(x), in place. Otherwise eager would make the view, and machine code read its memory, which
    means the other sign. Decompositions do it wherever AOTAutograd asks for them: not of sizes that are symbols, of
    what a tensor subclass gives.
    """
    for node in gm.graph.find_nodes(op="call_function", target=aten._neg_view.default):
        node.target = aten.neg.default
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            node.meta["val"] = value.resolve_neg()


def addressed(gm: GraphModule) -> Sequence[tuple[int, Callable[..., Any]]]:
    """The positions of inputs of which only addresses in their storage are read, with what makes of such an input the
    tensor that begins there. A program does so itself; who gives it a copy has to do it before.
    """
    from cuesta.lowering.capture.fx_storages import from_its_start, inputs_by_storage

    return [(position, from_its_start) for position in inputs_by_storage(gm)]


def given_memory(function: BoxedFunction, flipped: Sequence[tuple[int, Callable[..., Any]]]) -> BoxedFunction:
    """The function, given for each of these inputs what is made of it: the tensor of its memory that has no bit."""
    if not flipped:
        return function

    def call(args: list[Any]) -> Any:
        for position, flip in flipped:
            args[position] = flip(args[position])
        return function(args)

    return make_boxed(call)


def read_plain(gm: GraphModule) -> Sequence[int]:
    """Lets a backward graph take all of its inputs as plain, and gives the positions of those that may come with a
    bit: tangents, which come from users, and what was saved of a tensor that had it. Nobody guards either.

    Source: `is_tangent` of torch/_functorch/partitioners.py.
    """
    found: list[int] = []
    for position, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if any(_has_bit(node, bit) for bit in _BITS):
            node.meta["val"] = value.resolve_conj().resolve_neg()
            found.append(position)
        elif "tangents" in str(node.target) and isinstance(value, torch.Tensor):
            found.append(position)
    return found


def given_plain(function: BoxedFunction, positions: Sequence[int]) -> BoxedFunction:
    """The function, given each of these inputs without bits."""
    if not positions:
        return function

    def call(args: list[Any]) -> Any:
        for position in positions:
            given = args[position]
            if given is not None and (given.is_neg() or given.is_conj()):  # None: a gradient that nobody has
                args[position] = given.resolve_conj().resolve_neg()
        return function(args)

    return make_boxed(call)


def _has_bit(node: Node, bit: _Bit) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and bit.is_set(value)


def _is_foreign(node: Node) -> bool:
    """Whether what a call gives is made by code that is not torch's: operators of users, and functions given whole."""
    target: Any = node.target
    if target is operator.getitem:
        source = node.args[0]
        return isinstance(source, Node) and _is_foreign(source)
    return getattr(target, "namespace", "") not in ("aten", "prims", "_operator", "")


def _read_memory(gm: GraphModule, node: Node, bit: _Bit) -> None:
    """x -> neg(b) wherever an input is read; what is written to it is written to its memory."""
    writes = [user for user in node.users if user.target is aten.copy_.default and user.args[0] is node]
    node.meta["val"] = bit.flipped(node.meta["val"])
    _apply_flips(_follow(gm, node, bit.applied), bit)
    for write in writes:
        value: Any = write.args[1]
        with gm.graph.inserting_before(write):
            inverse = gm.graph.call_function(bit.applied, (value,))
        inverse.meta = {**value.meta, "val": bit.applied(value.meta["val"])}
        write.args = (node, inverse)
        write.replace_all_uses_with(value)


def _apply_flips(plain: Node, bit: _Bit) -> None:
    """_conj(view(v)) -> conj(view(v)), of a v that had the bit and is computed now: a result that says nothing of its
    memory is to say nothing still. (A backward graph that such a result is saved for reads its memory.)
    """
    for user in list(plain.users):
        if user.target is bit.flipped:
            user.target = bit.applied
            user.meta["val"] = bit.applied(plain.meta["val"])
        elif is_view(user):
            if _has_bit(user, bit):  # of several parts, each has it
                user.meta["val"] = bit.flipped(user.meta["val"])
            _apply_flips(user, bit)


def _follow(gm: GraphModule, node: Node, overload: Callable[..., Any]) -> Node:
    """Puts a call of one argument behind a node, for all who use it, and gives it."""
    before = node.next
    while before.op == "placeholder":
        before = before.next
    with gm.graph.inserting_before(before):
        made = gm.graph.call_function(overload, (node,))
    made.meta = {**node.meta, "val": overload(node.meta["val"])}
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
    return made
