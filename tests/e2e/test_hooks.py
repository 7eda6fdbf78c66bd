"""Hooks that a compiled program puts on its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow


def with_hooks(x: Tensor, *hooks: Callable[[Tensor], Tensor | None]) -> Tensor:
    for hook in hooks:
        x.register_hook(hook)
    return x


def between(x: Tensor) -> tuple[Tensor, ...]:
    h = x * 2
    w = h.sin()
    with_hooks(h, lambda gradient: gradient * 3)
    return w, h * 3


COMPILED: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "of what is computed": lambda x: (with_hooks(x * 2, lambda g: g + 1) * 3, x.sin()),
    "after it is read": between,
    "several": lambda x: ((h := with_hooks(x * 2, lambda g: g.clamp(max=0.5), lambda g: g * 2)).sin(), h),
    "three": lambda x: (with_hooks(x * 2, lambda g: g + 1, lambda g: g * 2, lambda g: g.clamp(max=4)).cos(),),
    "that gives nothing": lambda x: (with_hooks(x * 2, lambda g: None).cos(),),
    "of a view that is no result": lambda x: (with_hooks((x * 2).view(-1), lambda g: g + 1) * 3, x.sin()),
}
IN_EAGER: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "of a view of an input": lambda x: (x.cos(), with_hooks(x.view(-1), lambda g: g * 2)),
    "of a view beside what it is of": lambda x: (h := x * 2, with_hooks(h.view(-1), lambda g: g * 2)),
    "several, of a view": lambda x: (h := x * 2, with_hooks(h[1:], lambda g: g + 1, lambda g: g * 2), x.sin()),
}
EITHER: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "of what is computed, beside a view of it": lambda x: (h := with_hooks(x * 2, lambda g: g * 2), h.view(-1)),
    "of what is computed, beside two": lambda x: ((h := with_hooks(x.sin(), lambda g: g + 1)).t(), h[1:], h),
}
"""Compiled with torch 2.13; with 2.11 in eager: there a hook gives a view."""


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*a hook of a view that is returned")
@pytest.mark.parametrize("name", [*COMPILED, *IN_EAGER, *EITHER])
def test_a_hook_is_called_with_what_eager_calls_it_with(name: str) -> None:
    """AOTAutograd makes returned views anew, past their hooks; torch 2.11 calls the last of several first."""
    program = (COMPILED | IN_EAGER | EITHER)[name]
    cuesta.clear_records()
    gradients: list[Any] = []
    for call in (program, compiled_of(program)):
        x = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        results = call(x)
        gradients.append(torch.autograd.grad(results, x, [torch.ones_like(one) for one in results]))
    torch.testing.assert_close(*gradients)
    if name not in EITHER and not (
        torch.__version__ < "2.13" and name in IN_EAGER
    ):  # there a hook gives a view that is none to AOTAutograd
        assert bool(cuesta.records) == (name in COMPILED)
