"""Division by what a loop does not change is division."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cuesta.targets.cpu.division import has_normal_reciprocal
from tests.support.differential import compiled_of

EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, 1e-45, 1e-40, 2.0**-126, 2.0**-127, 2.0**126, 2.0**127, 3.4028235e38, 1e-38)
SPECIAL = (*EDGES, math.inf, -math.inf, math.nan)


def bits(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=12345.0).view(torch.int32 if x.dtype == torch.float32 else torch.int64)


def check(actual: Tensor, expected: Tensor, dividend: Tensor) -> None:
    """Right to the bit; within one unit in the last place where the remainder would be denormal."""
    assert torch.equal(torch.signbit(actual) & ~actual.isnan(), torch.signbit(expected) & ~expected.isnan())
    small = (dividend.abs() < (2.0**-100 if actual.dtype == torch.float32 else 2.0**-960)).expand_as(expected)
    assert torch.equal(bits(actual)[~small], bits(expected)[~small])
    assert ((bits(actual) - bits(expected)).abs()[small] <= 1).all()


def samples(count: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    pattern, real = (torch.int32, 2**31) if dtype == torch.float32 else (torch.int64, 2**62)
    everything = torch.randint(-real, real - 1, (count,), generator=generator).to(pattern).view(dtype)
    return torch.cat([torch.tensor(SPECIAL, dtype=dtype), everything, torch.rand(count, generator=generator).to(dtype)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_by_one_number_per_row(dtype: torch.dtype) -> None:
    x, y = samples(900, dtype), samples(200, dtype)
    expected = x[None, :] / y[:, None]
    actual = compiled_of(lambda x, y: x[None, :] / y[:, None])(x, y)
    check(actual, expected, x)


@pytest.mark.parametrize("divisor", [3.0, 25088.0, -0.7, 1e-39, 1e38, 2.0**127, 7.0, 0.1])
def test_by_a_constant(divisor: float) -> None:
    x = samples(900, torch.float32)
    actual = compiled_of(lambda x: torch.div(x, torch.full((), divisor)))(x)
    check(actual, x / torch.full((), divisor), x)


def test_which_divisors_have_a_normal_reciprocal() -> None:
    within = [2.0**-126, 1.0, -5.0, 2.0**126]
    beyond = [0.0, 2.0**-127, 2.0**127, math.inf, math.nan]
    assert all(has_normal_reciprocal(value, "f32") for value in within)
    assert not any(has_normal_reciprocal(value, "f32") for value in beyond)
