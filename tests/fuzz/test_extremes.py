"""Random programs of which a gradient asks which elements were the greatest or least.

The backward pass computes the elements again and compares them with the extreme that the forward pass gave. Where one
of the two leaves out a rounding that the other does, none is equal, and the gradient is 0 / 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.slow

OF_ONE = (
    "F.gelu({})",
    "F.hardswish({})",
    "F.silu({})",
    "torch.tanh({})",
    "({} * 1.7 + 0.3)",
    "({0} - {0}.mean(-1, keepdim=True))",
    "torch.exp({} * 0.3)",
    "F.layer_norm({0}, {0}.shape[-1:])",
    "torch.softmax({}, -1)",
    "({} / 1.3)",
)
OF_TWO = ("({0} * w + {1})", "({0} + {1})", "({0} * {1})", "({0} - w * {1})", "({0} / (1 + {1} * {1}))")
EXTREMES = (
    "{}.amax({}, keepdim={})",
    "{}.amin({}, keepdim={})",
    "torch.linalg.vector_norm({}, float('inf'), {}, keepdim={})",
)
SIZES = (2, 3, 5, 7, 16, 17, 33, 64, 100)


def drawn(seed: int) -> tuple[str, tuple[int, ...], torch.dtype]:
    """The text of `f(x, w)`, the sizes of x, and the type of both."""
    rng = random.Random(seed)
    values, lines = ["x"], list[str]()
    for number in range(rng.randint(1, 5)):
        form = rng.choice(OF_ONE if rng.random() < 0.6 else OF_TWO)
        lines.append(f"    v{number} = {form.format(*(rng.choice(values[-2:]) for _ in range(2)))}\n")
        values.append(f"v{number}")
    sizes = tuple(rng.choice(SIZES) for _ in range(rng.choice((2, 3))))
    where = rng.randrange(len(sizes)), rng.random() < 0.4
    extreme = rng.choice(EXTREMES).format(values[-1], *where)
    beside = rng.choice(("", " + {}.sum({}, keepdim={})", " * {}.sin().mean({}, keepdim={})"))
    text = f"def f(x, w):\n{''.join(lines)}    return {extreme}{beside.format(rng.choice(values), *where)}\n"
    return text, sizes, rng.choice((torch.float32, torch.bfloat16, torch.bfloat16, torch.float16))


def check(text: str, sizes: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> None:
    """The gradient is finite where eager's is, and about as large: elements a rounding apart may change places.
    Errors: AssertionError.
    """
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    function: Callable[..., Tensor] = scope["f"]
    x, w = (torch.randn(size).to(device, dtype).requires_grad_() for size in (sizes, sizes[-1:]))
    result = function(x, w)
    given = torch.rand_like(result) + 0.5
    meant = torch.autograd.grad(result, (x, w), given, allow_unused=True)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False, options={"cache": False})
    found = torch.autograd.grad(compiled(x, w), (x, w), given, allow_unused=True)
    for ours, eager in zip(found, meant, strict=True):
        assert (ours is None) == (eager is None), text
        if isinstance(ours, Tensor) and isinstance(eager, Tensor):
            assert torch.equal(ours.isfinite(), eager.isfinite()), f"{text}{sizes} {dtype}: {ours}"
            ours, eager = ours.double().nan_to_num(0, 0, 0), eager.double().nan_to_num(0, 0, 0)
            off = abs(ours.sum() - eager.sum())
            assert off <= 0.03 * eager.abs().sum() + 1e-3 * eager.numel(), f"{text}{sizes} {dtype}: {off}"


FOUND = {
    "of what is computed": ("    return (x * 1.7 + 0.3).amin(0, keepdim=True)\n", (64, 33)),
    "of what its nest stores and reads": (
        "    v = (x * w + x) / 1.3\n    return v.amin(0, keepdim=True) * v.sin().mean(0, keepdim=True)\n",
        (3, 3),
    ),
    "of what another nest stores": (
        "    v = torch.exp((x - x.mean(-1, keepdim=True)) * 0.3) + x\n    v = v * v\n"
        "    return v.amin(0) * v.sin().mean(0)\n",
        (7, 64, 5),
    ),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("case", FOUND)
def test_the_gradient_of_an_extreme_of_16_bits(case: str, dtype: torch.dtype) -> None:
    body, sizes = FOUND[case]
    torch.manual_seed(0)
    check(f"def f(x, w):\n{body}", sizes, dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_how_many_are_equal_to_the_greatest(dtype: torch.dtype) -> None:
    """Within one graph: eager rounds both sides."""

    def function(x: Tensor) -> Tensor:
        y = x * 1.7 + 0.3
        return (y == y.amax(0, keepdim=True)).sum(0)

    torch.manual_seed(0)
    x = torch.randn(64, 33).to(dtype)
    assert torch.equal(torch.compile(function, backend="cuesta", fullgraph=True)(x), function(x))


BEYOND = {
    "of what is computed of the extreme": ("(m * 1.0 - y).sqrt() + y.sum()", (16, 200, 7), None),
    "sums of all": ("(m.expand_as(y) - y).flatten().sqrt().sum()", (64, 64, 64), 1),
    "the whole tensor's": ("((y - y.amin()) / (m - y.amin())).asin()", (64, 200, 16), None),
    "beside the extreme": ("(m.expand_as(y) - y).flatten().sqrt().sum() + m.sum()", (200, 200), 0),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("case", BEYOND)
def test_no_number_is_beyond_the_greatest(case: str, dtype: torch.dtype) -> None:
    """Where another loop than that of the greatest computes the numbers again."""
    formula, sizes, axis = BEYOND[case]
    scope: dict[str, Any] = {}
    greatest = "y.amax()" if axis is None else f"y.amax({axis}, keepdim=True)"
    exec(f"def f(x):\n    y = x * 1.7 + 0.3\n    m = {greatest}\n    return {formula}\n", scope)
    torch.manual_seed(0)
    x = torch.randn(sizes).to(dtype)
    compiled = torch.compile(scope["f"], backend="cuesta", fullgraph=True, dynamic=False)
    assert torch.equal(compiled(x).isnan(), scope["f"](x).isnan())


BY_WAY = ("({} + v)", "{} * v", "F.softplus({} + v)", "torch.exp({} * 0.3) * v", "({} - v) / 1.7", "({} + v) * 1.3")
BESIDE = ("", ", y", ", m", ", y.sin()", ", u", ", t")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("way", BY_WAY)
@pytest.mark.covering
def test_no_number_is_beyond_what_comes_of_the_greatest(way: str, beside: str, dtype: torch.dtype) -> None:
    """By way of another tensor, v, on both sides; and with results beside, in which a rounding may be left out."""
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    text = f"def f(x, v):\n    y = x * 1.7 + 0.3\n    m = y.amax(1, keepdim=True)\n    u = {way.format('m')}\n"
    exec(f"{text}    t = {way.format('y')}\n    return (u - t).flatten().sqrt().sum(){beside}\n", scope)
    for sizes in ((64, 200, 3), (16, 33), (200, 64)):
        torch.manual_seed(0)
        x, v = torch.randn(sizes).to(dtype), (torch.rand(sizes[0], 1, *sizes[2:]) + 0.5).to(dtype)
        torch._dynamo.reset()
        compiled = torch.compile(scope["f"], backend="cuesta", fullgraph=True, dynamic=False)
        found, meant = ([*one] if isinstance(one, tuple) else [one] for one in (compiled(x, v), scope["f"](x, v)))
        for ours, eager in zip(found, meant, strict=True):
            assert torch.equal(ours.isnan(), eager.isnan())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_what_is_kept_is_what_was_compared(dtype: torch.dtype) -> None:
    """Two results of one program: a tensor and its greatest, which are compared outside of it."""

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.nn.functional.gelu(x * w + 0.3) * 1.3
        return y.amax(0, keepdim=True), y

    torch.manual_seed(0)
    for sizes in ((64, 33), (200, 16), (7, 5)):
        x, w = torch.randn(sizes).to(dtype), torch.randn(sizes[-1]).to(dtype)
        torch._dynamo.reset()
        greatest, y = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(x, w)
        assert torch.equal(y.amax(0, keepdim=True), greatest)


@pytest.mark.gpu
def test_random_programs_on_a_device() -> None:
    """There products and sums may be rounded once, or twice, and functions be approximations."""
    for seed in range(1000, 1040):
        torch.manual_seed(seed)
        check(*drawn(seed), device="cuda")


@pytest.mark.parametrize("seed", range(48))
@pytest.mark.every(6)
def test_random_programs_with_an_extreme(seed: int) -> None:
    torch.manual_seed(seed)
    check(*drawn(seed))
