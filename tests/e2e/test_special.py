"""Special functions, shifts and searches, compiled against eager and float64."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import pytest
import torch

import cuesta
from cuesta.lowering.aten import series
from cuesta.testing import assert_close_to_float64
from tests.support.differential import check

pytestmark = pytest.mark.slow

nan, inf = torch.nan, torch.inf
WIDE = torch.cat([torch.linspace(-8, 12, 2001) + 3e-4, torch.tensor([0.0, -0.0, -1.0, inf, nan, 1e-20, 1e20])])
UNIT = torch.cat([torch.linspace(-1, 1, 2001), torch.tensor([1e-30, 1 - 6e-8, 6e-8 - 1, 2.0, nan])])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (torch.digamma, WIDE),
        (lambda x: torch.polygamma(1, x), WIDE),
        (torch.erfinv, UNIT),
        (torch.special.entr, WIDE),
        (torch.digamma, torch.linspace(0.1, 9, 300).requires_grad_()),
        (torch.erfinv, torch.linspace(-0.99, 0.99, 300).requires_grad_()),
    ],
)
def test_special_functions(function: Callable[..., Any], x: torch.Tensor) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    assert_close_to_float64(torch.compile(function, backend="cuesta"), function, [x])
    assert not any(record.fallbacks for record in cuesta.records)


S = torch.special
POSITIVE = torch.cat([torch.linspace(0.002, 40, 2001), torch.tensor([0.0, -1.0, inf, nan, 1e-20, 1e20])])
PROBABILITIES = torch.cat([torch.linspace(0, 1, 2001), torch.tensor([1e-30, 1e-10, 1 - 6e-8, 2.0, -1.0, nan])])
OF_ONE = {
    **dict.fromkeys(
        (torch.i0, S.i0e, S.i1, S.i1e, S.erfcx, S.log_ndtr, S.modified_bessel_i0, S.modified_bessel_i1), WIDE
    ),
    **dict.fromkeys((S.bessel_j0, S.bessel_j1, S.spherical_bessel_j0), WIDE),
    **dict.fromkeys((S.bessel_y0, S.bessel_y1, S.modified_bessel_k0, S.modified_bessel_k1), POSITIVE),
    **dict.fromkeys((S.scaled_modified_bessel_k0, S.scaled_modified_bessel_k1), POSITIVE),
    S.ndtri: PROBABILITIES,
}


EAGER_IS_OFF = (S.bessel_j0, S.bessel_j1, S.bessel_y0, S.bessel_y1)
"""In double precision, too: by 5e-7 from 5 on. docs/differences.md"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [one for one in OF_ONE if one not in EAGER_IS_OFF], ids=lambda one: one.__name__)
@pytest.mark.covering
def test_functions_of_one_number(function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    """As near to the truth as eager; the truth of doubles is eager's. Of bf16 eager refuses most of them."""
    torch._dynamo.reset()
    cuesta.clear_records()
    x = OF_ONE[function].to(dtype)
    compiled = torch.compile(function, backend="cuesta")
    if dtype is torch.float64:
        torch.testing.assert_close(compiled(x), function(x), rtol=4e-14, atol=1e-15, equal_nan=True)
    elif dtype is torch.float32:
        assert_close_to_float64(compiled, function, [x])
    elif function in (torch.i0, S.i0e, S.i1, S.i1e):
        torch.testing.assert_close(compiled(x), function(x), rtol=2**-7, atol=2**-7, equal_nan=True)
    else:
        with pytest.raises(NotImplementedError, match="not implemented for 'BFloat16'"):
            function(x)
        if function is S.log_ndtr:
            return  # PyTorch takes it apart; of its parts eager has all but erfcx
        with pytest.raises(NotImplementedError, match="not implemented for 'BFloat16'"):
            compiled(x)
        return
    assert not any(record.fallbacks for record in cuesta.records)


TRUTH: dict[Any, Callable[[float], Any]] = {
    S.bessel_j0: lambda x: mpmath.besselj(0, x),
    S.bessel_j1: lambda x: mpmath.besselj(1, x),
    S.bessel_y0: lambda x: mpmath.bessely(0, x),
    S.bessel_y1: lambda x: mpmath.bessely(1, x),
    torch.i0: lambda x: mpmath.besseli(0, x) if x < 80 else mpmath.nan,
    S.modified_bessel_k1: lambda x: mpmath.besselk(1, x) if x < 80 else mpmath.nan,
    S.erfcx: lambda x: mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x),
}


