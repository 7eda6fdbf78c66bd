"""The arguments of a program that was loaded from its text: machine code reads them as the text says they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from cuesta.dialects import host, sym
from cuesta.dialects.aten import type_to_dtype
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of


@struct
class Arguments:
    """The types of `@main`'s arguments, and the ranges of the symbols in them."""

    types: tuple[Attribute, ...]
    ranges: Mapping[str, tuple[int | None, int | None]]

    @classmethod
    def of(cls, module: ModuleOp) -> Arguments:
        """Those of a module's `@main`.

        Errors: CuestaError when one is an object that no text holds.
        """
        main = entry_function(module)
        names = main.attributes.get("aten.constants")
        held = [one.data for one in names if isinstance(one, StringAttr)] if isinstance(names, ArrayAttr) else []
        types = [argument.type for argument in entry_block(module).args]
        for name, kind in zip(reversed(held), reversed(types), strict=False):
            if kind == host.OBJECT:
                fail(main, f"takes {name!r}, an object that the captured graph held: no text holds it")
        return cls(tuple(argument.type for argument in entry_block(module).args), dict(symbol_ranges(module)))

    def check(self, values: Sequence[Any], where: str) -> None:
        """Holds values to the types. All sizes, strides and numbers must agree about every symbol, and be in its range.

        Errors: TypeError, which names the argument, what it is and what it must be.
        """
        types = self.types
        if len(values) != len(types):
            raise TypeError(f"{where}: @main takes {len(types)} arguments, got {len(values)}")
        symbols: dict[str, int] = {}
        for number, (expected, value) in enumerate(zip(types, values, strict=True)):
            if (problem := _problem_of_kind(expected, value)) is not None:
                raise TypeError(f"{where}: argument {number} of @main is {expected}: {problem}")
            for e, found in _sizes(expected, value):
                _learn(e, found, symbols)
        told = frozenset(symbols)
        for expected, value in zip(types, values, strict=True):
            for e, found in _strides(expected, value, told):
                _learn(e, found, symbols)
        for name, (low, high) in self.ranges.items():
            found = symbols.get(name)
            if found is not None and ((low is not None and found < low) or (high is not None and found > high)):
                least, most = "-inf" if low is None else low, "inf" if high is None else high
                raise TypeError(
                    f"{where}: argument sizes make {name} {found}, but @main says {name} in [{least}, {most}]"
                )
        for number, (expected, value) in enumerate(zip(types, values, strict=True)):
            if (problem := _problem(expected, value, symbols, told)) is not None:
                raise TypeError(f"{where}: argument {number} of @main is {expected}: {problem}")


def _problem_of_kind(expected: Attribute, value: Any) -> str | None:
    if isinstance(expected, sym.IntType):
        return None if isinstance(value, int) else f"got a {type(value).__name__}"
    if not is_tensor_type(expected):
        return None
    if not isinstance(value, torch.Tensor):
        return f"got a {type(value).__name__}"
    dtype, device = getattr(torch, type_to_dtype(expected.element_type)), torch.device(device_of(expected))
    if value.dtype != dtype or value.device.type != device.type:
        return f"got {value.dtype} on {value.device}"
    if value.layout != torch.strided:
        return f"got a tensor with the layout {value.layout}"
    if value.is_neg():
        return "got a tensor with the negative bit; `.resolve_neg()` makes a copy without it"
    return None if value.dim() == len(sizes_of(expected)) else f"got size {tuple(value.shape)}"


def _sizes(expected: Attribute, value: Any) -> list[tuple[sym.IndexExpr, int]]:
    if isinstance(expected, sym.IntType):
        return [(expected.data, value)]
    return list(zip(sizes_of(expected), value.shape, strict=True)) if is_tensor_type(expected) else []


def _strides(expected: Attribute, value: Any, told: Set[str]) -> list[tuple[sym.IndexExpr, int]]:
    """The strides that matter: those of axes with several elements, of a tensor that has any; and those that say what a
    symbol is, since sizes and numbers (which have `told` what others are) do not.
    """
    if not is_tensor_type(expected):
        return []
    pairs = zip(strides_of(expected), value.stride(), value.shape, strict=True)
    return [
        (e, stride)
        for e, stride, size in pairs
        if (size > 1 and value.numel()) or not (isinstance(e, int) or e.symbols <= told)
    ]


def _learn(e: sym.IndexExpr, value: int, symbols: dict[str, int]) -> None:
    """What a symbol is: the first number that is just it, or that is linear in it."""
    line = sym.line_of(e)
    if line is not None and line[1] and (value - line[2]) % line[1] == 0:
        symbols.setdefault(line[0], (value - line[2]) // line[1])


def _problem(expected: Attribute, value: Any, symbols: dict[str, int], told: Set[str]) -> str | None:
    if not all(_agree(e, found, symbols) for e, found in _sizes(expected, value)):
        return f"got size {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"got {value}"
    if not all(_agree(e, found, symbols) for e, found in _strides(expected, value, told)):
        return f"got strides {value.stride()}; `.contiguous()` makes a copy in row-major order"
    return None


def _agree(expected: sym.IndexExpr, value: int, symbols: dict[str, int]) -> bool:
    """Whether a number is what an expression says. One over symbols that nothing is known of may be any."""
    if isinstance(expected, int):
        return expected == value
    return not expected.symbols <= symbols.keys() or bool(sym.evaluate(expected, (), symbols) == value)


__all__ = ["Arguments"]
