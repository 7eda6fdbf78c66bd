"""Gradients that there are not, of results that are tensor subclasses: zeros of the subclass.

Autograd makes plain zeros of them, which AOTAutograd refuses: a function that returns a loss and logits, both DTensors,
had no gradient of the loss alone (torch 2.11, 2.13). The function of autograd's that AOTAutograd has made notes how its
results lie, when it is called, and makes zeros that lie so where it is given no gradient:

    def forward(ctx, *inputs):                       def backward(ctx, *gradients):
        results = …                                      gradients = zeros where there are none, as ctx says
        ctx.cuesta_lie = how they lie                    results = …
        return results                                   return None where they are such zeros

A subclass is made of the parts that `__tensor_flatten__` names. Those of numbers with a fraction are zeros; integers
are kept as they are, for they say where what lies. Which zeros stand for nothing, `undefined_parts` says meanwhile: by
that `undefined_gradients.Parts` runs what eager would run. Those that it gives say so themselves (`is_undefined`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import local
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_UNDEFINED = "cuesta_undefined"
_LIE = "cuesta_lie"


def has_subclasses(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether tensors that a graph of Dynamo's is given or gives are subclasses."""
    from cuesta.lowering.capture.dynamo_graph import value_of

    return any(map(is_traceable_wrapper_subclass, (*inputs, *map(value_of, gm.graph.output_node().all_input_nodes))))


def gradients_as_results() -> AbstractContextManager[Any]:
    """The `with` block in which AOTAutograd traces a backward pass for gradients of the kinds of the results, also of
    inputs that are updated: of such it guesses that there is no gradient, and refuses one (torch 2.11, 2.13).

    Source: Note [AOTAutograd Tangent Subclassness for mutated inputs] of
    torch/_functorch/_aot_autograd/collect_metadata_analysis.py.
    """
    from torch._functorch import config

    return config.patch(disable_guess_zero_tangent_for_mutated_input_subclass=True)


def is_undefined(value: object) -> bool:
    """Whether it is None, or zeros that stand for a gradient that there is not: of a subclass all that are computed
    with.
    """
    if value is None or hasattr(value, _UNDEFINED):
        return True
    if not isinstance(value, torch.Tensor) or not is_traceable_wrapper_subclass(value):
        return False
    parts = (getattr(value, name) for name in cast("Any", value).__tensor_flatten__()[0])
    found = [is_undefined(part) for part in parts if _has_fraction(part)]
    return bool(found) and all(found)


class _Call(local):
    undefined: Sequence[bool] | None = None


_call = _Call()


def undefined_parts() -> Sequence[bool] | None:
    """Of the backward pass that this thread calls now, for each plain tensor that its gradients are made of: whether it
    is a zero that stands for a gradient that there is not. None where nobody knows.
    """
    return _call.undefined


def give_zeros(function: type[torch.autograd.Function], tangents: int, environment: ShapeEnv | None) -> None:
    """Lets a function of autograd's, which takes None for its gradients, so many `tangents`, have zeros in their place,
    of the kinds of its results; where it gives zeros that stand for a gradient that there is not, there is none.

    The environment is that of the graph's symbols. A symbol stays one while gradients are compared with what is
    expected of them: AOTAutograd would learn there that it is the number that it happens to be (torch 2.13), and so
    would the parts that are compiled later.
    """
    forward: Any = function.forward
    backward: Any = function.backward
    known = nullcontext if environment is None else environment.suppress_guards

    def noting(ctx: Any, *inputs: Any) -> Any:
        results = forward(ctx, *inputs)
        without = {id(one) for one in ctx.non_differentiable or ()}
        differentiable = (isinstance(one, torch.Tensor) and id(one) not in without for one in results)
        lie = [_Lie(one) if has else None for one, has in zip(results, differentiable, strict=True)]
        setattr(ctx, _LIE, (lie, len(inputs)))
        return results

    def given(ctx: Any, *gradients: Any) -> Any:
        # From torch 2.13 on they come in a list, so that each can be freed when it has been read.
        boxed = len(gradients) == 1 and isinstance(gradients[0], list)
        found: list[Any] = cast("list[Any]", gradients[0]) if boxed else [*gradients]
        lies, count = cast("tuple[list[_Lie | None], int]", getattr(ctx, _LIE))
        if all(one is None for one in found):
            return (None,) * count
        undefined: list[bool] = []
        for place, lie in enumerate(lies):
            if lie is not None:
                missing = found[place] is None
                undefined += [missing and one for one in lie.computed]
                found[place] = lie() if missing else found[place]
        before, _call.undefined = _call.undefined, undefined if sum(map(bool, lies)) == tangents else None
        try:
            with known():
                results = backward(ctx, found) if boxed else backward(ctx, *found)
        finally:
            _call.undefined = before
        return tuple(None if is_undefined(one) else one for one in results)

    setattr(function, "forward", staticmethod(noting))  # noqa: B010
    setattr(function, "backward", staticmethod(given))  # noqa: B010


class _Lie:
    """How a tensor lies; called, it makes zeros of its kind that lie so. It does not keep the tensor, but for parts
    that are integers.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.size, self.stride = tensor.size(), tensor.stride()
        self.dtype, self.device = tensor.dtype, tensor.device
        self.kind: Any = None
        self.parts: dict[str, Any] = {}
        self.computed = [True]
        """Of each plain tensor that it is made of, or other object: whether it is computed with."""
        if is_traceable_wrapper_subclass(tensor):
            self.kind = type(tensor)
            names, self.context = cast("Any", tensor).__tensor_flatten__()
            parts = {name: getattr(tensor, name) for name in names}
            self.parts = {name: _Lie(one) if _has_fraction(one) else one for name, one in parts.items()}
            lie = (one.computed if isinstance(one, _Lie) else [False] for one in self.parts.values())
            self.computed = [one for some in lie for one in some]

    def __call__(self) -> Any:
        if self.kind is None:
            return undefined_zeros(self.size, self.stride, self.dtype, self.device)
        parts = {name: one() if isinstance(one, _Lie) else one for name, one in self.parts.items()}
        return self.kind.__tensor_unflatten__(parts, self.context, self.size, self.stride)


def zeros_of(tensor: torch.Tensor) -> Callable[[], Any]:
    """What makes zeros of a tensor's kind that lie as it does."""
    return _Lie(tensor)


def undefined_zeros(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Plain zeros that stand for a gradient that there is not."""
    zeros = torch.empty_strided(size, stride, dtype=dtype, device=device).zero_()
    setattr(zeros, _UNDEFINED, True)
    return zeros


def _has_fraction(value: object) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


__all__ = [
    "give_zeros",
    "gradients_as_results",
    "has_subclasses",
    "is_undefined",
    "undefined_parts",
    "undefined_zeros",
    "zeros_of",
]
