"""Cumulative functions and scatters: compiled against eager and float64, and down the levels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import cuesta
from tests.support.differential import check, compiled_of
from tests.support.levels import capture, check_levels

pytestmark = pytest.mark.slow


def _rows_and_columns(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.exp(-x * x)
    values, places = torch.cummax(x, 1)
    return y.cumsum(1) * 2, y.cumsum(0).log(), x.cumprod(1), x.logcumsumexp(0), values, places, torch.cummin(x, 0)[1]


def _ends(x: Tensor) -> Tensor:
    """A scan that is read backwards, and another scan of it."""
    return x.flip(1).cumsum(1).flip(1).cumsum(0) + x


def _histogram(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    counts = x.new_zeros(9).index_add(0, i, x.new_ones(i.shape))
    sums = x.new_zeros(9, x.shape[1]).index_add(0, i, x * x)
    return counts, sums / counts.clamp(min=1)[:, None], sums.relu() + 1


def _written(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    y[:, i % 5] += 1.0
    y[i % 3] = 0.5
    return y, y.masked_scatter(x > 1, x.abs()), x.scatter_reduce(1, (x > 0).long(), x * 2, "amax")


def _before(x: Tensor) -> tuple[Tensor, ...]:
    """The sums of all before a point, along either axis; and with other numbers in front."""
    rows = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1].cumsum(1)), 1)
    columns = torch.cat((torch.zeros_like(x[:1]), torch.exp(x[:-1]).cumsum(0)), 0)
    return rows, columns * x, functional.pad(x.cumsum(1), (3, 0), value=2.0).relu()


def _where_a_mask_holds(x: Tensor, mask: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x.clone()
    z[:, mask[0]] = 1
    return x.index_put((mask[:, 0],), y) * 2, z, x.index_put((mask,), y[0], accumulate=True)


def _means(x: Tensor, i: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x.scatter_reduce(1, i, y, "mean"), x[0, 0].scatter_reduce(0, i[0] * 0, y[0], "mean", include_self=False)


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (_rows_and_columns, (torch.randn(5, 37),)),
    (_rows_and_columns, (torch.randn(3, 128),)),
    (_ends, (torch.randn(6, 19),)),
    (_before, (torch.randn(6, 40),)),
    (_histogram, (torch.randn(20, 21), torch.randint(0, 9, (20,)))),
    (_written, (torch.randn(7, 6), torch.tensor([1, 3, 3]))),
]


@pytest.mark.parametrize(("function", "inputs"), PROGRAMS, ids=range(6))
def test_as_eager(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    check(function, *inputs)


@pytest.mark.parametrize("sizes", [(1,), (4,)])
def test_a_source_without_dims(sizes: tuple[int, ...]) -> None:
    def function(x: Tensor, source: Tensor) -> tuple[Tensor, ...]:
        first = torch.zeros(1, dtype=torch.int64)
        return (
            x.scatter(0, first, source),
            x.scatter_add(0, first, source),
            x.clone().scatter_reduce_(0, first, source, "prod"),
        )

    check(function, torch.randn(sizes), torch.randn(()))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [pytest.param(*one, marks=() if k == 3 else pytest.mark.slow, id=str(k)) for k, one in enumerate(PROGRAMS)],
)
@pytest.mark.every(2)
def test_every_stage_keeps_the_meaning(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    (captured,) = capture(function, *inputs)
    check_levels(captured, reenter_at_levels=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_floats(dtype: torch.dtype) -> None:
    x = torch.rand(4, 50).to(dtype)
    check(lambda x: (x.cumsum(1), x.cumsum(0), torch.zeros_like(x).index_add(0, torch.tensor([1, 1, 2, 1]), x)), x)


def test_integers_and_bools() -> None:
    x = torch.randint(-5, 5, (6, 33), dtype=torch.int32)
    check(lambda x: (x.cumsum(1), (x > 0).cumsum(0), x.cumprod(1), torch.cummax(x, 1), torch.cummin(x > 0, 0)), x)


@pytest.mark.slow
def test_gradients() -> None:
    def function(weight: Tensor, x: Tensor, i: Tensor) -> Tensor:
        rows = functional.embedding(i, weight, padding_idx=2)
        return (rows.cumsum(0) * x).logcumsumexp(1).sum() + torch.cummax(rows * x, 1)[0].sum() + rows.cumprod(0).sum()

    i = torch.tensor([0, 2, 4, 4, 1])
    check(function, torch.randn(6, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True), i, truth=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_masks_and_means(dtype: torch.dtype) -> None:
    x, y, mask = (torch.randn(6, 7) * 9).to(dtype), (torch.randn(7) * 9).to(dtype), torch.rand(6, 7) > 0.5
    i, values = torch.randint(0, 7, (4, 5)), (torch.randn(4, 5) * 9).to(dtype)
    for one in (x, y, values):
        one.requires_grad_(dtype is torch.float32)
    check(_where_a_mask_holds, x, mask, y)
    check(_means, x, i, values)
    check(_where_a_mask_holds, x.detach().t().contiguous().t(), mask, y.detach())


def test_symbolic_sizes() -> None:
    def function(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        scattered = x.scatter_add(0, i, x), torch.zeros_like(x).index_add(0, i[:, 0], x)
        return x.cumsum(1), x.cumsum(0), *scattered, *_where_a_mask_holds(x, x > 0, x[0]), *_means(x, i % 4, x)

    compiled = compiled_of(function, dynamic=True)
    for rows, columns in ((4, 9), (6, 5)):
        x, i = torch.randn(rows, columns), torch.randint(0, rows, (rows, columns))
        torch.testing.assert_close(compiled(x, i), function(x, i))


@pytest.mark.slow
def test_a_large_scatter_is_two_kernels_and_right() -> None:
    x, i = torch.randn(1000, 40), torch.randint(0, 3000, (1000,))
    check(lambda x, i: x.new_zeros(3000, 40).index_add(0, i, x), x, i)
    check(lambda x, i: x.index_add(0, i % 1000, x).relu(), x, i)


def test_zero_times_an_overflow_is_zero() -> None:
    x = torch.tensor([0.0] + [1e300] * 40, dtype=torch.float64)
    check(lambda x: x.cumprod(0), x, truth=False)


@pytest.mark.parametrize("position", [7, -8])
def test_an_index_out_of_range_raises(position: int) -> None:
    def function(x: Tensor, i: Tensor) -> Tensor:
        return x.index_put((i,), torch.ones(1), accumulate=True)

    compiled = compiled_of(function)
    with pytest.raises(IndexError, match=f"index {position} is out of bounds for dimension with size 7"):
        compiled(torch.randn(7), torch.tensor([0, position]))
    torch.testing.assert_close(compiled(torch.zeros(7), torch.tensor([0, 0])), torch.eye(7)[0] * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_histograms_of_an_interval(dtype: torch.dtype) -> None:
    cuesta.clear_records()

    def function(x: Tensor) -> list[Tensor]:
        parts = [torch.histc(x, bins, -1, 1) for bins in (1, 7, 100)]
        return [*parts, torch.histc(x, 10, -0.3, 5.5), torch.histc(x[0, 0], 3, -4, 4), torch.histc(x[:0], 3, 0, 2)]

    ends = torch.tensor([-1, 1, -0.3, 5.5, torch.inf, -torch.inf, torch.nan, 0, 1 - 2**-24, 1 + 2**-23], dtype=dtype)
    x = torch.cat([ends, torch.randn(990, dtype=dtype), torch.linspace(-1, 1, 1000, dtype=dtype)]).view(40, 50)
    assert all(map(torch.equal, compiled_of(function)(x), function(x)))
    assert not cuesta.records[-1].fallbacks
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        compiled_of(torch.histc)(x, 5, 2, 1)


COUNTS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "numbers": lambda x: (x.bincount(), (x * 2 % 7).bincount(minlength=30) * 3),
    "weights": lambda x: (
        x.bincount((x % 3).float() * 0.5, 3).sqrt(),
        torch.bincount(x, weights=x.double(), minlength=5),
    ),
    "narrow weights": lambda x: (x.bincount(x.half()), x.bincount(x + 1)),
}


COUNTED = {
    ("numbers", torch.int64),
    ("numbers", torch.uint8),
    ("weights", torch.int32),
    ("narrow weights", torch.int64),
}
"""Each function and each type; all pairs by `make test-thorough`."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(*pair, id=f"{pair[1]}-{pair[0]}", marks=() if pair in COUNTED else pytest.mark.thorough)
        for pair in product(COUNTS, (torch.int64, torch.int32, torch.uint8))
    ],
)
@pytest.mark.every(3)
def test_counts(name: str, dtype: torch.dtype) -> None:
    """How many there are, only the data knows: Python reads it, and what is around it is generated."""
    cuesta.clear_records()
    function = COUNTS[name]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = compiled_of(function, dynamic=dynamic)
            for size in (40, 7, 1000):
                x = torch.randint(0, 100, (size,)).to(dtype)
                for have, want in zip(compiled(x), function(x), strict=True):
                    torch.testing.assert_close(have, want)
            called = {one for record in cuesta.records for one in record.fallbacks}
            assert called == {"aten._local_scalar_dense.default"}
            for have, want in zip(compiled(x[:0]), function(x[:0]), strict=True):  # int64, whatever the weights are
                torch.testing.assert_close(have, want)
            cuesta.clear_records()


