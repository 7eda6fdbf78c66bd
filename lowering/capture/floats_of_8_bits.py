"""On floats of 8 bits, what is no mere moving stays the operator that it is.

    _softmax_backward_data(g, y)   stays, and is not   g·y − y·Σ g·y

Eager has operators for such floats, and not the arithmetic that PyTorch's formulas are made of: where it has any, a
formula would round after every step what the operator rounds once, and where it has none, raise. A formula that only
moves elements (`slice_scatter`, `unfold_copy`) is as good as on any type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch._ops import OpOverload


def whole_where_it_computes(overload: OpOverload, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of an overload that answers NotImplemented where it would compute with floats of 8 bits. What a
    view is made of, moves; and one that calls the overload itself, with other arguments, leaves it whole.
    """
    if overload.is_view:
        return formula

    @wraps(formula)
    def apply(*arguments: Any, **named: Any) -> Any:
        if not any(map(_has_8_bits, (*arguments, *named.values()))):
            return formula(*arguments, **named)
        refusing = _mode(overload)
        try:
            with refusing:
                return formula(*arguments, **named)
        except Exception:
            if refusing.computed is None:
                raise
            return NotImplemented

    return apply


def _has_8_bits(value: Any) -> bool:
    """Whether a value is a tensor of such floats, or a list in which there is one."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.dtype.is_floating_point and value.dtype.itemsize == 1
    return isinstance(value, list | tuple) and any(map(_has_8_bits, cast("list[object]", value)))


def _mode(whole: OpOverload) -> Any:
    """A mode in which arithmetic on such floats is an error, and kept as `computed`, but for that of one operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    from cuesta.lowering.aten.aten_to_loops import MOVES

    class RefusingMode(TorchDispatchMode):
        computed: str | None = None

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named: dict[str, Any] = kwargs or {}
            may_be = func is whole or func.is_view or _name_of(func) in MOVES
            if not may_be and any(map(_has_8_bits, (*args, *named.values()))):
                self.computed = _name_of(func)
                raise TypeError(f"{self.computed} computes with floats of 8 bits")
            return func(*args, **named)

    return RefusingMode()


def _name_of(overload: OpOverload) -> str:
    """As the levels spell it: `aten.clone.default`, `prims::iota.default`."""
    name = str(overload)
    return name if overload.namespace == "aten" else name.replace(".", "::", 1)


__all__ = ["whole_where_it_computes"]
