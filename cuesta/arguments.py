"""The arguments of a program that was loaded from its text: machine code reads them as the text says they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.ir import Attribute

from cuesta.dialects import sym
from cuesta.dialects.aten import type_to_dtype
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of


def check_arguments(types: Sequence[Attribute], values: Sequence[Any], where: str) -> None:
    """Holds values to the types of @main's arguments. A symbol is what the first size or number says that is just it.

    Errors: TypeError, which names the argument, what it is and what it must be.
    """
    if len(values) != len(types):
        raise TypeError(f"{where}: @main takes {len(types)} arguments, got {len(values)}")
    symbols: dict[str, int] = {}
    for number, (expected, value) in enumerate(zip(types, values, strict=True)):
        problem = _problem(expected, value, symbols)
        if problem is not None:
            raise TypeError(f"{where}: argument {number} of @main is {expected}: {problem}")


def _problem(expected: Attribute, value: Any, symbols: dict[str, int]) -> str | None:
    if isinstance(expected, sym.IntType):
        if not isinstance(value, int):
            return f"got a {type(value).__name__}"
        return None if _agree(expected.data, value, symbols) else f"got {value}"
    if not is_tensor_type(expected):
        return None
    if not isinstance(value, torch.Tensor):
        return f"got a {type(value).__name__}"
    dtype, device = getattr(torch, type_to_dtype(expected.element_type)), torch.device(device_of(expected))
    if value.dtype != dtype or value.device.type != device.type:
        return f"got {value.dtype} on {value.device}"
    sizes, strides = sizes_of(expected), strides_of(expected)
    if value.dim() != len(sizes) or not all(map(_agree, sizes, value.shape, [symbols] * len(sizes))):
        return f"got size {tuple(value.shape)}"
    used = [axis for axis, size in enumerate(value.shape) if size > 1] if value.numel() else []
    if not all(_agree(strides[axis], value.stride(axis), symbols) for axis in used):
        return f"got strides {value.stride()}; `.contiguous()` makes a copy in row-major order"
    return None


def _agree(expected: sym.IndexExpr, value: int, symbols: dict[str, int]) -> bool:
    """Whether a number is what an expression says, as far as its symbols are known."""
    if isinstance(expected, int):
        return expected == value
    if not expected.symbols <= symbols.keys():
        name = sym.format_expr(expected)
        if name in expected.symbols:
            symbols[name] = value
        return True
    return bool(sym.evaluate(expected, (), symbols) == value)
