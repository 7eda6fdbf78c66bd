"""Products of a few rows whose matrix is converted and scaled for them, on a CPU: one kernel that reads the matrix as
it lies, as accurate as eager's library.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, silu

import cuesta
from cuesta.testing import assert_close_to_float64


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def after(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return silu(linear(x, w.to(x.dtype)) * s) + 1


def before(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return linear(x, w.to(x.dtype) * s[:, None])


def shifted_with_bias(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return linear(x, (w.to(x.dtype) - 3) * s[:, None], s)


def row_by_row(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return (x @ w.view(x.shape[1], -1).to(x.dtype)) * s


def transposed(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return x @ (w.view(x.shape[1], -1).t().contiguous().t().to(x.dtype) * s)


FUNCTIONS = (after, before, shifted_with_bias, row_by_row, transposed)


def inputs_of(rows: int, columns: int, points: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    weight = torch.randint(-128, 128, (columns, points), dtype=torch.int8)
    return [torch.randn(rows, points).to(dtype), weight, torch.rand(columns).to(dtype) / 64]


def check(function: Callable[..., Tensor], inputs: list[Tensor], *, library: int = 0) -> None:
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
    with torch.no_grad():
        assert_close_to_float64(compiled, function, inputs)
    (record,) = cuesta.records
    assert (record.library_calls, dict(record.fallbacks)) == (library, {})


@pytest.mark.parametrize("seed", range(10))
def test_sizes_that_are_drawn(seed: int) -> None:
    drawn = random.Random(seed)
    torch.manual_seed(seed)
    rows, columns, points = drawn.randint(1, 4), drawn.randint(16, 300), drawn.randint(16, 2000)
    dtype = drawn.choice([torch.float32, torch.float32, torch.bfloat16])
    check(FUNCTIONS[seed % len(FUNCTIONS)], inputs_of(rows, columns, points, dtype))


def groups(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    matrix = w.to(x.dtype).unflatten(1, (s.shape[1], -1)) * s[..., None]
    return linear(x, matrix.flatten(1))


def nibbles(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    low, high = w.view(torch.uint8) & 15, w.view(torch.uint8) >> 4
    return groups(x, torch.cat([low, high], 1).to(torch.int8) - 8, s)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("group", "count"), [(16, 6), (32, 4), (24, 7), (50, 2), (128, 3)])
@pytest.mark.covering
def test_scales_of_groups(group: int, count: int, rows: int) -> None:
    x, w, _ = inputs_of(rows, 50, group * count)
    check(groups, [x, w, torch.rand(50, count)])


@pytest.mark.parametrize("group", [16, 32, 40])
def test_two_numbers_in_a_byte(group: int) -> None:
    x, w, _ = inputs_of(1, 50, group * 4)
    check(nibbles, [x, w[:, : group * 2], torch.rand(50, 4)])
    assert cuesta.records[0].kernels == 1


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.bfloat16, torch.float16])
def test_other_types_of_weights(kind: torch.dtype) -> None:
    x, w, s = inputs_of(1, 40, 200)
    check(before, [x, w.abs().clamp(max=100).to(kind), s])


@pytest.mark.parametrize(("rows", "columns", "points"), [(5, 32, 64), (1, 3, 64), (2, 32, 1), (3, 1, 32)])
def test_what_stays_with_the_library(rows: int, columns: int, points: int) -> None:
    check(before, inputs_of(rows, columns, points), library=1)


@pytest.mark.parametrize(("rows", "columns", "points"), [(0, 32, 64), (1, 0, 64), (1, 32, 0)])
def test_nothing(rows: int, columns: int, points: int) -> None:
    inputs = inputs_of(rows, columns, points)
    got = torch.compile(before, backend="cuesta", fullgraph=True, dynamic=False)(*inputs)
    assert torch.equal(got, before(*inputs))


def test_sizes_that_change_stay_with_the_library() -> None:
    compiled = torch.compile(before, backend="cuesta", fullgraph=True, dynamic=True)
    for columns in (40, 70):
        inputs = inputs_of(1, columns, 96)
        torch.testing.assert_close(compiled(*inputs), before(*inputs))
    assert cuesta.records[-1].library_calls == 1


def test_one_scale_for_all_and_a_row_that_is_repeated() -> None:
    def function(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
        return linear(x.expand(3, -1), w.to(x.dtype) * s)

    x, w, _ = inputs_of(1, 100, 133)
    check(function, [x, w, torch.tensor(0.25)])


def test_a_matrix_of_which_parts_lie_apart() -> None:
    x, w, s = inputs_of(2, 48, 256)
    check(before, [x[:, :100], w[:, 50:150], s])


def test_a_matrix_that_others_need_is_made() -> None:
    def function(x: Tensor, w: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        matrix = w.to(x.dtype) * s[:, None]
        return linear(x, matrix), matrix

    x, w, s = inputs_of(1, 40, 200)
    got = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(x, w, s)
    torch.testing.assert_close(got, function(x, w, s))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value: float) -> None:
    x, w, s = inputs_of(2, 40, 200)
    x[1, 7], s[3] = value, value
    got = torch.compile(before, backend="cuesta", fullgraph=True, dynamic=False)(x, w, s)
    torch.testing.assert_close(got, before(x, w, s), equal_nan=True)


def test_a_long_sum_is_as_accurate_as_a_short_one() -> None:
    x, w, s = inputs_of(1, 16, 1 << 20)
    x, w = x.abs(), w.abs().clamp(min=0)
    truth = (w.double() @ x[0].double()) * s.double()
    got = torch.compile(lambda x, w, s: linear(x, w.to(x.dtype)) * s, backend="cuesta", fullgraph=True)(x, w, s)[0]
    assert ((got.double() - truth).abs() / truth).max() < 4e-7
