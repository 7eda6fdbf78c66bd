"""Sums of rows by a sorted index on a GPU: what the kernels mean, and what they do by Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host, kernel, sym
from cuesta.lowering.aten import sorted_sums
from cuesta.targets.triton.emit_module import emit_module
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, kernels_in

pytestmark = pytest.mark.slow

ROWS, WIDTH, COUNT = 11, 64, 90


@pytest.fixture(autouse=True)
def sorts_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few values as these are sorted, and added up in parts of 4."""
    monkeypatch.setattr(sorted_sums, "WORTH", 1)
    monkeypatch.setattr(sorted_sums, "SHORTEST_PART", 4)
    monkeypatch.setattr(sorted_sums, "power_of_two", lambda number: 4)


def whole(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Small integers, so that no order of adding matters."""
    return torch.randint(-4, 5, sizes).to(dtype)


def indices(kind: str) -> Tensor:
    """Places: few in each row and none in some, nearly all in one, or all."""
    if kind == "even":
        return torch.randint(ROWS - 3, (COUNT,))
    return (
        torch.where(torch.rand(COUNT) < 0.8, 7, torch.randint(ROWS, (COUNT,)))
        if kind == "skewed"
        else torch.full((COUNT,), 10)
    )


def looked_up(v: Tensor, i: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(v * 2, i, ROWS, -1, False)


def padded(v: Tensor, i: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(v * 2, i, ROWS, 7, False)


def in_several(v: Tensor, i: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(v.view(9, 10, WIDTH), i.view(9, 10), ROWS, -1, False)


def put(v: Tensor, i: Tensor) -> Tensor:
    return v[:ROWS].index_put((i - ROWS,), v, accumulate=True)


def added(v: Tensor, i: Tensor) -> Tensor:
    return v[:ROWS].index_add(0, i, v)


def put_in_the_middle(v: Tensor, i: Tensor) -> Tensor:
    table = v[: 3 * ROWS].view(3, ROWS, WIDTH)
    return torch.ops.aten.index_put(table, [None, i], v.expand(3, COUNT, WIDTH), True)


def put_at_pairs(v: Tensor, i: Tensor) -> Tensor:
    table = v[: 3 * ROWS].view(3, ROWS, WIDTH)
    return table.index_put((i % 3, i.flip(0)), v, accumulate=True)


def put_one_row(v: Tensor, i: Tensor) -> Tensor:
    return v[:ROWS].index_put((i,), v[3], accumulate=True)


FUNCTIONS: tuple[Callable[..., Tensor], ...] = (
    looked_up, padded, in_several, put, added, put_in_the_middle, put_at_pairs, put_one_row,
)  # fmt: skip


def check(function: Callable[..., Any], inputs: tuple[Tensor, ...], *, run_it: bool) -> ModuleOp:
    with interpreted_cuda(lowered=True, run_it=run_it) as programs, torch.no_grad():
        actual = torch.compile(function, backend="cuesta", fullgraph=True)(*inputs)
    expected = function(*inputs)
    assert actual.dtype is expected.dtype and actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    (lowered,) = map(to_host, programs)
    assert [op.overload for op in lowered.walk() if isinstance(op, host.ExternOp)] == ["aten.sort.stable"]
    assert {op.kind for op in lowered.walk() if isinstance(op, kernel.AtomicOp)} == {"assign_any"}
    return lowered


@pytest.mark.parametrize("run_it", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.every(3, also=("in_several-True", "put_in_the_middle-True"))
def test_as_eager(function: Callable[..., Tensor], run_it: bool) -> None:
    if run_it:
        pytest.importorskip("triton")
    for kind in ("even", "skewed", "one"):
        check(function, (whole(COUNT, WIDTH), indices(kind)), run_it=run_it)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_types(dtype: torch.dtype) -> None:
    """Sums of 16 bits are rounded once."""
    check(looked_up, (whole(COUNT, WIDTH, dtype=dtype), indices("skewed")), run_it=False)


@pytest.mark.parametrize("rows", [32766, 32767, 32768])
def test_tables_of_as_many_rows_as_a_key_can_name(rows: int) -> None:
    """What does not count has the number after the last row, and what is beside the ends the one after that."""

    def function(v: Tensor, i: Tensor) -> Tensor:
        return torch.ops.aten.embedding_dense_backward(v, i, rows, 3, False)

    i = torch.tensor([rows - 1, 3, 0, rows - 1, 3]).repeat(COUNT // 5)
    check(function, (whole(COUNT, WIDTH), i), run_it=False)


def test_loops_end_where_the_data_says_and_compile() -> None:
    pytest.importorskip("triton")
    lowered = check(looked_up, (whole(COUNT, WIDTH, dtype=torch.bfloat16), indices("even")), run_it=False)
    loops = [op for op in lowered.walk() if isinstance(op, kernel.ReduceOp)]
    assert len(loops) == 3 and all(not isinstance(loop.uppers.results[-1], int) for loop in loops)
    assert_compiles(emit_module(kernels_in(lowered)).values())


def test_a_gradient_of_a_table() -> None:
    def step(table: Tensor, i: Tensor) -> Tensor:
        return functional.embedding(i, table) * 2

    table, i = whole(ROWS, WIDTH).requires_grad_(), indices("skewed")
    with interpreted_cuda(run_it=False):
        (actual,) = torch.autograd.grad(torch.compile(step, backend="cuesta")(table, i).sum(), table)
    (expected,) = torch.autograd.grad(step(table, i).sum(), table)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_what_is_worth_it() -> None:
    """Few values, narrow rows and sizes that are not known are not sorted, nor is anything on a processor."""

    def externs(count: Any, width: int) -> list[str]:
        with interpreted_cuda(lowered=True, run_it=False) as programs, torch.no_grad():
            torch.compile(looked_up, backend="cuesta", fullgraph=True)(whole(count, width), indices("even")[:count])
        return [op.overload for program in programs for op in to_host(program).walk() if isinstance(op, host.ExternOp)]

    assert externs(COUNT, WIDTH) == ["aten.sort.stable"]
    assert externs(COUNT, WIDTH - 1) == []
    assert not sorted_sums._is_worth_it(sym.symbol("s0"), ROWS, WIDTH)  # pyright: ignore[reportPrivateUsage]
