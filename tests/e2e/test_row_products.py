"""Products of one row with a large matrix, on a CPU, attention of one query among them: kernels, as accurate as eager's
library.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu

import cuesta
from cuesta.testing import assert_close_to_float64

ROWS, POINTS = 517, 403
"""Of a weight: neither is a multiple of the rows or lanes that are done together."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def plain(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return linear(x, w)


def with_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return silu(linear(x, w, b))


def kept_and_summed(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y = linear(x, w)
    return y, (y * b).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [plain, with_bias, kept_and_summed])
def test_one_row(function: Callable[..., object], dtype: torch.dtype) -> None:
    inputs = [torch.randn(1, POINTS), torch.randn(2 * ROWS, POINTS) / POINTS**0.5, torch.randn(2 * ROWS)]
    inputs = [value.to(dtype) for value in inputs]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    with torch.no_grad():
        assert_close_to_float64(compiled, function, inputs)
    (record,) = cuesta.records
    assert (record.library_calls, dict(record.fallbacks)) == (0, {})


def test_one_row_of_each_of_several() -> None:
    inputs = [torch.randn(3, 1, POINTS), torch.randn(3, ROWS, POINTS)]
    compiled = torch.compile(lambda x, w: x @ w.transpose(1, 2), backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, lambda x, w: x @ w.transpose(1, 2), inputs)
    assert cuesta.records[0].library_calls == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_stays_in_its_row(value: float) -> None:
    x, w = torch.ones(1, POINTS), torch.ones(ROWS, POINTS)
    w[2, 400] = value
    with torch.no_grad():
        got = torch.compile(plain, backend="cuesta", fullgraph=True)(x, w, w)
    torch.testing.assert_close(got, linear(x, w), equal_nan=True)


def test_sizes_that_change_stay_with_the_library() -> None:
    compiled = torch.compile(plain, backend="cuesta", fullgraph=True, dynamic=True)
    for rows in (ROWS, 700, 1200):
        inputs = [torch.randn(1, POINTS), torch.randn(rows, POINTS), torch.randn(rows)]
        with torch.no_grad():
            assert_close_to_float64(compiled, plain, inputs)
    assert cuesta.records and all(record.library_calls == 1 for record in cuesta.records)


def test_with_the_roundings_of_eager_it_is_eagers_product() -> None:
    x, w, b = torch.randn(1, POINTS).bfloat16(), torch.randn(ROWS, POINTS).bfloat16(), torch.randn(ROWS).bfloat16()
    compiled = torch.compile(with_bias, backend="cuesta", fullgraph=True, options={"emulate_precision_casts": True})
    with torch.no_grad():
        assert torch.equal(compiled(x, w, b), with_bias(x, w, b))


KEYS, WIDTH = 1003, 40
"""Of a cache: neither is a multiple of what is done together."""


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def of_a_cache(batch: int = 2, heads: int = 3) -> list[Tensor]:
    """A query, keys and values."""
    return [torch.randn(batch, heads, rows, WIDTH) for rows in (1, KEYS, KEYS)]


@pytest.mark.parametrize("shape", [None, (1, KEYS), (2, 1, 1, KEYS), (2, 3, 1, KEYS)])
def test_one_query(shape: tuple[int, ...] | None) -> None:
    q, k, v = of_a_cache()
    mask = None if shape is None else torch.where(torch.rand(shape) < 0.5, torch.randn(shape), -torch.inf)
    compiled = torch.compile(attend, backend="cuesta", fullgraph=True)
    with torch.no_grad():
        assert_close_to_float64(compiled, attend, [q, k, v, mask])
    assert cuesta.records[0].library_calls == 0


def test_one_query_of_keys_that_lie_apart_with_a_scale_of_its_own() -> None:
    def apart(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2), scale=0.7) + 1

    q, k, v = of_a_cache()
    inputs = [q, k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()]
    with torch.no_grad():
        assert_close_to_float64(torch.compile(apart, backend="cuesta", fullgraph=True), apart, inputs)
    assert cuesta.records[0].library_calls == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_query_with_numbers_that_are_none(value: float) -> None:
    """As the library's: a mask that takes out all keys leaves 0, and what is masked still counts if it is no number."""
    q, k, v = of_a_cache()
    mask = torch.zeros(2, 3, 1, KEYS)
    mask[0, 0] = -torch.inf
    mask[0, 1, 0, 5] = value
    mask[0, 2, 0, 7:] = -torch.inf
    v[0, 2, 9, 3], k[1, 0, 4, 1] = value, value
    with torch.no_grad():
        got = torch.compile(attend, backend="cuesta", fullgraph=True)(q, k, v, mask)
        torch.testing.assert_close(got, attend(q, k, v, mask), equal_nan=True)
    assert got[0, 0].count_nonzero() == 0
    assert cuesta.records[0].library_calls == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_is_trained_or_in_half_precision_stays_with_the_library(dtype: torch.dtype) -> None:
    q, k, v = (one.to(dtype).requires_grad_(dtype == torch.float32) for one in of_a_cache())
    got = torch.compile(attend, backend="cuesta", fullgraph=True)(q, k, v, None)
    torch.testing.assert_close(got, attend(q, k, v, None))
    assert cuesta.records[0].library_calls == 1
