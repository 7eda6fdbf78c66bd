"""Attention that never stores its scores, as a kernel with `kernel.fold`: its text, its machine code, and what Triton's
interpreter makes of it, against float64.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from benchmarks.compile_stages import compiled
from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.pipeline import CHECK_BOUNDS, run_pipeline
from cuesta.targets.program import KernelText
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.testing import compare
from tests.support.attention_kernels import Attention, gradients
from tests.support.triton_interpreter import ask, on_cuda, parse, run, to_host
from tests.support.triton_kernels import kernels_in

pytest.importorskip("triton")

CASES = {
    "causal": Attention(),
    "bias": Attention(causal=False, bias=True),
    "partial tiles of keys": Attention(queries=32, keys=41, causal=False),
    "partial tiles everywhere": Attention(queries=19, keys=37, bias=True),
    "more keys than lanes of queries": Attention(rows=16, tile=32, keys=70, queries=40),
    "few lanes of a head": Attention(head=24, lanes=32, keys=37, element="bf16"),
    "f32": Attention(queries=20, keys=21, head=24, lanes=32, element="f32"),
    "no key": Attention(keys=0, causal=False),
    "scores in rounds": Attention(queries=20, keys=37, head=32, lanes=32, depth=16),
    "tiles without masks first": Attention(queries=70, keys=53, rows=32, split=True),
    "whole": Attention(queries=40, keys=37, more=", whole = 1"),
    "64 bits": Attention(queries=19, keys=21, index=64),
}


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(2)
def test_numerics(name: str) -> None:
    case = CASES[name]
    module = parse(case.program)
    inputs = random_inputs(module)
    expected, truth = run_reference(module, inputs), run_reference(module, inputs, precise=True)
    (actual,) = run(on_cuda(module), inputs)
    ulps = 8.0 if case.element == "bf16" else 4.0  # Triton's interpreter cuts f32 off when it makes bf16 of it
    found = compare(name, actual, expected[0], truth[0], factor=3.0, ulps=ulps)
    assert found.passes, str(found)


@pytest.mark.slow
def test_a_number_of_keys_that_is_known_at_run_time_only() -> None:
    text = Attention(heads=1, queries=32, keys=53, causal=False).program
    for old, new in (
        ("0 to 4)", "0 to (s0 + 15) floordiv 16)"),
        (", 53)", ", s0)"),
        ("848", "(s0 * 16)"),
        ("1x53x16xf16>", "1x?x16xf16, #aten.layout<sizes = [1, s0, 16]>>"),
        (" schedule #", " symbols(s0) schedule #"),
        ("-> tensor<1x32x16xf16> {", "-> tensor<1x32x16xf16> attributes {sym.symbols = #sym.symbols<s0 in [1, 99]>} {"),
    ):
        assert old in text
        text = text.replace(old, new)
    module = parse(text)
    for keys in (53, 16, 1):
        q, k, v = (torch.randn(1, rows, 16).half() for rows in (32, keys, keys))
        (actual,) = run(on_cuda(module), [q, k, v])
        expected = torch.softmax(q.double() @ k.double().mT * 0.25, -1) @ v.double()
        assert (actual.double() - expected).abs().max() < 2e-3, keys


@pytest.mark.slow
def test_infinities_and_nan_in_scores() -> None:
    module = parse(Attention(queries=16, keys=37, bias=True, causal=False).program)
    q, k, v, bias = (one for one in random_inputs(module) if isinstance(one, Tensor))
    bias[0, 2, :], bias[0, 3, 20:] = -torch.inf, -torch.inf
    bias[1, 4, 36], bias[1, 5, 1] = torch.nan, torch.inf
    (expected,), (actual,) = run_reference(module, [q, k, v, bias]), run(on_cuda(module), [q, k, v, bias])
    assert isinstance(expected, Tensor)
    wrong = expected.isnan().all(-1)
    assert wrong.nonzero().tolist() == [[0, 2], [1, 4], [1, 5]], "rows of -inf, of NaN, and of inf - inf"
    assert torch.allclose(actual.float(), expected.float(), rtol=2e-3, atol=2e-3, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Attention(queries=37, keys=21, rows=32, tile=16),
        Attention(queries=37, keys=53, head=24, lanes=32, element="f32", causal=False),
    ],
    ids=["causal", "f32, few lanes of a head"],
)
def test_gradients(case: Attention) -> None:
    dtype = torch.float32 if case.element == "f32" else torch.float16
    sizes = (case.queries, case.keys, case.keys, case.queries)
    q, k, v, g = (torch.randn(case.heads, size, case.head).to(dtype).double() for size in sizes)
    k.requires_grad_(), v.requires_grad_()
    scores = q @ k.mT * case.scale
    if case.causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    result = scores.softmax(-1) @ v
    result.backward(g)
    rows = [one.detach().float() for one in (scores.logsumexp(-1), (g * result).sum(-1))]
    inputs = [*(one.detach().to(dtype) for one in (q, k, v, g)), *rows]
    module = parse(gradients(case))
    for given in (run_reference(module, inputs), run(on_cuda(module), inputs)):
        for found, wanted in zip(given, (k.grad, v.grad), strict=True):
            assert isinstance(found, Tensor) and wanted is not None
            error = (found.double() - wanted).abs().max() / wanted.abs().max()
            assert error < (1e-5 if case.element == "f32" else 2e-3), error


def text_of(case: Attention, program: str = "") -> KernelText:
    (func,) = kernels_in(parse(program or case.program))
    return emit_kernel(func)


LARGE = Attention(heads=4, queries=1024, keys=1024, head=64, element="bf16", rows=128, tile=64, lanes=64, stages=3)


def test_scores_are_computed_once_and_what_does_not_change_before_the_loop() -> None:
    source = text_of(replace(LARGE, keys=1000)).source
    before, loop = re.split(r"    for c in .*:\n", source)
    assert before.count("tl.load(q") == 1 and "tl.load(q" not in loop
    assert loop.count("tl.load(k") == loop.count("tl.load(v") == 1
    scores, weighted = re.findall(r"tl\.dot\(.*\)", loop)
    assert scores.count(",") == 1 and weighted.count(",") == 2, "the product is added to what is carried"
    assert loop.count("libdevice.exp(") == 2 and before.count("tl.full(") == 3
    assert re.findall(r"        (\w+ = \w+)\n(?!        )", loop) == ["a = a1"]


def test_a_tile_of_the_gradients_is_loaded_once_and_turned() -> None:
    before, loop = text_of(LARGE, gradients(LARGE)).source.split("    for c in ")
    assert loop.count("tl.load(q") == loop.count("tl.load(g") == 1 and loop.count("tl.trans(") == 2
    assert before.count("tl.load(k") == before.count("tl.load(v") == 1 and loop.count("tl.load(") == 4
    assert loop.count("tl.dot(") == 4, "of the scores, of what their gradient is made of, and of both results"


def test_scores_in_rounds_are_computed_once() -> None:
    source = text_of(replace(LARGE, depth=32)).source
    assert source.count("        for e_start in range(0, 64, 32):") == source.count("for e_start") == 1
    assert source.count("tl.dot(") == 2


def test_of_two_loops_the_second_goes_on_with_what_the_first_carries() -> None:
    source = text_of(replace(LARGE, split=True)).source
    start, first, second = re.split(r"    for c\w* in .*:\n", source)
    first, between = first.split("\n    m = ")
    before = start + between
    assert "tl.load(q" not in first + second
    masked, whole = re.findall(r"(x\w*) = (tl\.load\(q.*\))", before)
    assert "mask=" in masked[1] and "mask=" not in whole[1], "the first loop may have no point, the second one has some"
    assert f"tl.dot({masked[0]}, " in first and f"tl.dot({whole[0]}, " in second
    assert " <= " not in first and " <= " in second
    assert between.startswith("m2\n")


def test_what_is_carried_changes_at_once() -> None:
    text = """