@pytest.mark.parametrize("function", TRUTH, ids=lambda one: one.__name__)
def test_against_forty_digits(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Relative to the function, or to √(2/πx) where that oscillates."""
    torch._dynamo.reset()
    x = torch.cat([torch.linspace(0.01, 9, 60), torch.linspace(9, 1000, 20), torch.tensor([1e6, 1e7])]).double()
    with mpmath.workdps(40):
        truth = torch.tensor([float(TRUTH[function](mpmath.mpf(one))) for one in x.tolist()], dtype=torch.float64)
    x, truth = x[~truth.isnan()], truth[~truth.isnan()]
    size = truth.abs().maximum((2 / torch.pi / x).sqrt()) if function in EAGER_IS_OFF else truth.abs()
    compiled = torch.compile(function, backend="cuesta")
    for dtype in (torch.float64, torch.float32):  # all of them are numbers of either
        error = (compiled(x.to(dtype)).double() - truth).abs() / size
        assert error.max() < 16 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", EAGER_IS_OFF, ids=lambda one: one.__name__)
def test_where_eagers_bessel_functions_are_off(name: Any) -> None:
    x = torch.linspace(5.01, 5.4, 40, dtype=torch.float64)
    ours = torch.compile(name, backend="cuesta")(x)
    with mpmath.workdps(40):
        truth = torch.tensor([float(TRUTH[name](mpmath.mpf(one))) for one in x.tolist()], dtype=torch.float64)
    assert (name(x) - truth).abs().max() > 1e-8
    assert (ours - truth).abs().max() < 1e-15


@pytest.mark.parametrize("function", EAGER_IS_OFF, ids=lambda one: one.__name__)
def test_bessel_functions_at_the_edges(function: Any) -> None:
    x = torch.tensor([0.0, -0.0, -1.0, inf, -inf, nan, -3.0])
    torch.testing.assert_close(torch.compile(function, backend="cuesta")(x), function(x), equal_nan=True)


def _hurwitz(power: float, x: float) -> float:
    """The sum as it is defined, up to 60, and the formula of Euler and Maclaurin for the rest. (mpmath's own is off by
    1e-13 of high powers.)
    """
    with mpmath.workdps(60):
        total, at = mpmath.mpf(0), mpmath.mpf(x)
        while at < 60:
            total, at = total + mpmath.power(at, -power if at > 0 else -int(power)), at + 1
        total += at ** (1 - power) / (power - 1) + at**-power / 2
        for j in range(1, 16):
            factor = mpmath.bernoulli(2 * j) / mpmath.factorial(2 * j) * mpmath.rf(power, 2 * j - 1)
            total += factor * at ** (1 - power - 2 * j)
        return float(total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_zeta(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    compiled = torch.compile(S.zeta, backend="cuesta", fullgraph=True)
    places = (0.01, 0.5, 1.0, 2.3, 9.5, 33.0, 120.0)
    positive = [(p, x) for p in (1.001, 1.5, 2.0, 3.0, 7.0, 10.5, 21.0, 33.0) for x in places]
    negative = [(p, x) for p in (2.0, 3.0, 7.0, 8.0) for x in (-0.1, -0.5, -1.5, -2.3, -9.75, -30.125)]
    power, x = torch.tensor([*positive, *negative], dtype=dtype).unbind(-1)
    pairs = zip(power.tolist(), x.tolist(), strict=True)
    truth = torch.tensor([_hurwitz(*pair) for pair in pairs], dtype=torch.float64)
    held = truth.abs() < torch.finfo(dtype).max
    actual, truth = compiled(power, x)[held], truth[held].to(dtype)
    smallest = torch.finfo(dtype).tiny
    torch.testing.assert_close(actual, truth, rtol=4e-6 if dtype is torch.float32 else 3e-14, atol=smallest)
    edges = torch.tensor([1.0, 0.5, -2.0, nan, 2.0, 2.5, 3.0, 2.0, 300.0], dtype=dtype)
    beside = torch.tensor([2.0, 2.0, 2.0, 2.0, -3.0, -0.5, 0.0, nan, 20.0], dtype=dtype)
    torch.testing.assert_close(compiled(edges, beside), S.zeta(edges, beside), equal_nan=True)
    assert not any(record.fallbacks for record in cuesta.records)


def _gamma_arguments() -> tuple[torch.Tensor, torch.Tensor]:
    """Small, middling and large a with x below, about and above; both sides of where one formula ends."""
    quotients = (0.02, 0.2, 0.309, 0.311, 0.7, 0.95, 1.0, 1.05, 1.3, 1.8, 2.34, 2.36, 4.0, 30.0)
    below_two = [(a, x) for a in (1e-9, 1e-3, 0.1, 0.5, 0.99, 1.01, 1.4) for x in (1e-12, 1e-3, 0.4, 1.0, 1.499, 1.501)]
    others = [(a, a * q) for a in (2.5, 7.0, 15.99, 16.0, 40.0, 199.0, 900.0) for q in quotients]
    a, x = torch.tensor([*below_two, *others], dtype=torch.float64).unbind(-1)
    return a, x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_incomplete_gamma(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    compiled = torch.compile(lambda a, x: (torch.igamma(a, x), S.gammaincc(a, x)), backend="cuesta", fullgraph=True)
    a, x = (one.to(dtype) for one in _gamma_arguments())
    lower, upper = compiled(a, x)
    with mpmath.workdps(40):
        pairs = list(zip(map(mpmath.mpf, a.tolist()), map(mpmath.mpf, x.tolist()), strict=True))
        truth = [float(mpmath.gammainc(*pair[:1], 0, pair[1], regularized=True)) for pair in pairs]
        rest = [float(mpmath.gammainc(*pair, mpmath.inf, regularized=True)) for pair in pairs]
    unit = torch.finfo(dtype).eps
    for actual, exact in ((lower, truth), (upper, rest)):
        wanted = torch.tensor(exact, dtype=torch.float64)
        # A power is off by its exponent's digits: those of the result's logarithm.
        units = 0.51 if dtype is not torch.float64 else 32 + 4 * wanted.clamp(min=1e-300).log().abs()
        error = (actual.double() - wanted).abs()
        seen = wanted > torch.finfo(dtype).tiny
        assert (error <= units * unit * wanted.abs())[seen].all(), (error / wanted / unit)[seen].max()
        assert (actual[~seen] <= torch.finfo(dtype).tiny).all()
    assert not any(record.fallbacks for record in cuesta.records)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_edges_of_incomplete_gamma(dtype: torch.dtype) -> None:
    """Which of zeros, infinities, NaN and negative numbers counts first."""
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, inf, -inf, nan], dtype=dtype)
    a, x = edges[:, None].expand(8, 8).contiguous(), edges.repeat(8, 1)
    for function in (torch.igamma, torch.igammac):
        actual = torch.compile(function, backend="cuesta", fullgraph=True)(a, x)
        torch.testing.assert_close(actual, function(a, x), equal_nan=True, rtol=2e-6, atol=0)


def test_the_gradient_of_incomplete_gamma() -> None:
    a, x = torch.linspace(0.1, 60, 200, dtype=torch.float64), torch.linspace(0.05, 80, 200, dtype=torch.float64)
    x.requires_grad_()
    compiled = torch.compile(torch.igamma, backend="cuesta", fullgraph=True)
    (actual,) = torch.autograd.grad(compiled(a, x).sum(), x)
    density = torch.exp((a - 1) * x.detach().log() - x.detach() - a.lgamma())
    torch.testing.assert_close(actual, density, rtol=1e-12, atol=0)


@pytest.mark.parametrize("order", [2, 3, 5, 10, 13, 20])
def test_derivatives_of_digamma(order: int) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    x = torch.cat([torch.linspace(-6.4, 30, 1501) + 1e-3, torch.tensor([0.0, -0.0, -3.0, inf, nan, 1e-3, 1e3])])

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.polygamma(order, x)

    compiled = torch.compile(function, backend="cuesta")
    torch.testing.assert_close(compiled(x.double()), function(x.double()), rtol=4e-12, atol=1e-300, equal_nan=True)
    torch.testing.assert_close(compiled(x), function(x), rtol=4e-5, atol=1e-36, equal_nan=True)
    assert not any(record.fallbacks for record in cuesta.records)


ENDS = torch.tensor(
    [
        0.0,
        -0.0,
        1,
        -1,
        2,
        0.5,
        3.7,
        1e-45,
        -1e-40,
        5e-324,
        1e-310,
        65504,
        1e30,
        inf,
        -inf,
        nan,
        2.0**-126,
        2.0**-1022,
        6e-8,
    ],
    dtype=torch.float64,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_numbers_by_their_bits(dtype: torch.dtype) -> None:
    """Exactly, with the signs of zeros."""
    torch._dynamo.reset()
    cuesta.clear_records()
    x = ENDS.to(dtype).repeat_interleave(len(ENDS))
    y = ENDS.to(dtype).repeat(len(ENDS))

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.nextafter(x, y), *torch.frexp(x), torch.ldexp(y, x.nan_to_num(3, 9, -9).to(torch.int32) % 20)]

    ours = torch.compile(function, backend="cuesta", options={"verify": "each"})(x, y)
    for result, expected in zip(ours, function(x, y), strict=True):
        assert result.dtype is expected.dtype
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(result.signbit() & (result == 0), expected.signbit() & (expected == 0))
    assert not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("exponent", [torch.float32, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_powers_of_two_that_are_no_whole_numbers(dtype: torch.dtype, exponent: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    ends = ENDS.to(dtype)
    y = torch.tensor([0.5, -3.25, 7, 40, 130, -150, 1030, 0, inf, -inf, nan], dtype=torch.float64)
    y = (y.nan_to_num(1, 9, 2) if exponent is torch.uint8 else y).to(exponent)
    x, y = ends.repeat_interleave(len(y)), y.repeat(len(ends))
    ours, theirs = torch.compile(torch.ldexp, backend="cuesta")(x, y), torch.ldexp(x, y)
    assert ours.dtype is theirs.dtype
    eps = torch.finfo(ours.dtype).eps
    torch.testing.assert_close(ours, theirs, rtol=4 * eps, atol=torch.finfo(ours.dtype).tiny * eps, equal_nan=True)
    assert not cuesta.records[-1].fallbacks


def test_the_series_are_what_their_script_writes() -> None:
    script: Any = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "fit_special_functions.py"))
    script["m"].mp.dps = 40
    for name, (_, coefficients) in script["tables"]().items():
        known = getattr(series, name)
        assert (
            len(known) == len(coefficients)
            and max(abs(a - b) for a, b in zip(known, coefficients, strict=True)) < 1e-17
        )


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_shifts_and_searches(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    x, distance = torch.randint(0, 100, (4, 33)).to(dtype), torch.randint(0, 70, (4, 33)).to(dtype)
    table = x[0].sort()[0]

    def function(x: torch.Tensor, distance: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x << distance, x >> distance, (x << 2) ^ (x >> 3), torch.bucketize(distance, table) + 1

    check(function, x, distance, table)
    assert not any(record.fallbacks for record in cuesta.records)
