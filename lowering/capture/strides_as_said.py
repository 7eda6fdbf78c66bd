"""Decompositions whose results lie as the operators say, where subclasses have sizes that are symbols.

AOTAutograd counts, of each result that is a subclass, the sizes and strides that are symbols: by what the operators
say, before anything is taken apart. The traced graph then returns as many numbers as its decompositions' results have
symbols. What lies otherwise has others,

    quantize_per_channel(x : s × 1, …, axis = 1)        the operator: strides [1, 1]; its formula: [1, s]

and results are taken for others: an error, or a subclass that says other strides than it has (torch 2.11, 2.13). There
the operator stays whole.

Source: `create_subclass_meta` and `unwrap_tensor_subclasses` of torch/_functorch/_aot_autograd/subclass_utils.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch._ops import OpOverload


def as_said(table: Mapping[OpOverload, Callable[..., Any]]) -> dict[OpOverload, Callable[..., Any]]:
    """The same decompositions, which return NotImplemented where a result has other strides than the operator says."""
    import torch

    unsure = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    return {
        operator: formula if unsure & set(operator.tags) else functools.partial(_if_as_said, operator, formula)
        for operator, formula in table.items()
    }


def _if_as_said(operator: OpOverload, formula: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    from torch.utils import _pytree as pytree

    result = formula(*arguments, **options)
    if result is NotImplemented:
        return result
    given = [one for one in pytree.tree_leaves(result) if _has_symbols(one)]
    if not given:
        return result
    said = _said_by(operator, arguments, options)
    if said is None or all(map(_lie_alike, pytree.tree_leaves(result), pytree.tree_leaves(said))):
        return result
    return NotImplemented


def _has_symbols(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape)


def _said_by(operator: OpOverload, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What the operator's own fake gives; None where there is none."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    try:
        with disable_proxy_modes_tracing():
            return operator(*arguments, **options)
    except Exception:  # noqa: BLE001 - whoever cannot say it is asked by nobody else either
        return None


def _lie_alike(one: Any, other: Any) -> bool:
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)) or one.dim() != other.dim():
        return True
    return all(statically_known_true(a == b) for a, b in zip(one.stride(), other.stride(), strict=True))


__all__ = ["as_said"]
