"""On a GPU what a forward pass saves lies as suits convolutions, and the backward pass knows."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from xdsl.ir import Block

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import given_results
from cuesta.dialects.layout import is_contiguous, sizes_of, tensor_type_of
from cuesta.pipeline import STAGES, run_pipeline
from tests.support.triton_interpreter import interpreted_cuda

pytestmark = pytest.mark.slow


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 8, 2, stride=2),
        nn.ReLU(),
    )


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_training_as_eager(dynamic: bool) -> None:
    torch.manual_seed(0)
    model = network()
    eager = copy.deepcopy(model)
    x = torch.randn(2, 8, 10, 12, requires_grad=True)
    other = x.detach().clone().requires_grad_()
    with interpreted_cuda() as programs:
        y = torch.compile(model, backend="cuesta", fullgraph=True, dynamic=dynamic)(x)
        y.square().sum().backward()
    expected = eager(other)
    expected.square().sum().backward()
    assert y.stride() == expected.stride()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip([x, *model.parameters()], [other, *eager.parameters()], strict=True):
        assert ours.grad is not None and theirs.grad is not None and ours.grad.stride() == theirs.grad.stride()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    forward, backward = programs
    assert given_results(next(iter(forward.body.ops))) is not None
    names = [stage.name for stage in STAGES]
    run_pipeline(make_context(), backward, STAGES[: names.index("assign-layouts") + 1])
    calls = [op for op in backward.walk() if isinstance(op, loops.ExternOp) and "backward" in op.overload]
    assert len(calls) == 4
    for call in calls:
        wanted = call.arguments_attr.positional[-1]
        assert isinstance(wanted, tuple) and wanted[2] is False, "the gradients of biases are sums of ours"
        images = [tensor_type_of(value) for value in call.operands[:2] if len(sizes_of(tensor_type_of(value))) == 4]
        assert dynamic or not any(map(is_contiguous, images))
    saved = [value for call in calls for value in call.operands[1:2]]
    assert dynamic or any(isinstance(value.owner, Block) for value in saved), "as the forward pass laid it out"


def test_a_result_that_is_also_saved_lies_as_eagers_for_the_user() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Sigmoid())
    x = torch.randn(2, 4, 8, 8)
    with interpreted_cuda():
        y = torch.compile(model, backend="cuesta", fullgraph=True)(x)
        assert y.is_contiguous()
        y.sum().backward()
    torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-4)


def test_hooks_on_what_is_saved_and_a_second_backward_pass() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    x = torch.randn(2, 4, 8, 8)
    with interpreted_cuda():
        compiled = torch.compile(model, backend="cuesta", fullgraph=True)
        with torch.autograd.graph.save_on_cpu():
            y = compiled(x)
        first = torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)
        second = torch.autograd.grad(y.square().sum(), list(model.parameters()))
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for ours, again, theirs in zip(first, second, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours, again, rtol=0, atol=0)
