"""Sums of products that somebody wrote by hand are done by matrix units: run by Triton's interpreter, and traced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from benchmarks.attention_cases import CASES as ATTENTION
from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.pipeline import STAGES, remaining_stages, run_pipeline
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda, to_host

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

Function = Callable[..., Tensor]

CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...], int]] = {
    "rows and columns": (lambda a, b: (a[:, :, None] * b[None]).sum(1), ((64, 48), (48, 80)), 1),
    "odd sizes, a bias and ReLU": (lambda a, b: ((a[:, None] * b[None]).sum(-1) + 1).relu(), ((67, 51), (93, 51)), 1),
    "a batch, added up in f32": (
        lambda a, b: (a[:, :, :, None].float() * b[:, None].float()).sum(2).to(a.dtype),
        ((3, 40, 32), (3, 32, 48)),
        1,
    ),
    "a batch, in f32": (
        lambda a, b: (a[:, :, :, None].float() * b[:, None].float()).sum(2),
        ((3, 40, 32), (3, 32, 48)),
        0,
    ),
    "two of them": (
        lambda a, b: (a[:, None] * b[None]).sum(-1) * (a[:, None] * b.flip(0)[None]).sum(-1),
        ((64, 64), (64, 64)),
        2,
    ),
    "with itself": (lambda a, b: (a[:, None] * a[None]).sum(-1) - b.sum(), ((64, 64), (8, 8)), 1),
    "few rows": (lambda a, b: (a[:, None] * b[None]).sum(-1), ((8, 64), (64, 64)), 0),
    "a vector": (lambda a, b: (a * b).sum(-1), ((64, 64), (64,)), 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.covering
def test_it_is_a_contraction_and_right(name: str, dtype: torch.dtype) -> None:
    function, shapes, count = CASES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    texts = [emit_kernel(op).source for op in to_host(programs[-1]).body.ops if isinstance(op, kernel.FuncOp)]
    assert sum(text.count("tl.dot(") for text in texts) == (0 if dtype == torch.float32 else count)


def said_of(function: Function, *inputs: Tensor) -> str:
    """What is told of the passes over the program of a function."""
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True)(*inputs)
    module = programs[-1].clone()
    with trace_rewrites(texts=False) as trace:
        run_pipeline(make_context(), module, remaining_stages(module, STAGES))
    return trace.summary()


def test_what_was_chosen_is_told_with_what_was_predicted() -> None:
    a, b = torch.randn(256, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    by_hand = said_of(lambda a, b: (a[:, None] * b[None]).sum(-1), a, b)
    assert "is a contraction: predicted " in by_hand
    library = said_of(lambda a, b: torch.mm(a, b).relu(), a, b)
    assert "is one nest with what surrounds it: predicted " in library
    walk = said_of(ATTENTION["plain"], *ATTENTION["plain"].inputs())
    assert "is one nest with what gives its factors: a walk is expected to take " in walk
    scaled = said_of(lambda a, b: torch.addmm(a, a, b, alpha=0.0).relu(), a, b)
    assert "it takes the sum 0 times" in scaled
