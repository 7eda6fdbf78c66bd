"""Special functions, shifts and searches, compiled against eager and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cuesta
from cuesta.testing import assert_close_to_float64
from tests.support.differential import check

pytestmark = pytest.mark.slow

nan, inf = torch.nan, torch.inf
WIDE = torch.cat([torch.linspace(-8, 12, 2001) + 3e-4, torch.tensor([0.0, -0.0, -1.0, inf, nan, 1e-20, 1e20])])
UNIT = torch.cat([torch.linspace(-1, 1, 2001), torch.tensor([1e-30, 1 - 6e-8, 6e-8 - 1, 2.0, nan])])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (torch.digamma, WIDE),
        (lambda x: torch.polygamma(1, x), WIDE),
        (torch.erfinv, UNIT),
        (torch.special.entr, WIDE),
        (torch.digamma, torch.linspace(0.1, 9, 300).requires_grad_()),
        (torch.erfinv, torch.linspace(-0.99, 0.99, 300).requires_grad_()),
    ],
)
def test_special_functions(function: Callable[..., Any], x: torch.Tensor) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    assert_close_to_float64(torch.compile(function, backend="cuesta"), function, [x])
    assert not any(record.fallbacks for record in cuesta.records)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_shifts_and_searches(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    x, distance = torch.randint(0, 100, (4, 33)).to(dtype), torch.randint(0, 70, (4, 33)).to(dtype)
    table = x[0].sort()[0]

    def function(x: torch.Tensor, distance: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x << distance, x >> distance, (x << 2) ^ (x >> 3), torch.bucketize(distance, table) + 1

    check(function, x, distance, table)
    assert not any(record.fallbacks for record in cuesta.records)
