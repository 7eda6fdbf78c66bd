"""`flex_attention`: no call of eager's is left, forward or backward, and the results are those of eager's own
implementation, which has all scores in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, randn
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import cuesta
from cuesta.testing import compare
from tests.support.differential import compiled_of
from tests.support.levels import captured_graphs, check_levels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("error:cuesta runs a graph in eager"),
]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # PyTorch refuses gradients on the CPU, where TorchInductor has none. Ours and eager's are the same on all devices.
    monkeypatch.setattr(module, "_validate_device", lambda *tensors: None)
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()
    yield


def causal(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def late(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    """Rows that nothing is left of."""
    return (q >= kv) & (q > 5) & ((h > 0) | (q > 9))


def masked(mask: Callable[..., Tensor], sizes: tuple[int, ...] = (2, 4, 40, 24)) -> Any:
    return create_block_mask(mask, *sizes, device="cpu", BLOCK_SIZE=16)


SLOPES, TABLE = torch.linspace(0.1, 1, 4), torch.linspace(-1, 1, 200)


def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return score + SLOPES[h] * (q - kv) + torch.tensor([0.5, 0.25])[1]


def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return torch.tanh(score / 2) * 2 + torch.where(h > 1, TABLE[q - kv + 100], 0.0)


CASES: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "plain": lambda q, k, v: flex_attention(q, k, v),
    "scale": lambda q, k, v: flex_attention(q, k, v, scale=0.3),
    "score_mod": lambda q, k, v: flex_attention(q, k, v, score_mod=alibi),
    "mask": lambda q, k, v: flex_attention(q, k, v, block_mask=masked(causal)),
    "both": lambda q, k, v: flex_attention(q, k, v, score_mod=capped, block_mask=masked(causal)),
    "rows of nothing": lambda q, k, v: flex_attention(q, k, v, block_mask=masked(late)),
    "sums": lambda q, k, v: flex_attention(q, k, v, score_mod=alibi, return_lse=True),
    "around": lambda q, k, v: flex_attention(q * 2, k.sin(), v + 1, score_mod=alibi).relu() + 1,
}


def tensors(heads: int = 4, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [randn(2, count, size, 8, dtype=dtype) for count, size in ((4, 40), (heads, 24), (heads, 24))]


def check(function: Callable[..., Any], inputs: list[Tensor], *learned: Tensor, **settings: Any) -> None:
    """Results and, of what requires them, gradients are eager's; nothing runs in eager."""
    found: list[list[Tensor]] = []
    for one in (compiled_of(function, **settings), function):
        results = one(*inputs)
        results = list(results) if isinstance(results, tuple) else [results]
        if wanted := [value for value in (*inputs, *learned) if value.requires_grad]:
            results += torch.autograd.grad(torch.stack([value.sin().sum() for value in results]).sum(), wanted)
        found.append(results)
    torch.testing.assert_close(*found, equal_nan=True)
    assert [one.stride() for one in found[0]] == [one.stride() for one in found[1]]
    assert not cuesta.statistics().fallbacks and all(record.kernels for record in cuesta.records)


TRAINED = ("both", "rows of nothing", "sums", "around")
"""Of these the gradients, too: a score's and a mask's are in them. Of the others the forward pass alone, whose program
without a backward pass is another; all of both by `make test-thorough`.
"""


BOTH = [pytest.param(True, id="training"), pytest.param(False, id="inference", marks=pytest.mark.thorough)]
"""The forward pass of training has all that inference has."""


@pytest.mark.parametrize(
    ("case", "training"),
    [
        pytest.param(
            case,
            training,
            id=f"{'training' if training else 'inference'}-{case}",
            marks=() if (case in TRAINED) == training else pytest.mark.thorough,
        )
        for case in CASES
        for training in (True, False)
    ],
)
@pytest.mark.every(2, also=("training-rows of nothing", "inference-mask"))
def test_as_eager(case: str, training: bool) -> None:
    check(CASES[case], [one.requires_grad_(training) for one in tensors()])
    assert len(cuesta.records) == 1 + training


@pytest.mark.parametrize("training", BOTH)
def test_groups_of_queries(training: bool) -> None:
    inputs = [one.requires_grad_(training) for one in tensors(heads=2)]
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=masked(causal), enable_gqa=True), inputs)


def test_keys_for_all_of_a_batch() -> None:
    queries, keys, values = tensors()
    inputs = [one.requires_grad_() for one in (queries, keys[:1].clone(), values[:1].clone())]
    check(CASES["both"], inputs)


def test_other_types() -> None:
    check(CASES["both"], tensors(dtype=torch.float64))


def test_16_bits() -> None:
    """Of which products may be nearer to the truth than eager's, by as much as they are made of f32."""
    function, inputs = CASES["both"], tensors(dtype=torch.bfloat16)
    truth = function(*(one.double() for one in inputs))
    found = compare("both", compiled_of(function)(*inputs), function(*inputs), truth)
    assert found.passes, str(found)


def test_other_memory() -> None:
    inputs = [one.transpose(1, 2).contiguous().requires_grad_() for one in tensors()]
    check(lambda *given: CASES["both"](*[one.transpose(1, 2) for one in given]), inputs)


def test_gradients_of_what_a_score_reads() -> None:
    slopes, table = SLOPES.clone().requires_grad_(), torch.linspace(-1, 1, 64)
    inputs = [one.requires_grad_() for one in tensors()]

    def scored(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return score * slopes[h] + table[q] * table[kv]

    check(lambda q, k, v: flex_attention(q, k, v, score_mod=scored), inputs, slopes)


@pytest.mark.parametrize("training", BOTH)
def test_dynamic_sizes(training: bool) -> None:
    function = compiled_of(CASES["score_mod"], dynamic=True)
    for queries, keys in ((40, 24), (17, 33)):
        inputs = [randn(2, 4, size, 8, requires_grad=training) for size in (queries, keys, keys)]
        torch.testing.assert_close(result := function(*inputs), expected := CASES["score_mod"](*inputs))
        if training:
            tangent = torch.randn_like(result)
            gradients = [torch.autograd.grad(one, inputs, tangent) for one in (result, expected)]
            torch.testing.assert_close(*gradients)
    assert len(cuesta.records) == 1 + training and not cuesta.statistics().fallbacks


def test_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tensor that the body of a score holds."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    inputs = [one.requires_grad_() for one in tensors()]
    for again in (False, True):
        torch._dynamo.reset()
        cuesta.clear_records()
        check(CASES["score_mod"], inputs)
        assert [record.from_cache for record in cuesta.records] == [again, again]


def test_scores_are_not_saved() -> None:
    queries, keys, values = tensors()
    inputs = [queries.requires_grad_(), keys, values]
    result = compiled_of(CASES["mask"])(*inputs)
    assert max(one.numel() for one in result.grad_fn.saved_tensors) < 2 * 4 * 40 * 24


@pytest.mark.parametrize("training", BOTH)
def test_every_stage(training: bool) -> None:
    inputs = [randn(1, 2, 6, 4, requires_grad=training) for _ in range(3)]
    mask = masked(causal, (1, 2, 6, 6))
    with captured_graphs() as graphs:
        result = compiled_of(lambda q, k, v: flex_attention(q, k, v, score_mod=capped, block_mask=mask))(*inputs)
        if training:
            result.sum().backward()
    assert len(graphs) == 1 + training
    for graph in graphs:
        check_levels(graph)
