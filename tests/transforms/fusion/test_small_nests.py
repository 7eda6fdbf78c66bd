"""Nests of few points on a GPU, where a launch costs more than they do: they are merged, or computed where they are
read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.targets.reference import check_equivalent


def nests(function: Callable[..., object], inputs: list[Tensor], *, gpu: bool = True) -> int:
    """How many nests are left after fusion, which computes what the program did."""
    traced = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    module = import_graph(traced).module
    module = on_cuda(module) if gpu else module
    run_pipeline(make_context(), module, STAGES[:1])
    before = module.clone()
    run_pipeline(make_context(), module, STAGES[1 : [one.label for one in STAGES].index("dce-2") + 1], verify_each=True)
    check_equivalent(before, module, inputs, exact=False, pass_name="fusion")
    return sum(isinstance(op, loops.NestOp) for op in entry_block(module).ops)


def statistics(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a - 1, b.abs()


def twins(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a - 1, b - 1


def scaled(x: Tensor, variance: Tensor, weight: Tensor) -> Tensor:
    """A norm's gradient: what it is multiplied by is made of two vectors, one element a column."""
    return x * ((variance + 1e-5).rsqrt() * weight)


@pytest.mark.parametrize(
    ("function", "sizes", "gpu", "left"),
    [
        (statistics, (17, 17), True, 1),
        (statistics, (17, 17), False, 2),  # a processor launches nothing
        (statistics, (17, 18), True, 2),
        (statistics, (1 << 15, 1 << 15), True, 2),  # no longer small
        (twins, (17, 17), True, 2),  # `join-launches` makes one launch of any number of them
    ],
)
def test_small_nests_of_one_domain_are_one(
    function: Callable[..., object], sizes: tuple[int, int], gpu: bool, left: int
) -> None:
    assert nests(function, [torch.randn(size) for size in sizes], gpu=gpu) == left


@pytest.mark.parametrize(
    ("rows", "columns", "gpu", "left"),
    [
        (33, 512, True, 1),
        (33, 512, False, 2),
        (9, 3, True, 1),
        (4, 3, True, 2),  # what is read is not small beside so few points
        (512, 4096, True, 2),  # two million times 11 instructions take longer than a launch
    ],
)
def test_little_arithmetic_is_done_where_it_is_read(rows: int, columns: int, gpu: bool, left: int) -> None:
    inputs = [torch.randn(rows, columns), torch.rand(columns), torch.randn(columns)]
    assert nests(scaled, inputs, gpu=gpu) == left
