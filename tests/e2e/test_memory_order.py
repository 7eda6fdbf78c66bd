"""Reads across, with strides, and backwards: odd sizes, narrow and wide types, sizes known at run time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


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
    "window without padding": (lambda a: F.max_pool2d(a, 2), (ramp(2, 3, 16, 34),)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_order_of_memory_makes_no_difference(case: str, dynamic: bool) -> None:
    function, inputs = CASES[case]
    torch._dynamo.reset()
    with torch.no_grad():
        actual, expected = torch.compile(function, backend="cuesta", dynamic=dynamic)(*inputs), function(*inputs)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


def test_a_maximum_over_a_window_is_nan_where_the_window_has_one() -> None:
    x = ramp(1, 1, 9, 40)
    x[0, 0, 4, 17] = float("nan")
    actual = torch.compile(lambda a: F.max_pool2d(a, 3, 2, 1), backend="cuesta")(x)
    torch.testing.assert_close(actual, F.max_pool2d(x, 3, 2, 1), equal_nan=True)
