"""Eager's random numbers from its words, to the bit, by the reference interpreter; and which draws stay calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.context import Context

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.random_words import RANDOM_WORDS
from cuesta.lowering.aten.aten_to_loops import AtenToLoopsPass
from cuesta.lowering.aten.eager_random import LEAST
from cuesta.targets import reference
from tests.lowering.aten.test_random_numbers import calls, lowered

aten = torch.ops.aten
EMPTY = torch.empty(40, 50)
N = 5000


def same_as_eager(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    module = lowered(function, *inputs)
    assert set(calls(module)) == {RANDOM_WORDS}
    torch.manual_seed(11)
    ours = [*reference.run(module, list(inputs)), torch.rand(3)]
    torch.manual_seed(11)
    theirs = [*function(*inputs), torch.rand(3)]
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(one, torch.Tensor) and one.dtype is other.dtype and torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_uniform(dtype: torch.dtype) -> None:
    """Of 16 bits, some of so many would be rounded to 1."""
    same_as_eager(lambda: (torch.rand(4 * N, dtype=dtype), aten.uniform(torch.empty(N, dtype=dtype), 0, 1)))
    same_as_eager(lambda x: (torch.rand_like(x, dtype=dtype),), EMPTY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bool, torch.uint8], ids=str)
def test_bernoulli(dtype: torch.dtype) -> None:
    empty = torch.zeros(N, dtype=dtype)
    same_as_eager(lambda x: tuple(aten.bernoulli.p(x, p) for p in (0.0, 0.3, 0.5, 1 - 2**-53, 1.0)), empty)


def test_integers() -> None:
    same_as_eager(
        lambda: (
            torch.randint(0, 10, (N,)),
            torch.randint(-1000, 17, (30, 40)),
            torch.randint(0, (1 << 28) - 1, (N,)),
            torch.randint(0, 200, (N,), dtype=torch.uint8),
            torch.randint(-9, 9, (N,), dtype=torch.int16),
        )
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.rand(LEAST - 1),
        lambda: torch.randn(N),
        lambda: torch.randint(0, 1 << 28, (N,)),
        lambda: aten.uniform(torch.empty(N), 1, 3),
        lambda: aten.bernoulli(torch.full((N,), 0.5)),
        lambda: torch.rand_like(torch.empty(50, 40).t()),
    ],
    ids=["small", "normal", "long range", "another range", "probabilities", "not contiguous"],
)
def test_what_stays_eagers(function: Callable[[], torch.Tensor]) -> None:
    assert RANDOM_WORDS not in calls(lowered(function)) and calls(lowered(function))


def test_a_gpu_has_other_words() -> None:
    """Its generator is not the one whose words we know: the call stays."""
    with FakeTensorMode():
        x = torch.empty(N, device="cuda")
    module = lowered(torch.rand_like, x, random="eager")
    assert calls(module) == ["aten.rand_like.default"]


def test_symbolic_sizes() -> None:
    graph = make_fx(lambda x: torch.rand(x.shape[0], 3) + torch.ones(3), tracing_mode="symbolic")(torch.ones(5))
    from cuesta.lowering.capture.fx_to_aten import import_graph

    module = import_graph(graph).module
    AtenToLoopsPass().apply(Context(), module)
    assert RANDOM_WORDS in [op.overload for op in entry_block(module).ops if isinstance(op, loops.ExternOp)]
