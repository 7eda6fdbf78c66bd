"""Updates with a factor (`x.addcmul_(y, z, value=2)`, `x.add_(y, alpha=2)`) give in Dynamo's graphs what they give in
eager: put right for the whole process, when torch looks the backend up.

Dynamo writes products and sums for them, so that a factor that is a tensor need not become a number. These compute in
the types of y and z, where eager computes in that of the result: of x in f32 and y and z of 8 bits the product wraps,
of an x in f64 it is one of f32, in silence, with every backend. They also read all before they write
(lowering/capture/rewritten_updates.py). A factor that is a number needs none of this: such a call stays as it is. For
one that is not, y and z are converted first.

Source: `method_addcmul_`, `method_addcdiv_`, `method_add_` of torch/_dynamo/variables/tensor.py, `handle_addcdiv` of
torch.py beside it (torch 2.11, 2.13).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

_FACTORS: Final = {"method_addcmul_": "value", "method_addcdiv_": "value", "method_add_": "alpha"}
"""What Dynamo asks about methods of tensors, and the name of the factor there."""


def keep_updates_as_written() -> None:
    """From now on Dynamo does so. Before Dynamo is imported, nothing is done; twice is as good as once."""
    tensors: Any = sys.modules.get("torch._dynamo.variables.tensor")
    functions: Any = sys.modules.get("torch._dynamo.variables.torch")
    if tensors is None or functions is None:
        return
    import torch

    variable, handlers = tensors.TensorVariable, functions.TorchInGraphFunctionVariable._get_handlers()
    for name, factor in _FACTORS.items():
        if hasattr(variable, name):
            setattr(variable, name, _as_written(getattr(variable, name), factor, is_method=True))
    if torch.addcdiv in handlers:
        handlers[torch.addcdiv] = _as_written(handlers[torch.addcdiv], "value", is_method=False)


def _as_written(rewrite: Callable[..., Any], factor: str, is_method: bool) -> Callable[..., Any]:
    """The rewrite, which gives None (the call stays as it is) where the factor is a number that is known, or to be a
    whole one.
    """
    if hasattr(rewrite, "is_as_written"):
        return rewrite

    @functools.wraps(rewrite)
    def rewritten(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        given = kwargs.get(factor)
        if given is None or not (is_method or args):
            return rewrite(self, tx, *args, **kwargs)
        given, target = given.realize(), self if is_method else args[0].realize()
        if given.is_python_constant() or _is_whole(target):
            return None
        kept = () if is_method else (target,)
        return rewrite(self, tx, *kept, *(_converted(tx, target, one) for one in args[len(kept) :]), **kwargs)

    setattr(rewritten, "is_as_written", True)  # noqa: B010
    return rewritten


def _is_whole(target: Any) -> bool:
    """Whether a tensor holds whole numbers: a factor becomes one in eager, or is refused."""
    if not target.is_tensor():
        return False
    dtype = _said_of(target).dtype
    return not (dtype.is_floating_point or dtype.is_complex)


def _said_of(tensor: Any) -> Any:
    return tensor.as_proxy().node.meta["example_value"]


def _converted(tx: Any, target: Any, operand: Any) -> Any:
    """The operand in the type of the target, where an operator on both would convert it to that."""
    import torch

    operand = operand.realize()
    if not (target.is_tensor() and operand.is_tensor()):
        return operand
    into, read = _said_of(target), _said_of(operand)
    if read.dtype == into.dtype or torch.result_type(into, read) != into.dtype:
        return operand
    return operand.call_method(tx, "type_as", [target], {})


__all__ = ["keep_updates_as_written"]
