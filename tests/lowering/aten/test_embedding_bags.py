"""Bags of embeddings, against torch."""

from __future__ import annotations

import itertools

import pytest
import torch

SUM, MEAN, MAX = range(3)
INDICES = torch.tensor([4, 1, 2, 2, 0, 4, 3, 1])
OFFSETS = torch.tensor([0, 3, 3, 7])
BAGS = "_embedding_bag.default"


def weight(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(5, 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
@pytest.mark.parametrize("padding", [-1, 4])
def test_modes(lower, dtype, mode, padding):
    for last in (False, True):
        offsets = torch.cat([OFFSETS, torch.tensor([8])]) if last else OFFSETS
        lower.call(BAGS, weight(dtype), INDICES, offsets, False, mode, False, None, last, padding)


@pytest.mark.parametrize("index,offset", [*itertools.product([torch.int32, torch.int64], repeat=2)], ids=str)
def test_types_of_indices(lower, index, offset):
    for mode in (SUM, MEAN, MAX):
        lower.call(BAGS, weight(torch.float64), INDICES.to(index), OFFSETS.to(offset), False, mode)


@pytest.mark.parametrize("padding", [-1, 2])
def test_rows_with_weights(lower, padding):
    for dtype in (torch.float32, torch.float64):
        scales = torch.randn(8).to(dtype)
        lower.call(BAGS, weight(dtype), INDICES, OFFSETS, False, SUM, False, scales, False, padding)


def test_a_last_offset_before_the_end(lower):
    """Eager's own kernel for sums believes it; the others go on to the end."""
    offsets = torch.tensor([0, 3, 6])
    for dtype, mode, padding in itertools.product((torch.float32, torch.float64), (SUM, MEAN, MAX), (-1, 4)):
        lower.call(BAGS, weight(dtype), INDICES, offsets, False, mode, False, None, True, padding)
    lower.call(BAGS, torch.randn(3, 5).t(), INDICES, offsets, False, SUM, False, None, True)


def test_nan_counts_as_the_greatest_if_it_comes_first(lower):
    table = torch.tensor([[1.0, torch.nan], [torch.nan, 2.0], [-torch.inf, -torch.inf], [3.0, torch.nan]])
    indices = torch.tensor([0, 1, 3, 1, 0, 2, 2, 1, 2, 3, 3])
    lower.call(BAGS, table, indices, torch.tensor([0, 3, 5, 8, 9, 11]), False, MAX)
    lower.call(BAGS, table, indices, torch.tensor([0, 3, 5, 8, 9, 11]), False, MAX, False, None, False, 1)


def test_empty_bags(lower):
    for mode in (SUM, MEAN, MAX):
        lower.call(BAGS, weight(), INDICES, torch.tensor([0, 0, 8, 8]), False, mode)
        lower.call(BAGS, weight(), torch.tensor([3, 3]), torch.tensor([0, 1]), False, mode, False, None, False, 3)


def test_without_indices_it_is_left_to_eager(lower):
    lower.call(BAGS, weight(), INDICES[:0], torch.tensor([0, 0]), externs=("aten._embedding_bag.default",))


@pytest.mark.parametrize(
    "indices,offsets",
    [([0, 5], [0, 1]), ([0, -1], [0, 1]), ([0, 1], [0, 3]), ([0, 1], [1, 1]), ([0, 1], [0, 2, 1])],
    ids=["beyond", "negative", "offset beyond", "first offset", "not sorted"],
)
def test_what_is_out_of_range_raises(lower, indices, offsets):
    arguments = weight(), torch.tensor(indices), torch.tensor(offsets)
    with pytest.raises(RuntimeError):
        torch.ops.aten._embedding_bag(*arguments)
    valid = torch.zeros(len(offsets), 3), torch.zeros(0), torch.zeros(len(offsets)), torch.zeros(len(offsets))
    expected = [valid[0], *(one.to(torch.int64) for one in valid[1:])]
    with pytest.raises(IndexError):
        lower.call(BAGS, *arguments, expected=expected)


def test_sizes_that_are_not_known_and_large_ones_are_left_to_eager(lower):
    def function(table, indices, offsets):
        return torch.ops.aten._embedding_bag(table, indices, offsets, False, MEAN)[0]

    lower(function, weight(), INDICES, OFFSETS, dynamic=True, externs=("aten._embedding_bag.default",))
    indices, offsets = torch.randint(5, (2048,)), torch.arange(0, 2048, 2)
    lower(function, weight(), indices, offsets, externs=("aten._embedding_bag.default",))
