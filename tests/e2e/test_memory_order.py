"""Reads across, with strides, and backwards: odd sizes, narrow and wide types, sizes known at run time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from cuesta.testing import assert_close_to_float64

pytestmark = pytest.mark.slow

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def reverse(x: torch.Tensor) -> torch.Tensor:
    """The same sizes, in memory the axes in reverse."""
    return x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim())))


def ramp(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(shape, generator=generator) * 10).to(dtype)


CASES: dict[str, Case] = {
    "transposed add": (lambda a, b: a + b.t(), (ramp(65, 130), ramp(130, 65))),
    "transposed quotient": (lambda a, b, c: a.t() / b[:, None] + c, (ramp(90, 70), ramp(70), ramp(90))),
    "channels last": (lambda a: a.permute(0, 2, 3, 1).contiguous() * 2, (ramp(2, 19, 7, 9),)),
    "bf16": (lambda a: (a.t() * 2).contiguous(), (ramp(70, 50, dtype=torch.bfloat16),)),
    "f64": (lambda a: (a.t() * 2).contiguous(), (ramp(33, 50, dtype=torch.float64),)),
    "bool": (lambda a: a.t().logical_not().contiguous(), (ramp(40, 37, dtype=torch.bool),)),
    "every second": (lambda a: a[1::2] * 2, (ramp(257),)),
    "every third": (lambda a: a[:, ::3].float() + 1, (ramp(5, 100, dtype=torch.int8),)),
    "backwards": (lambda a: a.flip(1) * 2, (ramp(5, 101),)),
    "padded, every second": (lambda a: F.pad(a[:, ::2], (3, 2)) * 2, (ramp(5, 101),)),
    "window": (lambda a: F.max_pool2d(a, 3, 2, 1), (ramp(2, 3, 17, 28),)),
    "a tile with rows and columns left over": (lambda a: a.permute(2, 0, 1) + 1, (ramp(3, 23, 47),)),
    "window without padding": (lambda a: F.max_pool2d(a, 2), (ramp(2, 3, 16, 34),)),
}


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.covering
def test_the_order_of_memory_makes_no_difference(case: str, dynamic: bool) -> None:
    function, inputs = CASES[case]
    torch._dynamo.reset()
    with torch.no_grad():
        actual, expected = torch.compile(function, backend="cuesta", dynamic=dynamic)(*inputs), function(*inputs)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


REDUCED: dict[str, Case] = {
    "rows that lie along each other": (F.instance_norm, (reverse(ramp(11, 3, 7, 5)),)),
    "groups": (lambda a: F.group_norm(a, 2), (reverse(ramp(10, 6, 4, 5, 3, dtype=torch.bfloat16)),)),
    "a middle axis": (lambda a: F.softmax(a, 1), (reverse(ramp(10, 6, 5, 19)),)),
    "length": (lambda a: a.norm(dim=1, keepdim=True) * a, (reverse(ramp(13, 6, 5, 19)),)),
    "extreme": (lambda a: a.amax((1, 2)), (reverse(ramp(13, 6, 5, 19, dtype=torch.int64)),)),
}
"""Reductions over memory that lies along other axes: it is transposed in registers."""


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", REDUCED)
@pytest.mark.covering
def test_reductions_of_what_lies_along_other_axes(case: str, dynamic: bool) -> None:
    function, inputs = REDUCED[case]
    torch._dynamo.reset()
    assert_close_to_float64(torch.compile(function, backend="cuesta", dynamic=dynamic), function, inputs)


def test_a_maximum_over_a_window_is_nan_where_the_window_has_one() -> None:
    x = ramp(1, 1, 9, 40)
    x[0, 0, 4, 17] = float("nan")
    actual = torch.compile(lambda a: F.max_pool2d(a, 3, 2, 1), backend="cuesta")(x)
    torch.testing.assert_close(actual, F.max_pool2d(x, 3, 2, 1), equal_nan=True)


class Residual(torch.nn.Module):
    """Convolutions between which there is a normalisation, a sum, a window and a mean."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 16, 3, padding=1, groups=groups, bias=False)
        self.third = torch.nn.Conv2d(16, 12, 1, stride=2)
        self.norm = torch.nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = F.relu(self.first(x))
        z = F.max_pool2d(y + F.relu(self.norm(self.second(y))), 2)
        z = self.third(z)
        return z, F.softmax(z.mean((2, 3)), -1), z.flatten(2)


@pytest.mark.parametrize(
    ("groups", "dynamic", "last"),
    [
        pytest.param(*case, marks=() if case == (1, False, False) else pytest.mark.slow)
        for case in itertools.product([1, 4], [False, True], [False, True])
    ],
)
@pytest.mark.every(3, also=("4-False-True",))
def test_convolutions_keep_values_and_strides_whatever_layout_they_take(groups: int, dynamic: bool, last: bool) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Residual(groups).eval()
    x = torch.randn(2, 3, 20, 14)
    if last:
        for tensor in (*model.parameters(), x):
            if tensor.dim() == 4:
                tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(model, backend="cuesta", dynamic=dynamic)
    with torch.no_grad():
        for actual, expected in zip(compiled(x), model(x), strict=True):
            assert actual.stride() == expected.stride()
            torch.testing.assert_close(actual, expected)
    losses = [torch.stack([value.square().sum() for value in one(x)]).sum() for one in (compiled, model)]
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
