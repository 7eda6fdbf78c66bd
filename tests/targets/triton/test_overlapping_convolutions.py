"""Convolutions whose windows overlap, or reach beyond images, as products computed with what is around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.ir import Operation

from benchmarks.compile_stages import compiled as compiled_for_hopper
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.pipeline import CHECK_BOUNDS, default_stages, run_pipeline
from cuesta.targets.reference import check_equivalent
from cuesta.targets.triton.emit_module import emit_module
from cuesta.transforms.products import product_plans, widen_channels
from cuesta.transforms.products.tiles import estimates
from tests.support.triton_interpreter import parse
from tests.support.triton_kernels import kernels_in, texts_of
from tests.targets.triton.test_convolved_products import (
    calls_in,
    captured,
    check_the_kernel,
    check_the_nest,
    last,
    named,
    until,
    weight,
)

pytest.importorskip("triton")

Function = Callable[..., Tensor | tuple[Tensor, ...]]
HALF = torch.bfloat16


def vector(size: int, dtype: torch.dtype = HALF) -> Tensor:
    return torch.randn(size).to(dtype)


def bias_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b, padding=1))


def by_2(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return torch.tanh(F.conv2d(x, w, stride=2, padding=1)) * s[:, None, None]


def residual(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, padding=1) + r)


def with_gaps(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.conv2d(x, w, b, padding=2, dilation=2))


def norm_before(x: Tensor, s: Tensor, b: Tensor, w: Tensor) -> Tensor:
    """Of which the margin is 0, and not what the norm makes of 0."""
    return F.conv2d(F.relu(x * s[:, None, None] + b[:, None, None]) + 1, w, padding=1)


def gated(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    return F.conv2d(x * torch.sigmoid(g), w, padding=1).relu()


def kept(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv2d(x, w, padding=1)
    return y, F.silu(y)


def norm(x: Tensor, w: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, padding=1) * s[:, None, None] + t[:, None, None])


def without_margin(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b))


def larger_margin(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(F.conv2d(x, w, b, padding=(4, 3)))


def stem(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b, stride=2, padding=3))


def row(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.conv1d(x, w, b, padding=2))


def volume(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv3d(x, w, b, padding=(1, 0, 1), stride=(1, 2, 1)))


def two(x: Tensor, w: Tensor, z: Tensor, v: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, padding=1) + F.conv2d(z, v, padding=1, stride=2))


CASES: dict[str, tuple[Function, Sequence[Callable[[], Tensor]]]] = {
    "bias, relu": (bias_relu, [lambda: last(2, 32, 5, 7), lambda: weight(24, 32, 3, 3), lambda: vector(24)]),
    "in steps of 2": (by_2, [lambda: last(3, 16, 7, 9), lambda: weight(40, 16, 3, 3), lambda: vector(40)]),
    "residual": (residual, [lambda: last(2, 64, 4, 5), lambda: weight(32, 64, 3, 3), lambda: last(2, 32, 4, 5)]),
    "with gaps": (with_gaps, [lambda: last(1, 32, 7, 6), lambda: weight(17, 32, 3, 3), lambda: vector(17)]),
    "channels that no tile divides": (
        bias_relu,
        [lambda: last(2, 24, 6, 5), lambda: weight(40, 24, 3, 3), lambda: vector(40)],
    ),
    "channels that no vector divides": (
        bias_relu,
        [lambda: last(1, 5, 6, 5), lambda: weight(16, 5, 3, 3), lambda: vector(16)],
    ),
    "a norm before": (
        norm_before,
        [lambda: last(2, 32, 5, 4), lambda: vector(32), lambda: vector(32), lambda: weight(32, 32, 3, 3)],
    ),
    "a gate before": (gated, [lambda: last(2, 32, 4, 5), lambda: weight(32, 32, 3, 3), lambda: last(2, 32, 1, 1)]),
    "kept": (kept, [lambda: last(2, 16, 4, 5), lambda: weight(48, 16, 3, 3)]),
    "a norm after": (
        norm,
        [lambda: last(2, 16, 5, 5), lambda: weight(32, 16, 3, 3), lambda: vector(32), lambda: vector(32)],
    ),
    "without a margin": (without_margin, [lambda: last(2, 16, 6, 7), lambda: weight(32, 16, 2, 3), lambda: vector(32)]),
    "a margin as large as windows": (
        larger_margin,
        [lambda: last(2, 16, 3, 2), lambda: weight(32, 16, 3, 3), lambda: vector(32)],
    ),
    "images of one point": (bias_relu, [lambda: last(3, 16, 1, 1), lambda: weight(32, 16, 3, 3), lambda: vector(32)]),
    "images one point wide": (bias_relu, [lambda: last(2, 16, 7, 1), lambda: weight(32, 16, 3, 3), lambda: vector(32)]),
    "a stem": (stem, [lambda: last(1, 3, 13, 11), lambda: weight(32, 3, 7, 7), lambda: vector(32)]),
    "one channel": (bias_relu, [lambda: last(2, 1, 4, 8), lambda: weight(16, 1, 3, 3), lambda: vector(16)]),
    "of one dimension": (row, [lambda: last(2, 32, 21), lambda: weight(32, 32, 5), lambda: vector(32)]),
    "of three": (volume, [lambda: last(2, 16, 3, 5, 3), lambda: weight(24, 16, 3, 2, 3), lambda: vector(24)]),
    "two beside each other": (
        two,
        [
            lambda: last(2, 16, 4, 5),
            lambda: weight(48, 16, 3, 3),
            lambda: last(2, 16, 8, 9),
            lambda: weight(48, 16, 3, 3),
        ],
    ),
    "f16": (
        bias_relu,
        [
            lambda: last(2, 32, 5, 7, dtype=torch.float16),
            lambda: weight(24, 32, 3, 3, dtype=torch.float16),
            lambda: vector(24, torch.float16),
        ],
    ),
}


def inputs_of(name: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [make() for make in CASES[name][1]]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product is taken that can be, also one whose points fill no whole step."""
    monkeypatch.setattr(product_plans, "SURE", 0.0)
    monkeypatch.setattr(product_plans, "_is_in_steps", lambda *_: True)


