"""Symbolic floats become 0-d tensors, each computed once, in the precision that eager would use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.dialects.core.locations import print_text
from cuesta.lowering.capture.fx_to_aten import UnsupportedGraphError, import_graph
from cuesta.targets import reference


def _traced(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode="symbolic")(*inputs)


def test_a_symbolic_float_is_computed_once_for_each_precision() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scale = 2.5 / (x.shape[0] ** 0.5)
        return x * scale, x + scale, y * scale

    inputs = (torch.randn(5, 3), torch.randn(4, dtype=torch.float64))
    module = import_graph(_traced(function, *inputs)).module
    text = print_text(module)
    assert text.count("aten.div.Tensor") == 1
    assert text.count("aten._to_copy.default") == 1  # f32 for x, twice; y takes the double itself
    for actual, expected in zip(reference.run(module, inputs), function(*inputs), strict=True):
        torch.testing.assert_close(actual, expected)


def test_a_symbolic_float_that_is_returned_as_a_tensor() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.scalar_tensor(x.shape[0] / 4, dtype=torch.float32)

    module = import_graph(_traced(function, x := torch.randn(6, 2))).module
    torch.testing.assert_close(reference.run(module, [x])[0], torch.tensor(1.5))


def test_a_symbolic_float_as_the_number_of_an_overload_that_also_takes_a_tensor() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        aten = torch.ops.aten
        return aten.mul.Scalar(x, 1.0 / x.shape[0]), aten.sub.Scalar(x, x.shape[1] / 3)

    for dtype in (torch.float32, torch.float64, torch.float16):
        module = import_graph(_traced(function, x := torch.randn(6, 2, dtype=dtype))).module
        for actual, expected in zip(reference.run(module, [x]), function(x), strict=True):
            torch.testing.assert_close(actual, expected)


def test_where_only_a_number_may_stand_the_graph_is_refused() -> None:
    graph = _traced(lambda x: torch.full((3,), x.shape[0] / 4), torch.randn(6, 2))
    with pytest.raises(UnsupportedGraphError, match="a symbolic float where only a number may stand"):
        import_graph(graph)
