"""Random programs that read a value at its own point and at others, and keep it: what fusion puts into one loop may
read what that loop has not computed yet.

A value is stored by the loop that computes it, and read in the same loop a step further, turned round, shifted, summed
before: each such program is compared with eager in float64.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuesta.testing import assert_close_to_float64

MOVED = (
    "v.roll(1, -1)",
    "v.roll(2, -2)",
    "v.flip(-1)",
    "v.flip(-2)",
    "v.flip(0)",
    "v.transpose(-1, -2)",
    "torch.cat([v[..., 1:], v[..., :1]], -1)",
    "torch.nn.functional.pad(v, (1, 0))[..., :-1]",
    "v.cumsum(-1)",
    "v.amax(-1, keepdim=True)",
    "v.mean(-2, keepdim=True)",
    "v.softmax(-1)",
    "v[..., -1:]",
    "torch.nn.functional.max_pool1d(v, 3, 1, 1)",
)
MADE = ("x + y", "x * y", "(x + y).sin().exp()", "x.amax(-1, keepdim=True) + y")
JOINED = ("u + {}", "v * {}", "v / ({}.abs() + 1)", "torch.where(u > {0}, v, {0})")
REDUCED = (
    "w",
    "w.sum(-1)",
    "w.var(-1)",
    "w.sum(-2)",
    "w.logsumexp(-1)",
    "w.var((0, -1))",
    "w.cumsum(-2)",
    "w.softmax(-1)",
)
KEPT = ("v", "v, w", "w")


def programs() -> list[str]:
    """All of them, in an order that says nothing."""
    every = [
        f"def f(x, y):\n    v = {made}\n    u = v * 1.5 + {one}\n"
        f"    w = {joined.format(other)}\n    return {kept}, {last}\n"
        for made, one, joined, other, kept, last in itertools.product(MADE, MOVED, JOINED, MOVED, KEPT, REDUCED)
    ]
    random.Random(0).shuffle(every)
    return every


def checked(text: str, sizes: tuple[int, ...]) -> None:
    scope: dict[str, object] = {"torch": torch}
    exec(text, scope)
    function = scope["f"]
    assert callable(function)
    torch.manual_seed(0)
    inputs: list[Tensor] = [torch.randn(sizes), torch.randn(sizes)]
    torch._dynamo.reset()
    compiled: Callable[..., object] = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
    try:
        assert_close_to_float64(compiled, function, inputs)
    except AssertionError as error:
        raise AssertionError(f"{text}of {sizes}: {error}") from None


SHOWN = {
    "a step further in the loop that stores it": """
def f(x, y):
    v = x + y
    return v, (v * 2 + v.roll(1, -1)).sum(-1)
""",
    "the argument is updated by what is stored": """
def f(x, y):
    v = x + y
    u = x.lerp(v, 0.1)
    w = v / (y.abs() + 1) + v.roll(1, -1)
    return u, w, w.var(-1, correction=0)
""",
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_is_stored_is_read_when_it_is_there(text: str) -> None:
    checked(text, (3, 8, 3))


@pytest.mark.parametrize("number", range(4))
def test_values_are_read_at_other_points(number: int) -> None:
    for k, text in enumerate(programs()[number * 5 : number * 5 + 5]):
        checked(text, ((3, 8, 8), (2, 17, 17), (1, 5, 5))[k % 3])


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(4, 128))
def test_many_values_are_read_at_other_points(number: int) -> None:
    test_values_are_read_at_other_points(number)
