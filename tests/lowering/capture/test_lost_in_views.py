"""What AOTAutograd loses is found, and what only looks like it is compiled. That results are right then:
`tests/fuzz/test_calls.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta.lowering.capture.lost_in_views import lost
from tests.fuzz.calls.operators import fuzz

Program = Callable[[Tensor], Any]


def reason_of(program: Program, x: Tensor, **settings: Any) -> str | None:
    """Why eager is to run the graph of a program."""
    found: list[str | None] = []

    def backend(gm: Any, _: Any) -> Any:
        found.append(lost(gm))
        return gm.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(program, backend=backend, fullgraph=True, **settings)(x)
    (reason,) = found
    return reason


def shifted(x: Tensor, *, updated: bool) -> Tensor:
    if updated:
        x.add_(1)
    fuzz.shift_(x[1:], 0.5)
    return x * 2


def of_no_grad(x: Tensor, *, recorded: bool) -> Tensor:
    with torch.no_grad():
        view = x[1:]
        if not recorded:
            return view.sum() + x.sum()
    return view * 2


@pytest.mark.parametrize("updated, strided, is_lost", [(True, True, True), (True, False, False), (False, True, False)])
def test_a_view_of_what_was_updated(updated: bool, strided: bool, is_lost: bool) -> None:
    x = torch.arange(12.0).view(6, 2)[:, 1] if strided else torch.arange(6.0)
    reason = reason_of(lambda x: shifted(x, updated=updated), x)
    assert (reason is not None and "does not fill its memory" in reason) == is_lost


@pytest.mark.parametrize("dim, is_lost", [(0, True), (1, False)])
def test_a_dim_of_which_only_the_data_knows(dim: int, is_lost: bool) -> None:
    reason = reason_of(lambda x: (x > 0).nonzero().squeeze(dim), torch.ones(3))
    assert (reason is not None and "only the data knows" in reason) == is_lost


def test_a_dim_that_is_guarded() -> None:
    assert reason_of(lambda x: x.squeeze(0) * 2, torch.ones(3, 2), dynamic=True) is None


@pytest.mark.parametrize("recorded", [True, False])
def test_a_view_made_without_gradients(recorded: bool) -> None:
    reason = reason_of(lambda x: of_no_grad(x * 2, recorded=recorded), torch.ones(3, requires_grad=True))
    assert (reason is not None and "made without gradients" in reason) == recorded
