"""Scatters on a CUDA device: exactly what eager gives, where sums are of small integers; deterministic where asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

import cuesta
from tests.support.gpu_cases import ends_in_a_device_assertion
from tests.support.scatter_cases import BACKWARD, backward_inputs, cases

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def any_order() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="cuesta", fullgraph=True)


def assert_same(actual: Any, expected: Any) -> None:
    ours, theirs = (list(one) if isinstance(one, tuple) else [one] for one in (actual, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype is other.dtype and one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def _eagers(function: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    """Eager's results: the CPU's where CUDA has no kernel for the type (gradients in integers, extremes of bools)."""
    try:
        return function(*inputs)
    except NotImplementedError:
        return tuple(result.cuda() for result in function(*(x.cpu() for x in inputs)))


@pytest.mark.parametrize("name", cases())
def test_as_eager(name: str) -> None:
    function, inputs = cases("cuda")[name]
    assert_same(compiled(function)(*inputs), _eagers(function, inputs))
    (record,) = cuesta.records
    assert record.kernels >= 2 and not record.fallbacks


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    function, (weight, indices) = BACKWARD[name], backward_inputs("cuda")
    results = [torch.autograd.grad(f(weight, indices).sum(), weight) for f in (function, compiled(function))]
    assert_same(results[1], results[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_of_a_large_embedding_is_as_near_the_truth_as_eagers(dtype: torch.dtype) -> None:
    indices = torch.randint(0, 30_000, (64, 512), device="cuda")
    weight = torch.randn(30_000, 768, device="cuda", dtype=dtype, requires_grad=True)
    gradient = torch.randn(64, 512, 768, device="cuda", dtype=dtype)
    truth = torch.zeros(30_000, 768, device="cuda", dtype=torch.float64)
    truth.index_add_(0, indices.flatten(), gradient.flatten(0, 1).double())
    errors = []
    for function in (functional.embedding, compiled(functional.embedding)):
        (found,) = torch.autograd.grad(function(indices, weight), weight, gradient)
        errors.append(float((found.double() - truth).abs().max()))
    assert errors[1] <= 2 * errors[0] + 1e-5


def test_many_to_one() -> None:
    """Every element is changed by a hundred thousand lanes."""
    indices = torch.zeros(100_000, dtype=torch.int64, device="cuda")
    ones = torch.ones(100_000, 16, device="cuda")
    result = compiled(lambda i, v: v.new_zeros(3, 16).index_add(0, i, v))(indices, ones)
    assert result[0].tolist() == [100_000.0] * 16 and not result[1:].any()


@pytest.mark.parametrize("rows", [3, 40_000])
def test_rows_by_a_sorted_index(rows: int) -> None:
    """Half of the values are of one row; twice the same, and in the replay of a CUDA graph."""
    i = torch.randint(0, rows, (70_000,), device="cuda")
    i = torch.where(torch.rand(70_000, device="cuda") < 0.5, rows - 1, i)
    v = torch.randn(70_000, 256, device="cuda", dtype=torch.bfloat16)
    truth = torch.zeros(rows, 256, device="cuda", dtype=torch.float64).index_add_(0, i, v.double())
    function = compiled(lambda i, v: torch.ops.aten.embedding_dense_backward(v, i, rows, -1, False))
    found = function(i, v)
    (record,) = cuesta.records
    assert record.library_calls == 1 and not record.fallbacks
    assert ((found.double() - truth).abs() <= 2**-8 * truth.abs() + 1e-3).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        again = function(i, v)
    again.fill_(torch.nan)
    graph.replay()
    assert torch.equal(again, found) and torch.equal(function(i, v), found)


def test_what_is_written_to_an_argument_is_written_there() -> None:
    """A cache of a gigabyte that is neither copied before nor after."""

    def function(cache: torch.Tensor, position: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        cache[:, position] = keys
        return cache[:, position] * 2

    cache = torch.zeros(4, 1 << 16, 1 << 10, device="cuda")
    position, keys = torch.tensor([5, 65000], device="cuda"), torch.randn(4, 2, 1 << 10, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = compiled(function)(cache, position, keys)
    grown = torch.cuda.max_memory_allocated() - before  # before the checks, which take memory of their own
    assert grown < 0.5 * cache.nbytes
    assert torch.equal(result, keys * 2) and torch.equal(cache[:, position], keys)
    assert int(cache.count_nonzero()) == int(keys.count_nonzero())


def test_more_than_32_bits_of_addresses() -> None:
    rows = (1 << 31) // 64 + 5
    x = torch.zeros(rows, 64, dtype=torch.int8, device="cuda")
    i = torch.tensor([rows - 1, 0, rows - 1], device="cuda")
    y = compiled(lambda x, i: x.index_put((i,), torch.tensor(3, dtype=torch.int8, device="cuda")))(x, i)
    assert y[rows - 1].tolist() == [3] * 64 and y[0].tolist() == [3] * 64
    assert int(y[1 : rows - 1].amax()) == 0


def test_deterministic_algorithms_are_eagers() -> None:
    x, i = torch.randn(1000, 8, device="cuda"), torch.randint(0, 10, (1000,), device="cuda")
    function = compiled(lambda x, i: x.new_zeros(10, 8).index_add(0, i, x))
    function(x, i)
    assert not cuesta.records[-1].fallbacks
    torch.use_deterministic_algorithms(True)
    first = function(x, i)
    assert cuesta.records[-1].fallbacks
    assert all(torch.equal(function(x, i), first) for _ in range(20))


OUT_OF_RANGE = """
import torch
compiled = torch.compile(lambda x, i, v: x.index_put((i,), v, accumulate=True), backend="cuesta", fullgraph=True)
x, v = torch.zeros(10, 8, device="cuda"), torch.ones(3, 8, device="cuda")
compiled(x, torch.tensor([1, -10, 1], device="cuda"), v)
torch.cuda.synchronize()
print("so far so good", flush=True)
compiled(x, torch.tensor([1, 10, 3], device="cuda"), v)
torch.cuda.synchronize()
"""


def test_an_index_out_of_range_is_a_device_assertion() -> None:
    ends_in_a_device_assertion(OUT_OF_RANGE, "index out of bounds for dimension with size 10")
