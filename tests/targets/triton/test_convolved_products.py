"""Convolutions that are products, with what is around them in one Triton kernel: by Triton's interpreter against
float64, and by the reference interpreter before and after.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from benchmarks.compile_stages import compiled as compiled_for_hopper
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets.reference import check_equivalent
from cuesta.testing import compare
from cuesta.transforms.products import product_plans
from tests.support.triton_interpreter import interpreted_cuda, run
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")

Function = Callable[..., Tensor | tuple[Tensor, ...]]


def last(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Random images, channels last."""
    drawn = torch.randn(sizes).to(dtype)
    return drawn.movedim(1, -1).contiguous().movedim(-1, 1)


def weight(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """A random weight, channels last, so that results are about 1."""
    return last(*sizes, dtype=dtype) * last(*sizes, dtype=dtype).flatten(1).shape[1] ** -0.5


def bias_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b))


def in_steps(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return torch.tanh(F.conv2d(x, w, stride=2)) * s[:, None, None]


def residual(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w) + r)


def gated(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    return F.conv2d(x * torch.sigmoid(g), w).relu()


def kept(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv2d(x, w)
    return y, F.silu(y)


def normed_before(x: Tensor, s: Tensor, b: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(F.relu(x * s[:, None, None] + b[:, None, None]), w, stride=2)


def first_after(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return r + F.conv2d(x, w).tanh()


def two(x: Tensor, w: Tensor, z: Tensor, v: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w) + F.conv2d(z, v, stride=2))


def along(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return r + torch.tanh(F.conv1d(x, w)).transpose(1, 2)


def volumes(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv3d(x, w, b, stride=(1, 2, 1)))


def patches(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(F.conv2d(x, w, b, stride=(2, 3)))


def tokens(x: Tensor, w: Tensor, b: Tensor, p: Tensor) -> Tensor:
    return F.conv2d(x, w, b, stride=w.shape[2:]).flatten(2).transpose(1, 2).contiguous() + p


HALF = torch.bfloat16
CASES: dict[str, tuple[Function, Sequence[Callable[[], Tensor]]]] = {
    "bias, relu": (
        bias_relu,
        [lambda: last(2, 32, 5, 7), lambda: weight(24, 32, 1, 1), lambda: torch.randn(24).to(HALF)],
    ),
    "one image": (
        bias_relu,
        [lambda: last(1, 48, 6, 6), lambda: weight(17, 48, 1, 1), lambda: torch.randn(17).to(HALF)],
    ),
    "f16": (
        bias_relu,
        [
            lambda: last(2, 32, 5, 7, dtype=torch.float16),
            lambda: weight(24, 32, 1, 1, dtype=torch.float16),
            lambda: torch.randn(24).half(),
        ],
    ),
    "in steps of 2": (
        in_steps,
        [lambda: last(3, 32, 7, 9), lambda: weight(40, 32, 1, 1), lambda: torch.randn(40).to(HALF)],
    ),
    "residual": (residual, [lambda: last(2, 64, 4, 5), lambda: weight(32, 64, 1, 1), lambda: last(2, 32, 4, 5)]),
    "a gate before": (
        gated,
        [lambda: last(2, 32, 6, 5), lambda: weight(32, 32, 1, 1), lambda: last(2, 32, 1, 1)],
    ),
    "kept": (kept, [lambda: last(2, 32, 4, 5), lambda: weight(48, 32, 1, 1)]),
    "a norm before": (
        normed_before,
        [
            lambda: last(2, 32, 6, 5),
            lambda: torch.randn(32).to(HALF),
            lambda: torch.randn(32).to(HALF),
            lambda: weight(48, 32, 1, 1),
        ],
    ),
    "two beside each other": (
        two,
        [
            lambda: last(2, 32, 4, 5),
            lambda: weight(48, 32, 1, 1),
            lambda: last(2, 32, 8, 9),
            lambda: weight(48, 32, 1, 1),
        ],
    ),
    "of one dimension": (
        along,
        [lambda: last(2, 32, 21), lambda: weight(32, 32, 1), lambda: torch.randn(2, 21, 32).to(HALF)],
    ),
    "of three": (
        volumes,
        [lambda: last(2, 32, 3, 4, 3), lambda: weight(24, 32, 1, 1, 1), lambda: torch.randn(24).to(HALF)],
    ),
    "channels first, before and after": (
        bias_relu,
        [lambda: torch.randn(2, 32, 6, 4).to(HALF), lambda: weight(24, 32, 1, 1), lambda: torch.randn(24).to(HALF)],
    ),
    "stored channels first": (
        first_after,
        [lambda: last(3, 32, 4, 4), lambda: weight(24, 32, 1, 1), lambda: torch.randn(3, 24, 4, 4).to(HALF)],
    ),
    "patches": (
        patches,
        [lambda: last(2, 16, 9, 9), lambda: weight(24, 16, 2, 3), lambda: torch.randn(24).to(HALF)],
    ),
    "patches as tokens": (
        tokens,
        [
            lambda: torch.randn(2, 3, 12, 16).to(HALF),
            lambda: (torch.randn(24, 3, 4, 4) / 7).to(HALF),
            lambda: torch.randn(24).to(HALF),
            lambda: torch.randn(12, 24).to(HALF),
        ],
    ),
}


KEPT = torch.ops.mkldnn._is_mkldnn_bf16_supported()
"""Whether convolutions of volumes store channels last where channels lie last, as on CUDA: oneDNN's do, and it has some
for bf16 where the machine has AVX-512; torch's own store them first, and what is captured here is captured on the CPU.
"""


def named(cases: Iterable[str]) -> list[Any]:
    """The names of cases, to go through: "of three" where it is captured as on CUDA."""
    marks = pytest.mark.skipif(not KEPT, reason="torch's own convolution of volumes stores channels first")
    return [pytest.param(name, marks=[marks] if name == "of three" else []) for name in cases]


def inputs_of(name: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [make() for make in CASES[name][1]]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product is taken that can be, also one whose points fill no whole step."""
    monkeypatch.setattr(product_plans, "SURE", 0.0)
    monkeypatch.setattr(product_plans, "_is_in_steps", lambda *_: True)


def compiled(function: Function) -> Function:
    return torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)


def until(program: ModuleOp, label: str) -> ModuleOp:
    """A copy of a program after a stage."""
    module, stages = program.clone(), default_stages(tf32_convolutions=True)
    labels = [stage.label for stage in stages]
    run_pipeline(make_context(), module, stages[: labels.index(label) + 1], verify_each=True)
    return module


def calls_in(program: ModuleOp) -> list[str]:
    return [op.overload for op in entry_block(program).ops if isinstance(op, loops.ExternOp)]


def captured(function: Function, inputs: Sequence[Tensor]) -> ModuleOp:
    with interpreted_cuda(run_it=False) as programs, torch.no_grad():
        compiled(function)(*inputs)
    (program,) = programs
    return program


def check_the_nest(function: Function, inputs: Sequence[Tensor]) -> None:
    """Whether no call is left, and the reference interpreter says the same before and after."""
    program = captured(function, inputs)
    before, after = until(program, "spread-rows"), until(program, "choose-products")
    assert calls_in(before) and not calls_in(after)
    check_equivalent(before, after, exact=False)


def check_the_kernel(name: str, function: Function, inputs: Sequence[Tensor]) -> None:
    """Whether no call is left, and Triton's interpreter is as near to float64 as eager."""
    with torch.no_grad(), interpreted_cuda() as programs:
        actual = compiled(function)(*copy.deepcopy(inputs))
    (program,) = programs
    assert not calls_in(until(program, "choose-products"))
    expected, truth = function(*inputs), function(*(one.double() for one in inputs))
    for position, triple in enumerate(zip(*map(as_tuple, (actual, expected, truth)), strict=True)):
        found = compare(f"{name} {position}", *triple)
        assert found.passes, str(found)


@pytest.mark.parametrize("name", named(CASES))
def test_the_nest_means_the_same(name: str, always: None) -> None:
    check_the_nest(CASES[name][0], inputs_of(name))


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", named(CASES))
@pytest.mark.every(2)
def test_numerics(name: str, always: None) -> None:
    check_the_kernel(name, CASES[name][0], inputs_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_layers(training: bool, always: None) -> None:
    """A bottleneck, of which the backward pass stays as it is; and what a forward pass keeps for it."""
    torch.manual_seed(0)
    inputs = [last(2, 32, 6, 6), weight(16, 32, 1, 1), last(16, 16, 3, 3) / 12, weight(48, 16, 1, 1)]
    inputs += [weight(48, 32, 1, 1), torch.randn(48).to(HALF)]
    inputs = [one.detach().requires_grad_(training) for one in inputs]

    def block(x: Tensor, w: Tensor, v: Tensor, u: Tensor, d: Tensor, b: Tensor) -> Tensor:
        y = F.silu(F.conv2d(x, w))
        y = F.relu(F.conv2d(y, v, padding=1, stride=2))
        return F.gelu(F.conv2d(y, u, b) + F.conv2d(x, d, stride=2))

    def results(function: Function, values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        found = function(*values)
        assert isinstance(found, Tensor)
        if not training:
            return (found,)
        return (found, *torch.autograd.grad(found.double().square().sum(), values))

    with interpreted_cuda() as programs:
        actual = results(compiled(block), inputs)
    forward = calls_in(until(programs[0], "choose-products"))
    assert len(programs) == 1 + training
    assert forward == ["aten.convolution.default"], "that of two which the last nest has not taken"
    if training:
        assert "aten.convolution_backward.default" in calls_in(until(programs[1], "choose-products"))
    exact = [one.detach().double().requires_grad_(training) for one in inputs]
    for position, triple in enumerate(zip(actual, results(block, inputs), results(block, exact), strict=True)):
        found = compare(f"result {position}", *triple)
        assert found.passes, str(found)


@pytest.mark.parametrize("allowed", [False, True])
def test_f32_where_it_may_be_rounded_to_tf32(allowed: bool, always: None) -> None:
    images, factors = last(2, 32, 6, 6, dtype=torch.float32), weight(32, 32, 1, 1, dtype=torch.float32)
    inputs = [images, factors, torch.randn(32)]
    program = captured(bias_relu, inputs)
    module, stages = program.clone(), default_stages(tf32_convolutions=allowed)
    run_pipeline(make_context(), module, stages[: [one.label for one in stages].index("choose-products") + 1])
    assert bool(calls_in(module)) is not allowed
    if allowed:
        (text,) = texts_of(module)
        assert 'input_precision="tf32"' in text.source
        (actual,) = run(module, list(run_order(program, inputs)))
        torch.testing.assert_close(actual, bias_relu(*inputs), rtol=1e-4, atol=1e-5)


def run_order(program: ModuleOp, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Inputs in the order in which a program takes them, found by their sizes, which all differ."""
    sizes = [sizes_of(tensor_type_of(one)) for one in entry_block(program).args]
    return [next(one for one in inputs if tuple(one.shape) == size) for size in sizes]


REFUSED: dict[str, tuple[Function, tuple[Tensor, Tensor]]] = {
    "it has groups": (lambda x, w: F.conv2d(x, w, groups=2).relu(), (last(2, 32, 4, 4), weight(32, 16, 1, 1))),
    "it is transposed": (lambda x, w: F.conv_transpose2d(x, w).relu(), (last(2, 32, 4, 4), weight(32, 32, 1, 1))),
    "its windows have gaps, and their elements do not lie side by side": (
        lambda x, w: F.conv2d(x, w, stride=3, dilation=2).relu(),
        (last(2, 1, 9, 9), weight(32, 1, 2, 2)),
    ),
    "its weight does not lie as its images do": (
        lambda x, w: F.conv2d(x, w, stride=2).relu(),
        (last(2, 32, 8, 8), weight(32, 32, 2, 2).contiguous()),
    ),
    "it stores, or reads, along something else": (
        lambda x, w: F.conv2d(x, w).relu().contiguous(),
        (last(2, 32, 7, 7), weight(32, 32, 1, 1)),
    ),
    "it reads a part": (lambda x, w: F.conv2d(x, w)[..., :7].tanh(), (last(2, 32, 8, 8), weight(32, 32, 1, 1))),
    "nothing surrounds it": (lambda x, w: F.conv2d(x, w), (last(2, 32, 8, 8), weight(32, 32, 1, 1))),
    "its points fill no whole steps": (lambda x, w: F.conv2d(x, w).relu(), (last(2, 36, 8, 8), weight(32, 36, 1, 1))),
    "no whole steps of a tile, or its rows": (
        lambda x, w: F.conv2d(x, w).relu(),
        (last(2, 33, 8, 8)[:, :32], weight(32, 32, 1, 1)),
    ),
    "or its rows no vectors": (lambda x, w: F.conv2d(x, w).relu(), (last(2, 32, 8, 8), weight(36, 32, 1, 1))),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_why_one_stays_a_call(reason: str) -> None:
    function, inputs = REFUSED[reason]
    program = captured(function, inputs)
    with trace_rewrites() as trace:
        after = until(program, "choose-products")
    assert len(calls_in(after)) == 1
    told = [one.reason for one in trace.refusals if one.op_name == "loops.extern"]
    assert any(reason in one for one in told), told


def test_why_one_stays_a_call_that_would_gain_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    program = captured(lambda x, w: F.conv2d(x, w).relu(), [last(2, 32, 8, 8), weight(32, 32, 1, 1)])
    assert not calls_in(until(program, "choose-products"))
    monkeypatch.setattr(product_plans, "SURE", 100.0)
    with trace_rewrites() as trace:
        assert calls_in(until(program, "choose-products"))
    assert any(re.search(r"predicted .* µs with what surrounds it", one.reason) for one in trace.refusals)


def test_what_comes_before_is_done_in_the_place_of_a_read_only_along_channels() -> None:
    factors = weight(32, 32, 1, 1)
    along = captured(lambda x, w: F.conv2d(torch.sin(x), w), [last(2, 32, 8, 8), factors])
    assert not calls_in(until(along, "choose-products"))
    across = captured(
        lambda x, w: F.conv2d(torch.sin(x).contiguous(memory_format=torch.channels_last), w),
        [last(2, 32, 8, 8).contiguous(), factors],
    )
    assert calls_in(until(across, "choose-products"))


def test_what_is_stored_channels_first_is_stored_in_vectors() -> None:
    """Triton turns a tile round in shared memory, so that a lane stores 8 places of one channel at a time."""
    inputs = last(8, 64, 16, 16), weight(64, 64, 1, 1), torch.randn(8, 64, 16, 16).to(HALF)
    program = until(captured(first_after, inputs), "choose-products")
    assert not calls_in(program)
    (tile,) = (op.choices for op in entry_block(program).ops if isinstance(op, loops.NestOp))
    (text,) = texts_of(program)
    assert compiled_for_hopper(text).code["stores"] == tile["rows"] * tile["columns"] // (32 * tile["warps"] * 8)


def test_the_kernel_reads_rows_and_knows_nothing_of_images() -> None:
    inputs = last(8, 64, 16, 16), weight(64, 64, 1, 1), torch.randn(64).to(HALF)
    program = until(captured(bias_relu, inputs), "choose-products")
    (text,) = texts_of(program)
    assert text.source.count("tl.dot(") == 1
    assert not re.search(r"// (16|256)|% (16|256)", text.source.split("tl.arange", 1)[1])
    assert_compiles([text])


def as_tuple(results: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)
