"""A function that gives an argument other data (`x.data = y`), called with other sizes of it: compiled for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


def is_long(x: Tensor, y: Tensor) -> Tensor:
    x.data = x.data * 2
    return x + (1 if x.shape[0] > 3 else 2)


def is_even(x: Tensor, y: Tensor) -> Tensor:
    x.data = x.data * 2
    return x * 3 if x.shape[0] % 2 == 0 else x


def is_as_long(x: Tensor, y: Tensor) -> Tensor:
    x.data = x.data * 2
    return x + 1 if x.shape[0] == y.shape[0] else x


def was_long(x: Tensor, y: Tensor) -> Tensor:
    was_long = x.shape[0] > 3
    x.data = torch.ones(3)
    return x * 2 if was_long else x


def twice(x: Tensor, y: Tensor) -> Tensor:
    x.data = x.data * 2
    x.data = x.data + 1
    return x * x.shape[0] if x.shape[0] < 4 else x


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
@pytest.mark.parametrize("marked", [False, True], ids=["learned", "marked"])
@pytest.mark.parametrize("backend", ["cuesta", "aot_eager"])
@pytest.mark.parametrize("function", [is_long, is_even, is_as_long, was_long, twice], ids=lambda one: one.__name__)
def test_what_is_asked_about_sizes_is_checked_at_every_call(
    function: Callable[..., Tensor], backend: Any, marked: bool
) -> None:
    """111000692: the program of five numbers ran for two, in silence, or Dynamo raised an IndexError. For all backends,
    once torch has looked up this one.
    """
    torch.compile(lambda: None, backend="cuesta")
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    for sizes in ((5, 5), (6, 6), (6, 4), (2, 5), (3, 3), (8, 8)):
        ours, eagers = ([torch.arange(float(size)) for size in sizes] for _ in range(2))
        if marked:
            torch._dynamo.maybe_mark_dynamic(ours[0], 0)
        torch.testing.assert_close([compiled(*ours), *ours], [function(*eagers), *eagers])
