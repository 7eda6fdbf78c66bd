"""Attention with dropout on its weights: one kernel in the forward pass, the kernels of recomputation in the backward
pass; both draw, neither stores scores or masks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.attention_cases import Case, Dropped, capped, causal, padded, plain, window
from cuesta.dialects import host, kernel
from cuesta.targets.reference.keyed_draws import bernoulli
from cuesta.targets.triton.emit_kernel import emit_kernel
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.targets.triton.test_attention import calls_of, count_of
from tests.targets.triton.test_attention_gradients import off

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

P = 0.3


dropped = Dropped(P)

CASES: dict[str, Case] = {
    "plain": Case(plain, weights=dropped),
    "causal": Case(causal, queries=130, keys=130, dtype=torch.float16, weights=dropped),
    "window": Case(window, queries=96, keys=81, weights=dropped),
    "capped": Case(capped, width=64, values=16, weights=dropped),
    "padded": Case(padded, batch=2, queries=70, keys=99, weights=dropped),
    "shared keys": Case(causal, heads=4, shared=2, width=16, weights=dropped),
    "in f32": Case(causal, weights=lambda scores: dropped(scores.float()).to(scores.dtype)),
    "sigmoid": Case(plain, weights=lambda scores: functional.dropout(torch.sigmoid(scores), P, training=True)),
    "before": Case(plain, weights=lambda scores: functional.dropout(scores, P, training=True).softmax(-1)),
    "all": Case(plain, weights=Dropped(1.0)),
    "almost none": Case(plain, weights=Dropped(1e-9)),
    "none": Case(plain, weights=Dropped(0.0)),
}


def saving(kept: list[Tensor]) -> AbstractContextManager[Any]:
    """The `with` block in which what is saved for a backward pass is put down."""

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)


def gradients(function: Callable[..., Tensor], inputs: list[Tensor], kept: list[Tensor]) -> list[Tensor]:
    """The result, and the gradients of queries, keys and values."""
    leaves = [one.detach().requires_grad_() for one in inputs]
    with saving(kept):
        result = function(*leaves)
    given = torch.randn(result.shape, generator=torch.Generator().manual_seed(1)).to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, leaves, given)]


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_and_stores_neither_scores_nor_masks(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    inputs = case.inputs()
    kept: list[Tensor] = []
    with interpreted_cuda() as programs:
        ours = gradients(torch.compile(case, backend="cuesta", fullgraph=True), inputs, kept)
    scores = case.batch * case.heads * case.queries * case.keys
    assert all(one.numel() < scores for one in kept), "nothing as large as a mask is saved"
    forward, backward = (to_host(program) for program in programs)
    assert calls_of(forward) == ([] if name == "none" else ["aten.randint.low"]) and not calls_of(backward)
    for program in (forward, backward):
        made = [value.type for op in program.walk() if isinstance(op, host.AllocOp) for value in op.results]
        assert all(count_of(one) < scores for one in made), "nothing as large as a mask is stored"
    walks = [
        sum(isinstance(op, kernel.FuncOp) and "tl.dot" in emit_kernel(op).source for op in program.body.ops)
        for program in (forward, backward)
    ]
    assert walks == [1, 3 if case.values else 2]
    if name == "none":
        return
    (key,) = (one for one in kept if one.dtype == torch.int64)
    p = {"all": 1.0, "almost none": 1e-9}.get(name, P)
    mask = bernoulli(key, [case.batch, case.heads, case.queries, case.keys], 1 - p, 1)
    weights: dict[str, Callable[[Tensor], Tensor]] = {
        "in f32": lambda scores: Dropped(P, mask)(scores.float()).to(scores.dtype),
        "sigmoid": lambda scores: torch.sigmoid(scores) * mask.to(scores.dtype) * (1 / (1 - P)),
        "before": lambda scores: (scores * mask.to(scores.dtype) * (1 / (1 - P))).softmax(-1),
    }
    told = replace(case, weights=weights.get(name, Dropped(p, mask)))
    eager = gradients(told, inputs, [])
    truth = gradients(told, [one.double() for one in inputs], [])
    for mine, theirs, true in zip(ours, eager, truth, strict=True):
        assert not mine.isnan().any()
        assert off(mine, true) < 1.2 * off(theirs, true) if name != "all" else not mine.any()
        assert mine.stride() == theirs.stride()
