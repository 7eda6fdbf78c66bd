"""Folding: what an op of constants gives, by its meaning, in its own type.

A constant of f32 is computed as f32, never as Python's float, and rounded as often as the program says. What is
undefined (a division by zero, a shift by too much, a float that no integer is near) is not folded: nothing is said of
it, and what it does stays what it did. All NaN are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from cuesta.dialects import elem
from cuesta.dialects.aten.dtypes import type_to_dtype
from cuesta.dialects.core.rewriting import no_match
from cuesta.dialects.elem.meaning import compute
from cuesta.dialects.elem.table import Row

_INTEGER_DIVISIONS = ("trunc_div", "fmod")
_SHIFTS = ("shl", "shr")


def fold(row: Row, numbers: Sequence[float | int], scalar: Attribute) -> float | int | None:
    """What a row of the table gives for numbers of a type; None where it is undefined."""
    # As text, because 0.0 == -0.0 and nan != nan as keys.
    return _fold(row, tuple(map(repr, numbers)), scalar)


@lru_cache(maxsize=4096)
def _fold(row: Row, texts: tuple[str, ...], scalar: Attribute) -> float | int | None:
    import torch

    kind = elem.kind_of(scalar)
    numbers = [_read(text) for text in texts]
    if kind not in "fiub" or not is_defined(row.name, numbers, scalar):
        return None
    dtype = getattr(torch, type_to_dtype(scalar))
    return _number(compute(row, [torch.tensor(number, dtype=dtype) for number in numbers]).item())


def is_defined(name: str, numbers: Sequence[float | int], scalar: Attribute) -> bool:
    """Whether an op of the table has a meaning for numbers of a type."""
    width = elem.width_of(scalar)
    if width is None:
        return True
    if elem.kind_of(scalar) == "u" and width == 64 and any(number >= 1 << 63 for number in numbers):
        return False  # torch does not compute with them
    if name in _INTEGER_DIVISIONS:
        overflows = numbers[1] == -1 and numbers[0] == -(1 << (width - 1))
        return numbers[1] != 0 and not overflows
    return name not in _SHIFTS or 0 <= numbers[1] < width


def fold_convert(number: float | int, source: Attribute, target: Attribute) -> float | int | None:
    """What `elem.convert` makes of a number; None where it is undefined."""
    return _fold_convert(repr(number), source, target)


@lru_cache(maxsize=4096)
def _fold_convert(text: str, source: Attribute, target: Attribute) -> float | int | None:
    import torch

    number = _read(text)
    kind = elem.kind_of(target)
    if kind not in "fiub" or elem.kind_of(source) not in "fiub":
        return None
    width = elem.width_of(target)
    if width is not None and kind in "iu" and isinstance(number, float):
        low = -(1 << (width - 1)) if kind == "i" else 0
        high = 1 << (width - (kind == "i"))
        if not math.isfinite(number) or not low <= int(number) < high:
            return None
    value = torch.tensor(number, dtype=getattr(torch, type_to_dtype(source)))
    return _number(value.to(getattr(torch, type_to_dtype(target))).item())


def _number(value: float | int | bool) -> float | int:
    """A bool as constants hold it."""
    return int(value) if isinstance(value, bool) else value


def _read(text: str) -> float | int:
    return int(text) if text.lstrip("-").isdigit() else float(text)


class FoldConstants(RewritePattern):
    """An op of constants -> the constant that it gives. Exact: it is computed by the op's meaning, in its type."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        constants = [operand.owner for operand in op.operands]
        numbers = [one.value for one in constants if isinstance(one, elem.ConstantOp)]
        if not numbers or len(numbers) < len(constants):
            return
        scalar = elem.scalar_of(op.operands[0].type)
        if isinstance(op, elem.TableOp):
            folded = fold(op.row, numbers, scalar)
        elif isinstance(op, elem.ConvertOp):
            folded = fold_convert(numbers[0], scalar, elem.scalar_of(op.result.type))
        else:
            return
        if folded is None:
            no_match(op, "it is undefined for these constants")
            return
        rewriter.replace(op, elem.constant(folded, op.results[0].type))