kernel.func @fibonacci(%x: !kernel.ptr<f32>) outs(%y: !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [2], target = cuda> {
  %p = kernel.program_id 0
  %0 = kernel.load %x[%p] : f32
  %1 = elem.constant 1.0 : f32
  %a, %b = kernel.fold (%c = 0 to %p * 4 + 3) from (%0, %1) carries (%d: f32, %e: f32) {
    %f = elem.add %d, %e : f32
    kernel.carry %e, %f : f32, f32
  } : f32, f32
  kernel.store %a, %y[%p] : f32
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.launch @fibonacci(%x) : (tensor<2xf32>) -> (tensor<2xf32>)
  func.return %y : tensor<2xf32>
}"""
    module, x = parse(text), torch.tensor([4.0, 0.5])
    (actual,) = run(on_cuda(module), [x])
    assert torch.equal(actual, torch.tensor([6.0, 13.0 + 8 * 0.5]))


def test_a_load_before_a_loop_that_may_have_no_point_is_masked_by_that() -> None:
    windowed = Attention(queries=48, keys=48, causal=True).program.replace("%c = 0 to", "%c = max(%p, 1) to", 1)
    (func,) = kernels_in(parse(windowed))
    before, _ = emit_kernel(func).source.split("    for c in ")
    (test,) = re.findall(r"(\w+) = tl\.cast\(.*tl\.maximum\(p, 1\).*\) < ", before)
    assert re.search(rf"tl\.load\(q .*mask={test}\)", before)


@pytest.mark.slow
def test_of_a_loop_without_points_the_initial_values_come() -> None:
    module = parse(Attention(queries=32, keys=32).program.replace("%c = 0 to", "%c = max(%p, 1) to", 1))
    inputs = random_inputs(module)
    (expected,), (actual,) = run_reference(module, inputs), run(on_cuda(module), inputs)
    assert isinstance(expected, Tensor) and expected[:, :16].isnan().all(), "0 divided by 0"
    assert torch.allclose(actual.float(), expected.float(), rtol=2e-3, atol=2e-3, equal_nan=True)


def test_two_axes_along_one_dimension_are_refused() -> None:
    text = Attention(causal=False).program.replace(
        "kernel.yield %tw : vector<16x1x16xf32>",
        """%n = kernel.load %q[%d + %j] : vector<1x16x16xf16>
          %nn = elem.neg %n : vector<1x16x16xf16>
          kernel.yield %tw : vector<16x1x16xf32>""",
    )
    (func,) = kernels_in(parse(text))
    with pytest.raises(CuestaError, match="a value of type vector<1x16x16xf16>: two lane axes"):
        emit_kernel(func)


@pytest.mark.slow
def test_what_a_text_reads_beyond_a_tensor_is_reported() -> None:
    case = Attention(heads=1, queries=16, keys=21, causal=False)
    whole = to_host(on_cuda(parse(case.program)))
    run_pipeline(make_context(), whole, [CHECK_BOUNDS])
    (func,) = kernels_in(whole)
    assert not any(isinstance(op, kernel.WithinOp) for op in func.walk()), "all is proved"
    start = case.program.index("func.func @main")
    short = case.program[:start] + case.program[start:].replace("tensor<1x21x16xf16>", "tensor<1x20x16xf16>")
    module = to_host(on_cuda(parse(short)))
    run_pipeline(make_context(), module, [CHECK_BOUNDS])
    (func,) = kernels_in(module)
    checks = sum(isinstance(op, kernel.WithinOp) for op in func.walk())
    inputs = [torch.randn(1, rows, 16).half() for rows in (16, 20, 20)]
    report = torch.full((2 * checks,), -(1 << 63))
    *_, found = ask("kernel", emit_kernel(func), 1, [*inputs, torch.empty(1, 16, 16).half(), report])
    elements = found.view(-1, 2)[:, 0]
    reported = elements[elements >= 0]
    assert len(reported) >= 2 and bool(((reported >= 320) & (reported < 336)).all()), "the last row of k, and of v"


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        replace(LARGE, warps=8),
        replace(LARGE, warps=8, head=48, keys=1000),
        replace(LARGE, warps=8, head=128, lanes=128, stages=2),
        replace(LARGE, warps=8, element="f32", stages=2, queries=1000),
    ],
    ids=["8 warps", "few lanes of a head", "head of 128", "f32"],
)
def test_matrix_units_and_copies_on_their_way(case: Attention) -> None:
    code = compiled(text_of(case)).code
    assert code["products of warp groups"] >= 4 and code["copies to shared"] >= 4, code
    assert not code["stack"] and not code["loads of spilled"], "what is carried stays in registers"
