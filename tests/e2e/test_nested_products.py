"""Products of f32 that our own kernels compute on the CPU, in blocks of rows and columns: `nest-products`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.targets.cpu import facts
from cuesta.testing import assert_close_to_float64

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, as on one where our kernels are faster, and vectors have 16 lanes or fewer."""
    monkeypatch.setattr(facts, "facts_of_products", lambda: {"products": 1.4})
    monkeypatch.setattr(facts, "facts_of_onednn", dict)
    torch._dynamo.reset()
    cuesta.clear_records()


def compiled_of(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    chosen: dict[str, Any] = {"cache": False, **options}
    return torch.compile(function, backend="cuesta", fullgraph=True, options=chosen)


def library_calls() -> int:
    return sum(record.library_calls for record in cuesta.records)


SIZES = [
    (512, 64, 64),  # whole blocks
    (393, 96, 130),  # rows that no block of 8 fills, and one piece of a sum with two points more
    (1023, 48, 257),  # of whose columns only 16 are side by side
    (100, 208, 127),
    (64, 16, 128),
    (200, 32, 1000),  # a sum in eight pieces
]


@pytest.mark.parametrize(("rows", "columns", "points"), SIZES)
@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.covering
def test_products_are_as_near_to_the_truth_as_a_librarys(rows: int, columns: int, points: int, lies: str) -> None:
    """Whichever way the factors lie."""
    a = torch.randn(rows, points) if lies[0] == "n" else torch.randn(points, rows).t()
    b = torch.randn(points, columns) if lies[1] == "n" else torch.randn(columns, points).t()
    ours = compiled_of(torch.mm)(a, b)
    assert library_calls() == 0
    truth = a.double() @ b.double()
    own, eagers = ((one.double() - truth).norm() for one in (ours, a @ b))
    assert own <= 1.1 * eagers, "pieces are as long as MKL's, or shorter"
    assert_close_to_float64(compiled_of(torch.mm), torch.mm, [a, b])


@pytest.mark.parametrize("added", ["row", "matrix", "column", "number"])
def test_what_is_added(added: str) -> None:
    sizes = {"row": (96,), "matrix": (200, 96), "column": (200, 1), "number": (1,)}[added]
    inputs = [torch.randn(sizes), torch.randn(200, 144), torch.randn(144, 96)]
    assert_close_to_float64(compiled_of(torch.addmm), torch.addmm, inputs)
    assert library_calls() == 0


@pytest.mark.parametrize("sizes", [(5, 136, 32, 64), (2, 300, 70, 32)])
def test_batches(sizes: tuple[int, int, int, int]) -> None:
    batch, rows, points, columns = sizes
    a, b = torch.randn(batch, rows, points), torch.randn(batch, points, columns)
    assert_close_to_float64(compiled_of(torch.bmm), torch.bmm, [a, b])
    turned = torch.randn(batch, columns, points).transpose(1, 2)
    assert_close_to_float64(compiled_of(torch.bmm), torch.bmm, [a, turned])
    assert library_calls() == 0


def test_factors_that_overlap_or_repeat() -> None:
    """A matrix with itself, rows that are all one row, every second column, windows of one row."""

    def function(x: Tensor, row: Tensor, wide: Tensor, long: Tensor) -> tuple[Tensor, ...]:
        windows = long.as_strided((160, 64), (1, 1))
        return x @ x.t(), row.expand(160, 64) @ x.t(), wide[:, ::2] @ x.t(), windows @ x.t()

    inputs = [torch.randn(160, 64), torch.randn(64), torch.randn(160, 128), torch.randn(400)]
    assert_close_to_float64(compiled_of(function), function, inputs)
    assert library_calls() == 0


def test_infinities_and_what_is_no_number() -> None:
    """A row, and a column, with one: nothing else is touched by them."""
    a, b = torch.randn(200, 64), torch.randn(64, 96)
    a[3, 5], a[4, 6], b[7, 9] = math.inf, math.nan, -math.inf
    ours, eagers = compiled_of(torch.mm)(a, b), a @ b
    assert library_calls() == 0
    assert torch.equal(ours.isnan(), eagers.isnan())
    assert torch.equal(ours.isinf(), eagers.isinf())
    finite = eagers.isfinite()
    torch.testing.assert_close(ours[finite], eagers[finite])


def test_training() -> None:
    """Three products a layer but for the first, whose input has no gradient; results of one are factors of others."""
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64, bias=False), nn.Tanh(), nn.Linear(64, 128))
    assert_close_to_float64(compiled_of(model), model, [torch.randn(393, 64, requires_grad=True)])
    assert library_calls() == 0


def test_what_is_added_up_may_be_written_to() -> None:
    """An argument that a product is added to in place, and is a factor of another."""

    def function(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        before = total @ b
        total.addmm_(a, b)
        return before + total

    a, b, total = torch.randn(200, 64), torch.randn(64, 64), torch.randn(200, 64)
    expected, ours = total.clone(), total.clone()
    wanted = function(expected, a, b)
    torch.testing.assert_close(compiled_of(function)(ours, a, b), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_the_interpreter_agrees_before_and_after() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    with torch.no_grad():
        x = torch.randn(132, 32)
        compiled = compiled_of(model, validate="stages")
        assert_close_to_float64(compiled, model, [x])
    assert library_calls() == 0


def test_any_number_of_threads_gives_the_same() -> None:
    a, b = torch.randn(393, 130), torch.randn(130, 96)
    compiled, threads = compiled_of(torch.mm), torch.get_num_threads()
    results = list[Tensor]()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(compiled(a, b))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_roundings_of_eager_are_kept() -> None:
    """Whoever asks for eager's roundings gets eager's library, to the bit; and sizes that differ stay its own."""
    a, b = torch.randn(256, 128), torch.randn(128, 64)
    assert torch.equal(compiled_of(torch.mm, emulate_precision_casts=True)(a, b), a @ b)
    assert library_calls() == 1
    torch._dynamo.reset()
    cuesta.clear_records()
    for rows in (200, 301, 17):
        assert_close_to_float64(compiled_of(torch.mm), torch.mm, [torch.randn(rows, 128), b])


def test_nobody_said_that_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "facts_of_products", dict)
    compiled_of(torch.mm)(torch.randn(256, 128), torch.randn(128, 64))
    assert library_calls() == 1
