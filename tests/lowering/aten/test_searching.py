"""Searches in sorted rows, against torch."""

from __future__ import annotations

import pytest
import torch

nan, inf = torch.nan, torch.inf


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 8, 33])
def test_bucketize(lower, length, out_int32, right):
    boundaries = torch.randint(-4, 5, (length,)).sort()[0].float()
    values = torch.cat([torch.linspace(-5, 5, 21), boundaries, torch.tensor([nan, inf, -inf])])
    lower.call("bucketize.Tensor", values, boundaries, out_int32=out_int32, right=right)


def test_a_row_that_is_not_sorted_is_searched_as_in_eager(lower):
    values = torch.linspace(-3, 3, 13)
    for _ in range(5):
        lower.call("bucketize.Tensor", values, torch.randn(7))
    lower.call("bucketize.Tensor", values, torch.tensor([-1.0, 1.0, nan, nan]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_searchsorted(lower, dtype):
    rows = (torch.randn(2, 3, 9) * 4).abs().to(dtype).sort(-1)[0]
    values = (torch.randn(2, 3, 4) * 4).abs().to(dtype)
    lower.call("searchsorted.Tensor", rows, values)
    lower.call("searchsorted.Tensor", rows, values, side="right")
    lower.call("searchsorted.Tensor", rows[0, 0], values, right=True)


def test_a_row_that_an_index_sorts(lower):
    rows, values = torch.randn(2, 3, 9), torch.randn(2, 3, 4)
    for right in (False, True):
        lower.call("searchsorted.Tensor", rows, values, sorter=rows.argsort(-1), right=right)
    lower.call("searchsorted.Tensor", rows[0, 0], values, sorter=rows[0, 0].argsort())


def test_what_is_left_to_eager(lower):
    row, values = torch.tensor([3.0, 1.0, 2.0]), torch.randn(4)
    extern = ("aten.searchsorted.Tensor",)
    lower.call("searchsorted.Tensor", row.double(), values, externs=extern)
    lower.call("searchsorted.Tensor", torch.empty(0), values, externs=extern)
