"""What functional collectives mean among processes that all hold the same, and all come late.

The reference has no other processes. What a start gives is undefined until somebody waits for it, and it reads its
operands only then: a program that is right here does not depend on when the communication happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.dialects.aten import CallLike
from cuesta.dialects.host.collectives import is_wait

Unfinished = dict[int, tuple[Tensor, Tensor]]
"""What is received, by its address, and from what."""


def collective(op: CallLike, positional: Sequence[Any], unfinished: Unfinished) -> list[Tensor]:
    """What a start or a wait gives."""
    if is_wait(op):
        (given,) = positional
        if (found := unfinished.pop(given.data_ptr(), None)) is not None:
            received, source = found
            received.copy_(_received(source, received.shape))
        return [given]
    name = op.overload
    first = positional[0]
    operands: Sequence[Tensor] = [first] if isinstance(first, Tensor) else list(first)
    results: list[Tensor] = []
    for operand in operands:
        sizes = list(operand.shape)
        if "gather" in name:
            sizes[0] *= positional[1]
        elif "scatter" in name:
            sizes[0] //= positional[2]
        elif "all_to_all" in name:
            sizes[0] = sum(positional[1])
        result = torch.empty(sizes, dtype=operand.dtype)
        if result.is_floating_point():
            result.fill_(float("nan"))
        if result.numel():
            unfinished[result.data_ptr()] = result, operand
        results.append(result)
    return results


def _received(source: Tensor, sizes: Sequence[int]) -> Tensor:
    """As many rows as are received: the same ones again and again, or the first."""
    rows = torch.arange(sizes[0]) % max(1, source.shape[0]) if sizes else None
    return source if rows is None else source[rows]
