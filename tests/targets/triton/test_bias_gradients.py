"""A learned bias for every score of an attention: its gradient is summed over the batch where it is computed, and
nothing of batch × heads × queries × keys is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host, kernel
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.transforms.products.products import static
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of
from tests.targets.triton.test_attention import calls_of
from tests.targets.triton.test_attention_gradients import off

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

Scores = Callable[[Tensor, Tensor], Tensor]


def added(scores: Tensor, bias: Tensor) -> Tensor:
    return scores + bias


def causal(scores: Tensor, bias: Tensor) -> Tensor:
    queries, keys = scores.shape[-2:]
    seen = torch.arange(queries)[:, None] >= torch.arange(keys)
    return (scores + bias).masked_fill(~seen, float("-inf"))


def scaled(scores: Tensor, bias: Tensor) -> Tensor:
    """A gate, of which the gradient is the scores' own besides."""
    return scores * bias


@dataclass(frozen=True)
class Case:
    bias: tuple[int, ...]
    score: Scores = added
    batch: int = 3
    heads: int = 2
    queries: int = 96
    keys: int = 96
    width: int = 32
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) * self.width**-0.5
        return self.score(scores, bias).softmax(-1).to(v.dtype) @ v

    def inputs(self) -> list[Tensor]:
        torch.manual_seed(0)
        shapes = [(self.batch, self.heads, size, self.width) for size in (self.queries, self.keys, self.keys)]
        found = [torch.randn(shape).bfloat16() for shape in shapes]
        return [*found, torch.randn(self.bias).to(self.dtype)]


CASES = {
    "for each head": Case((2, 96, 96)),
    "in f32": Case((2, 96, 96), dtype=torch.float32),
    "for all heads": Case((96, 96)),
    "with a batch of one": Case((1, 2, 96, 96)),
    "odd sizes": Case((2, 70, 101), queries=70, keys=101),
    "causal": Case((2, 128, 128), causal, queries=128, keys=128),
    "a gate": Case((2, 96, 96), scaled),
    "wide heads": Case((1, 96, 96), heads=1, width=80),
}
NEAR_MISSES = {
    "for each of the batch": Case((3, 2, 96, 96)),
    "for each key": Case((2, 1, 96)),
}


def gradients(function: Callable[..., Tensor], case: Case, dtype: torch.dtype | None = None) -> list[Tensor]:
    """The result, and the gradients of queries, keys, values and the bias."""
    inputs = [one.to(dtype or one.dtype).requires_grad_() for one in case.inputs()]
    result = function(*inputs)
    torch.manual_seed(1)
    given = torch.randn(result.shape).to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, inputs, given)]


def stored(program: ModuleOp) -> int:
    """The elements of the largest buffer."""
    made = [value for op in to_host(program).walk() if isinstance(op, host.AllocOp) for value in op.results]
    return max(math.prod(static(sizes_of(tensor_type_of(one)))) for one in made)


@pytest.mark.parametrize("name", [*CASES, *NEAR_MISSES])
@pytest.mark.every(9, also=("odd sizes", "causal", "a gate"))
def test_gradients_are_right(name: str) -> None:
    case = (CASES | NEAR_MISSES)[name]
    with interpreted_cuda() as programs:
        ours = gradients(torch.compile(case, backend="cuesta", fullgraph=True, dynamic=False), case)
    eager, truth = gradients(case, case), gradients(case, case, torch.float64)
    for mine, theirs, true in zip(ours, eager, truth, strict=True):
        assert off(mine, true) < 1.2 * off(theirs, true)
        assert mine.dtype == theirs.dtype
    scores = case.batch * case.heads * case.queries * case.keys
    if name in CASES:
        assert not calls_of(to_host(programs[1]))
        assert stored(programs[1]) < scores


def test_a_program_walks_along_the_batch() -> None:
    """Each point of the batch has two products of a tile, and one reduction has them all."""
    case = CASES["for each head"]
    with interpreted_cuda(run_it=False) as programs:
        gradients(torch.compile(case, backend="cuesta", fullgraph=True, dynamic=False), case)
    reductions = [op for op in to_host(programs[1]).walk() if isinstance(op, kernel.ReduceOp)]
    found = [[one for one in op.body.ops if isinstance(one, kernel.ContractOp)] for op in reductions]
    assert [len(one) for one in found if one] == [2]
    assert_compiles(text for text in texts_of(programs[1]) if "tl.dot(" in text.source)
