"""Factors of products that are the same along an axis, as they lie or as they are computed: no contraction."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

ROWS, POINTS, COLUMNS = 512, 128, 256

Maker = Callable[[Tensor], Tensor]
"""Of a matrix, another one of its sizes."""

MAKERS: dict[str, Maker] = {
    "as it is": lambda x: x,
    "computed": functional.silu,
    "one row": lambda x: x[:1].expand(x.shape),
    "one column": lambda x: x[:, :1].expand(x.shape),
    "one number": lambda x: x[:1, :1].expand(x.shape),
    "one row, computed": lambda x: functional.silu(x[:1].expand(x.shape)),
    "one column, computed": lambda x: functional.silu(x[:, :1].expand(x.shape)),
    "ones": torch.ones_like,
    "a mask of columns": lambda x: (torch.arange(x.shape[1]) > 5).to(x.dtype).expand(x.shape) * 1.5,
    "a row and zeros": lambda x: torch.zeros_like(x) + x[:1],
    "an outer product": lambda x: x[:, :1] * x[:1],
    "transposed": lambda x: functional.silu(x.t()[:1].expand(x.shape[::-1])).t(),
}


def check(left: Maker, right: Maker, expanded: bool = False) -> None:
    """Holds the product of what two makers make, with what follows, to float64."""
    torch.manual_seed(0)
    inputs = [torch.randn(ROWS, POINTS).bfloat16(), torch.randn(POINTS, COLUMNS).bfloat16()]
    if expanded:
        inputs = [left(inputs[0]), right(inputs[1])]

    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b).relu() + 1 if expanded else torch.mm(left(a), right(b)).relu() + 1

    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    assert programs


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.every(2, also=("ones", "transposed"))
def test_a_factor_of_rows_or_of_columns(name: str) -> None:
    check(MAKERS[name], MAKERS["computed"])
    check(MAKERS["as it is"], MAKERS[name])


@pytest.mark.parametrize("name", ["one row", "one column", "one number"])
def test_an_argument_that_lies_expanded(name: str) -> None:
    check(MAKERS[name], MAKERS["as it is"], expanded=True)
    check(MAKERS["as it is"], MAKERS[name], expanded=True)


@pytest.mark.parametrize("number", [*range(4), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(4, 60))])
def test_drawn_factors(number: int) -> None:
    rng = random.Random(number)
    makers = [MAKERS[rng.choice(list(MAKERS))] for _ in range(4)]
    check(lambda x: makers[0](makers[1](x)), lambda x: makers[2](makers[3](x)))


def test_a_convolution() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(1, 64, 1, 1).bfloat16(), torch.randn(64, 64, 1, 1).bfloat16()

    def function(x: Tensor, w: Tensor) -> Tensor:
        images = functional.silu(x.expand(4, 64, 8, 8)).contiguous(memory_format=torch.channels_last)
        return functional.conv2d(images, w).relu()

    with interpreted_cuda():
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, [x, w])
