"""On a CUDA device: families of operations, models, and what only a device shows. `make test-gpu` runs these."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.dialects.core.locations import print_text
from cuesta.testing import assert_close_to_float64
from tests.support import approximations
from tests.support.gpu_cases import BACKWARD, cases, ends_in_a_device_assertion
from tests.support.triton_interpreter import on_cuda, parse

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu


def assert_ours() -> None:
    """Something was launched that we generated."""
    assert sum(record.kernels for record in cuesta.records) >= 1


@pytest.mark.parametrize("name", cases())
def test_families(name: str) -> None:
    function, inputs = cases("cuda")[name]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    assert_close_to_float64(compiled, function, inputs, ulps=8.0)
    assert_ours()


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    function = BACKWARD[name]
    inputs = [torch.randn(*sizes, device="cuda", requires_grad=True) for sizes in ((17, 65), (65,))]
    assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    assert_ours()


SHAPES = [
    (1, 1),
    (3, 65535),
    (65535, 3),
    (1000, 1000),
    (7, 400_001),
    (5, 131, 129),
    (1 << 20, 8),
    (8, 1 << 20),
    (2, 3, 4, 5, 6),
]


@pytest.mark.parametrize("sizes", SHAPES)
def test_reductions_over_each_axis(sizes: tuple[int, ...]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = [x.sum(), x.amax(), x.argmax()]
        for axis in range(x.dim()):
            results += [x.sum(axis), x.amin(axis), x.argmin(axis), x.softmax(axis)]
            if x.size(axis) > 1:
                results.append(x.var(axis))
        return tuple(results)

    # A sum that is nearly 0 is as far off as its terms are large: of 720 numbers around 0 one draw in some dozens is.
    x = torch.randn(sizes, device="cuda") + 0.5
    assert_close_to_float64(
        torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False), function, [x], ulps=16.0
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "resnet"])
def test_models_forward_and_backward(name: str, dtype: torch.dtype) -> None:
    from examples.models import MODELS

    model, inputs = MODELS[name].training(dtype=dtype, device="cuda")
    # cuDNN has TF32 algorithms for one layout of images where it has none for the other, which eager uses.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert_close_to_float64(torch.compile(model, backend="cuesta"), model, inputs)
    assert_ours()


@pytest.mark.parametrize(("name", "precision"), approximations.CASES)
def test_the_error_of_an_approximation(name: str, precision: str, tmp_path: Path) -> None:
    file = tmp_path / "program.mlir"
    file.write_text(print_text(on_cuda(parse(approximations.program_of(name, precision)))))
    (result,) = cuesta.load(file)(*(operand.cuda() for operand in approximations.operands_of(name)))
    approximations.check(name, precision, result.cpu())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_functions_of_numbers_of_16_bits(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), x.tanh(), x.exp(), x.sigmoid(), x.softmax(-1)

    x = torch.cat([torch.linspace(-12, 12, 1 << 16), torch.randn(1 << 16)]).reshape(256, 512).to("cuda", dtype)
    assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, [x])
    assert_ours()


@pytest.mark.parametrize("divisor", [3.0, -49.0, 0.1, 1e-30, 7e36, 4.0])
def test_division_by_a_constant_is_correctly_rounded(divisor: float) -> None:
    bits = torch.randint(-(2**31), 2**31, (1 << 20,), device="cuda").to(torch.int32)
    x = torch.cat(
        [bits.view(torch.float32), torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], device="cuda")]
    )
    exact = torch.tensor(divisor, device="cuda")
    compiled = torch.compile(lambda x: torch.div(x, torch.full_like(x, divisor)), backend="cuesta", fullgraph=True)
    result, expected = compiled(x), (x.double() / exact.double()).float()
    normal = (x == 0) | (x.abs() >= 2.0**-100) | x.isnan()
    assert torch.equal(result[normal].nan_to_num(), expected[normal].nan_to_num())
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result[x == 0].signbit(), expected[x == 0].signbit())
    assert_ours()


WINDOWS = [(3, 2, 1), (3, 1, 1), (2, 2, 0), (4, 1, 0), (5, 1, 2), (11, 11, 0), (7, 3, 2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("size", "stride", "padding"), WINDOWS)
def test_pooling(size: int, stride: int, padding: int, dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        greatest = F.max_pool2d(x, size, stride, padding, return_indices=True)
        return *greatest, F.max_pool2d(x, size, stride, padding), F.avg_pool2d(x, size, stride, padding)

    x = torch.randint(-9, 9, (64, 32, 113, 98), device="cuda").to(dtype)  # many are equal: the first of them counts
    x[:, ::2][torch.rand(x[:, ::2].shape, device="cuda") < 0.1] = torch.nan  # of several in a window the last counts
    for format in (torch.contiguous_format, torch.channels_last):
        y = x.to(memory_format=format)
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, [y])
    assert_ours()


@pytest.mark.parametrize(("size", "stride", "padding"), WINDOWS)
def test_gradients_go_to_the_greatest_of_a_window(size: int, stride: int, padding: int) -> None:
    x = torch.randint(-9, 9, (16, 32, 113, 98), device="cuda").float()
    x[torch.rand(x.shape, device="cuda") < 0.1] = torch.nan
    function = torch.compile(lambda x: F.max_pool2d(x, size, stride, padding), backend="cuesta", fullgraph=True)
    found: list[torch.Tensor] = []
    for pooled in (function(x.requires_grad_()), F.max_pool2d(x, size, stride, padding)):
        weight = torch.arange(pooled.numel(), device="cuda").remainder(7.0).view_as(pooled)
        found += torch.autograd.grad(pooled, x, weight)
    assert torch.equal(*found)
    assert_ours()


def test_gradients_of_padded_averages_of_what_lies_channels_last() -> None:
    """Eager's own are of other windows, before torch 2.14 (pytorch/pytorch#188344); those on a CPU are right."""
    x = torch.randn(2, 2, 13, 70).contiguous(memory_format=torch.channels_last)
    gradient = torch.randn(2, 2, 13, 70)

    def pooled(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 5, 1, 2)

    def gradient_of(function: Any, device: str) -> Tensor:
        leaf = x.to(device).requires_grad_()
        (found,) = torch.autograd.grad(function(leaf), leaf, gradient.to(device))
        return found.cpu()

    expected = gradient_of(pooled, "cpu")
    ours = gradient_of(torch.compile(pooled, backend="cuesta"), "cuda")
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    if torch.__version__ < "2.14":
        assert (gradient_of(pooled, "cuda") - expected).abs().max() > 0.1, "then the row of differences.md can go"


