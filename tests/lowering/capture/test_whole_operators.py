"""Operators that arrive whole, though PyTorch's Python dispatcher takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import Barrier, Event, Thread
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func  # pyright: ignore[reportPrivateImportUsage]

from cuesta.lowering.capture import whole_operators as module
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.whole_operators import INTERPOLATIONS, whole_operators

pytestmark = pytest.mark.slow


def captured(
    function: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False, whole: bool = True
) -> list[str]:
    """The operators of the forward and the backward graph."""
    found: list[str] = []

    def compiler(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        found.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return make_boxed_func(gm.forward)

    with whole_operators() if whole else nullcontext():
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


def kernels() -> list[dict[Any, Any]]:
    packets = [getattr(torch.ops.aten, name) for name, _ in INTERPOLATIONS]
    return [dict(overload.py_kernels) for packet in packets for overload in (packet.vec, packet.default)]


def test_the_kernels_are_put_back() -> None:
    before = kernels()
    with pytest.raises(ZeroDivisionError), whole_operators():
        assert kernels() != before
        raise ZeroDivisionError
    assert kernels() == before


def test_an_exchange_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernels()
    monkeypatch.setattr(module, "INTERPOLATIONS", (*INTERPOLATIONS, ("no_such_operator", 1)))
    with pytest.raises(AttributeError, match="no_such_operator"), whole_operators():
        pass
    monkeypatch.undo()
    assert kernels() == before
    with whole_operators():
        assert kernels() != before
    assert kernels() == before


def test_blocks_lie_in_each_other() -> None:
    before = kernels()
    with whole_operators():
        exchanged = kernels()
        with whole_operators():
            assert kernels() == exchanged
        assert kernels() == exchanged
    assert kernels() == before


def test_threads_that_trace_at_once_share_the_exchange() -> None:
    """A opens, B opens, A closes, B goes on: whole still, and at the end all is PyTorch's."""
    before = kernels()
    both_open, first_closed = Event(), Event()
    inside: list[list[str]] = []

    def second() -> None:
        with whole_operators():
            both_open.set()
            assert first_closed.wait(60)
            x = torch.randn(1, 2, 4, 5, requires_grad=True)
            inside.append(captured(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x))

    thread = Thread(target=second)
    with whole_operators():
        thread.start()
        assert both_open.wait(60)
    first_closed.set()
    thread.join()
    assert [name for name in inside[0] if "upsample" in name] == [
        "aten.upsample_bilinear2d.default",
        "aten.upsample_bilinear2d_backward.default",
    ]
    assert kernels() == before


def test_many_threads_leave_the_kernels_as_they_were() -> None:
    before = kernels()
    start = Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(50):
            with whole_operators():
                pass

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kernels() == before


LEFT = [(5,), (6, 5), (2, 6, 5), (1, 6, 5), (4, 2, 6, 5), (4, 1, 6, 5)]
RIGHT = [(5,), (5, 3), (1, 5, 3), (2, 5, 3), (4, 1, 5, 3), (5, 0)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(left, right, id=f"{left}-{right}", marks=pytest.mark.thorough if (row + column) % 2 else ())
        for row, left in enumerate(LEFT)
        for column, right in enumerate(RIGHT)
    ],
)
def test_a_product_is_taken_apart_as_by_the_kernel_for_symbols(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Every left with half of the rights; with all by `make test-thorough`."""
    x, y = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    kernels = torch.ops.aten.matmul.default.py_kernels.copy()
    assert captured(torch.matmul, x, y) == captured(torch.matmul, x, y, whole=False)
    assert torch.ops.aten.matmul.default.py_kernels == kernels


def test_a_product_of_symbolic_sizes_is_left_to_its_kernel() -> None:
    x, y = torch.randn(3, 6, 5, requires_grad=True), torch.randn(5, 4)
    assert captured(torch.matmul, x, y, dynamic=True) == captured(torch.matmul, x, y, dynamic=True, whole=False)
