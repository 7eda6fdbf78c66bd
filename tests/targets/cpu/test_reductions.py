"""Arg-reductions and Welford's moments, in lanes: ties, NaN, infinities, tails, both orders of axes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cuesta.programs.loading import load
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow

SIZES = (1, 3, 15, 16, 17, 63, 64, 100, 130, 1000)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def rows(size: int, dtype: torch.dtype) -> Tensor:
    """Rows with ties, and for floats with NaN and infinities in places that matter."""
    generator = torch.Generator().manual_seed(size)
    x = torch.randint(-4, 5, (9, size), generator=generator).to(dtype)
    if not dtype.is_floating_point:
        return x
    x[1] = -math.inf
    x[2] = math.inf
    x[3, size // 2 :] = math.nan
    x[4, size - 1] = math.nan
    x[5] = math.nan
    x[6] = 0.0
    x[6, size // 2] = -0.0
    return x


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.int64,
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in (torch.float64, torch.bfloat16, torch.uint8, torch.int8)
        ),
    ],
)
def test_arg_reductions_find_the_first(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.argmax(1), x.argmin(1), x.argmax(0), x.argmin(0), x.argmax()

    compiled = compiled_of(function)
    for size in SIZES:
        x = rows(size, dtype)
        for actual, expected in zip(compiled(x), function(x), strict=True):
            assert torch.equal(actual, expected), size


def test_maximum_with_its_index() -> None:
    compiled = compiled_of(lambda x: (*x.max(1), *x.min(1)))
    for size in SIZES:
        x = rows(size, torch.float32)
        actual, expected = compiled(x), (*x.max(1), *x.min(1))
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
@pytest.mark.parametrize("offset", [pytest.param(0.0, marks=pytest.mark.slow), 1000.0])
def test_variance_is_as_close_to_float64_as_eager(dim: int | tuple[int, ...], offset: float) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return torch.var_mean(x, dim, correction=0)

    compiled = compiled_of(function)
    for size in SIZES[1:]:
        x = torch.randn(37, size, generator=torch.Generator().manual_seed(size)) + offset
        for actual, eager, truth in zip(compiled(x), function(x), function(x.double()), strict=True):
            allowed = 4 * (eager - truth).abs().max() + 1e-6 * truth.abs().max()
            assert (actual - truth).abs().max() <= allowed, size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dim", [0, 1])
def test_welford(size: int, dim: int, tmp_path: Path) -> None:
    """In lanes along the reduced axis, and in lanes across it."""
    shape, kept = ((size, 37), 37) if dim == 0 else ((5, size), 5)
    tensor, result = f"tensor<{shape[0]}x{shape[1]}xf32>", f"tensor<{kept}xf32>"
    place = "%j, %i" if dim == 0 else "%i, %j"
    path = tmp_path / "welford.mlir"
    path.write_text(f"""
    func.func @main(%x: {tensor}) -> ({result}, {result}) {{
      %mean, %square = loops.nest (%i : {kept}) outs(%m: {result}, %s: {result}) {{
        %a, %b = loops.reduce welford (%j : {size}) {{
          %v = loops.load %x[{place}] : {tensor}
          loops.yield %v : f32
        }} : f32, f32
        loops.store %a, %m[%i] : {result}
        loops.store %b, %s[%i] : {result}
      }}
      func.return %mean, %square : {result}, {result}
    }}""")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(size)) * 3 + 50
    mean, square = load(path)(x)
    truth = x.double()
    # One rounding of the mean a step, in a random direction; M2 sees differences, of which the mean's error is a part.
    error = 2.0**-24 * (4 + 2 * math.sqrt(size))
    torch.testing.assert_close(mean, truth.mean(dim).float(), rtol=error, atol=0)
    torch.testing.assert_close(square, (truth.var(dim, correction=0) * size).float(), rtol=50 * error, atol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "dim"), [((512, 2000), 0), ((64, 33), 0), ((4096, 256), 0), ((8, 100_000), 1), ((40, 3000), 1)]
)
def test_long_sums_are_as_accurate_as_eagers(sizes: tuple[int, int], dim: int) -> None:
    """Eager adds up in pieces, and pieces of pieces. The rms over many sums is no matter of luck."""
    compiled = compiled_of(lambda x: x.sum(dim))
    ours = eagers = 0.0
    for seed in range(4):
        x = torch.randn(sizes, generator=torch.Generator().manual_seed(seed))
        truth = x.double().sum(dim)
        ours += float((compiled(x) - truth).square().mean())
        eagers += float((x.sum(dim) - truth).square().mean())
    assert math.sqrt(ours / eagers) < 1.5
