"""Attention with dropout on its weights: one kernel in the forward pass, the kernels of recomputation in the backward
pass; both draw, neither stores scores or masks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from xdsl.dialects.builtin import ModuleOp

from benchmarks.attention_cases import Case, Dropped, capped, causal, padded, plain, wholly_masked, window
from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.dialects.core.locations import print_text
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets import reference
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference.keyed_draws import bernoulli
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.testing import compare
from tests.support.triton_interpreter import ask, interpreted_cuda, to_host
from tests.targets.triton.test_attention import REWRITES, calls_of, count_of, drawn
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


LIKE_ANOTHER = ("plain", "window", "padded", "almost none")
"""Masks that `test_attention_gradients.py` has too, and what others here do as well: by `make test-thorough`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in LIKE_ANOTHER else ()) for name in CASES]
)
@pytest.mark.every(9, also=("causal", "shared keys", "in f32", "sigmoid", "before", "none"))
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


def test_seeds_repeat_and_calls_do_not() -> None:
    case, kept = CASES["causal"], list[Tensor]()
    inputs = case.inputs()
    with interpreted_cuda():
        compiled = torch.compile(case, backend="cuesta", fullgraph=True)
        ask("seed", 5)
        first, second = gradients(compiled, inputs, kept), gradients(compiled, inputs, kept)
        ask("seed", 5)
        again = gradients(compiled, inputs, kept)
    for one, other, same in zip(first, second, again, strict=True):
        assert torch.equal(one, same) and not torch.equal(one, other)
    keys = [int(one) for one in kept if one.dtype == torch.int64]
    assert keys[0] == keys[2] != keys[1]


def test_a_forward_pass_alone_is_one_kernel() -> None:
    """And draws what it draws in training."""
    case = CASES["causal"]
    inputs = case.inputs()
    with interpreted_cuda() as programs:
        compiled = torch.compile(case, backend="cuesta", fullgraph=True)
        ask("seed", 5)
        with torch.no_grad():
            alone = compiled(*inputs)
        ask("seed", 5)
        trained = compiled(*[one.requires_grad_() for one in inputs])
    assert torch.equal(alone, trained)
    (program, *_) = (to_host(program) for program in programs)
    assert calls_of(program) == ["aten.randint.low"]
    assert sum(isinstance(op, host.LaunchOp) for op in program.walk()) == 1


def test_without_training_nothing_is_drawn() -> None:
    case = Case(causal, weights=lambda scores: functional.dropout(scores.softmax(-1), P, training=False))
    with interpreted_cuda(run_it=False) as programs:
        ours = gradients(torch.compile(case, backend="cuesta", fullgraph=True), case.inputs(), [])
    assert all(not calls_of(to_host(program)) for program in programs) and len(ours) == 4


def test_rows_that_see_nothing() -> None:
    """Eager's NaN, also where it is dropped: NaN times 0."""
    case = Case(wholly_masked, weights=dropped)
    with interpreted_cuda():
        ours = torch.compile(case, backend="cuesta", fullgraph=True)(*case.inputs())
    assert torch.equal(ours.isnan(), case(*case.inputs()).isnan())


def test_two_layers_and_another_draw() -> None:
    """Each draw has a number of its own; what is no draw between products has a key of its own, too."""
    case = CASES["plain"]

    def layers(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor) -> Tensor:
        return functional.dropout(case(case(q, k, v), k2, v2), 0.5, training=True)

    kept: list[Tensor] = []
    inputs = [*case.inputs(), *case.inputs()[1:]]
    with interpreted_cuda() as programs:
        result, *_ = gradients(torch.compile(layers, backend="cuesta", fullgraph=True), inputs, kept)
    assert calls_of(to_host(programs[0])) == ["aten.randint.low"] * 2 and not calls_of(to_host(programs[1]))
    assert abs(float((result == 0).float().mean()) - 0.5) < 0.05
    text = print_text(programs[0])
    assert re.findall(r"\[1, 2, 96, 96\], 0\.7, (\d)\)", text) == ["1", "2"]


@pytest.mark.parametrize("around", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_checkpoints(around: bool) -> None:
    """What is in a checkpoint is computed again with the same masks, also those that lie between no products."""
    case = CASES["causal"]

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result = case(q, k, v)
        return functional.dropout(result, 0.4, training=True) * 2 if around else result

    def function(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return checkpoint(layer, q, k, v, use_reentrant=False)

    kept: list[Tensor] = []
    inputs = case.inputs()
    with interpreted_cuda() as programs:
        ours = gradients(torch.compile(function, backend="cuesta", fullgraph=True), inputs, kept)
    assert calls_of(to_host(programs[0])) == ["aten.randint.low"] and not calls_of(to_host(programs[1]))
    (key,) = (one for one in kept if one.dtype == torch.int64)
    shape = [case.batch, case.heads, case.queries, case.keys]
    result_shape = [*shape[:3], case.width]
    text = print_text(programs[0])
    assert f'cuesta::bernoulli.default"(%random_key_default, {shape}, 0.7, 1)' in text

    def told(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result = replace(case, weights=Dropped(P, bernoulli(key, shape, 1 - P, 1)))(q, k, v)
        return result * bernoulli(key, result_shape, 0.6, 2).to(result.dtype) * (1 / 0.6) * 2 if around else result

    eager, truth = gradients(told, inputs, []), gradients(told, [one.double() for one in inputs], [])
    for mine, theirs, true in zip(ours, eager, truth, strict=True):
        assert off(mine, true) < 1.3 * off(theirs, true)


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[] if number in (1, 2) else [pytest.mark.thorough]) for number in range(24)]
)
def test_every_rewrite_keeps_what_drawn_programs_mean(number: int) -> None:
    """Of attention with dropout that nobody chose, forward and backward."""
    torch.manual_seed(number)
    case = replace(drawn(number), weights=Dropped(random.Random(number).choice((0.1, 0.5, 0.9))))
    with interpreted_cuda(run_it=False) as programs:
        gradients(torch.compile(case, backend="cuesta", fullgraph=True), case.inputs(), [])
    assert len(programs) == 2
    for program in programs:
        inputs = random_inputs(program)
        if case.dtype == torch.float16:  # logarithms of sums of exponentials: else weights are beyond what f16 holds
            inputs = [one + 25 if isinstance(one, Tensor) and one.dtype == torch.float32 else one for one in inputs]

        def run(program: ModuleOp = program, inputs: Any = inputs, **options: Any) -> Any:
            torch.manual_seed(number)
            return reference.run(program, inputs, **options)

        expected, truth = [], []
        for stage in default_stages():
            run_pipeline(make_context(), program, (stage,), verify_each=True)
            if stage.name == "aten-to-loops":  # few numbers have no key, and are eager's before that
                expected, truth = run(), run(precise=True)
            if stage.name in REWRITES:
                for ours, theirs, true in zip(run(), expected, truth, strict=True):
                    found = compare(stage.name, ours, theirs, true, factor=3.0, ulps=4.0)
                    assert found.passes, f"{case}: {found}"
            if stage.name == REWRITES[-1]:
                break
