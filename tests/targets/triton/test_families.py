"""Families of operations and models through `torch.compile` to Triton kernels, run by Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from cuesta.testing import assert_close_to_float64
from tests.support.gpu_cases import BACKWARD, cases
from tests.support.triton_interpreter import interpreted_cuda

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

SUMS_IN_ORDER = 8.0
"""The interpreter adds the points of a scan one after the other, where a GPU uses a tree."""


@pytest.mark.parametrize("name", cases())
def test_families(name: str) -> None:
    function, inputs = cases()[name]
    factor = SUMS_IN_ORDER if name.startswith("cumulative") else 3.0
    with interpreted_cuda() as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True)
        assert_close_to_float64(compiled, function, inputs, factor=factor, ulps=8.0)
    assert programs


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    function = BACKWARD[name]
    inputs = [torch.randn(17, 65, requires_grad=True), torch.randn(65, requires_grad=True)]
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    assert len(programs) == 2


@pytest.mark.slow
def test_dynamic_shapes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).softmax(-1).sum(0) + y.t().contiguous().mean(1)

    with interpreted_cuda() as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=True)
        for sizes in ((5, 7), (3, 600), (70, 33)):
            assert_close_to_float64(compiled, function, [torch.randn(sizes), torch.randn(sizes)])
    assert len(programs) == 1


@pytest.mark.slow
def test_a_transformer_block_forward_and_backward() -> None:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
    with interpreted_cuda() as programs:
        assert_close_to_float64(
            torch.compile(model, backend="cuesta"), model, [torch.randn(2, 9, 32, requires_grad=True)]
        )
    assert len(programs) == 2
