"""Orthogonal polynomials of a degree that is a number: eager's to the last bit where both go by the recurrence, and
near the truth where they are functions of an angle.
"""

from __future__ import annotations

from typing import Any, Final

import mpmath
import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.dialects import host
from cuesta.lowering.aten.orthogonal_polynomials import FORMULAS, HIGHEST
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

pytestmark = pytest.mark.slow

CHEBYSHEV: Final = [name for name in FORMULAS if "chebyshev" in name]
FEW: Final = (-1, 0, 1, 2, 3, 4, 2.9)
MANY: Final = (5, 9, 20, HIGHEST)
inf, nan = torch.inf, torch.nan


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def of_degrees(name: str, degrees: tuple[float, ...]) -> Any:
    function = getattr(torch.special, name)
    return lambda x: [function(x, degree) for degree in degrees]


def compiled(name: str, degrees: tuple[float, ...]) -> Any:
    return torch.compile(of_degrees(name, degrees), backend="cuesta", dynamic=False)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{dtype}", marks=pytest.mark.thorough if is_last else ())
        for number, name in enumerate(FORMULAS)
        for dtype in (torch.float32, torch.float64, torch.int64)
        for is_last in [dtype is torch.int64 and number % 4 > 0]
    ],
)
@pytest.mark.every(2)
def test_by_the_recurrence(name: str, dtype: torch.dtype) -> None:
    """Outside of the interval Chebyshev's of all degrees are. Of integers, which are made floats, every fourth one."""
    numbers = torch.linspace(-3, 3, 601).double()
    x = torch.cat([numbers, torch.tensor([0.0, -0.0, 1e-40, 1e30, inf, -inf]).double()])
    x = numbers.mul(9).to(dtype) if dtype is torch.int64 else x.to(dtype)
    far = x[(x.abs() > 1) & ~((x >= 0) & (x <= 1))] if name in CHEBYSHEV else x
    for values, degrees in ((x, FEW), (far, MANY)):
        for ours, theirs in zip(compiled(name, degrees)(values), of_degrees(name, degrees)(values), strict=True):
            assert ours.dtype is theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert not any(record.fallbacks for record in cuesta.records)


def truth(name: str, degree: int, x: float) -> Any:
    """Of x between −1 and 1."""
    y = 2 * mpmath.mpf(x) - 1 if name.startswith("shifted") else mpmath.mpf(x)
    angle, middle = mpmath.acos(y), degree + mpmath.mpf(1) / 2
    return {
        "t": lambda: mpmath.cos(degree * angle),
        "u": lambda: mpmath.sin((degree + 1) * angle) / mpmath.sin(angle),
        "v": lambda: mpmath.cos(middle * angle) / mpmath.cos(angle / 2),
        "w": lambda: mpmath.sin(middle * angle) / mpmath.sin(angle / 2),
    }[name[-1]]()


def inside(name: str) -> Tensor:
    """Between the ends of the interval, and near them, where nothing is lost when a shifted one is moved there."""
    x = torch.cat([torch.linspace(-1, 1, 65)[1:-1], torch.tensor([1e-3, 1 - 2**-23, 2**-23 - 1])])
    return (x + 1) / 2 if name.startswith("shifted") else x


@pytest.mark.parametrize("name", CHEBYSHEV)
def test_of_angles_against_forty_digits(name: str) -> None:
    """Off by 3n units in the last place of the greater of 1 and the polynomial."""
    x = inside(name)
    for dtype in (torch.float64, torch.float32):
        for degree, result in zip(MANY, compiled(name, MANY)(x.to(dtype)), strict=True):
            with mpmath.workdps(40):
                exact = torch.tensor([float(truth(name, degree, one)) for one in x.tolist()], dtype=torch.float64)
            error = (result.double() - exact).abs() / exact.abs().clamp_min(1)
            assert error.max() < 3 * degree * torch.finfo(dtype).eps, degree
    assert not any(record.fallbacks for record in cuesta.records)


def test_where_eager_is_off() -> None:
    """A row of docs/differences.md. What eager gives for NaN is what lay in its register."""
    x = torch.tensor([1 - 2.0**-24] * 40)
    assert (torch.special.shifted_chebyshev_polynomial_w(x, 6) == 1).all()
    torch.testing.assert_close(compiled("shifted_chebyshev_polynomial_w", (6,))(x)[0], x * 0 + 13)
    x = torch.tensor([2.0**-18 - 1] * 40)
    exact = torch.special.chebyshev_polynomial_u(x.double(), 9).float()
    assert ((torch.special.chebyshev_polynomial_u(x, 9) / exact) - 1).abs().max() > 1e-5
    torch.testing.assert_close(compiled("chebyshev_polynomial_u", (9,))(x)[0], exact, rtol=2e-6, atol=0)
    for name in FORMULAS:
        torch._dynamo.reset()  # one code object, which is compiled a few times only
        assert all(result.isnan().all() for result in compiled(name, (2, 3, 9))(torch.full((9,), nan)))


def test_degrees_that_are_left_to_eager() -> None:
    for degree in (HIGHEST + 1, 200):
        result = compiled("legendre_polynomial_p", (degree,))(torch.linspace(-1, 1, 9))[0]
        torch.testing.assert_close(result, torch.special.legendre_polynomial_p(torch.linspace(-1, 1, 9), degree))
    assert any(record.fallbacks for record in cuesta.records)
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        compiled("hermite_polynomial_h", (2,))(torch.ones(3, dtype=torch.float16))


def test_on_a_gpu() -> None:
    pytest.importorskip("triton")

    def function(x: Tensor) -> list[Tensor]:
        return [getattr(torch.special, name)(x, degree) for name in FORMULAS for degree in (3, 9)]

    x = torch.linspace(0.01, 0.99, 90)
    with interpreted_cuda() as programs:
        results = torch.compile(function, backend="cuesta", fullgraph=True)(x)
    for ours, theirs in zip(results, function(x.double()), strict=True):
        assert ((ours - theirs).abs() / theirs.abs().clamp_min(1)).max() < 2e-5
    assert programs
    for program in programs:
        assert not any(isinstance(op, host.ExternOp) for op in to_host(program).walk())
        assert_compiles(texts_of(program))