@pytest.mark.parametrize("name", named(CASES))
def test_the_nest_means_the_same(name: str, always: None) -> None:
    check_the_nest(CASES[name][0], inputs_of(name))


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", named(CASES))
@pytest.mark.every(2)
def test_numerics(name: str, always: None) -> None:
    check_the_kernel(name, CASES[name][0], inputs_of(name))


@pytest.mark.slow  # Triton compiles
def test_a_step_asks_once_which_element_of_a_window_it_is(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 channels, in steps of 64: rows and places are tested, and addresses made, of two numbers a step. The loop has
    nothing but copies of 16 bytes to shared memory, as many as the tile has, and products of warp groups.
    """
    tile = {"rows": 128, "columns": 64, "depth": 64, "warps": 4, "stages": 4, "group": 8}
    monkeypatch.setattr(product_plans, "estimates", lambda *_, **__: [(1.0, tile)])
    program = until(captured(bias_relu, [last(8, 64, 14, 14), weight(64, 64, 3, 3), vector(64)]), "choose-products")
    (text,) = texts_of(program)
    loop = text.source.split("for k_start", 1)[1].split("tl.dot(", 1)[0]
    assert "step = k_start // 64" in loop and "(step // 3)" in loop and "(step % 3)" in loop
    assert not re.search(r"\b(k|lanes)\w* (//|%)", loop.replace("k_start // 64", ""))
    code = compiled_for_hopper(text).code
    copies = (128 * 64 + 64 * 64) // (8 * 128)
    assert code["copies to shared"] == copies * tile["stages"], "those of the loop, and as often before it less one"
    assert code["products of warp groups"] and not code.get("loads of spilled")


def test_lanes_that_are_in_one_element_of_a_window_each(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 channels, in steps of 64: a lane's vector lies within one element, and is copied as one."""
    tile = {"rows": 128, "columns": 16, "depth": 64, "warps": 4, "stages": 2, "group": 8}
    monkeypatch.setattr(product_plans, "estimates", lambda *_, **__: [(1.0, tile)])
    program = until(captured(bias_relu, [last(8, 16, 14, 14), weight(16, 16, 3, 3), vector(16)]), "choose-products")
    (text,) = texts_of(program)
    code = compiled_for_hopper(text).code
    assert code["copies to shared"] == ((128 * 64 + 16 * 64) // (8 * 128)) * 2


def test_few_channels_are_made_more() -> None:
    """Three channels are four where that is predicted to pay, copies included: copies of 8 bytes, and no registers."""
    program = captured(stem, [last(32, 3, 224, 224), weight(64, 3, 7, 7), vector(64)])
    after = until(program, "choose-products")
    nests = [op for op in entry_block(after).ops if isinstance(op, loops.NestOp)]
    assert not calls_in(after) and len(nests) == 3
    assert [nest.sizes for nest in nests[:2]] == [(32, 4, 224, 224), (64, 4, 7, 7)]
    module = program.clone()
    run_pipeline(make_context(), module, default_stages())
    text = next(one for one in emit_module(kernels_in(module)).values() if "tl.dot" in one.source)
    code = compiled_for_hopper(text).code
    assert code["copies to shared"] and code["loads"] <= code["stores"], "what is loaded otherwise is the bias"


@pytest.mark.parametrize("channels", [3, 5])
def test_more_channels_mean_the_same(channels: int, always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widen_channels, "SURE", 0.0)
    program = captured(stem, [last(2, channels, 9, 8), weight(32, channels, 7, 7), vector(32)])
    before, made, after = (until(program, one) for one in ("multiply-patches", "align-products", "choose-products"))
    assert [sizes_of(tensor_type_of(op.operands[0]))[1] for op in entry_block(made).ops if is_convolution(op)] == [
        channels // 4 * 4 + 4
    ]
    assert not calls_in(after)
    check_equivalent(before, made, exact=False)
    check_equivalent(before, after, exact=False)


def is_convolution(op: Operation) -> bool:
    return isinstance(op, loops.ExternOp) and op.overload == "aten.convolution.default"


def test_why_a_convolution_keeps_its_channels() -> None:
    program = captured(bias_relu, [last(2, 6, 8, 8), weight(32, 6, 3, 3), vector(32)])
    with trace_rewrites() as trace:
        after = until(program, "choose-products")
    assert any("keeps its channels: predicted" in one.reason for one in trace.refusals)
    assert not any(isinstance(op, loops.NestOp) and op.sizes == (2, 8, 8, 8) for op in entry_block(after).ops)


@pytest.mark.parametrize("name", ["bias, relu", "a norm before", "with gaps"])
def test_every_level_is_a_text_that_means_the_same(name: str, always: None) -> None:
    """Kernels, and kernels that check their own addresses, print, parse back, and compute what the call computed."""
    program = captured(CASES[name][0], inputs_of(name))
    before = until(program, "spread-rows")
    for label in ("choose-products", "loops-to-kernel"):
        after = until(program, label)
        again = parse(print_text(after))
        again.verify()
        assert print_text(again) == print_text(after)
        check_equivalent(before, again, exact=False)
    run_pipeline(make_context(), again, [CHECK_BOUNDS], verify_each=True)
    check_equivalent(before, again, exact=False)


def test_a_step_waits_for_what_goes_through_registers() -> None:
    """Of images of one dimension, channels first, each element is a load of 2 bytes: 128 x 128 x 16384 bf16, windows of
    5, took 3.5 ms on an H200 in tiles of 128 x 256, and 2.5 was expected. Where that is too slow the call stays; of a
    few rows the library's copies cost more.
    """
    plain = product_plans.Around(overlap=True, addresses=(16.0, 0.0))
    through_registers = product_plans.Around(overlap=True, addresses=(16.0, 0.0), in_turns=True)
    sizes = (1 << 21, 256, 640)
    (before, tile), (after, other) = (estimates(sizes, 1, 16, REFERENCE, one)[0] for one in (plain, through_registers))
    assert tile == other and {"rows": 128, "columns": 256, "depth": 64}.items() <= tile.items()
    assert after - before == pytest.approx(125 * 10 * 670 / 1750, rel=0.01), "ten steps of 125 programs a processor"

    def in_a_row(x: Tensor, w: Tensor) -> Tensor:
        return F.relu(F.conv1d(x, w, padding=2))

    many, few = (torch.empty(images, 128, 4096, dtype=HALF) for images in (16, 4))
    taps = torch.empty(256, 128, 5, dtype=HALF)
    assert calls_in(until(captured(in_a_row, [many, taps]), "choose-products"))
    assert not calls_in(until(captured(in_a_row, [few, taps]), "choose-products"))
