"""Formulas on floats of 8 bits: those that compute stay the operator that eager has, those that move are applied."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from tests.support.levels import capture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:std.*degrees of freedom")]

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPUTED: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "softmax of nothing": lambda x: torch.softmax(x[:0], 1),
    "log softmax of nothing": lambda x: torch.log_softmax(x[:0], 1),
    "all": lambda x: x.all(),
    "all of rows": lambda x: x.all(1),
    "deviation of nothing": lambda x: x[:0].std(1),
    "found in nothing": lambda x: torch.isin(x[:0], x[:0]),
    "product beside a move": lambda x: x * F.pad(x, (1, 0))[:, 1:],
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", COMPUTED)
def test_what_eager_computes_as_one_operator(name: str, dtype: torch.dtype) -> None:
    """Its formula is made of arithmetic that eager does not have (51011337)."""
    torch._dynamo.reset()
    function = COMPUTED[name]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    numbers = torch.arange(-4.0, 8.0).view(3, 4)
    seen: list[list[Tensor]] = []
    for run in (function, compiled):
        x = numbers.to(dtype).requires_grad_("softmax" in name)  # of the others eager has no gradients
        results = run(x)
        results = results if isinstance(results, tuple) else (results,)
        roots = [one for one in results if one.requires_grad]
        weights = [torch.ones(one.shape).to(dtype) for one in roots]
        gradients = torch.autograd.grad(roots, [x], weights, allow_unused=True) if roots else ()
        seen.append([one.detach() for one in (*results, *gradients) if one is not None])
    ours, eager = seen[1], seen[0]
    assert [one.dtype for one in ours] == [one.dtype for one in eager]
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=0, atol=0, equal_nan=True)


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "a part replaced": lambda x: torch.slice_scatter(x, x[:1], 0, 1, 2),
    "stacked": lambda x: torch.stack([x, x]),
    "windows": lambda x: torch.ops.aten.unfold_copy.default(x, 0, 2, 1),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_is_generated(name: str) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    function, x = MOVED[name], torch.arange(12.0).view(3, 4).to(torch.float8_e5m2)
    result = torch.compile(function, backend="cuesta", fullgraph=True)(x)
    assert torch.equal(result.view(torch.uint8), function(x).view(torch.uint8))
    (record,) = cuesta.records
    assert not record.fallbacks


@pytest.mark.parametrize("dtype", TYPES)
def test_what_calls_the_operator_itself_leaves_it_whole(dtype: torch.dtype) -> None:
    """66013355: of a norm over a dim of one number, counted from the last, torch 2.11 promises a dim too many."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (1, 2)).norm(dim=-2).view(-1)

    x = torch.full((1, 1), 2.0).to(dtype)
    (found,) = capture(function, x)
    assert re.search(r"linalg_vector_norm.default\(%\w+, 2, \[0\]", str(found.module))
    torch._dynamo.reset()
    result = torch.compile(function, backend="cuesta")(x)
    assert torch.equal(result.view(torch.uint8), function(x).view(torch.uint8))


def test_other_types_are_taken_apart_as_ever() -> None:
    (found,) = capture(lambda x: (x.all(), x.std()), torch.ones(3, 4))
    program = str(found.module)
    assert "aten.sqrt" in program and "aten.all" not in program and "aten.std" not in program
