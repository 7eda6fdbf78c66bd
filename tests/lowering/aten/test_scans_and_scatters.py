"""Cumulative functions and scatters, at the level `loops`, against torch."""

from __future__ import annotations

import pytest
import torch

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 4).abs().to(dtype) if dtype is torch.uint8 else (torch.randn(shape) * 4).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_cumulative(lower, name, dtype):
    x = values(dtype, 3, 5)
    for dim in (0, -1):
        lower.call(f"{name}.default", x, dim)


def test_cumulative_of_another_type(lower):
    lower.call("cumsum.default", torch.tensor([200, 100, -7]), 0, dtype=torch.int8)
    lower.call("cumsum.default", torch.tensor([0.75, 0.75]), 0, dtype=torch.int64)
    lower.call("cumprod.default", torch.tensor([0.1, 3.0]), 0, dtype=torch.bfloat16)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3)], ids=str)
def test_cumulative_edges(lower, shape):
    x = torch.randn(shape)
    for dim in {0, len(shape) - 1} - {-1}:
        for name in ("cumsum", "logcumsumexp", "cummin"):
            lower.call(f"{name}.default", x, dim)


def test_later_equals_and_nan_win(lower):
    nan, inf = torch.nan, torch.inf
    for x in ([1.0, 1.0, 0.0, 1.0], [-inf, -inf, nan, 3.0, nan], [inf, nan, inf], [0.0, -0.0, 0.0]):
        lower.call("cummax.default", torch.tensor(x), 0)
        lower.call("cummin.default", torch.tensor(x), 0)
    lower.call("cummax.default", torch.tensor([-(2**63), -(2**63)]), 0)


def test_logcumsumexp_of_infinities(lower):
    nan, inf = torch.nan, torch.inf
    for x in ([-inf, -inf, 1.0], [inf, 1.0, inf], [-inf, inf, -inf], [1.0, nan, 1.0], [1000.0, 1000.0, -1000.0]):
        lower.call("logcumsumexp.default", torch.tensor(x), 0)


def test_sums_are_carried_in_double(lower):
    x = torch.cat([torch.tensor([1e8]), torch.ones(1000)])
    module = lower.call("cumsum.default", x, 0, rtol=0, atol=0)
    assert "running sum" in str(module) and "to f64" in str(module)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_scatter_reduce(lower, reduction, include_self, dtype):
    index = torch.randint(0, 3, (6, 4))
    arguments = (values(dtype, 4, 5), 0, index, values(dtype, 6, 5), reduction)
    lower.call("scatter_reduce.two", *arguments, include_self=include_self)


def test_scatter_of_nan(lower):
    x, source = torch.zeros(2), torch.tensor([1.0, torch.nan, 2.0])
    for reduction in ("amax", "amin", "sum"):
        lower.call("scatter_reduce.two", x, 0, torch.tensor([0, 1, 1]), source, reduction)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_mean(lower, dtype, include_self):
    """Of integers it is rounded down, also of negative ones; what nothing is scattered to stays."""
    x, source, index = values(dtype, 4, 5), values(dtype, 6, 5), torch.tensor([[0, 1, 1, 3, 0]] * 6)
    lower.call("scatter_reduce.two", x, 0, index, source, "mean", include_self=include_self)
    lower.call("scatter_reduce.two", x[0, 0], 0, index[0] * 0, source[0], "mean", include_self=include_self)


def test_a_mean_of_bytes_counts_in_bytes(lower):
    x, source = torch.full((1,), 9, dtype=torch.uint8), torch.ones(300, dtype=torch.uint8)
    for count in (1, 254, 255, 256, 300):
        lower.call("scatter_reduce.two", x, 0, torch.zeros(count, dtype=torch.int64), source, "mean")


