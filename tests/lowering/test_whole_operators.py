"""Operators that arrive whole, though PyTorch's Python dispatcher takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func  # pyright: ignore[reportPrivateImportUsage]

from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.whole_operators import INTERPOLATIONS, whole_operators


def captured(function: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False) -> list[str]:
    """The operators of the forward and the backward graph."""
    found: list[str] = []

    def compiler(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        found.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return make_boxed_func(gm.forward)

    with whole_operators():
        compiled = aot_function(function, fw_compiler=compiler, dynamic=dynamic, decompositions=decomposition_table())(
            *inputs
        )
        compiled.sum().backward()
    return found


@pytest.mark.parametrize("factor", [2.0, 1.5])
@pytest.mark.parametrize(
    ("mode", "rank", "name"),
    [
        ("nearest", 1, "upsample_nearest1d"),
        ("nearest", 2, "upsample_nearest2d"),
        ("nearest", 3, "upsample_nearest3d"),
        ("nearest-exact", 2, "_upsample_nearest_exact2d"),
        ("linear", 1, "upsample_linear1d"),
        ("bilinear", 2, "upsample_bilinear2d"),
        ("trilinear", 3, "upsample_trilinear3d"),
        ("bicubic", 2, "upsample_bicubic2d"),
    ],
)
def test_interpolation_is_one_call_each_way(mode: str, rank: int, name: str, factor: float) -> None:
    x = torch.randn(1, 2, *(4, 5, 6)[:rank], requires_grad=True)
    found = captured(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), x)
    assert [target for target in found if "upsample" in target] == [
        f"aten.{name}.default",
        f"aten.{name}_backward.default",
    ]
    assert not any("index" in target for target in found)


def test_symbolic_sizes_are_taken_apart() -> None:
    x = torch.randn(2, 2, 4, 5, requires_grad=True)
    found = captured(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x, dynamic=True)
    assert not any("upsample" in target for target in found)


def test_the_kernels_are_put_back() -> None:
    overloads = [
        getattr(getattr(torch.ops.aten, name), overload)
        for name, _ in INTERPOLATIONS
        for overload in ("vec", "default")
    ]
    before = [dict(overload.py_kernels) for overload in overloads]
    with pytest.raises(ZeroDivisionError), whole_operators():
        assert [dict(overload.py_kernels) for overload in overloads] != before
        raise ZeroDivisionError
    assert [dict(overload.py_kernels) for overload in overloads] == before
