"""How far a program's results move when its functions are off by a last digit, in eager: stochastic arithmetic.

Eager's error in float64 is a yardstick where eager rounds as others do. It is none where eager is right by luck: a
rounding of float32 that a result in float64 shows, a row of equal numbers of which eager's running mean is the number
itself. There the program is run again in eager, several times, and every function that rounds is given, or gives,
numbers that are off by one digit of their own type. A result that lies no further from the truth than a few times what
those lie is right.

Source: Vignes, "A stochastic arithmetic for reliable scientific computation" (1993).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from cuesta.testing import Float64Mode

MOVED = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""What is off by a digit: in float64, too, where eager's result is the truth by definition."""
FUNCTIONS = frozenset(
    {
        "_log_softmax", "_softmax", "acos", "addmm", "addmv", "angle", "asin", "atan", "atan2", "baddbmm", "bmm", "cos",
        "cosh", "cumprod", "cumsum", "div", "dot", "elu", "erf", "exp", "expm1", "gelu", "log", "log1p",
        "logcumsumexp", "logsumexp", "mean", "mm", "mv", "pow", "polar", "prod", "reciprocal", "rsqrt", "sigmoid",
        "silu", "sin", "sinh", "softplus", "sqrt", "sum", "tan", "tanh", "vdot",
    }
)  # fmt: skip
"""Operators of which a rounded result is no surprise. None whose results programs take for exact: sums of two, copies,
products (tests/fuzz/expressions.py).
"""
HALVES = (torch.float16, torch.bfloat16)
NORMS = frozenset(
    {
        "linalg_vector_norm", "native_batch_norm", "native_group_norm", "native_layer_norm",
        "native_layer_norm_backward", "norm", "std", "var", "var_mean",
    }
)  # fmt: skip
"""Operators that compute a mean or a sum inside, and subtract or divide by it: their operands are off."""


class NudgedMode(TorchDispatchMode):
    """Runs operators as they are, and lets those above be off by a digit, drawn for each element."""

    supports_higher_order_operators = True  # what they call runs as it is

    def __init__(self, seed: int, halves: bool = False) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.halves = halves
        """Whether results of 16 bits are off, of whatever operator of one element: others may round less often."""
        self.reads_digits = False
        """Whether numbers with a fraction were read as integers."""
        self.draws_halves = False
        """Whether random numbers of 16 bits were drawn."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(one, "__tensor_flatten__") for one in types):
            return NotImplemented  # the operators on its parts come here
        name = _name_of(func)
        if func is torch.ops.aten.view.dtype and _has_fraction(args[0].dtype) and not _has_fraction(args[1]):
            self.reads_digits = True
        if name in NORMS:
            args = tuple(self._nudged(one) if type(one) is Tensor else one for one in args)
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            drawn = [one for one in tree_leaves((args, result)) if isinstance(one, Tensor)]
            self.draws_halves |= any(one.dtype in HALVES for one in drawn)
        if type(result) is not Tensor or "out" in (kwargs or {}):
            return result
        rounds = name in FUNCTIONS | NORMS or (name == "abs" and args[0].is_complex())
        is_single = torch.Tag.pointwise in getattr(func, "tags", ()) or (
            name == "_to_copy" and _is_cut(args[0], result)
        )
        if not rounds and not (self.halves and result.dtype in HALVES and is_single):
            return result
        if func._schema.is_mutable:
            return result.copy_(self._nudged(result))
        return self._nudged(result)

    def _nudged(self, value: Tensor) -> Tensor:
        if value.is_complex():
            parts = torch.view_as_real(value.resolve_conj())
            return torch.view_as_complex(self._nudged(parts)) if parts.dtype in MOVED else value
        if value.dtype not in MOVED:
            return value
        signs = torch.randint(0, 2, value.shape, generator=self.generator).to(value.device, torch.float64) * 2 - 1
        moved = value.double() * (1 + signs * torch.finfo(value.dtype).eps)
        return torch.empty_like(value).copy_(moved)


class DrawnInFloat32(Float64Mode):
    """All is float64, but for what draws random numbers: that draws those of float32, of as many random bits."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
            return super().__torch_dispatch__(func, types, args, kwargs)
        named = dict(kwargs or {})
        if any(formal.name == "dtype" for formal in func._schema.arguments) and "_like" not in _name_of(func):
            named["dtype"] = named.get("dtype") or torch.get_default_dtype()
        given = tree_map(lambda one: _as(one, torch.float64, torch.float32), (args, named))
        made = tree_map(lambda one: _as(one, torch.float32, torch.float64), func(*given[0], **given[1]))
        return args[0].copy_(made) if func._schema.is_mutable and isinstance(made, Tensor) else made


def _as(value: Any, given: torch.dtype, wanted: torch.dtype) -> Any:
    """A tensor of one type as one of another, and so the type itself."""
    if isinstance(value, Tensor):
        return value.to(wanted) if value.dtype == given else value
    return wanted if value is given else value


def _is_cut(given: Tensor, made: Tensor) -> bool:
    """Whether a copy has fewer bits, of another floating type."""
    return _has_fraction(given.dtype) and given.dtype.itemsize > made.dtype.itemsize


def _has_fraction(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


@functools.cache
def _name_of(func: Any) -> str:
    name = str(getattr(func, "overloadpacket", "")).removeprefix("aten.")
    return name.removesuffix("_") if not name.endswith("__") else name