@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint8, torch.float16], ids=str)
def test_scatters_without_dims(lower, dtype):
    """A tensor without dims is one of one element; with fewer indices than dims there are none at all."""
    x, source, zero = values(dtype), values(dtype, 3), torch.tensor(0)
    for index, added in ((zero, source[1]), (torch.zeros(3, dtype=torch.int64), source), (zero, source)):
        lower.call("scatter_add.default", x, 0, index, added)
        lower.call("scatter.src", x, -1, index, added)
        lower.call("scatter_reduce.two", x, 0, index, added, "amax", include_self=False)
    lower.call("scatter_add.default", source, 0, zero + 1, source[2])
    lower.call("scatter.value", source, 0, zero + 1, 1)
    for empty in (torch.zeros(0, dtype=torch.int64), torch.zeros(3, 0, dtype=torch.int64)):
        lower.call("scatter_add.default", values(dtype, 3, 2), 0, empty, values(dtype, 3, 2))
        lower.call("scatter_reduce.two", source, 0, empty[:0], source, "sum", include_self=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scatter_assigns_and_the_last_wins(lower, dtype):
    x, source = values(dtype, 3, 4), values(dtype, 3, 5)
    index = torch.tensor([[0, 1, 1, 0, 3], [2, 2, 2, 2, 2], [3, 2, 1, 0, 0]])
    lower.call("scatter.src", x, 1, index, source)
    lower.call("scatter.value", x, -1, index, 1)
    lower.call("scatter.src", x, 0, index.clamp(max=2)[:2, :3], source)


def test_scatter_add_and_the_old_reductions(lower):
    x, index, source = torch.randn(3, 4), torch.randint(0, 3, (2, 4)), torch.randn(2, 4)
    lower.call("scatter_add.default", x, 0, index, source)
    lower.call("scatter.reduce", x, 0, index, source, reduce="multiply")
    lower.call("scatter.value_reduce", x, 0, index, 2.0, reduce="add")


@pytest.mark.parametrize("accumulate", [True, False])
def test_index_put(lower, accumulate):
    x, i, j = torch.randn(3, 4, 5), torch.tensor([0, -1, 1]), torch.tensor([[0], [-2]])
    for indices in ([i], [None, i], [i, i], [i, None, i], [None, j, i], [j, None, i], [None, None, j], [i, i, i]):
        shape = x[tuple(slice(None) if index is None else index for index in indices)].shape
        lower.call("index_put.default", x, indices, torch.randn(shape), accumulate)
    lower.call("index_put.default", x, [i], torch.randn(5), accumulate)
    lower.call("index_put.default", x, [None, i], torch.tensor(2.0), accumulate)


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_index_put_where_a_mask_holds(lower, dtype, accumulate):
    x, chosen = values(dtype, 3, 4), torch.rand(3, 4) > 0.4
    one, row, column = values(dtype), values(dtype, 4), values(dtype, 3, 1)
    for mask, put in ((chosen, one), (chosen, one[None]), (chosen[:, 0], row), (chosen[:, 0], row[None, :1])):
        lower.call("index_put.default", x, [mask], put, accumulate)
        lower.call("index_put.default", x.t().contiguous().t(), [mask], put, accumulate)
    lower.call("index_put.default", x, [None, chosen[0]], column, accumulate)
    lower.call("index_put.default", x, [None, chosen[0]], one, accumulate)
    lower.call("index_put.default", values(dtype, 3, 2, 4), [chosen[:, 0]], row, accumulate)
    lower.call("index_put.default", values(dtype, 2, 3, 4), [None, chosen], values(dtype, 2, 1), accumulate)
    lower.call("index_put.default", x[:, :0], [chosen[:, 0]], row[:0], accumulate)
    lower.call("index_put.default", x[:0], [chosen[:0]], one, accumulate)


def test_index_put_of_as_many_values_as_the_mask_holds_is_left(lower):
    x = torch.randn(3, 4)
    for mask, put in ((x > 9, torch.ones(0)), (x < 9, torch.ones(12)), (x[:, 0] < 9, torch.ones(3, 4))):
        lower.call("index_put.default", x, [mask], put, externs=("aten.index_put.default",))


@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_backward(lower, padding):
    indices = torch.tensor([[0, 2, 0], [6, 2, 0]])
    for dtype in (torch.float32, torch.bfloat16):
        gradient = torch.randn(2, 3, 4).to(dtype)
        lower.call("embedding_dense_backward.default", gradient, indices, 7, padding, False)
    overload = "aten.embedding_dense_backward.default"
    lower.call(overload[5:], torch.randn(2, 3, 4), indices, 7, padding, True, externs=(overload,))


def test_masked_scatter(lower):
    x = torch.randn(3, 4)
    lower.call("masked_scatter.default", x, x > 0, torch.arange(12.0))
    lower.call("masked_scatter.default", x, x[:1] > 0, torch.arange(12.0).view(4, 3))


@pytest.mark.parametrize("position", [7, -8])
def test_an_index_out_of_range_raises(lower, position):
    with pytest.raises(IndexError):
        lower.call(
            "index_put.default", torch.randn(7), [torch.tensor([position])], torch.tensor(1.0), expected=[torch.ones(7)]
        )


def test_symbolic_sizes(lower):
    x, index = torch.randn(5, 6), torch.randint(0, 5, (5, 6))
    lower(lambda x, i: (x.cumsum(1), x.scatter_add(0, i, x), x.index_put((i[:, 0],), x)), x, index, dynamic=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_a_scan_of_one_point_is_no_scan(lower, name, dtype):
    if name == "logcumsumexp" and not dtype.is_floating_point:
        return
    x = values(dtype, 4, 1, 3)
    if dtype.is_floating_point:
        x[0, 0] = torch.tensor([torch.nan, -torch.inf, -0.0])
    assert "scan" not in str(lower.call(f"{name}.default", x, 1))


def test_a_sum_of_a_negative_zero_is_zero(lower):
    x = torch.tensor([[-0.0]])
    lower.call("cumsum.default", x, 1)
    assert not torch.signbit(x.cumsum(1)).any(), "as in eager"
