"""Random numbers on a CUDA device: what a seed repeats, what eager draws afterwards, how they are distributed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import cuesta
from benchmarks.attention import P, case_of, error_of, key_of
from benchmarks.attention_cases import Dropped
from cuesta.targets.reference.keyed_draws import bernoulli
from cuesta.targets.reference.random_numbers import philox

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="cuesta", fullgraph=True, options=options or None)


def test_the_words_are_those_of_the_reference() -> None:
    """`torch.randint` up to 256 keeps the upper eight bits of each word."""
    n = 4 * 64 * 50
    torch.manual_seed(11)
    drawn = compiled(lambda: torch.randint(0, 256, (n,), device="cuda"))().cpu()
    torch.manual_seed(11)
    key = torch.randint(-(2**63), 2**63 - 1, (1,), device="cuda").cpu()
    counter = torch.arange(n // 4) + (1 << 40)
    expected = torch.cat([word >> 24 for word in philox(key, counter)])
    assert torch.equal(drawn, expected)


def test_seeds_and_what_eager_draws_next() -> None:
    function = compiled(lambda x: (torch.rand_like(x), torch.randn_like(x)))
    x = torch.empty(1000, device="cuda")
    torch.manual_seed(1)
    first, after = function(x), torch.rand(5, device="cuda")
    torch.manual_seed(1)
    again, after_again = function(x), torch.rand(5, device="cuda")
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]) and torch.equal(after, after_again)
    torch.manual_seed(1)
    assert not torch.equal(torch.rand(5, device="cuda"), after)
    assert not torch.equal(function(x)[0], function(x)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_forward_and_backward(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Tensor:
        return functional.dropout(functional.silu(x) + 3, 0.2, True) * 2

    x = torch.rand(1000, 777, device="cuda", dtype=dtype, requires_grad=True)
    y = compiled(function)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert abs(float((y == 0).double().mean()) - 0.2) < 0.005
    assert torch.equal(y == 0, gradient == 0)
    expected = ((functional.silu(x.float()) + 3) * 2 / 0.8).to(dtype)
    torch.testing.assert_close(y[y != 0], expected[y != 0])
    forward, backward = cuesta.records
    assert set(forward.fallbacks) <= {"aten.randint.low"} and not backward.fallbacks


def test_distributions() -> None:
    def function() -> tuple[Tensor, ...]:
        def empty() -> Tensor:
            return torch.empty(1_000_000, device="cuda")

        return (
            torch.rand(1_000_000, device="cuda"),
            torch.randn(1_000_000, device="cuda"),
            empty().exponential_(2.0),
            empty().uniform_(-1.0, 3.0),
            torch.randn(500_000, device="cuda", dtype=torch.float64),
        )

    uniform, normal, exponential, shifted, wide = (x.double().cpu() for x in compiled(function)())
    for x, cumulative in (
        (uniform, uniform.sort().values),
        (normal, torch.special.ndtr(normal.sort().values)),
        (exponential, 1 - torch.exp(-2 * exponential.sort().values)),
        (shifted, (shifted.sort().values + 1) / 4),
        (wide, torch.special.ndtr(wide.sort().values)),
    ):
        steps = torch.arange(len(x), dtype=torch.float64) / len(x)
        assert float((cumulative - steps).abs().max()) < 2.5 / len(x) ** 0.5


def test_eagers_own_stream_when_asked_for() -> None:
    function = compiled(lambda x: torch.rand_like(x) * 2, random="eager")
    x = torch.empty(100, device="cuda")
    torch.manual_seed(4)
    ours = function(x)
    torch.manual_seed(4)
    assert torch.equal(ours, torch.rand_like(x) * 2)


@pytest.mark.parametrize("length", [512, 777])
def test_dropout_between_products_is_drawn_again(length: int) -> None:
    """By the key that is saved: result and gradients are those of one mask, which nobody stores."""
    case = replace(case_of("causal+dropout", length, 64, batch=2), heads=3)
    inputs = [one.requires_grad_() for one in case.inputs("cuda")]
    result = compiled(case)(*inputs)
    saved: Any = getattr(result.grad_fn, "saved_tensors")  # noqa: B009
    assert all(one.numel() < 2 * 3 * length * length for one in saved)
    mask = bernoulli(key_of(result), [2, 3, length, length], 1 - P, 1)
    given = torch.randn_like(result)
    ours = [result, *torch.autograd.grad(result, inputs, given)]
    told = replace(case, weights=Dropped(P, mask))
    for kind, bound in ((torch.float32, 4e-3), (torch.bfloat16, 8e-3)):
        leaves = [one.detach().to(kind).requires_grad_() for one in inputs]
        expected = told(*leaves)
        theirs = [expected, *torch.autograd.grad(expected, leaves, given.to(kind))]
        assert all(error_of(one, other) < bound for one, other in zip(ours, theirs, strict=True))
