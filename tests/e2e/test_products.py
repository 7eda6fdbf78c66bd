"""Sums of products of matrices: one product accumulated onto the other, as accurate as eager's two."""

from __future__ import annotations

import pytest
import torch

import cuesta
from cuesta.testing import assert_close_to_float64

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


@pytest.mark.usefixtures("products_are_calls")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_two_products_are_one_accumulated(dtype: torch.dtype) -> None:
    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return a @ b + c @ d

    inputs = [torch.randn(*sizes, dtype=dtype) for sizes in ((33, 70), (70, 45), (33, 20), (20, 45))]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, function, inputs)
    assert compiled(*inputs).stride() == function(*inputs).stride()
    (record,) = cuesta.records
    assert (record.kernels, record.library_calls, dict(record.fallbacks)) == (0, 2, {}), "nothing is left to add"


def test_the_gradient_of_what_is_used_three_times() -> None:
    def function(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        q, k, v = (x @ weight for weight in weights)
        return (q * k).tanh() + v

    inputs = [torch.randn(2, 9, 24, requires_grad=True), *(torch.randn(24, 24, requires_grad=True) for _ in range(3))]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, function, inputs)
    backward = next(record for record in cuesta.records if record.kind == "backward")
    assert backward.library_calls == 6 and not backward.fallbacks
    assert backward.kernels == 1, "the gradient of tanh; the three gradients of x are added up by the products"


def test_what_eager_rounds_is_rounded_when_that_is_asked_for() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b + b @ a

    a, b = torch.randn(20, 20).bfloat16(), torch.randn(20, 20).bfloat16()
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, options={"emulate_precision_casts": True})
    assert torch.equal(compiled(a, b), function(a, b))


def test_a_product_that_is_returned_keeps_its_value() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        m = a @ b
        n = torch.addmm(m, b, a)
        return m, n, n + b @ b

    inputs = [torch.randn(20, 20), torch.randn(20, 20)]
    assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)


def test_products_with_wider_results_than_factors() -> None:
    """Torch has them on a GPU alone; added up, they are rounded nowhere."""
    torch.manual_seed(0)
    a, b = torch.randn(2, 16, 32).bfloat16(), torch.randn(2, 32, 8).bfloat16()

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.mm(a[0], b[0], out_dtype=torch.float32) + torch.mm(a[1], b[1], out_dtype=torch.float32)
        return total, torch.bmm(a, b, out_dtype=torch.float32)

    torch._dynamo.reset()
    total, products = torch.compile(function, backend="cuesta")(a, b)
    truth = a.double() @ b.double()
    torch.testing.assert_close(products, truth.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(total, truth.sum(0).float(), rtol=1e-5, atol=1e-5)
