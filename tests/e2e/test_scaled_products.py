"""Products whose sum, or what is added to it, is multiplied by a number: `addmm`, `baddbmm` with `alpha` and `beta`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import Tensor

import cuesta
from cuesta.targets.cpu import facts
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.products import product_plans
from tests.fuzz.test_programs import COMMON, EXAMPLES
from tests.support.triton_interpreter import interpreted_cuda
from tests.targets.triton.test_convolved_products import calls_in, until

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
FACTORS: list[float] = [1, 2, -1, 0.5, 0.37, 3.0, 1e-3]
NONE_OF_IT = 0


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever machine, as on one where products are nests wherever they can be."""
    monkeypatch.setattr(facts, "facts_of_products", lambda: {"products": 1.4, "products_bf16": 1.1})
    monkeypatch.setattr(facts, "facts_of_onednn", dict)
    torch._dynamo.reset()
    cuesta.clear_records()


def compiled_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False, options={"cache": False})


def library_calls() -> int:
    return sum(record.library_calls for record in cuesta.records)


def product(batch: int, alpha: float, beta: float, relu: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        y = (torch.baddbmm if batch else torch.addmm)(c, a, b, alpha=alpha, beta=beta)
        return torch.relu(y) - 1 if relu else y

    return function


@pytest.mark.parametrize("alpha", [0.5, -2])
@pytest.mark.parametrize("beta", [NONE_OF_IT, 0.0, 3, -0.37])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.covering(2)
def test_on_a_processor(dtype: torch.dtype, alpha: float, beta: float, relu: bool) -> None:
    """In blocks; what is taken 0 times is NaN and infinite here."""
    for batch, around in ((0, ()), (3, (3,))):
        c, a, b = (torch.randn(size).to(dtype) for size in ((96,), (*around, 200, 64), (*around, 64, 96)))
        if not beta:
            c[:2] = torch.tensor([torch.nan, torch.inf])
        function = product(batch, alpha, beta, relu)
        torch._dynamo.reset()
        assert_close_to_float64(compiled_of(function), function, [c, a, b])
    assert library_calls() == 0


@pytest.mark.parametrize("beta", [NONE_OF_IT, -0.37])
def test_of_one_row_with_a_large_matrix(beta: float) -> None:
    c, a, w = torch.randn(1024), torch.randn(1, 1024), torch.randn(1024, 1024)
    if not beta:
        c[:] = torch.nan

    def function(c: Tensor, a: Tensor, w: Tensor) -> Tensor:
        return torch.relu(torch.addmm(c, a, w.t(), alpha=0.5, beta=beta))

    assert_close_to_float64(compiled_of(function), function, [c, a, w])
    assert library_calls() == 0


def test_a_sum_that_is_taken_0_times_is_what_the_library_makes_of_it() -> None:
    """Of NaN 0 or NaN, by the library and its sizes."""
    a = torch.full((64, 64), torch.nan)

    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.addmm(b, a, b, alpha=0).relu()

    b = torch.randn(64, 64)
    assert torch.equal(compiled_of(function)(a, b), function(a, b))
    assert library_calls() == 1


@pytest.mark.parametrize("name", ["addmm", "sub", "rsub"])
def test_gradients(name: str) -> None:
    """The backward pass of what is scaled; and differences of products, which are accumulated."""
    values = [torch.randn(size, requires_grad=True) for size in ((64, 64), (64, 64), (64, 64))]

    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if name == "addmm":
            return torch.addmm(c, a, b, alpha=-0.5, beta=2).tanh()
        return torch.sub(c @ a, a @ b, alpha=3) if name == "sub" else torch.sub(a @ b, c @ a, alpha=0.25) - c @ b

    assert_close_to_float64(compiled_of(function), function, values)


def check(one: tuple[int, int, int, int, torch.dtype, float, float, str, bool]) -> None:
    """On a processor and, by Triton's interpreter, on a GPU."""
    note(str(one))
    batch, rows, columns, points, dtype, alpha, beta, added, relu = one
    sizes = {"row": (columns,), "matrix": (rows, columns), "column": (rows, 1), "number": (1,)}[added]
    around = (batch,) if batch else ()
    c, a, b = (torch.randn(size).to(dtype) for size in (sizes, (*around, rows, points), (*around, points, columns)))
    if not beta:
        c.view(-1)[0] = torch.nan
    function = product(batch, alpha, beta, relu)
    torch._dynamo.reset()
    with patch.object(facts, "facts_of_products", lambda: {"products": 1.4, "products_bf16": 1.1}):
        assert_close_to_float64(compiled_of(function), function, [c, a, b])
    with (
        patch.object(product_plans, "SURE", 0.0),
        patch.object(product_plans, "_is_in_steps", lambda *_: True),
        interpreted_cuda() as programs,
    ):
        assert_close_to_float64(compiled_of(function), function, [c, a, b])
        is_nest = (relu or dtype == torch.float32) and min(rows, columns, points) > 1
        assert bool(calls_in(until(programs[-1], "choose-products"))) is not is_nest


SCALED = st.tuples(
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([1, 2, 17, 64]),
    st.sampled_from([1, 3, 32, 48]),
    st.sampled_from([1, 2, 24, 65]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.sampled_from(FACTORS),
    st.sampled_from([NONE_OF_IT, *FACTORS]),
    st.sampled_from(["row", "matrix", "column", "number"]),
    st.booleans(),
)


@settings(max_examples=12, derandomize=True, database=None, **COMMON)
@given(SCALED)
def test_a_few_drawn_ones(one: tuple[int, int, int, int, torch.dtype, float, float, str, bool]) -> None:
    check(one)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(SCALED)
def test_drawn_ones(one: tuple[int, int, int, int, torch.dtype, float, float, str, bool]) -> None:
    check(one)


def test_attention_of_scaled_products_is_one_nest() -> None:
    """As older transformers write it; nobody reads the memory that `baddbmm` is given."""
    q, k, v = (torch.randn(1, 256, 32).bfloat16() for _ in range(3))
    none = torch.full((1, 256, 256), torch.nan).bfloat16()

    def attention(q: Tensor, k: Tensor, v: Tensor, none: Tensor) -> Tensor:
        scores = torch.baddbmm(none, q, k.transpose(1, 2), beta=0, alpha=32**-0.5)
        return torch.baddbmm(none[..., :32], scores.softmax(-1), v, beta=0, alpha=2.5)

    with interpreted_cuda() as programs:
        assert_close_to_float64(compiled_of(attention), attention, [q, k, v, none])
    assert not calls_in(until(programs[-1], "join-products"))
