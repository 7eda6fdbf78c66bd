"""The meaning of `elem` ops, from the `reference` column of the table."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from cuesta.dialects import elem
from cuesta.dialects.elem import kind_of, meaning
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.numerics import Numerics, dtype_of

_DIVISIONS: Final = ("trunc_div", "fmod")


def apply(op: elem.TableOp, operands: list[Tensor], active: Tensor | None) -> Tensor:
    """The result of a table op, of aligned operands.

    Errors: InterpreterError for an integer division by zero at an active point.
    """
    if op.row.name in _DIVISIONS and not operands[1].dtype.is_floating_point:
        operands[1] = _checked_divisor(op, operands[1], active)
    if operands[0].dtype is torch.uint64 and any(bool((operand.view(torch.int64) < 0).any()) for operand in operands):
        fail(op, "the interpreter computes ui64 only with values below 2**63")
    return meaning.compute(op.row, operands)


def _checked_divisor(op: elem.TableOp, divisor: Tensor, active: Tensor | None) -> Tensor:
    zero = divisor == 0
    if not zero.any():
        return divisor
    if active is None or bool((zero & active).any()):
        fail(op, "divides an integer by zero, which means nothing; whoever emits the division guards it")
    return torch.where(zero, torch.ones((), dtype=divisor.dtype), divisor)


def constant(op: elem.ConstantOp, numerics: Numerics) -> Tensor:
    """The value of `elem.constant`; integers are given modulo the width of their type."""
    value_type = op.result.type
    dtype = numerics.dtype(value_type)
    value = op.value
    kind = kind_of(value_type)
    if kind in "iu":
        width = dtype.itemsize * 8
        value = int(value) % (1 << width)
        if kind == "i" and value >= 1 << (width - 1):
            value -= 1 << width
    return torch.tensor(bool(value) if kind == "b" else value, dtype=dtype)


def convert(op: elem.ConvertOp, value: Tensor, numerics: Numerics) -> Tensor:
    """The value of `elem.convert`."""
    return value.to(numerics.dtype(op.result.type))


def bitcast(op: elem.BitcastOp, value: Tensor, numerics: Numerics) -> Tensor:
    """The value of `elem.bitcast`: of the number as its type holds it, also where nothing is rounded."""
    bits = value.to(dtype_of(op.operands[0].type)).contiguous().view(dtype_of(op.result.type))
    return bits.to(numerics.dtype(op.result.type))


def dot(op: elem.DotOp, a: Tensor, b: Tensor, numerics: Numerics) -> Tensor:
    """The value of `elem.dot`: of bf16 in float64, rounded once."""
    if op.parts == "i8":
        first, second, wide = torch.uint8, torch.int8, torch.int32
    else:
        first, second, wide = torch.bfloat16, torch.bfloat16, torch.float64
    product = _parts_of(a, first).to(wide) * _parts_of(b, second).to(wide)
    return torch.sum(product, -1, dtype=wide).to(numerics.dtype(op.result.type))


def _parts_of(words: Tensor, dtype: torch.dtype) -> Tensor:
    """The parts of words of 32 bits, along one more axis."""
    return words.to(torch.int32).contiguous().unsqueeze(-1).view(dtype)


def select(condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    """The value of `elem.select`."""
    return torch.where(condition, on_true, on_false)
