"""Reductions against torch."""

from __future__ import annotations

import math

import pytest
import torch

aten = torch.ops.aten
inf, nan = math.inf, math.nan


def values(dtype: torch.dtype, shape: tuple[int, ...] = (3, 4, 5)) -> torch.Tensor:
    x = torch.randn(shape)
    if dtype.is_floating_point:
        return x.to(dtype)
    return (x * 4).to(torch.int64).to(dtype) if dtype != torch.bool else x > 0


CASES = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum((), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean((0, 2)), x.mean(-1, keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(1), x.prod(-1, keepdim=True)),
    "amax": lambda x: (x.amax(1), x.amax((0, 2), keepdim=True), x.max()),
    "amin": lambda x: (x.amin(1), x.amin((0, 2), keepdim=True), x.min()),
    "max": lambda x: tuple(x.max(1)) + tuple(x.min(-1, keepdim=True)),
    "arg": lambda x: (x.argmax(), x.argmin(1), x.argmax(-1, keepdim=True), x.argmin(keepdim=True)),
    "truth": lambda x: (x.any(), x.all(), x.any(1), x.all(-1, keepdim=True), aten.any.dims(x, [0, 1])),
    "var": lambda x: (x.var(), x.var(1, unbiased=False), x.var((0, 2), correction=2, keepdim=True), x.std(1)),
    "var_mean": lambda x: tuple(torch.var_mean(x, 1)) + tuple(torch.var_mean(x, (0, 1), correction=0, keepdim=True)),
    "logsumexp": lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 2), keepdim=True)),
    "norms": lambda x: (
        *(torch.linalg.vector_norm(x, order, (1,)) for order in (2, 1, 0, inf, -inf, 3)),
        torch.linalg.vector_norm(x),
        aten.norm.ScalarOpt_dim(x, 2, [0], True),
    ),
    "nansum": lambda x: aten.nansum(x, [1]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_of_floats(lower, name, dtype):
    lower(CASES[name], values(dtype))
    assert set(lower.ops()) <= {"loops.nest", "loops.view"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "max", "arg", "truth"])
def test_of_integers(lower, name, dtype):
    lower(CASES[name], values(dtype))


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "max", "truth", "prod"])
def test_of_bools(lower, name):
    lower(CASES[name], values(torch.bool))


def test_in_another_type(lower):
    x = values(torch.float32)
    lower(
        lambda x: (
            x.sum(1, dtype=torch.float64),
            x.bfloat16().sum(dtype=torch.float32),
            x.mean(0, dtype=torch.float64),
            torch.linalg.vector_norm(x.bfloat16(), 2, dtype=torch.float32),
        ),
        x,
    )


@pytest.mark.parametrize("special", [nan, inf, -inf])
def test_of_special_values(lower, special):
    x = values(torch.float32)
    x[0, 1, 2] = special
    x[1, :, 0] = special
    lower(
        lambda x: (
            x.amax(1),
            x.amin(1),
            x.argmax(1),
            x.argmin(1),
            *x.max(-1),
            torch.logsumexp(x, 1),
            x.sum(0),
            x.any(0),
        ),
        x,
    )


def test_without_elements(lower):
    lower(lambda x: (x.sum(1), x.prod(1), x.any(1), x.all(1), x.mean(1), x.amax(0)), torch.randn(3, 0))


def test_of_a_scalar(lower):
    lower(lambda x: (x.sum(), x.sum(0), x.amax(), *x.max(0), x.argmax(), x.mean(), x.any()), torch.tensor(2.0))


def test_of_symbolic_sizes(lower):
    lower(lambda x: (x.sum(1), x.mean((0, 1)), x.var(0), x.std(), x.argmax(-1)), torch.randn(5, 7), dynamic=True)


def test_the_parallel_domain_is_the_kept_dims(lower):
    lower(lambda x: x.sum(1), torch.randn(3, 4, 5))
    (text,) = [line for line in str(lower.module).splitlines() if "loops.nest" in line]
    assert ": 3, " in text and ": 5)" in text
