"""Operators of libraries that say nothing about gradients: no kernel for autograd, but one for a device, or for all.

Eager runs the kernel with gradients recorded, and what it calls has them, with a warning that this is deprecated.
AOTAutograd records nothing within an operator that it does not take apart: the gradient is lost in silence (with every
backend). What is written in PyTorch's own operators by PyTorch itself is traced as what it calls; a kernel of anybody
else's may do anything, so that eager runs it.

    lib.define("twice(Tensor x) -> Tensor"); lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

Near misses: `torch.library.custom_op`, which raises where a gradient is asked for and none was registered; a call that
is given nothing with a gradient, or is within a function of autograd's of its own; one that is given a tensor of parts
(a wrapper subclass), whose operators run where nothing is recorded: eager has no gradient either, and AOTAutograd does
the same.

Source: `basicAutogradNotImplementedFallbackImpl` of torch/csrc/autograd/autograd_not_implemented_fallback.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.dynamo_graph import name_of, value_of

_C: Any = getattr(torch, "_C")  # noqa: B009  # most of it has no types
_OURS: Final = frozenset({"aten", "prims", "prim", "profiler", "cuesta", "_c10d_functional", "c10d", "inductor"})
"""Libraries whose operators say what they have, or have no gradients."""
_LOSES_GRADIENTS: Final = "quantized_decomposed::dequantize_per_tensor"
"""The operator that asks for its scale as a number, so that none has a gradient."""


def unregistered_gradient(gm: GraphModule, inputs: Sequence[Any] | None = None) -> str | None:
    """The call, if there is one, of an operator whose kernel eager would record gradients within, as a reason to run
    the graph there. Calls of kernels that may be traced are changed to what is, in place.

    Of a graph of torch.export's, whose values do not say what has a gradient, `inputs` do.
    """
    reason: str | None = None
    known = None if inputs is None else _behind(gm, inputs)
    for module in _recorded(gm):
        changed = False
        for node in _recording(module):
            overload = _overload_of(node)
            if overload is None or not _takes_gradients(node, known) or says_what_its_gradient_is(overload):
                continue
            if _LOSES_GRADIENTS in overload.name():
                continue
            if (kernel := _kernel_of(overload)) is not None:
                node.target, changed = kernel, True
            else:
                reason = reason or f"{overload} has no kernel for autograd, and is given what has a gradient"
        if changed:
            module.recompile()
    return reason


def says_what_its_gradient_is(overload: OpOverload) -> bool:
    """Whether an operator has a kernel for autograd, or is taken apart by it."""
    if _has_kernel(overload, "CompositeImplicitAutograd"):
        return True
    for key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
        if _has_kernel(overload, key):
            return not _C._dispatch_kernel_for_dispatch_key_is_fallthrough(overload.name(), key)
    known: Any = overload.py_kernels
    return any(key in known for key in (DispatchKey.Autograd, DispatchKey.AutogradCPU, DispatchKey.AutogradCUDA))


def _has_kernel(overload: OpOverload, key: str) -> bool:
    return _C._dispatch_has_kernel_for_dispatch_key(overload.name(), key)


def _recorded(gm: GraphModule) -> Iterator[GraphModule]:
    """The graphs of which autograd sees the operators: not those of functions of autograd's."""
    hidden = set[str]()
    for module in cast("Any", gm).modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if name_of(node) == "autograd_function_apply":
                hidden |= {str(one.target) for one in node.args[:2] if isinstance(one, Node) and one.op == "get_attr"}
    for name, module in cast("Any", gm).named_modules():
        if isinstance(module, GraphModule) and hidden.isdisjoint(name.split(".")):
            yield module


def _recording(module: GraphModule) -> Iterator[Node]:
    """The calls of a graph that are run with gradients recorded."""
    records = torch.is_grad_enabled()
    for node in list(module.graph.nodes):
        if node.target is _C._set_grad_enabled:
            records = bool(node.args[0])
        elif node.op == "call_function" and records:
            yield node


def _overload_of(node: Node) -> OpOverload | None:
    target: Any = node.target
    if isinstance(target, OpOverloadPacket):
        names: list[str] = target.overloads()
        target = getattr(cast("Any", target), "default" if "default" in names else names[0])
    if not isinstance(target, OpOverload) or target.namespace in _OURS:
        return None
    return cast("OpOverload", target)


def _behind(gm: GraphModule, inputs: Sequence[Any]) -> set[Node]:
    """What is computed of inputs that have a gradient, but for what is detached."""
    found = set[Node]()
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True):
        if isinstance(value, Tensor) and value.requires_grad:
            found.add(node)
    for node in gm.graph.nodes:
        if not found.isdisjoint(node.all_input_nodes) and not name_of(node).startswith("detach"):
            found.add(node)
    return found


def _takes_gradients(node: Node, known: Collection[Node] | None) -> bool:
    """Whether a call is given a tensor with a gradient, and gives one that may have one, as far as eager records it."""
    if not any(one.dtype.is_floating_point or one.is_complex() for one in _tensors(value_of(node))):
        return False
    given = [one for source in node.all_input_nodes for one in _tensors(value_of(source))]
    if any(is_traceable_wrapper_subclass(one) for one in given):
        return False
    if known is not None:
        return any(source in known for source in node.all_input_nodes)
    return any(one.requires_grad for one in given)


def _tensors(value: object) -> list[Tensor]:
    return [one for one in pytree.tree_leaves(value) if isinstance(one, Tensor)]


def _kernel_of(overload: OpOverload) -> Callable[..., Any] | None:
    """The function that an operator of PyTorch's for decomposed quantisation calls, if that is made of others and asks
    for no number (`choose_qparams.tensor` does).
    """
    if overload.namespace != "quantized_decomposed":
        return None
    from torch.ao.quantization.fx import _decomposed

    return getattr(_decomposed, overload.name().partition("::")[2], None)


__all__ = ["says_what_its_gradient_is", "unregistered_gradient"]
