"""The gradient of attention in plain PyTorch: two kernels and a sum, which compute scores again and store none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

from benchmarks.attention_cases import CASES, Case, causal, plain, slopes, window
from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets import reference
from cuesta.targets.reference import random_inputs
from cuesta.testing import compare
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.targets.triton.test_attention import APART, REWRITES, calls_of, drawn, range_of

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

SHOWN = ("causal", "a table", "capped", "wholly masked", "shared keys", "sigmoid")
"""What is checked every time; the others by `make test-thorough`."""
DIFFERENTIABLE = [name for name in CASES if name != "whole numbers"]


def gradients(function: Callable[..., Tensor], case: Case, dtype: torch.dtype | None = None) -> list[Tensor]:
    """The result, and the gradients of queries, keys and values."""
    torch.manual_seed(0)
    inputs = [one.to(dtype or one.dtype).requires_grad_() for one in case.inputs()]
    result = function(*inputs)
    torch.manual_seed(1)
    given = torch.randn(result.shape).to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, inputs, given)]


def programs_of(case: Case) -> list[ModuleOp]:
    """The forward and the backward pass for a CUDA device."""
    with interpreted_cuda(run_it=False) as programs:
        gradients(torch.compile(case, backend="cuesta", fullgraph=True), case)
    return programs


def bytes_of(kind: Attribute) -> int:
    """The size of a buffer."""
    assert isinstance(kind, TensorType)
    return math.prod(kind.get_shape()) * max(8, getattr(kind.element_type, "bitwidth", 8)) // 8


def off(result: Tensor, truth: Tensor) -> float:
    """The root of the mean square of what a result is off by, where there is a truth, relative to its size."""
    there = truth.isfinite()
    return float((result.double() - truth)[there].square().mean().sqrt() / truth[there].square().mean().sqrt())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHOWN else [pytest.mark.thorough]) for name in DIFFERENTIABLE]
)
def test_gradients_are_right_and_store_no_scores(name: str) -> None:
    case = CASES[name]
    with interpreted_cuda() as programs:
        ours = gradients(torch.compile(case, backend="cuesta", fullgraph=True), case)
    eager, truth = gradients(case, case), gradients(case, case, torch.float64)
    for mine, theirs, true in zip(ours, eager, truth, strict=True):
        # Steps that are masked all over are left out, also where a row of theirs is: see docs/differences.md.
        alike = theirs.isnan() if name != "wholly masked" else theirs.isnan() & mine.isnan()
        assert torch.equal(mine.isnan(), alike)
        assert true.isnan().all() or off(mine, true) < 1.2 * off(theirs, true)
        assert mine.stride() == theirs.stride()
    forward, backward = (to_host(program) for program in programs)
    if name in (*APART, "few queries"):
        return
    scores = case.batch * case.heads * case.queries * case.keys
    for program in (forward, backward):
        assert not calls_of(program), "the products are in the kernels"
        made = [value.type for op in program.walk() if isinstance(op, host.AllocOp) for value in op.results]
        assert all(bytes_of(one) < 2 * scores for one in made), "nothing as large as the scores is stored"


def contractions(program: ModuleOp) -> list[int]:
    """How many products each of the kernels that walk gives in a step to what it carries on."""
    folds = [op for op in to_host(program).walk() if isinstance(op, kernel.FoldOp)]
    return [sum(isinstance(op, kernel.ContractOp) for op in fold.body.ops) for fold in folds]


def test_keys_and_values_share_a_walk() -> None:
    """Their gradients sum along the queries; those of the queries along the keys. Of other widths each is its own."""
    case = Case(plain, queries=96, keys=96, width=32)
    assert contractions(programs_of(case)[1]) == [2, 1]
    assert contractions(programs_of(CASES["capped"])[1]) == [1, 1, 1]


@pytest.mark.parametrize("number", [1, 4, *(pytest.param(number, marks=pytest.mark.thorough) for number in (3, 5))])
def test_every_rewrite_keeps_what_drawn_gradients_mean(number: int) -> None:
    torch.manual_seed(number)
    case = drawn(number)
    _, program = programs_of(case)
    inputs = random_inputs(program)
    expected = reference.run(program, inputs)
    truth = reference.run(program, inputs, precise=True)
    for stage in default_stages():
        run_pipeline(make_context(), program, (stage,), verify_each=True)
        if stage.name in REWRITES:
            for ours, theirs, true in zip(reference.run(program, inputs), expected, truth, strict=True):
                found = compare(stage.name, ours, theirs, true, factor=3.0, ulps=4.0)
                assert found.passes, f"{case}: {found}"
        if stage.name == REWRITES[-1]:
            break


def bounds_of(program: ModuleOp, programs: Sequence[int], count: int) -> list[list[tuple[int, int]]]:
    """The first step and one past the last of programs of each kernel that walks `count` steps, in one fold or two."""
    found: list[list[tuple[int, int]]] = []
    for func in (op for op in to_host(program).walk() if isinstance(op, kernel.FuncOp)):
        folds = [op for op in func.walk() if isinstance(op, kernel.FoldOp)]
        ends = [[range_of(fold, p) for fold in folds] for p in programs]
        for one in ends:
            assert sum(high - low for low, high in one) == max((high for _, high in one), default=0) - min(
                (low for low, _ in one), default=0
            ), "each step is in one of them"
        if folds:
            found.append([(min(low for low, _ in one), min(max(high for _, high in one), count)) for one in ends])
    return found


def test_masked_steps_of_gradients_are_left_out() -> None:
    """Of 256 by 256, in tiles of 64: a key is seen by queries that are not before it, and near."""
    every: dict[Any, list[list[tuple[int, int]]]] = {
        causal: [[(0, 4), (1, 4), (2, 4), (3, 4)], [(0, 1), (0, 2), (0, 3), (0, 4)]],
        window: [[(0, 2), (1, 3), (2, 4), (3, 4)], [(0, 1), (0, 2), (1, 3), (2, 4)]],
        slopes: [[(0, 4)] * 4] * 2,
    }
    for score, expected in every.items():
        case = Case(score, queries=256, keys=256, near=10)
        assert bounds_of(programs_of(case)[1], range(4), 4) == expected, score.__name__


def test_what_asks_for_equal_scores_gets_those_that_were_there() -> None:
    """A maximum's gradient goes to the scores that are equal to it: computed again they would not be."""
    case = CASES["of whole numbers"]
    forward, backward = programs_of(case)
    assert len(calls_of(to_host(forward))) == 2 and len(calls_of(to_host(backward))) == 4
    assert math.isfinite(float(gradients(case, case)[1].float().sum()))
