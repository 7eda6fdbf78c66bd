"""Convolutions with groups, transposed ones and the gradients of all as nests, with what is around them: what one loop
says by the reference interpreter, by Triton's, by machine code of a processor, and that it is machine code for Hopper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

import cuesta
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.lowering.schedule import tune_kernels
from cuesta.lowering.schedule.tune_kernels import TuneKernelsPass, measuring
from cuesta.targets.reference import check_equivalent
from cuesta.testing import compare
from cuesta.transforms.products import fuse_products
from cuesta.transforms.products.choose_products import ChooseProductsPass
from cuesta.transforms.products.fuse_products import FuseProductsPass
from tests.fuzz.test_convolution_forms import TILE, in_order
from tests.support.triton_interpreter import parse, run
from tests.support.triton_kernels import assert_compiles, texts_of
from tests.targets.triton.test_convolved_products import as_tuple, calls_in, captured, last, until, weight

pytest.importorskip("triton")

Function = Callable[..., Tensor | tuple[Tensor, ...]]
gradients = torch.ops.aten.convolution_backward.default


def grouped(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b, padding=1, groups=2))


def grouped_with_more(x: Tensor, s: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return r + torch.tanh(F.conv2d(F.relu(x * s[:, None, None] + s[:, None, None]) + 1, w, padding=1, groups=2))


def transposed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv_transpose2d(x, w, b, padding=1))


def in_steps(x: Tensor, s: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv_transpose2d(torch.sigmoid(x * s[:, None, None]), w, b, stride=2, padding=1, output_padding=1)
    return y, torch.tanh(y)


def with_gaps(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose1d(x, w, stride=4, padding=1, dilation=6, output_padding=3).relu()


def volumes(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose3d(x, w, stride=(1, 2, 1), groups=2).relu()


def of_images(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
    dx, _, _ = gradients(g, x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, [True, False, False])
    return dx * (x > 0)


def of_images_transposed(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
    dx, _, _ = gradients(g, x, w, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 1, [True, False, False])
    return dx * (x > 0)


def of_the_weight(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
    _, dw, _ = gradients(g, x.relu(), w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False])
    return w - 0.1 * dw


def of_both(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    dx, dw, _ = gradients(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, False])
    return dx, dw


HALF = torch.bfloat16
BIAS: Callable[[], Tensor] = lambda: torch.randn(32).to(HALF)  # noqa: E731
CASES: dict[str, tuple[Function, Sequence[Callable[[], Tensor]]]] = {
    "grouped": (grouped, [lambda: last(2, 32, 5, 7), lambda: weight(32, 16, 3, 3), BIAS]),
    "grouped, with more around it": (
        grouped_with_more,
        [lambda: last(2, 32, 5, 4), BIAS, lambda: weight(48, 16, 3, 3), lambda: last(2, 48, 5, 4)],
    ),
    "transposed": (transposed, [lambda: last(2, 24, 5, 7), lambda: weight(24, 32, 3, 3), BIAS]),
    "transposed, in steps": (
        in_steps,
        [lambda: last(2, 24, 3, 4), lambda: torch.randn(24).to(HALF), lambda: weight(24, 32, 3, 3), BIAS],
    ),
    "transposed, with gaps": (with_gaps, [lambda: last(2, 16, 9), lambda: weight(16, 24, 3)]),
    "transposed, of three dimensions": (
        volumes,
        [lambda: last(1, 16, 2, 3, 3), lambda: weight(16, 16, 2, 3, 1)],
    ),
    "gradient of images": (
        of_images,
        [lambda: last(2, 24, 4, 4), lambda: last(2, 16, 7, 8), lambda: weight(24, 16, 3, 3)],
    ),
    "gradient of images, transposed": (
        of_images_transposed,
        [lambda: last(2, 16, 7, 7), lambda: last(2, 24, 4, 4), lambda: weight(24, 16, 3, 3)],
    ),
    "gradient of the weight": (
        of_the_weight,
        [lambda: last(2, 24, 4, 4), lambda: last(2, 16, 7, 8), lambda: weight(24, 16, 3, 3)],
    ),
    "both gradients, grouped": (
        of_both,
        [lambda: last(2, 32, 4, 5), lambda: last(2, 16, 4, 5), lambda: weight(32, 8, 3, 3)],
    ),
}


def inputs_of(name: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [make() for make in CASES[name][1]]


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_products, "estimates", lambda *_, **__: [(1.0, TILE)])


def fused(program: ModuleOp) -> ModuleOp:
    """A copy in which everything that can be is one nest with what is around it."""
    module = program.clone()
    FuseProductsPass().apply(make_context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("name", CASES)
def test_the_nest_means_the_same(name: str, small_tiles: None) -> None:
    function, inputs = CASES[name][0], inputs_of(name)
    before = until(captured(function, inputs), "spread-rows")
    after = fused(before)
    assert calls_in(before) and not calls_in(after)
    count = 2 if "both" in name else 1
    assert len(list(entry_block(after).ops)) == count + 1, "what is around is in the nest, and it is returned"
    check_equivalent(before, after, exact=False)
    again = parse(print_text(after))
    assert print_text(again) == print_text(after)


def check_results(name: str, actual: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    function = CASES[name][0]
    expected, truth = function(*inputs), function(*(one.double() for one in inputs))
    for position, triple in enumerate(zip(as_tuple(tuple(actual)), as_tuple(expected), as_tuple(truth), strict=True)):
        found = compare(f"{name} {position}", *triple)
        assert found.passes, str(found)


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(2)
def test_numerics(name: str, small_tiles: None) -> None:
    inputs = inputs_of(name)
    before = until(captured(CASES[name][0], inputs), "spread-rows")
    check_results(name, run(fused(before), in_order(before, inputs)), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grouped", "transposed, in steps", "gradient of the weight"])
def test_machine_code_for_a_gpu(name: str) -> None:
    texts = texts_of(fused(until(captured(CASES[name][0], inputs_of(name)), "spread-rows")))
    assert sum(text.source.count("tl.dot(") for text in texts) == 1
    assert_compiles(texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_on_a_processor(name: str, tmp_path: Path) -> None:
    """The same nests, which say nothing of a device, as machine code."""
    inputs = inputs_of(name)
    text = re.sub(r',? ?device = "cuda:0"', "", print_text(captured(CASES[name][0], inputs))).replace(
        ", #aten.layout<>", ""
    )
    before = until(parse(text), "canonicalize")
    after = fused(before)
    assert calls_in(before) and not calls_in(after)
    path = tmp_path / "program.mlir"
    path.write_text(print_text(after))
    check_results(name, cuesta.load(path)(*in_order(before, inputs)), inputs)


@pytest.mark.slow
def test_the_gradient_of_a_weight_in_parts(small_tiles: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows and columns, and many points: so can a sum be spread over a device."""
    monkeypatch.setattr(fuse_products, "estimates", lambda *_, **__: [(1.0, TILE)])
    inputs = inputs_of("gradient of the weight")
    before = until(captured(of_the_weight, inputs), "spread-rows")
    module = fused(before)
    (nest,) = (op for op in entry_block(module).ops if isinstance(op, loops.NestOp))
    nest.properties["schedule"] = loops.ScheduleAttr.of({**TILE, "part": 16})
    assert len(texts_of(module)) == 2
    check_results("gradient of the weight", run(module, in_order(before, inputs)), inputs)


