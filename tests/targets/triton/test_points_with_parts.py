"""A loss that is a mean, and what its backward pass needs, read what they are made of once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.differential import compiled_of
from tests.support.triton_interpreter import interpreted_cuda
from tests.support.triton_kernels import assert_compiles, kernels_of, texts_of

pytestmark = pytest.mark.slow

Loss = Callable[[Tensor, Tensor], Tensor]


def squares(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean()


def rounded(x: Tensor, y: Tensor) -> Tensor:
    return ((x.tanh() - y).abs() * 3).sum() / 4


LOSSES: tuple[Loss, ...] = (squares, rounded, F.mse_loss, F.smooth_l1_loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(128, 1024), (131, 1001), (16, 8, 32, 32)])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_in_training(loss: Loss, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    """The forward pass has a kernel for all large tensors, and one that adds up."""
    x, y = torch.randn(sizes), torch.randn(sizes)
    if len(sizes) == 4:
        x, y = (one.to(memory_format=torch.channels_last) for one in (x, y))
    x, y = (one.to(dtype).requires_grad_() for one in (x, y))
    with interpreted_cuda() as programs:
        found = compiled_of(loss, dynamic=False)(x, y)
        gradients = torch.autograd.grad(found, (x, y))
    expected = loss(x.double(), y.double())
    digits = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found.double(), expected, rtol=digits, atol=digits)
    for one, other in zip(gradients, torch.autograd.grad(expected, (x, y)), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=digits, atol=digits * float(other.abs().max()))
    assert len(kernels_of(programs[0])) == 2, [text.source for text in texts_of(programs[0])]


@pytest.mark.parametrize("sizes", [(128, 1024), (131, 1001)])
def test_it_is_machine_code(sizes: tuple[int, ...]) -> None:
    x, y = torch.randn(sizes).requires_grad_(), torch.randn(sizes)
    with interpreted_cuda(run_it=False) as programs:
        compiled_of(squares, dynamic=False)(x, y)
    texts = texts_of(programs[0])
    assert_compiles(texts)
    assert len(texts) == 2
