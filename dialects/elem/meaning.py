"""What a row of the table means: its `reference` column, evaluated on torch's tensors.

The reference interpreter, the folding of constants and the proofs of laws all ask here. torch is imported when it is
first needed: the text of a program is read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from cuesta.dialects.elem.table import Row

if TYPE_CHECKING:
    from torch import Tensor

_LETTERS = "abcdef"


@cache
def _function(reference: str, arity: int) -> Callable[..., Any]:
    import torch

    # The strings evaluated are those of our own table and of extensions, never a program's.
    return eval(f"lambda {', '.join(_LETTERS[:arity])}: {reference}", {"torch": torch})


def compute(row: Row, operands: Sequence[Tensor]) -> Tensor:
    """The result of an op on tensors that broadcast.

    Requires: no integer is divided by zero; what is shifted by is within the width; values of uint64 are below 2^63.
    """
    import torch

    function = _function(row.reference, row.arity)
    dtype = operands[0].dtype
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return _compute_unsigned(function, operands, dtype)
    if row.ulp > 0 and dtype is torch.float32:
        # Torch's vectors and the elements left over differ in the last bit; here a value depends on its operands alone.
        return function(*(operand.double() for operand in operands)).float()
    return function(*operands)


def _compute_unsigned(function: Callable[..., Any], operands: Sequence[Tensor], dtype: Any) -> Tensor:
    """Torch has no arithmetic on its wider unsigned dtypes: computes in int64, and wraps."""
    import torch

    result = function(*(operand.to(torch.int64) for operand in operands))
    if result.dtype is torch.bool:
        return result
    width = dtype.itemsize * 8
    return (result if width == 64 else result & ((1 << width) - 1)).to(dtype)
