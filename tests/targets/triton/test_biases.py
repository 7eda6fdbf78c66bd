"""Biases that the kernel after a convolution or a product adds, in inference and training, sizes known or not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.pipeline import STAGES, run_pipeline
from tests.support.triton_interpreter import interpreted_cuda

pytestmark = pytest.mark.slow


def network(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    y = F.relu(F.conv2d(x, w, b, padding=1))
    return F.gelu(F.linear(F.max_pool2d(y, 2).flatten(2).transpose(1, 2), v, c)), y.mean((2, 3))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_as_eager(training: bool, dynamic: bool) -> None:
    torch.manual_seed(0)
    sizes = ((3, 4, 10, 6), (8, 4, 3, 3), (8,), (5, 8), (5,))
    inputs = [torch.randn(size, requires_grad=training) for size in sizes]
    with interpreted_cuda() as programs:
        results = torch.compile(network, backend="cuesta", dynamic=dynamic)(*inputs)
        expected = network(*inputs)
        if training:
            results, expected = (
                (*outs, *torch.autograd.grad(torch.stack([out.sum() for out in outs]).sum(), inputs))
                for outs in (results, expected)
            )
    for ours, eagers in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-4)
    names = [stage.name for stage in STAGES]
    run_pipeline(make_context(), programs[0], STAGES[: names.index("separate-biases") + 1])
    calls = [op for op in programs[0].walk() if isinstance(op, loops.ExternOp)]
    overloads = {call.overload for call in calls}
    assert "aten.convolution.default" in overloads and "aten.addmm.default" not in overloads
    assert all(call.arguments_attr.positional[2] is None for call in calls if "convolution" in call.overload)
