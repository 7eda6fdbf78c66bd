"""`_weight_int4pack_mm_for_cpu`: weights of 4 bits as eager packs them, read as they lie."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.lowering.capture.packed_weights import COLUMNS
from tests.support.differential import compiled_of

BLOCK = COLUMNS.get(torch.backends.cpu.get_cpu_capability(), 0)
pytestmark = pytest.mark.skipif(not BLOCK, reason="eager packs for another machine")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def packed(columns: int, points: int, group: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers from 0 to 15, the same packed, and scales and zeros."""
    numbers = torch.randint(0, 16, (columns, points), dtype=torch.int32)
    parts = torch.rand(points // group, columns, 2).to(dtype)
    return numbers, torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1), parts


def linear(x: Tensor, weight: Tensor, group: int, parts: Tensor) -> Tensor:
    """A layer."""
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, weight, group, parts)


def truth(x: Tensor, numbers: Tensor, group: int, parts: Tensor) -> Tensor:
    """The same in float64."""
    scale, zero = (parts[..., k].double().T.repeat_interleave(group, 1) for k in (0, 1))
    return x.double() @ ((numbers.double() - 8) * scale + zero).T


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 33])
@pytest.mark.parametrize(("columns", "points", "group"), [(64, 32, 32), (192, 256, 64), (256, 512, 256)])
def test_it_is_as_near_as_eager(rows: int, columns: int, points: int, group: int) -> None:
    numbers, weight, parts = packed(columns, points, group)
    x = torch.randn(rows, points) + 0.5
    found, eager = compiled_of(linear)(x, weight, group, parts), linear(x, weight, group, parts)
    true = truth(x, numbers, group, parts)
    assert found.shape == eager.shape and found.stride() == eager.stride() and found.dtype == eager.dtype
    off, allowed = (float((one.double() - true).abs().max()) for one in (found, eager))
    assert off <= max(2 * allowed, 2e-7 * float(true.abs().max())), (off, allowed)
    (record,) = cuesta.records
    assert not record.fallbacks
    assert record.library_calls == (0 if rows <= 4 else 1)


def test_what_is_around_it_and_rows_that_only_the_call_knows() -> None:
    numbers, weight, parts = packed(128, 128, 32)

    def function(x: Tensor) -> Tensor:
        return torch.relu(linear(x * 2, weight, 32, parts) + 1)

    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for rows in (3, 7, 2):
        x = torch.randn(rows, 128)
        wanted = torch.relu(truth(x * 2, numbers, 32, parts) + 1)
        torch.testing.assert_close(compiled(x).double(), wanted, rtol=1e-5, atol=1e-4)


def test_what_is_not_finite_stays_so_and_nothing_else_becomes_so() -> None:
    """Which of infinity and NaN it is may differ: docs/differences.md."""
    _, weight, parts = packed(64, 64, 32)
    x = torch.randn(3, 64)
    x[0, 3], x[1, 5], parts[1, 5, 0], parts[0, 7, 1] = torch.nan, torch.inf, torch.inf, -torch.inf
    found, eager = compiled_of(linear)(x, weight, 32, parts), linear(x, weight, 32, parts)
    assert torch.equal(found.isfinite(), eager.isfinite()) and bool(found[2].isfinite().any())


def test_an_infinite_number_is_nan_where_eager_has_infinity() -> None:
    """docs/differences.md: 0 times infinity, in the sum of a group, before its zero is added."""
    numbers, weight, parts = packed(64, 64, 32)
    x = torch.randn(1, 64)
    x[0, 0] = torch.inf
    found, eager = compiled_of(linear)(x, weight, 32, parts), linear(x, weight, 32, parts)
    eights = numbers[:, 0] == 8
    assert bool(eights.any()) and bool(found[0, eights].isnan().all()) and bool(eager[0, eights].isinf().all())


@pytest.mark.parametrize("case", ["bf16", "part of a block", "nothing"])
def test_what_stays_eagers(case: str) -> None:
    columns = {"part of a block": 48}.get(case, 64)
    dtype = torch.bfloat16 if case == "bf16" else torch.float32
    _, weight, parts = packed(columns, 64, 32, dtype)
    x = torch.randn(0 if case == "nothing" else 2, 64, dtype=dtype)
    found, eager = compiled_of(linear)(x, weight, 32, parts), linear(x, weight, 32, parts)
    torch.testing.assert_close(found, eager)
