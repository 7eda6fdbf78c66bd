"""Philox in Triton kernels, by Triton's interpreter: bit by bit what the reference interpreter has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cuesta.dialects import host
from cuesta.targets.reference import run as run_reference
from tests.support.triton_interpreter import interpreted_cuda, on_cuda, parse, run, to_host
from tests.support.triton_kernels import assert_compiles, kernels_in, texts_of

pytest.importorskip("triton")

WORDS = """
func.func @main(%k : tensor<1xi64>, %c : tensor<300xi64>) -> tensor<300x4xi64> {
  %y = loops.nest (%i : 300) outs(%o : tensor<300x4xi64>) {
    %key = loops.load %k[0] : tensor<1xi64>
    %counter = loops.load %c[%i] : tensor<300xi64>
    %0 = elem.philox 0 of %key, %counter : i64
    %1 = elem.philox 1 of %key, %counter : i64
    %2 = elem.philox 2 of %key, %counter : i64
    %3 = elem.philox 3 of %key, %counter : i64
    loops.store %0, %o[%i, 0] : tensor<300x4xi64>
    loops.store %1, %o[%i, 1] : tensor<300x4xi64>
    loops.store %2, %o[%i, 2] : tensor<300x4xi64>
    loops.store %3, %o[%i, 3] : tensor<300x4xi64>
  }
  func.return %y : tensor<300x4xi64>
}"""


@pytest.mark.slow
def test_words() -> None:
    module = parse(WORDS)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randint(-(2**63), 2**63 - 1, (n,), generator=generator) for n in (1, 300)]
        (expected,) = run_reference(module, inputs)
        (actual,) = run(on_cuda(module), inputs)
        assert isinstance(expected, Tensor) and torch.equal(actual, expected)


PLACES = """
func.func @main(%k : tensor<1xi64>) -> tensor<{0}x{1}xi64> {{
  %y = loops.nest (%i : {0}, %j : {1}) outs(%o : tensor<{0}x{1}xi64>)
      schedule #loops.schedule<along = {3}, lanes = 1024, warps = 4> {{
    %key = loops.load %k[0] : tensor<1xi64>
    %place = loops.index [{2}] : i64
    %w = elem.random_word 1099511627776 of %key, %place : i64
    loops.store %w, %o[%i, %j] : tensor<{0}x{1}xi64>
  }}
  func.return %y : tensor<{0}x{1}xi64>
}}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "columns", "place", "along", "shared"),
    [
        (5, 128, "%i * 128 + %j", 0, True),
        (5, 99, "%i * 100 + %j", 0, False),  # two axes that are one on a GPU
        (5, 99, "%i * 100 + %j", 1, True),  # rows, each of which begins at a place that four divide
        (5, 99, "%i * 99 + %j", 0, True),
        (3, 64, "%i * 63 + %j + 1", 0, False),
        (3, 64, "%i + %j * 3", 0, False),
    ],
)
def test_words_of_places(rows: int, columns: int, place: str, along: int, shared: bool) -> None:
    """The same bits, whether four places share a call or not."""
    module = parse(PLACES.format(rows, columns, place, along))
    key = torch.randint(-(2**63), 2**63 - 1, (1,), generator=torch.Generator().manual_seed(1))
    (expected,) = run_reference(module, [key])
    assert isinstance(expected, Tensor)
    (text,) = texts_of(on_cuda(module))
    assert ("random_words(" in text.source) == shared
    assert_compiles([text])
    (actual,) = run(on_cuda(module), [key])
    assert torch.equal(actual, expected)


def dropout(x: Tensor) -> Tensor:
    return functional.dropout(functional.gelu(x), 0.25, True).sin()


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_dropout_is_a_kernel_that_draws_and_one_for_the_rest(run_it: bool) -> None:
    x = torch.rand(64, 100).requires_grad_()
    with interpreted_cuda(run_it=run_it, lowered=True) as programs:
        y = torch.compile(dropout, backend="cuesta", fullgraph=True)(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
    assert abs(float((y == 0).double().mean()) - 0.25) < 0.03
    assert torch.equal(y == 0, gradient == 0)
    torch.testing.assert_close(y, torch.where(y == 0, 0, (functional.gelu(x) / 0.75).sin()))
    forward, backward = (to_host(program) for program in programs)
    assert [op.overload for op in forward.walk() if isinstance(op, host.ExternOp)] == ["aten.randint.low"]
    assert not any(isinstance(op, host.ExternOp) for op in backward.walk())
    assert [len(kernels_in(one)) for one in (forward, backward)] == [2, 1]


def test_little_work_goes_on_in_the_kernel_that_draws() -> None:
    """What follows each of the four numbers that a point draws (`unroll`). The test above has more than may follow."""
    with interpreted_cuda(run_it=False, lowered=True) as programs, torch.no_grad():
        torch.compile(lambda x: functional.dropout(x, 0.25), backend="cuesta", fullgraph=True)(torch.rand(64, 100))
    assert len(kernels_in(to_host(programs[0]))) == 1


@pytest.mark.slow
def test_draws_compile() -> None:
    def function() -> tuple[Tensor, ...]:
        empty = torch.empty(1000)
        return (
            torch.rand(1000), torch.randn(1000), torch.randn(100, dtype=torch.float64), torch.randint(0, 9, (1000,)),
            torch.randint(0, 1 << 40, (100,)), torch.bernoulli(empty.fill_(0.5)), torch.rand(99, dtype=torch.bfloat16),
            torch.ops.aten.exponential(empty), torch.ops.aten.uniform(empty, 1.0, 2.0),
        )  # fmt: skip

    with interpreted_cuda(run_it=False) as (programs):
        torch.compile(function, backend="cuesta", fullgraph=True)()
    texts = texts_of(programs[0])
    assert sum(len(text.signature) - 1 for text in texts) >= 8, "beside the key"
    assert_compiles(texts)


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_one_number(sizes: tuple[int, ...]) -> None:
    with interpreted_cuda(run_it=True, lowered=True), torch.no_grad():
        y = torch.compile(lambda x: torch.rand_like(x) + x, backend="cuesta", fullgraph=True)(torch.zeros(sizes))
    assert y.shape == sizes and 0 <= float(y) < 1


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_permutations(run_it: bool) -> None:
    """The ranks of random numbers, in nests: no sort of eager's."""

    def function(x: Tensor) -> Tensor:
        return x[torch.randperm(40, device=x.device)] * 2

    with interpreted_cuda(run_it=run_it, lowered=True) as programs:
        found = torch.compile(function, backend="cuesta", fullgraph=True)(torch.arange(40.0))
    assert torch.equal(found.sort()[0], torch.arange(40.0) * 2)
    (lowered,) = map(to_host, programs)
    assert [op.overload for op in lowered.walk() if isinstance(op, host.ExternOp)] == ["aten.randint.low"]
    if run_it:
        assert_compiles(texts_of(programs[0]))
