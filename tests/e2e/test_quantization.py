"""Quantise, dequantise and fake quantisation: each joins the kernel around it, and gives what eager gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from torch import Tensor
from torch._dynamo.exc import TorchRuntimeError

import cuesta
from tests.support.differential import check, check_call, compiled_of

decomposed: Any = torch.ops.quantized_decomposed
aten: Any = torch.ops.aten
LEVELS = (-128, 127)
INT8 = (*LEVELS, torch.int8)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def numbers(*sizes: int) -> Tensor:
    """Numbers of which many are half way between two levels of 0.05, or beyond all."""
    x = torch.randint(-400, 400, sizes) * 0.025
    return x + torch.randn(sizes) * (torch.rand(sizes) < 0.5)


def integers(*sizes: int) -> Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8)


def scales(*sizes: int) -> Tensor:
    return torch.rand(sizes) * 0.1 + 0.01


def zeros(*sizes: int) -> Tensor:
    return torch.randint(-5, 6, sizes)


ONE, ZERO = torch.tensor(0.05), torch.tensor(3)


def assert_generated(most: int = 3) -> None:
    """The reciprocals of scales may be a kernel of their own, and large extremes have parts."""
    record = list(cuesta.records)[-1]
    assert record.kernels <= most and not record.fallbacks


EXPORTED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]]]] = {
    "quantize": (lambda x: decomposed.quantize_per_tensor(x * 2, 0.05, 3, *INT8), lambda: (numbers(8, 33),)),
    "quantize.tensor": (
        lambda x, s, z: decomposed.quantize_per_tensor.tensor(x * 2, s, z, *INT8),
        lambda: (numbers(8, 33), ONE.reshape(1), ZERO.reshape(1)),
    ),
    "dequantize": (
        lambda x: decomposed.dequantize_per_tensor(x, 0.05, 3, *INT8) * 2,
        lambda: (integers(8, 33),),
    ),
    "dequantize.tensor": (
        lambda x, s, z: decomposed.dequantize_per_tensor.tensor(x, s, z, *INT8, out_dtype=torch.bfloat16) * 2,
        lambda: (integers(8, 33), ONE.double(), ZERO),
    ),
    "there and back": (
        lambda x: decomposed.dequantize_per_tensor(
            decomposed.quantize_per_tensor(x.relu(), 0.05, 3, *INT8), 0.05, 3, *INT8
        ),
        lambda: (numbers(8, 33),),
    ),
    "quantize_per_channel": (
        lambda x, s, z: decomposed.quantize_per_channel(x * 2, s, z, 1, 0, 255, torch.uint8),
        lambda: (numbers(3, 8, 5), scales(8), zeros(8)),
    ),
    "dequantize_per_channel": (
        lambda x, s, z: decomposed.dequantize_per_channel(x, s, z, 0, *INT8) * 2,
        lambda: (integers(8, 33), scales(8), zeros(8)),
    ),
    "dequantize_per_channel without zero": (
        lambda x, s: decomposed.dequantize_per_channel(x, s, None, 0, *INT8) * 2,
        lambda: (integers(8, 33), scales(8)),
    ),
    "quantize_per_token": (
        lambda x, s, z: decomposed.quantize_per_token(x * 2, s, z, *INT8),
        lambda: (numbers(4, 6, 32), scales(4, 6, 1), zeros(4, 6, 1)),
    ),
    "dequantize_per_token": (
        lambda x, s, z: decomposed.dequantize_per_token(x, s, z, *INT8, torch.float32) * 2,
        lambda: (integers(4, 6, 32), scales(4, 6, 1).double(), zeros(4, 6, 1)),
    ),
    "quantize_per_channel_group": (
        lambda x, s, z: decomposed.quantize_per_channel_group(x * 2, s, z, -8, 7, torch.int8, 16),
        lambda: (numbers(8, 32), scales(8, 2), zeros(8, 2)),
    ),
    "dequantize_per_channel_group": (
        lambda x, s, z: decomposed.dequantize_per_channel_group(x, s, z, *INT8, 16, torch.float32) * 2,
        lambda: (integers(8, 32), scales(8, 2), zeros(8, 2)),
    ),
    "choose_qparams": (
        lambda x: decomposed.choose_qparams.tensor(x * 2, *LEVELS, 1e-5, torch.int8),
        lambda: (numbers(8, 33),),
    ),
    "choose_qparams_symmetric": (
        lambda x: decomposed.choose_qparams_symmetric.tensor(x * 2, 0, 255, 1e-5, torch.uint8),
        lambda: (numbers(8, 33),),
    ),
    "choose_qparams_per_token_asymmetric": (
        lambda x: decomposed.choose_qparams_per_token_asymmetric(x * 2, torch.int8),
        lambda: (numbers(8, 33),),
    ),
}


@pytest.mark.parametrize("name", ["there and back", "dequantize_per_channel_group"])
def test_it_joins_its_neighbours(name: str) -> None:
    function, inputs = EXPORTED[name]
    check(function, *inputs(), truth=False)
    assert_generated(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.every(2)
def test_operators_of_exported_programs(name: str) -> None:
    function, inputs = EXPORTED[name]
    given = inputs()
    check(function, *given, truth=False)
    assert_generated()
    torch._dynamo.reset()
    check(function, *given, truth=False, dynamic=True)
    check(function, given[0].transpose(0, -1).contiguous().transpose(0, -1), *given[1:], truth=False)


def test_channels_come_first_where_memory_does_not_say_how_a_result_lies() -> None:
    """Of rows that are one in memory, as in eager."""
    scale, zero = scales(5), zeros(5)
    back = lambda x: decomposed.dequantize_per_channel(x, scale, zero, 1, *INT8)  # noqa: E731
    there = lambda x: decomposed.quantize_per_channel(x, scale, zero, 1, *INT8)  # noqa: E731
    check(back, integers(1, 5).expand(3, 5), truth=False)
    check(there, numbers(1, 5).expand(3, 5), truth=False)


@pytest.mark.slow
def test_operators_of_exported_programs_without_elements_and_in_half_precision() -> None:
    quantize, back = EXPORTED["quantize"][0], EXPORTED["dequantize_per_channel"][0]
    check(quantize, torch.zeros(0, 4), truth=False)
    check(back, integers(8, 0), scales(8), zeros(8), truth=False)
    check(lambda x: decomposed.quantize_per_tensor(x, 0.05, 3, *INT8), numbers(8, 33).bfloat16(), truth=False)
    check(lambda x: decomposed.choose_qparams_per_token(x, torch.int8), numbers(8, 33).half(), truth=False)


@pytest.mark.slow
def test_what_eager_refuses_is_refused() -> None:
    for function in (
        lambda x: decomposed.quantize_per_tensor(x, 0.05, 3, -129, 127, torch.int8),
        lambda x: decomposed.quantize_per_tensor(x.double(), 0.05, 3, *INT8),
        lambda x: decomposed.quantize_per_channel_group(x, scales(8, 2), zeros(8, 2), *INT8, 5),
    ):
        with pytest.raises(AssertionError):
            function(numbers(8, 33))
        with pytest.raises((AssertionError, TorchRuntimeError)):
            compiled_of(function)(numbers(8, 33))


FAKED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]]]] = {
    "per tensor": (lambda x: torch.fake_quantize_per_tensor_affine(x * 2, 0.05, 3, *LEVELS) * 2, tuple),
    "per tensor, in tensors": (
        lambda x, s, z: torch.fake_quantize_per_tensor_affine(x * 2, s, z, *LEVELS) * 2,
        lambda: (ONE, ZERO.int()),
    ),
    "per channel": (
        lambda x, s, z: torch.fake_quantize_per_channel_affine(x * 2, s, z, 1, *LEVELS) * 2,
        lambda: (scales(6), zeros(6).int()),
    ),
    "per channel, zeros between levels": (
        lambda x, s, z: torch.fake_quantize_per_channel_affine(x * 2, s, z, 1, *LEVELS) * 2,
        lambda: (scales(6), zeros(6) + 0.3),
    ),
    "learnable": (
        lambda x, s, z: aten._fake_quantize_learnable_per_tensor_affine(x * 2, s, z, *LEVELS, 0.5) * 2,
        lambda: (ONE.reshape(1).clone().requires_grad_(), torch.tensor([2.7]).requires_grad_()),
    ),
    "learnable, per channel": (
        lambda x, s, z: aten._fake_quantize_learnable_per_channel_affine(x * 2, s, z, 1, *LEVELS, 0.5) * 2,
        lambda: (scales(6).requires_grad_(), (zeros(6) + 0.3).requires_grad_()),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAKED)
@pytest.mark.every(2)
def test_fake_quantization(name: str) -> None:
    function, rest = FAKED[name]
    for x in (numbers(4, 6, 7), numbers(7, 6, 4).transpose(0, 2), torch.zeros(0, 6)):
        torch._dynamo.reset()
        compiled = compiled_of(function)
        check_call(compiled, function, x.requires_grad_(), *rest(), strides=False)
        records = list(cuesta.records)[-2:]
        assert not any(record.fallbacks for record in records)
    if "learnable" not in name:
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            torch._dynamo.reset()
            check(function, numbers(4, 6, 7).to(dtype).requires_grad_(), *rest(), truth=False)


@pytest.mark.slow
def test_fake_quantization_that_is_turned_off() -> None:
    def function(x: Tensor, s: Tensor, z: Tensor, enabled: Tensor) -> Any:
        operator = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        return operator(x, s, z, enabled, *LEVELS)

    compiled = compiled_of(function)
    for enabled in (0, 1):
        check_call(compiled, function, numbers(4, 6), ONE, ZERO.int(), torch.tensor([enabled]))


@pytest.mark.slow
def test_fake_quantization_of_what_is_no_number() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30] * 5)
    check(lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.05, 3, *LEVELS), x, truth=False)


@pytest.mark.parametrize("sizes, strides", [((4, 1), (1, 1)), ((4, 17), (1, 1)), ((3, 3), (3, 1)), ((1, 4), (4, 1))])
def test_products_of_integers_that_lie_oddly(sizes: tuple[int, int], strides: tuple[int, int]) -> None:
    x = integers(100, 2).flatten().as_strided(sizes, strides)
    product = compiled_of(lambda x: aten._int_mm(x, x.t()))(x)
    assert torch.equal(product, (x.long() @ x.long().t()).int())


@pytest.mark.slow
@pytest.mark.usefixtures("products_are_calls")
def test_products_of_integers_stay_with_the_library() -> None:
    def integer(a: Tensor, b: Tensor, s: Tensor) -> Tensor:
        a8 = decomposed.quantize_per_tensor(a, 0.05, 0, *INT8)
        return (aten._int_mm(a8, b).float() * s).relu()

    check(integer, numbers(32, 16), integers(16, 8), scales(8), truth=False)
    record = list(cuesta.records)[-1]
    assert (record.kernels, record.library_calls, dict(record.fallbacks)) == (2, 1, {})

    def packed(a: Tensor, b: Tensor, s: Tensor) -> Tensor:
        return torch.relu(aten._weight_int8pack_mm(a, b, s))

    check(packed, torch.randn(32, 16).bfloat16(), integers(8, 16), scales(8).bfloat16(), truth=False)
    record = list(cuesta.records)[-1]
    assert (record.kernels, record.library_calls, dict(record.fallbacks)) == (1, 1, {})

    def scaled(a: Tensor, b: Tensor, s: Tensor) -> Tensor:
        return torch.relu(aten._scaled_mm(a, b, s, s, out_dtype=torch.bfloat16))

    a, b = (torch.randn(16, 16).to(torch.float8_e4m3fn) for _ in range(2))
    torch.testing.assert_close(compiled_of(scaled)(a, b.t(), ONE), scaled(a, b.t(), ONE))
    record = list(cuesta.records)[-1]
    assert (record.kernels, record.library_calls, dict(record.fallbacks)) == (1, 1, {})


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "quantised": lambda x: decomposed.quantize_per_tensor(torch.addcmul(x, x, x, value=0.5).float(), 0.25, 1, *INT8),
    "fake": lambda x: torch.fake_quantize_per_tensor_affine((x * 0.7).float(), 0.125, 0, -128, 127),
    "rounded": lambda x: (x * 0.7).float().div(0.25).round(),
    "cut off": lambda x: (x * x * 0.5 + x).to(torch.int32),
    "its floor": lambda x: (x * 0.7).floor() + x,
    "a remainder": lambda x: (x * 0.7 + x) % 1,
    "floats of 8 bits": lambda x: (x * 0.7 + x).to(torch.float8_e4m3fn).float(),
}


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.covering
def test_a_level_hangs_on_what_eager_rounds(name: str, dtype: torch.dtype) -> None:
    """In chains of 16 bits only what is stored is rounded, and whatever a whole level hangs on (51012041)."""
    function = STEPS[name]
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(torch.compile(function, backend="cuesta", fullgraph=True)(x), function(x))
