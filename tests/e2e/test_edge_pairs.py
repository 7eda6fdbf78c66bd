"""All pairs of edge values through every pointwise operator: eager's results, or a row of docs/differences.md."""

from __future__ import annotations

import pytest
import torch

import cuesta
from tests.conformance.harness import compiled
from tests.support.differential import compiled_of
from tests.support.edge_pairs import Case, differences

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64

BESSEL = {
    *(f"special_bessel_{name}" for name in ("j0", "j1", "y0", "y1")),
    *(f"special_{scaled}modified_bessel_{name}" for scaled in ("", "scaled_") for name in ("i0", "i1", "k0", "k1")),
    *(
        "i0",
        "special_i0e",
        "special_i1",
        "special_i1e",
        "special_spherical_bessel_j0",
        "special_erfcx",
        "special_ndtri",
    ),
}

GAMMA = {"igamma", "igammac"}

POLYNOMIALS = {
    *(f"special_{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
}

KNOWN: dict[torch.dtype, set[str]] = {
    f16: {"sigmoid_backward", "special_i1", *GAMMA},
    bf16: {"fmax", "fmin", *GAMMA},
    f32: {"digamma", "gelu_backward", "mish_backward", "special_zeta", *GAMMA, *BESSEL, *POLYNOMIALS},
    f64: {
        *BESSEL,
        *GAMMA,
        *POLYNOMIALS,
        *("digamma", "erfinv", "gelu", "gelu_backward", "hardsigmoid_backward", "mish_backward", "polygamma"),
        *("special_xlog1py", "special_zeta"),
    },
}
"""Rows of docs/differences.md; `test_differences.py` pins them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [pytest.param(one, id=str(one), marks=() if one is f32 else pytest.mark.thorough) for one in KNOWN]
)
def test_every_pointwise_operator(dtype: torch.dtype) -> None:
    """Without Dynamo, whose guards take as long as all the rest: what it adds, `test_arithmetic` goes through.

    In the other types by `make test-thorough`: numbers of 16 bits are computed in f32 and rounded, as `test_arithmetic`
    looks at for the commonest operators.
    """
    found = differences(dtype, compile_it=compiled)
    unknown = [line for operator, lines in found.items() if operator not in KNOWN[dtype] for line in lines]
    assert not unknown, "\n".join(unknown)


ARITHMETIC = {
    *("add", "addcdiv", "addcmul", "div", "floor_divide", "fmod", "lerp", "maximum", "mul", "remainder", "rsub"),
    *("sub", "copysign", "clamp", "heaviside", "sign", "trunc", "round"),
}


@pytest.mark.parametrize("dtype", [bf16, f32], ids=str)
def test_arithmetic(dtype: torch.dtype) -> None:
    """The part that is quick."""

    def chosen(case: Case) -> bool:
        return case.name in ARITHMETIC and case.overload._overloadname in ("default", "Tensor", "Tensor_mode")

    assert differences(dtype, chosen) == {}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_signs_of_complex_numbers(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    values = [0.0, -0.0, 1.0, -2.0, 1e-30, torch.inf, -torch.inf, torch.nan]
    numbers = torch.tensor([complex(real, imaginary) for real in values for imaginary in values], dtype=dtype)
    expected, result = torch.sgn(numbers), compiled_of(torch.sgn)(numbers)
    for part in (torch.real, torch.imag):
        torch.testing.assert_close(part(result), part(expected), rtol=0, atol=0, equal_nan=True)
        assert torch.equal(part(result).signbit(), part(expected).signbit()) or part(expected).isnan().any()


def test_a_divisor_that_is_one_number_keeps_its_digits() -> None:
    """Then eager divides in f32, and rounds once."""
    torch._dynamo.reset()
    x = torch.randn(4000, dtype=f64).mul(30).to(bf16)
    for divisor in (0.3, torch.tensor(0.3, dtype=bf16), torch.full((4000,), 0.3, dtype=bf16)):

        def function(x: torch.Tensor, divisor: float | torch.Tensor) -> list[torch.Tensor]:
            return [torch.div(x, divisor, rounding_mode=mode) for mode in ("trunc", "floor", None)]

        for result, expected in zip(compiled_of(function)(x, divisor), function(x, divisor), strict=True):
            assert torch.equal(result, expected)