def test_dynamic_shapes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).softmax(-1).sum(0) + y.t().contiguous().mean(1)

    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=True)
    for sizes in ((5, 7), (3, 600), (70, 33), (1000, 5000)):
        assert_close_to_float64(compiled, function, [torch.randn(sizes, device="cuda") for _ in range(2)])
    assert len(cuesta.records) == 1


def test_more_elements_than_32_bits_can_count() -> None:
    size = (1 << 31) + 1027
    x = torch.zeros(size, dtype=torch.int8, device="cuda")
    x[-3:] = torch.tensor([5, 6, 7], dtype=torch.int8, device="cuda")
    y = torch.compile(lambda x: x + 1, backend="cuesta", fullgraph=True)(x)
    assert y[-3:].tolist() == [6, 7, 8]
    assert y[:3].tolist() == [1, 1, 1]
    total = torch.compile(lambda x: x.sum(), backend="cuesta", fullgraph=True)(x)
    assert total.item() == 18
    rows = torch.compile(lambda x: x.amax(0), backend="cuesta", fullgraph=True)(x[: 1 << 31].view(1 << 27, 16))
    assert rows.amax().item() == 0
    assert_ours()


def test_an_input_that_is_not_aligned() -> None:
    memory = torch.randn(1029, device="cuda")
    compiled = torch.compile(lambda x: x * 2 + 1, backend="cuesta", fullgraph=True)
    for offset in (0, 1, 2, 4, 5):
        x = memory[offset : offset + 1024]
        assert torch.equal(compiled(x), x * 2 + 1)
    assert_ours()


def test_numbers_on_the_cpu_among_tensors_on_the_device() -> None:
    def function(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * scale).exp(), scale * 2

    inputs = [torch.randn(100, device="cuda"), torch.tensor(0.5)]
    assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)


def test_a_stream_of_the_callers() -> None:
    compiled = torch.compile(lambda x: (x * 2).softmax(-1), backend="cuesta", fullgraph=True)
    x = torch.randn(4096, 1024, device="cuda")
    compiled(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        y = torch.full((4096, 1024), 3.0, device="cuda")  # on the stream, after the wait: so must be what reads it
        result = compiled(y)
    stream.synchronize()
    assert torch.allclose(result, torch.full_like(result, 1 / 1024))


def test_a_thread_that_never_used_the_device() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="cuesta", fullgraph=True)
    x = torch.randn(1000, device="cuda")
    compiled(x)
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(compiled(x)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], x * 2 + 1)


OUT_OF_RANGE = """
import torch
compiled = torch.compile(lambda x, i: x[i] * 2, backend="cuesta", fullgraph=True)
x = torch.randn(10, 8, device="cuda")
compiled(x, torch.tensor([1, 2, 3], device="cuda"))
torch.cuda.synchronize()
print("so far so good", flush=True)
compiled(x, torch.tensor([1, 10, 3], device="cuda"))
torch.cuda.synchronize()
"""


def test_an_index_out_of_range_is_a_device_assertion() -> None:
    ends_in_a_device_assertion(OUT_OF_RANGE, "index out of bounds for dimension with size 10")
