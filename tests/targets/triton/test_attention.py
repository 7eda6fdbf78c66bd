"""Attention in plain PyTorch becomes one kernel that stores no scores: run by Triton's interpreter, and by the oracle
after each of the rewrites that make it.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

import cuesta
from benchmarks.attention_cases import CASES, Case, capped, causal, plain, slopes, window
from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import host, kernel, sym
from cuesta.dialects.core.locations import print_text
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets import reference
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.testing import assert_close_to_float64, compare
from tests.support.triton_interpreter import interpreted_cuda, parse, to_host

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")

REWRITES = ("join-products", "shorten-walks", "carry-reductions", "loops-to-kernel", "split-walks")
APART = ("whole numbers", "of whole numbers")
"""What is not one nest between its products, or cannot be one walk: it stays three steps."""


def calls_of(program: ModuleOp) -> list[str]:
    """The library calls of a program at `host`."""
    return [op.overload for op in program.walk() if isinstance(op, host.ExternOp)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(2, also=("few queries", "sigmoid", "a table that ends"))
def test_it_is_one_kernel_and_right(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    with interpreted_cuda() as programs:
        compiled = torch.compile(case, backend="cuesta", fullgraph=True)
        assert_close_to_float64(compiled, case, case.inputs(), factor=3.0, ulps=4.0)
    (program,) = programs
    lowered = to_host(program)
    if name in APART:
        assert len(calls_of(lowered)) == 2
        return
    assert not calls_of(lowered), "the products are in the kernel"
    texts = [emit_kernel(op).source for op in lowered.body.ops if isinstance(op, kernel.FuncOp)]
    (text,) = (one for one in texts if "tl.dot" in one)
    walks = sum(isinstance(op, kernel.FoldOp) for op in lowered.walk())  # with masks, and without
    assert text.count("tl.dot") == 2 * walks, "the scores of a tile are computed once, whoever asks for them"
    scores = case.batch * case.heads * case.queries * case.keys
    made = [value.type for op in lowered.walk() if isinstance(op, host.AllocOp) for value in op.results]
    assert all(count_of(one) < scores for one in made), "nothing as large as the scores is stored"


def count_of(kind: Attribute) -> int:
    """The elements of a buffer."""
    return math.prod(kind.get_shape()) if isinstance(kind, TensorType) else 1


def drawn(number: int) -> Case:
    """An attention that nobody chose."""
    rng = random.Random(number)
    return Case(
        rng.choice((plain, causal, window, slopes, capped)),
        batch=rng.choice((1, 2)),
        heads=rng.choice((1, 3)),
        queries=rng.randint(2, 150),
        keys=rng.randint(16, 150),
        width=rng.choice((16, 20, 64, 130)),
        values=rng.choice((2, 24, 100)),
        dtype=rng.choice((torch.bfloat16, torch.float16)),
        near=rng.randint(1, 100),
    )


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=() if number in (1, 2, 4, 5) else pytest.mark.thorough) for number in range(8)],
)
def test_every_rewrite_keeps_what_drawn_programs_mean(number: int) -> None:
    torch.manual_seed(number)
    case = drawn(number)
    captured = cuesta.lower(case, *case.inputs()).aten
    inputs = captured.arguments(*case.inputs())
    program = on_cuda(captured.module)
    expected = reference.run(program, inputs)
    truth = reference.run(program, inputs, precise=True)
    joined = False
    for stage in default_stages():
        run_pipeline(make_context(), program, (stage,), verify_each=True)
        if stage.name in REWRITES:
            for ours, theirs, true in zip(reference.run(program, inputs), expected, truth, strict=True):
                found = compare(stage.name, ours, theirs, true, factor=3.0, ulps=4.0)
                assert found.passes, f"{case}: {found}"
        joined |= any(isinstance(op, kernel.ContractOp) for op in program.walk())
        if stage.name == REWRITES[-1]:
            break
    assert joined


def test_infinite_scores_are_as_in_eager() -> None:
    torch.manual_seed(0)
    case = replace(CASES["plain"], dtype=torch.float16)
    q, k, v = case.inputs()
    q[0, 0, 3] = float("inf")
    q[0, 1, 5] = float("nan")
    k[0, 0, 7] = float("-inf")
    with interpreted_cuda():
        compiled = torch.compile(case, backend="cuesta", fullgraph=True)
        ours, eager = compiled(q, k, v), case(q, k, v)
    assert torch.equal(ours.isnan(), eager.isnan())


def test_values_that_nobody_sees_are_not_read() -> None:
    case = replace(CASES["causal"], queries=96, keys=256)
    q, k, v = case.inputs()
    expected = case(q, k, v)
    v[:, :, 192:] = float("nan")
    with interpreted_cuda():
        ours = torch.compile(case, backend="cuesta", fullgraph=True)(q, k, v)
    assert case(q, k, v).isnan().all(), "in eager they weigh 0, and 0 times NaN is NaN"
    torch.testing.assert_close(ours, expected, atol=2e-2, rtol=2e-2)


def test_indices_that_nobody_sees_are_not_read() -> None:
    """A bias that is looked up, of which a mask takes out the one that lies beyond the table."""
    case = Case(causal, queries=130, keys=130)
    q, k, v = case.inputs()
    table, places = torch.randn(2, 10).to(case.dtype), torch.randint(-10, 10, (130, 130))

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * case.width**-0.5 + table[:, places]
        return causal(scores, case).softmax(-1) @ v

    expected = function(q, k, v, places)
    beyond = places.clone()
    beyond[0, 129] = 10**6
    with interpreted_cuda() as programs:
        ours = torch.compile(function, backend="cuesta", fullgraph=True)(q, k, v, beyond)
    assert not calls_of(to_host(programs[-1]))
    with pytest.raises(IndexError):
        function(q, k, v, beyond)
    torch.testing.assert_close(ours, expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(
    ("score", "near", "steps"),
    [("causal", 1, [(0, 1), (0, 2), (0, 3)]), ("window", 10, [(0, 1), (0, 2), (1, 3)]), ("plain", 1, [(0, 4)] * 3)],
)
def test_steps_that_are_masked_all_over_are_left_out(score: str, near: int, steps: list[tuple[int, int]]) -> None:
    """Of 300 queries by 200 keys, in tiles of 64 by 64."""
    chosen = {"causal": causal, "window": window, "plain": plain}[score]
    case = Case(chosen, queries=300, keys=200, near=near)
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(case, backend="cuesta", fullgraph=True)(*case.inputs())
    folds = [op for op in to_host(programs[-1]).walk() if isinstance(op, kernel.FoldOp)]
    found = [[range_of(fold, p) for fold in folds] for p in range(3)]
    assert [(min(low for low, _ in one), min(max(high for _, high in one), 4)) for one in found] == steps
    assert [sum(high - low for low, high in one) for one in found] == [high - low for low, high in steps]


def range_of(fold: kernel.FoldOp, program: int) -> tuple[int, int]:
    """The first step of a program, and one past the last."""
    low, high = (int(sym.evaluate(bound.results[0], [program], {})) for bound in (fold.lowers, fold.uppers))
    return low, high


@pytest.mark.parametrize(("queries", "keys", "calls"), [(16, 16384, 2), (64, 4096, 2), (128, 128, 0), (512, 512, 0)])
def test_few_long_rows_stay_products(queries: int, keys: int, calls: int) -> None:
    """A program walks along a row by itself: of 8 heads of 16 queries there are 8 programs, of 256 steps each."""
    case = Case(plain, heads=8, queries=queries, keys=keys, width=64)
    captured = cuesta.lower(case, *case.inputs()).aten
    assert len(calls_of(to_host(on_cuda(captured.module)))) == calls


@pytest.mark.parametrize("expanded", ["queries", "keys", "values"])
def test_factors_that_lie_expanded(expanded: str) -> None:
    """A factor that is the same along its own axis is no factor of a contraction: nothing is refused."""
    case = CASES["plain"]
    inputs = case.inputs()

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q = q[:, :, :1].expand(q.shape) if expanded == "queries" else q
        k = k[:, :, :1].expand(k.shape) if expanded == "keys" else k
        v = v[..., :1].expand(v.shape) if expanded == "values" else v
        return case(q, k, v)

    with interpreted_cuda() as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True)
        assert_close_to_float64(compiled, function, inputs, factor=3.0, ulps=4.0)
    assert programs


def test_a_fold_that_counts_its_steps_takes_all_of_them() -> None:
    """Steps are left out of what `carry-reductions` writes; a hand that adds to it is obeyed."""
    case = CASES["causal"]
    program = on_cuda(cuesta.lower(case, *case.inputs()).aten.module)
    for stage in default_stages():
        if stage.name == "loops-to-kernel":
            break
        run_pipeline(make_context(), program, (stage,))
    text = print_text(program)
    (carry,) = re.findall(r"loops.carry (%\w+), (%\w+), (%\w+)", text)
    one = f"%one = elem.constant 1.0 : f32\n%more = elem.add {carry[1]}, %one : f32\n"
    edited = text.replace(f"loops.carry {carry[0]}, {carry[1]},", f"{one}loops.carry {carry[0]}, %more,")
    whole, bounded = (to_host(parse(one)) for one in (edited, text))
    found = [[op for op in module.walk() if isinstance(op, kernel.FoldOp)] for module in (whole, bounded)]
    assert [[fold.uppers.results[0] == 3 for fold in folds] for folds in found] == [[True], [False, False]]