def test_counts_that_eager_refuses() -> None:
    message = "bincount only supports 1-d non-negative integral inputs"
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = compiled_of(lambda x: x.bincount(minlength=2) + 1)
        assert compiled(torch.tensor([3, 0])).tolist() == [2, 1, 1, 2]
        for function in (torch.bincount, compiled):
            with pytest.raises(RuntimeError, match=message):
                function(torch.tensor([3, -1]))
        for x, weights in ((torch.ones(3).long(), torch.ones(4)), (torch.ones(2, 2).long(), None)):
            torch._dynamo.reset()
            with pytest.raises(RuntimeError):
                torch.bincount(x, weights)
            with pytest.raises(RuntimeError):
                compiled_of(lambda x, w: torch.bincount(x, w) * 2)(x, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_histograms_of_the_numbers_own_interval(dtype: torch.dtype) -> None:
    cuesta.clear_records()
    numbers = (
        *((torch.randn(1000), bins) for bins in (1, 7, 100)),
        *((torch.zeros(5), 7), (torch.linspace(-1, 1, 1001), 100), (torch.randn(50, 40).t(), 7), (torch.randn(()), 1)),
    )
    for x, bins in ((one.to(dtype), bins) for one, bins in numbers):
        torch._dynamo.reset()
        compiled = compiled_of(lambda x, bins=bins: (torch.histc(x, bins), torch.histc(x * 2, bins, 2, 2)))
        assert all(map(torch.equal, compiled(x), (torch.histc(x, bins), torch.histc(x * 2, bins, 2, 2))))
    assert not any(record.fallbacks for record in cuesta.records)
    for wrong in (torch.inf, torch.nan, -torch.inf):
        x = torch.tensor([1, wrong, 2], dtype=dtype)
        with pytest.raises(RuntimeError, match="is not finite"):
            torch.histc(x, 5)
        with pytest.raises(RuntimeError, match="is not finite"):
            compiled_of(torch.histc)(x, 5)
        x.requires_grad_()
        with pytest.raises(RuntimeError, match="is not finite"):
            compiled_of(lambda x: (torch.histc(x.detach(), 5) * x.sum()).sum())(x)
    assert torch.equal(compiled_of(torch.histc)(torch.zeros(0, dtype=dtype), 3), torch.zeros(3, dtype=dtype))


def test_elements_that_are_put_and_taken() -> None:
    cuesta.clear_records()

    def function(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return x.put(i, v), x.put(i, v, accumulate=True), torch.take(x, i) * v

    i, v = torch.randperm(60)[:21].view(7, 3) - 30, torch.randn(7, 3)
    for x in (torch.randn(6, 10), torch.randn(10, 6).t()):
        check(function, x, i, v)
        check(function, x.requires_grad_(), i, v.requires_grad_())
    assert not any(record.fallbacks for record in cuesta.records)
    with pytest.raises(IndexError, match="source and index to have the same number of elements"):
        compiled_of(lambda x, i, v: x.put(i, v))(x.detach(), i, v.detach()[:2])
    for place in (60, -61):
        with pytest.raises(IndexError):
            compiled_of(lambda x, i, v: x.put(i, v))(x.detach(), i[0] * 0 + place, v.detach()[0])


def test_the_gradient_of_a_masked_scatter() -> None:
    cuesta.clear_records()

    def function(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        return x.masked_scatter(mask, source).sin()

    for rows in (5, 6):
        mask = torch.rand(rows, 6) > 0.5
        for one in (mask, mask[:, :1], mask[0, 0], mask < 2, mask & False):
            check(function, torch.randn(rows, 6, requires_grad=True), one, torch.randn(9, 8, requires_grad=True))
    assert not any(record.fallbacks for record in cuesta.records)
    check(lambda x: x.sgn(), torch.randn(9, requires_grad=True))
    assert not cuesta.records[-1].fallbacks


def test_places_of_triangles() -> None:
    cuesta.clear_records()

    def function(x: Tensor) -> tuple[Tensor, ...]:
        lower, upper = torch.tril_indices(5, 7, 1), torch.triu_indices(9, 4, -2, dtype=torch.int32)
        above = torch.triu_indices(x.shape[0], x.shape[1], 1)
        return lower, upper, torch.tril_indices(0, 3), x[above[0], above[1]]

    for size in (6, 9):
        check(function, torch.randn(size, size))
    check(lambda x, i, y: x.index_reduce(0, i, y, "mean"), torch.tensor(3.0), torch.tensor([0]), torch.tensor(5.0))
    assert not any(record.fallbacks for record in cuesta.records)
