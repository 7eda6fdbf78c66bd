"""Max pooling's index where it is a matter of rules: equal elements, several NaN in a window, nothing but -inf."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.pipeline import STAGES, run_pipeline
from tests.support.levels import captured_graphs

pytestmark = pytest.mark.slow

MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
ADAPTIVE = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
SIZES = {1: (37,), 2: (11, 18), 3: (7, 6, 9)}
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def image(rank: int, dtype: torch.dtype) -> Tensor:
    """Many equal elements, many NaN, and windows of nothing but -inf."""
    x = torch.randint(-2, 3, (2, 20, *SIZES[rank])).to(dtype)
    x[torch.rand(x.shape) < 0.2] = math.nan
    x[torch.rand(x.shape) < 0.3] = -math.inf
    x[0, :3] = -math.inf
    x[1, 3] = math.nan
    return x


def check(function: Any, x: Tensor, like: Tensor | None = None) -> None:
    """Compares values, indices and gradients with eager's, to the bit; eager gets `like`, which equals x, if given."""
    found: list[list[Tensor]] = []
    weight: Tensor | None = None
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
    for call, given in ((compiled, x), (function, x if like is None else like)):
        leaf = given.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        values, index = call(leaf)
        if weight is None:
            weight = torch.randint(-8, 9, values.shape).to(values.dtype)
        (gradient,) = torch.autograd.grad(values, leaf, weight)
        found.append([values, index, gradient])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


WINDOWS = [(3, 1, 1, 1), (3, 2, 1, 1), (2, 2, 0, 1), (3, 2, 1, 2), (5, 1, 2, 1)]


@pytest.mark.parametrize(
    ("rank", "window"),
    [
        (1, WINDOWS[0]),
        (2, WINDOWS[1]),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in product([1, 2, 3], WINDOWS)),
    ],
)
def test_of_several_nan_the_last_counts(rank: int, window: tuple[int, int, int, int]) -> None:
    kernel, stride, padding, dilation = window
    if dilation * (kernel - 1) >= min(SIZES[rank]):
        pytest.skip("no window fits")

    def pooled(x: Tensor) -> Any:
        return MAX_POOL[rank](x, kernel, stride, padding, dilation, return_indices=True)

    cuesta.clear_records()
    x = image(rank, torch.float32)
    check(pooled, x)
    if rank > 1:
        check(pooled, x.bfloat16())
        # Eager's own indices for 3-D images that lie channels last may be outside of their windows: see below.
        check(pooled, x.to(memory_format=LAST[rank]), like=x if rank == 3 else None)
    assert not cuesta.statistics().fallbacks


def test_windows_of_nothing_but_minus_infinity_in_3d() -> None:
    """A window's first element is the maximum; of some channels eager leaves its depth out (docs/differences.md)."""
    x = torch.full((1, 19, 7, 6, 9), -math.inf)
    last = x.to(memory_format=torch.channels_last_3d)

    def pooled(x: Tensor) -> Any:
        return F.max_pool3d(x, 3, 2, 1, 2, return_indices=True)

    check(pooled, last, like=x)
    assert not torch.equal(pooled(last)[1], pooled(x)[1])


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_windows_too(rank: int) -> None:
    for count in (3, 5):

        def pooled(x: Tensor, count: int = count) -> Any:
            return ADAPTIVE[rank](x, [count] * rank, return_indices=True)

        check(pooled, image(rank, torch.float32))


def test_argmax_still_takes_the_first_nan() -> None:
    x = image(2, torch.float32)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.argmax(-1), x.argmin(1), *x.max(2), *x.min(0)

    for ours, theirs in zip(torch.compile(function, backend="cuesta")(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


LARGE_WINDOWS = [
    # kernel, stride, padding, size of the image
    ((9, 13), (9, 13), (0, 0), (3, 4)),
    ((5, 7), (1, 2), (2, 3), (4, 2)),
    ((8, 2), (3, 1), (4, 1), (2, 9)),
]


@pytest.mark.parametrize("kind", ["average", "without padding", "maximum"])
@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), LARGE_WINDOWS)
@pytest.mark.covering
def test_windows_larger_than_the_image(
    kind: str, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], size: tuple[int, int]
) -> None:
    """As with `ceil_mode`, where an image may be smaller than its one window."""

    def function(x: torch.Tensor) -> torch.Tensor:
        if kind == "maximum":
            return F.max_pool2d(x, kernel, stride, padding, ceil_mode=True)
        return F.avg_pool2d(x, kernel, stride, padding, ceil_mode=True, count_include_pad=kind == "average")

    torch._dynamo.reset()
    x = torch.randn(2, 3, *size, requires_grad=True)
    with captured_graphs() as captured:
        actual = torch.compile(function, backend="cuesta", fullgraph=True)(x)
    expected = function(x)
    torch.testing.assert_close(actual, expected)
    cotangent = torch.randn_like(expected)
    gradients = [torch.autograd.grad(one, x, cotangent, retain_graph=True)[0] for one in (actual, expected)]
    torch.testing.assert_close(*gradients)
    module = captured[0].module.clone()
    run_pipeline(make_context(), module, [stage for stage in STAGES if stage.name == "aten-to-loops"])
    reductions = [op for op in module.walk() if isinstance(op, loops.ReduceOp)]
    assert reductions
    for op in reductions:
        assert all(isinstance(n, int) and n <= s + p for n, s, p in zip(op.sizes, size, padding, strict=True))


