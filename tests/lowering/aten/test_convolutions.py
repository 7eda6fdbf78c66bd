"""Depthwise convolutions as nests on a GPU: the results and gradients of eager's, whatever the windows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

import cuesta
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda

CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def calls(program: ModuleOp) -> list[loops.ExternOp]:
    """The library calls of a program below `aten`."""
    lowered = program.clone()
    run_pipeline(make_context(), lowered, STAGES[: [stage.name for stage in STAGES].index("aten-to-loops") + 1])
    return [op for op in lowered.walk() if isinstance(op, loops.ExternOp)]


def case(seed: int) -> tuple[Callable[..., Tensor], list[Tensor], bool, str]:
    """A depthwise convolution that nobody chose, its operands, whether its windows have gaps and do not begin at every
    place, and what it is in words.
    """
    draw = random.Random(seed)
    rank = draw.choice((1, 2, 2, 2, 3))
    channels, multiplier = draw.choice((2, 3, 8)), draw.choice((1, 1, 2))
    window = [draw.randint(1, 5 if rank < 3 else 3) for _ in range(rank)]
    stride, padding, dilation = (
        [draw.choice(some) for _ in range(rank)] for some in ((1, 1, 2, 3), (0, 1, 2), (1, 1, 2))
    )
    sizes = [draw.randint(1, 9) + (k - 1) * d for k, d in zip(window, dilation, strict=True)]
    dtype = draw.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
    generator = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    image = some(draw.randint(1, 3), channels, *sizes)
    if rank == 2 and draw.random() < 0.4:
        image = image.contiguous(memory_format=torch.channels_last)
    given = [image, some(channels * multiplier, 1, *window)]
    if draw.random() < 0.5:
        given.append(some(channels * multiplier))

    def function(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return CONVOLUTIONS[rank](x, w, b, stride, padding, dilation, channels)

    gaps = any(s > 1 and d > 1 for s, d in zip(stride, dilation, strict=True))
    words = f"{dtype} {list(image.shape)} window {window} stride {stride} padding {padding} dilation {dilation}"
    return function, given, gaps, f"{words} multiplier {multiplier}"


@pytest.mark.parametrize("seed", range(12))
def test_forward(seed: int) -> None:
    function, given, _, words = case(seed)
    with interpreted_cuda(run_it=False, lowered=True) as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, given)
    assert calls(programs[0]) == [], words


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.thorough if seed >= 26 else ()) for seed in range(12, 40)]
)
def test_backward(seed: int) -> None:
    function, given, gaps, words = case(seed)
    for value in given:
        value.requires_grad_()
    with interpreted_cuda(run_it=False, lowered=True) as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, given)
    assert calls(programs[0]) == [], words
    (rest,) = calls(programs[1])
    assert rest.overload == "aten.convolution_backward.default"
    assert rest.arguments_attr.positional[-1] == (gaps, True, len(given) > 2), words


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.thorough if seed == 41 else ()) for seed in range(40, 46)]
)
def test_as_triton_kernels(seed: int) -> None:
    pytest.importorskip("triton")
    function, given, _, _ = case(seed)
    given[0].requires_grad_()
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, given)
    assert programs


OTHERS: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "grouped": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 2), (2, 4, 6, 6), (4, 2, 3, 3)),
    "plain": (lambda x, w: F.conv2d(x, w), (2, 4, 6, 6), (4, 4, 3, 3)),
    "of one channel": (lambda x, w: F.conv2d(x, w), (2, 1, 6, 6), (4, 1, 3, 3)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, None, 1, 1, 0, 4), (2, 4, 6, 6), (4, 1, 3, 3)),
    "a large window": (lambda x, w: F.conv2d(x, w, None, 1, 5, 1, 4), (2, 4, 12, 12), (4, 1, 11, 11)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_calls(name: str) -> None:
    function, image, weight = OTHERS[name]
    given = [torch.randn(image), torch.randn(weight)]
    with interpreted_cuda(run_it=False) as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, given)
    assert [op.overload for op in calls(programs[0])] == ["aten.convolution.default"]


def test_on_a_processor_they_stay_calls() -> None:
    x, w = torch.randn(2, 4, 6, 6), torch.randn(4, 1, 3, 3)
    cuesta.records.clear()
    torch.compile(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4), backend="cuesta", fullgraph=True)(x, w)
    assert cuesta.records[0].library_calls


@pytest.mark.slow
def test_sizes_that_only_the_call_knows() -> None:
    w = torch.randn(4, 1, 3, 3)
    with interpreted_cuda(run_it=False, lowered=True) as programs:
        compiled = torch.compile(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4).relu(), backend="cuesta", fullgraph=True)
        for sizes in ((2, 4, 6, 7), (3, 4, 9, 8)):
            x = torch.randn(sizes)
            for dim in (0, 2, 3):
                torch._dynamo.mark_dynamic(x, dim)
            torch.testing.assert_close(compiled(x, w), F.conv2d(x, w, None, 1, 1, 1, 4).relu())
    assert len(programs) == 1 and calls(programs[0]) == []
