"""Pieces of Python text: index expressions, arguments of calls, names."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable

from cuesta.dialects import sym
from cuesta.dialects.aten import Argument, Device, DType, LayoutKind, MemoryFormat, Operand


def expression(e: sym.IndexExpr) -> str:
    """An index expression over symbols, in Python: `s0 * 2 + 1`, `s0 // 4`."""
    return sym.format_expr(e).replace(" floordiv ", " // ").replace(" mod ", " % ")


def tuple_text(values: tuple[sym.IndexExpr, ...]) -> str:
    """`(4, s0)`, `(4,)`, `()`."""
    inner = ", ".join(expression(value) for value in values)
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def argument_text(argument: Argument, operands: list[str]) -> str:
    """One argument of a call, with the operands' names in place."""
    if isinstance(argument, Operand):
        return operands[argument.index]
    if isinstance(argument, tuple):
        return f"[{', '.join(argument_text(element, operands) for element in argument)}]"
    if isinstance(argument, DType):
        return f"torch.{argument.name}"
    if isinstance(argument, Device):
        return f"torch.device({argument.name!r})"
    if isinstance(argument, MemoryFormat | LayoutKind):
        return f"torch.{argument.name}"
    if isinstance(argument, float):
        return repr(argument) if math.isfinite(argument) else f"float({str(argument)!r})"
    if isinstance(argument, complex):  # its repr loses signs of zeros, and nan is no name
        return f"complex({argument_text(argument.real, [])}, {argument_text(argument.imag, [])})"
    if isinstance(argument, sym.Expr):
        return expression(argument)
    return repr(argument)


class Names(set[str]):
    """Names that are taken, and for each how far the numbers behind it have come: a program may have thousands."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self.numbers: dict[str, int] = {}


def identifier(hint: str, taken: Names) -> str:
    """A Python name like `hint` that is not taken yet; it is taken from then on."""
    base = re.sub(r"\W", "_", hint)
    if not base or base[0].isdigit() or keyword.iskeyword(base):
        base = f"v_{base}"
    number = taken.numbers.get(base, 0)
    name = f"{base}_{number}" if number else base
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.numbers[base] = number
    taken.add(name)
    return name
