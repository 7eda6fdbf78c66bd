"""Bags of embeddings on a GPU: every element looks at few indices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.dialects import host, kernel
from cuesta.targets.triton.emit_module import emit_module
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, kernels_in

MODES = ("sum", "mean", "max")


def bags(indices: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor, **named: Any) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(indices, weight, offsets, **named)


def inputs(dtype: torch.dtype = torch.float32, count: int = 8) -> tuple[torch.Tensor, ...]:
    """Small integers, so that no order of adding matters; an empty bag."""
    weight = torch.randint(-8, 9, (5, 3)).to(dtype)
    return torch.randint(5, (count,)), weight, torch.tensor([0, 3, 3, 7])


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
def test_few_indices(mode: str, run_it: bool) -> None:
    def function(indices: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scaled = {"per_sample_weights": weight[indices, 0]} if mode == "sum" else {}
        return (
            bags(indices, weight, offsets, mode=mode),
            bags(indices, weight, offsets, mode=mode, padding_idx=2),
            bags(indices, weight, offsets, mode=mode, include_last_offset=True),
            bags(indices, weight, offsets, mode=mode, **scaled),
        )

    for dtype in (torch.float32,) if run_it else (torch.float32, torch.float64):
        arguments = inputs(dtype, 7)
        with interpreted_cuda(run_it=run_it, lowered=True) as programs, torch.no_grad():
            actual = torch.compile(function, backend="cuesta", fullgraph=True)(*arguments)
            expected = function(*arguments)
        for ours, theirs in zip(actual, expected, strict=True):
            torch.testing.assert_close(ours, theirs)
        (lowered,) = map(to_host, programs)
        assert not [op for op in lowered.walk() if isinstance(op, host.ExternOp | kernel.AtomicOp)]
        if run_it:
            pytest.importorskip("triton")
            assert_compiles(emit_module(kernels_in(lowered)).values())


def test_more_are_left_to_eager() -> None:
    with interpreted_cuda(run_it=False, lowered=True) as programs, torch.no_grad():
        torch.compile(bags, backend="cuesta", fullgraph=True)(*inputs(count=33))
    assert [op.overload for op in to_host(programs[0]).walk() if isinstance(op, host.ExternOp)]
