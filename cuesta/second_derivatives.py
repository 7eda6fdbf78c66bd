"""Gradients that are to have gradients (`create_graph=True`): AOTAutograd has none, and must say so.

A compiled backward pass has no derivative: who goes through what it gives is told. But what it gives knows only of the
tensors that AOTAutograd saved as they were given. Of y.tanh() @ w it saves what tanh gave and w, and y's gradient has
no gradient, in silence (torch 2.11); or has one that does not lead to y, so that of `gradient.sum() + y.sum()` the half
is lost, in silence (torch 2.13). Parts of a subclass require none in any case (torch 2.11).

Here a gradient knows of all leaves that the inputs were computed of, if it is a function of inputs: a value with a
fraction that is computed of one is read by the backward pass. Of the gradient of a linear function nobody asks more
than it can answer: it knows of the gradients it was made of.

Near miss: an input that was computed and was not saved itself. Its leaves are known, it is not.

Source: `CompiledFunction` and `_double_backward` of torch/_functorch/_aot_autograd/runtime_wrappers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.fx import Graph, Node

from cuesta.subclass_zeros import is_undefined


def is_function_of_inputs(joint: Graph) -> bool:
    """Whether gradients that a joint graph computes are functions of inputs that have a gradient, as far as is known:
    its backward part reads a value with a fraction that is computed of one.

    A mask is none, nor is what is constant between its steps: where it changes, the gradient has no derivative.
    """
    results = joint.output_node().meta.get("desc", ())
    with_gradient = {_whole(getattr(_whole(one), "grad_of", None)) for one in results} - {None}
    computed, gradients = set[Node](), set[Node]()
    for node in joint.nodes:
        if node.op == "placeholder":
            if "tangents" in str(node.target):
                gradients.add(node)
            elif _has_fraction(node) and (not with_gradient or _whole(node.meta.get("desc")) in with_gradient):
                computed.add(node)
        elif node.op == "call_function":
            given = [] if node.target in _STEPS else node.all_input_nodes
            if node.target in _GRADIENTS_BY_STEPS:
                given = [one for one in node.all_input_nodes if one in gradients]
            if not gradients.isdisjoint(given):
                if not computed.isdisjoint(given):
                    return True
                gradients.add(node)
            elif _has_fraction(node) and not computed.isdisjoint(given):
                if node.meta.get("partitioner_tag") == "is_backward" and _is_result(node):
                    return True
                computed.add(node)
    return False


_STEPS = tuple(
    getattr(torch.ops.aten, name).default
    for name in ("ceil", "empty_like", "floor", "full_like", "ones_like", "sgn", "sign", "trunc", "zeros_like")
)
"""Operators whose results do not change between steps of their operand."""
_GRADIENTS_BY_STEPS = tuple(
    getattr(torch.ops.aten, name).default for name in ("hardtanh_backward", "leaky_relu_backward", "threshold_backward")
)
"""Gradients that only compare what they are of."""


def _whole(said: Any) -> Any:
    """What AOTAutograd says an input or a result is: of a part of a subclass, that of the whole."""
    while (base := getattr(said, "base", None)) is not None:
        said = base
    return said


def _is_result(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _has_fraction(node: Node) -> bool:
    value: Any = node.meta.get("val")
    values = cast("Sequence[Any]", value if isinstance(value, (list, tuple)) else (value,))
    return any(isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex()) for one in values)


def connect_gradients(function: type[Function], *, is_function_of_inputs: bool) -> None:
    """Lets the gradients that a function of autograd's gives know what they are functions of, where they are asked to:
    to go through them is an error.
    """
    backward: Callable[..., Any] = cast("Any", function).backward

    def given(ctx: Any, *gradients: Any) -> Any:
        if not torch.is_grad_enabled():
            return backward(ctx, *gradients)
        boxed = len(gradients) == 1 and isinstance(gradients[0], list)
        known: list[Any] = [*(gradients[0] if boxed else gradients)]
        if is_function_of_inputs:
            known += [*ctx.saved_tensors, *_leaves(ctx)]
        known = [one for one in known if isinstance(one, Tensor) and one.requires_grad]
        return cast("Any", _Once).apply(lambda: backward(ctx, *gradients), *known)

    setattr(function, "backward", staticmethod(given))  # noqa: B010


def _leaves(node: Any) -> list[Tensor]:
    """The tensors that end the graph of autograd's behind a node."""
    found, seen, nodes = list[Tensor](), set[Any](), [node]
    for one in nodes:
        if (leaf := getattr(one, "variable", None)) is not None:
            found.append(leaf)
        for behind, _ in one.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                nodes.append(behind)
    return found


class _Once(Function):
    """What a backward pass gives, as a function of what it is known to depend on; it has no derivative, and none is
    asked for where there is no gradient of what it gives.
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], *known: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.known = len(known)
        made = run()
        return tuple(made) if isinstance(made, list) else made

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if all(is_undefined(one) for one in gradients):  # who was given what it makes has no gradient of it
            return (None, *[None] * ctx.known)
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


__all__ = ["connect_gradients", "is_function_of_inputs"]
