"""Calls that the core set's samples make of operators that are generated otherwise: no dims, bools, integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from tests.support.differential import check

POINT, ONE = torch.tensor(3.5), torch.tensor([0])
IMAGE = torch.arange(-60, 84).reshape(2, 3, 4, 6) * 7 % 31 - 15
MASK = torch.arange(40).reshape(8, 5) % 3 == 0
PLACES = torch.tensor([[0, 1, 2, 2, 7]] * 5).t().contiguous() % 8


def bools(x: Tensor, index: Tensor) -> list[Tensor]:
    """Sums of bools say whether any is true, products whether all are."""
    source = ~x[:5]
    reduced = [
        torch.scatter_reduce(x, 0, index, source, kind, include_self=own)
        for kind in ("sum", "prod", "amax", "amin")
        for own in (True, False)
    ]
    return [*reduced, x.scatter_add(0, index, source), x.index_put((index[:, 0],), source, accumulate=True)]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, i: (torch.gather(x, 0, i), torch.gather(x, 0, i[0]), x.index_select(0, i)), (POINT, ONE)),
        (lambda x, i: torch.gather(x, 0, i[0]) + x.index_select(0, i), (torch.randn(4), ONE)),
        (bools, (MASK, PLACES)),
        (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (IMAGE,)),
        (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (IMAGE.to(torch.int32),)),
        (lambda x: F.max_pool2d(x, 3, 1, 1), (IMAGE.abs().to(torch.uint8),)),
        (lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=True), (IMAGE,)),
        (lambda x: torch.ops.aten.max_pool2d_with_indices(x, 3, 2, 1), (IMAGE.to(torch.int8).fill_(-128),)),
        (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), (IMAGE,)),
        (lambda x: F.hardtanh(x, -2.7, 5.9), (IMAGE,)),
    ],
)
def test_as_eager(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    check(function, *inputs, truth=False)
    assert not any(record.fallbacks for record in cuesta.records)


@pytest.mark.parametrize("index", [1, -1])
def test_a_number_has_one_element(index: int) -> None:
    torch._dynamo.reset()
    for function in (lambda x, i: torch.gather(x, 0, i), lambda x, i: x.index_select(0, i)):
        for compiled in (function, torch.compile(function, backend="cuesta")):
            with pytest.raises((IndexError, RuntimeError)):
                compiled(POINT, torch.tensor([index]))
