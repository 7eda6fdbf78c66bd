"""Loops whose operands share memory are compiled, not left to eager: a state begins as a row of what the body reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import GraphModule

from cuesta.lowering.capture.operands_of_loops import give_memory_to_operands
from tests.support.differential import compiled_of

ZERO = torch.tensor(0)


def a_row(x: Tensor) -> Tensor:
    return while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, (h * x[1]).tanh()), (ZERO, x[0]))[1]


def a_row_of_what_is_computed(x: Tensor) -> Tensor:
    y = x.sin()
    return while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, (h * y[1]).tanh()), (ZERO, y[0]))[1]


def one_tensor_twice(x: Tensor) -> Tensor:
    return while_loop(lambda h, g: h.sum() < 9, lambda h, g: (h + 1 + g, g * 1.5), (x[0], x[0]))[0]


def no_steps(x: Tensor) -> Tensor:
    return while_loop(lambda i, h: i < 0, lambda i, h: (i + 1, (h * x[1]).tanh()), (ZERO, x[0]))[1]


def a_scan(x: Tensor) -> Tensor:
    return scan(lambda c, row: (c * 0.5 + row + x[1], c + row), x[0], x * 2)[1]


@pytest.mark.filterwarnings("error:cuesta")
@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("function", [a_row, a_row_of_what_is_computed, one_tensor_twice, no_steps, a_scan])
def test_operands_that_share_memory_are_compiled(function: Callable[[Tensor], Tensor], has_gradient: bool) -> None:
    results: list[Any] = []
    for call in (function, compiled_of(function)):
        x = (torch.arange(6.0).view(3, 2) / 4).requires_grad_(has_gradient)
        result = call(x)
        gradient = torch.autograd.grad(result.sum(), x)[0] if has_gradient else None
        results.append((result.detach().clone(), gradient))
        with torch.no_grad():
            result.zero_()
        assert x[0, 1] != 0, "a result has memory of its own"
    torch.testing.assert_close(results[1], results[0])


def graph_of(function: Callable[[Tensor], Tensor]) -> GraphModule:
    seen: list[GraphModule] = []

    def backend(gm: GraphModule, _: Any) -> Callable[..., Any]:
        seen.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(torch.arange(6.0).view(3, 2))
    return seen[0]


def copies_in(gm: GraphModule) -> int:
    return sum(node.target == "clone" for node in gm.graph.nodes)


def test_what_is_carried_is_copied_and_only_where_it_must_be() -> None:
    apart = graph_of(lambda x: scan(lambda c, row: (c * 0.5 + row, c + row), torch.zeros(2), x * 2)[1])
    for gm, count in ((graph_of(a_row), 1), (graph_of(one_tensor_twice), 1), (graph_of(a_scan), 1), (apart, 0)):
        before = copies_in(gm)
        give_memory_to_operands(gm)
        assert copies_in(gm) == before + count
        give_memory_to_operands(gm)
        assert copies_in(gm) == before + count, "twice is as good as once"


def test_what_a_body_writes_to_is_not_copied() -> None:
    """PyTorch refuses it, and eager would write to the copy."""
    gm = graph_of(a_row)
    body: Any = next(module for name, module in gm.named_modules() if "body" in name)
    state = [node for node in body.graph.nodes if node.op == "placeholder"][1]
    first = next(node for node in body.graph.nodes if node.op != "placeholder")
    with body.graph.inserting_before(first):
        body.graph.call_method("mul_", (state, 2)).meta = {**state.meta}
    give_memory_to_operands(gm)
    assert not copies_in(gm)