def test_a_place_that_none_gives_to_is_0_whatever_the_weight(small_tiles: None) -> None:
    """There is nothing to be multiplied by infinity."""
    x, w = last(1, 16, 4), torch.full((16, 16, 2), torch.inf).to(HALF)

    def function(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose1d(x, w, stride=3)

    before = until(captured(function, [x, w]), "spread-rows")
    (actual,) = run(fused(before), [x, w])
    torch.testing.assert_close(actual, function(x, w), equal_nan=True)
    assert not actual[..., 2::3].any()


REASONS = {
    "grouped": "it has groups",
    "transposed, in steps": "it is transposed",
    "gradient of images": "it is the gradient of images",
    "gradient of the weight": "it is the gradient of a weight",
}


@pytest.mark.parametrize("name", REASONS)
def test_by_default_the_library_keeps_what_was_never_measured(name: str) -> None:
    program = until(captured(CASES[name][0], inputs_of(name)), "spread-rows")
    before = print_text(program)
    with trace_rewrites() as trace:
        ChooseProductsPass().apply(make_context(), program)
    assert print_text(program) == before
    assert any(f"apart, but {REASONS[name]}, of which nothing was measured" in one.reason for one in trace.refusals)


def test_two_gradients_stay_one_call() -> None:
    program = until(captured(of_both, inputs_of("both gradients, grouped")), "spread-rows")
    before = print_text(program)
    ChooseProductsPass().apply(make_context(), program)
    assert print_text(program) == before
    assert calls_in(program) == ["aten.convolution_backward.default"]


@pytest.mark.parametrize("faster", [(), ("images",), ("weight",), ("images", "weight")])
def test_max_autotune_asks_for_each_gradient(faster: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_kernels, "SMALL", 1000)
    before = until(captured(of_both, inputs_of("both gradients, grouped")), "spread-rows")
    asked: list[list[str]] = []

    def measure(questions: Sequence[Sequence[ModuleOp]]) -> list[list[float]]:
        texts = [[print_text(program) for program in question] for question in questions]
        asked.extend(texts)
        of = ["images" if "[true, false, false]" in question[0] else "weight" for question in texts]
        return [
            [10.0 if "depth" in text and which in faster else 30.0 for text in question]
            for which, question in zip(of, texts, strict=True)
        ]

    module = before.clone()
    with measuring(measure):
        TuneKernelsPass().apply(make_context(), module)
    module.verify()
    assert len(asked) == 2 and all(len(question) > 1 for question in asked)
    assert len(calls_in(module)) == (len(faster) < 2)
    if not faster:
        assert print_text(module) == print_text(before)
    check_equivalent(before, module, exact=False)
