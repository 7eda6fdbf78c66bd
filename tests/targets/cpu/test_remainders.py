"""Remainders of floats are exact, and vectors do not take libm's lane by lane."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from torch import Tensor

from cuesta.targets.cpu.features import host_features
from cuesta.targets.cpu.remainders import LARGEST_QUOTIENT, remainder
from tests.support.differential import compiled_of

SPECIAL = (0.0, 1.0, 3.0, 0.1, 1e-45, 1e-40, 2.0**-126, 2.0**127, 3.4e38, 1e-38, math.inf, math.nan)


def expected(a: Tensor, b: Tensor) -> Tensor:
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.fmod(a.numpy(), b.numpy()))


def check(a: Tensor, b: Tensor) -> None:
    actual, truth = compiled_of(torch.fmod)(a, b), expected(a, b)
    integers = torch.int32 if a.dtype == torch.float32 else torch.int64
    assert torch.equal(actual.isnan(), truth.isnan())
    known = ~truth.isnan()
    assert torch.equal(actual[known].view(integers), truth[known].view(integers))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_any_two_numbers(dtype: torch.dtype) -> None:
    special = torch.tensor([*SPECIAL, *(-one for one in SPECIAL)], dtype=dtype)
    pairs = torch.cartesian_prod(special, special)
    check(*(pairs[:, k].repeat_interleave(16).contiguous() for k in range(2)))  # vectors all alike: no lane decides
    check(pairs[:, 0].contiguous(), pairs[:, 1].contiguous())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_near_whole_quotients_of_every_size(dtype: torch.dtype) -> None:
    """Multiples of the divisor and their neighbours: where a quotient is rounded up to a whole number."""
    generator = torch.Generator().manual_seed(0)
    limit = math.log2(LARGEST_QUOTIENT["f32" if dtype == torch.float32 else "f64"])
    b = torch.rand(40_000, generator=generator, dtype=dtype) + 0.5
    quotient = torch.exp2(torch.rand(40_000, generator=generator, dtype=dtype) * limit).floor()
    sign = torch.randint(0, 2, (40_000,), generator=generator) * 2 - 1
    a = quotient * b * sign
    a = a.sort().values  # vectors whose quotients are of one size
    b = b.clone()
    for neighbour in (a, torch.nextafter(a, torch.zeros_like(a)), torch.nextafter(a, a * 2)):
        check(neighbour, b)


@pytest.mark.skipif(not host_features().has_fused_multiply_add, reason="a machine without fused multiply-add")
def test_vectors_call_libm_for_large_quotients_only() -> None:
    text = remainder("f32", 16).definition
    assert re.search(r"noinline cold.*\n.*frem", text) and text.count("frem") == 1
    function = compiled_of(torch.remainder)
    x, y = torch.rand(1000) * 50, torch.rand(1000) + 0.1
    assert torch.equal(function(x, y), torch.remainder(x.double(), y.double()).float())
