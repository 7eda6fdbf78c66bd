"""What a walk does at a score (docs/decisions/076): powers of two, short numbers, loops without masks; and what is left
as it is.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.attention_cases import Case, capped, causal, slopes
from cuesta.dialects import kernel
from cuesta.targets.program import KernelText
from cuesta.targets.triton import compilation
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import HOPPER

pytest.importorskip("triton")
pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

SMALL: dict[str, Any] = {"heads": 1, "queries": 256, "keys": 256, "width": 16}


def walks_of(case: Case, *, backward: bool = False) -> list[KernelText]:
    """The texts of the kernels that walk, forward and backward."""
    with interpreted_cuda(run_it=False) as programs:
        inputs = [one.requires_grad_(backward) for one in case.inputs()]
        result = torch.compile(case, backend="cuesta", fullgraph=True)(*inputs)
        if backward:
            torch.autograd.grad(result, inputs, torch.ones_like(result))
    funcs = [op for program in programs for op in to_host(program).walk() if isinstance(op, kernel.FuncOp)]
    return [emit_kernel(one) for one in funcs if any(isinstance(op, kernel.FoldOp) for op in one.walk())]


def ptx_of(text: KernelText) -> str:
    """The instructions for Hopper, before they are assembled."""
    triton = importlib.import_module("triton")
    with triton.knobs.cache.scope():
        return compilation._compiled(text, ("cuda", HOPPER, 32), True).asm["ptx"]


def loops_of(text: KernelText) -> list[str]:
    """The bodies of the loops."""
    return re.findall(r"    for c\w* in range.*:\n((?:        .*\n)+)", text.source)


@pytest.mark.parametrize("backward", [False, True])
def test_a_step_without_masks_is_a_loop_of_its_own(backward: bool) -> None:
    texts = walks_of(Case(causal, **SMALL), backward=backward)
    assert len(texts) == (3 if backward else 1)
    for text in texts:
        masked, free = loops_of(text)
        assert "tl.where" in masked and "float('-inf')" in masked
        assert not re.search(r"tl\.where\([^)]*float\('-inf'\)", free)
        assert "int64" not in masked + free, "numbers of points are compared in 32 bits"
        for loop in (masked, free):
            assert "exp2_of_weight" in loop and "0.36067" in loop, "the scale times log2 e"
            assert "libdevice.exp(" not in loop and "quick.exp(" not in loop


def test_scores_have_no_more_than_they_need() -> None:
    (text,) = walks_of(Case(slopes, **SMALL))
    (loop,) = loops_of(text)
    assert loop.count("tl.fma(") == 1 and loop.count("exp2_of_weight") == 1
    (text,) = walks_of(Case(capped, **SMALL))
    (loop,) = loops_of(text)
    assert "quick.tanh" in loop, "eager rounds it to 16 bits"


def test_a_weight_that_is_denormal_may_be_0() -> None:
    """Where eager has one: docs/differences.md."""
    scores = torch.tensor([[0.0, -88.5]])
    assert 0 < float(scores.softmax(-1)[0, 1]) < 2.0**-126
    (text,) = walks_of(Case(causal, **SMALL))
    assert "ex2.approx.ftz.f32" in ptx_of(text)


def least(scores: Tensor, case: Case) -> Tensor:
    """A mask of the least number of the type, which is no number any more times log2 e; some rows see nothing."""
    i, j = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])
    return scores.masked_fill((j > i) | (i < 5), torch.finfo(scores.dtype).min)


def fills(scores: Tensor, case: Case) -> Tensor:
    """A mask of -1e9; some rows see nothing: all keys weigh the same."""
    i, j = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])
    return scores.masked_fill((j > i) | (i < 5), -1e9)


def added(scores: Tensor, case: Case) -> Tensor:
    """The same, added as a float mask."""
    i, j = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])
    mask = torch.where((j > i) | (i < 5), torch.finfo(scores.dtype).min, 0.0).to(scores.dtype)
    return scores + mask.cumsum(0)[:1] * 0 + mask


@pytest.mark.parametrize(
    ("score", "dtype"),
    [(least, torch.bfloat16), (least, torch.float16), (fills, torch.bfloat16), (added, torch.bfloat16)],
)
def test_rows_that_a_large_number_masks_all_over(score: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    case = Case(score, heads=1, queries=70, keys=70, width=16, dtype=dtype)
    with interpreted_cuda():
        compiled = torch.compile(case, backend="cuesta", fullgraph=True)
        assert_close_to_float64(compiled, case, case.inputs(), factor=3.0, ulps=8.0)