def test_a_window_of_millions_takes_no_time() -> None:
    """A window as wide as the channels are many, which one configuration of a model has, over an image of 3 by 3."""
    x = torch.randn(4, 128, 3, 3)
    function = torch.compile(torch.nn.AvgPool2d(1280, ceil_mode=True), backend="cuesta")
    torch.testing.assert_close(function(x), torch.nn.functional.avg_pool2d(x, 3))


def by_rows(seed: int) -> tuple[Any, Tensor, str]:
    """A pooling with large windows that overlap, an image with some NaN, and what it is in words."""
    draw = random.Random(seed)
    rank = draw.choice((2, 2, 3))
    window = [draw.randint(9, 12) if rank == 2 else draw.randint(4, 5) for _ in range(rank)]
    stride, padding = [draw.choice((1, 1, 2)) for _ in window], [draw.randint(0, k // 2) for k in window]
    sizes = [draw.randint(k, k + 9) for k in window]
    x = torch.randn(2, 3, *sizes, generator=torch.Generator().manual_seed(seed))
    if draw.random() < 0.5:
        x = x.contiguous(memory_format=LAST[rank])
    x = x.to(draw.choice((torch.float32, torch.float64, torch.bfloat16)[: 5 - rank]))
    options: dict[str, Any] = draw.choice(
        ({}, {"ceil_mode": True}, {"count_include_pad": False}, {"divisor_override": 7})
    )
    if draw.random() < 0.4:
        x[0, 1] = math.nan
        x[1, 0] = -math.inf
        options = {"ceil_mode": options.get("ceil_mode", False)}
        return lambda x: MAX_POOL[rank](x, window, stride, padding, **options), x, f"max {window} {stride} {padding}"
    average = F.avg_pool2d if rank == 2 else F.avg_pool3d
    return lambda x: average(x, window, stride, padding, **options), x, f"average {window} {stride} {padding} {options}"


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.every(2)
def test_large_windows_are_reduced_by_rows(seed: int) -> None:
    function, x, words = by_rows(seed)
    torch._dynamo.reset()
    with captured_graphs() as captured:
        ours = torch.compile(function, backend="cuesta", fullgraph=True)(x)
    exact = function(x.double())
    factor = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float64: 1e-14}[x.dtype]
    torch.testing.assert_close(ours.double(), exact, rtol=factor, atol=factor, equal_nan=True, msg=lambda m: words + m)
    assert ours.stride() == function(x).stride()
    module = captured[0].module.clone()
    run_pipeline(make_context(), module, STAGES[: [stage.name for stage in STAGES].index("aten-to-loops") + 1])
    assert sum(isinstance(op, loops.NestOp) for op in module.walk()) == 2, words


@pytest.mark.parametrize(
    ("window", "stride", "nests"), [(8, 1, 1), (9, 1, 2), (11, 6, 1), (11, 5, 2), ((121, 1), 1, 1), ((1, 121), 1, 1)]
)
def test_which_windows_are(window: Any, stride: int, nests: int) -> None:
    """Large ones, of several rows, each of which is read twice."""
    torch._dynamo.reset()
    with captured_graphs() as captured:
        torch.compile(lambda x: F.avg_pool2d(x, window, stride), backend="cuesta")(torch.randn(2, 3, 130, 130))
    module = captured[0].module.clone()
    run_pipeline(make_context(), module, STAGES[: [stage.name for stage in STAGES].index("aten-to-loops") + 1])
    assert sum(isinstance(op, loops.NestOp) for op in module.walk()) == nests


def test_by_rows_where_sizes_are_not_known() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: F.avg_pool2d(x, 11, 1, 5), backend="cuesta", fullgraph=True, dynamic=True)
    for sizes in ((2, 3, 20, 31), (1, 5, 17, 16)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), F.avg_pool2d(x, 11, 1, 5))
