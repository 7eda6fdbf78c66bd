"""Reductions in parts, sums of columns beside rows, and loads of whole rows, as Triton kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.dialects import host, kernel
from cuesta.targets.triton.emit_module import emit_module
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.reductions import sum_columns_with_rows, when
from tests.support.tensors import special_rows
from tests.support.triton_interpreter import check, interpreted_cuda, on_cuda, parse, to_host
from tests.support.triton_kernels import (
    assert_compiles,
    kernels_in,
    kernels_of,
    rms_norm,
    split_whatever_the_sizes,
    texts_of,
)

pytest.importorskip("triton")

slow = pytest.mark.slow  # the interpreter takes seconds for a kernel


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits, whatever the sizes."""
    split_whatever_the_sizes(monkeypatch, meet=False)
    monkeypatch.setattr(sum_columns_with_rows, "LEAST", 8)
    monkeypatch.setattr(sum_columns_with_rows, "FEW", 0)
    monkeypatch.setattr(sum_columns_with_rows, "BUSY", 0)


def in_two_types(names: Iterable[str], both: Sequence[str]) -> list[Any]:
    """All in f32, and some in bf16, of which the parts are in f32 too; the rest by `make test-thorough`."""
    return [pytest.param(name, torch.float32, id=f"{name}-float32") for name in names] + [
        pytest.param(name, torch.bfloat16, id=f"{name}-bfloat16", marks=() if name in both else pytest.mark.thorough)
        for name in names
    ]


FORWARD: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...], int]] = {
    # name: the function, the sizes of its inputs, the launches there should be
    "softmax": (lambda x: x.softmax(-1), ((3, 100),), 3),
    "softmax of columns": (lambda x: x.softmax(0), ((100, 9),), 3),
    "log-softmax": (lambda x: x.log_softmax(-1), ((3, 97),), 3),
    "logsumexp": (lambda x: (x * 30).logsumexp(-1), ((3, 97),), 2),
    "layer norm": (lambda x, w, b: F.layer_norm(x + 5, (100,), w, b), ((3, 100), (100,), (100,)), 3),
    "group norm": (lambda x: F.group_norm(x, 2), ((3, 6, 5, 7),), 3),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), ((9, 3, 7, 5),), 3),
    "instance norm": (F.instance_norm, ((2, 3, 8, 9),), 3),
    "standard deviation": (lambda x: torch.std_mean(x + 100, 1), ((40, 50),), 2),
    "third moment": (lambda x: x * ((x - x.mean(1, keepdim=True)) ** 3).mean(1, keepdim=True), ((3, 100),), 5),
}


@slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "dtype"), in_two_types(FORWARD, ("softmax", "layer norm", "batch norm")))
def test_in_parts(name: str, dtype: torch.dtype) -> None:
    function, sizes, launches = FORWARD[name]
    inputs = [torch.randn(size).to(dtype) for size in sizes]
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    lowered = to_host(programs[0])
    assert sum(isinstance(op, host.LaunchOp) for op in lowered.walk()) == launches
    assert_compiles(emit_module(kernels_in(lowered)).values())


PLACES: dict[str, tuple[Callable[..., object], tuple[int, ...]]] = {
    "of the greatest": (lambda x: x.max(1), (4, 100)),
    "of the least of all": (lambda x: x.argmin(), (7, 13)),
    "in a column": (lambda x: x.argmax(0), (100, 9)),
    "in the middle": (lambda x: x.min(1), (4, 37, 9)),
}


@slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", PLACES)
def test_places_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(when, "FEW_PROGRAMS", 1000)
    monkeypatch.setattr(when, "NARROW", 8)
    monkeypatch.setattr(when, "NARROW_LEAST", 4)
    function, sizes = PLACES[name]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    rows = special_rows(sizes[0], math.prod(sizes[1:])).reshape(sizes)
    with interpreted_cuda() as programs:
        for x in (torch.randn(sizes), torch.zeros(sizes), rows):
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0, equal_nan=True)
    found = kernels_of(programs[0])
    assert len(found) == 2
    assert_compiles(emit_module(found).values())


@slow
@pytest.mark.usefixtures("small")
def test_infinities_in_parts() -> None:
    x = special_rows(6, 100)
    with interpreted_cuda() as programs:
        compiled = torch.compile(lambda x: (x.softmax(-1), x.logsumexp(-1)), backend="cuesta", fullgraph=True)
        actual = compiled(x)
    assert len(kernels_of(programs[0])) > 2
    for ours, eager in zip(actual, (x.softmax(-1), x.logsumexp(-1)), strict=True):
        torch.testing.assert_close(ours, eager, equal_nan=True)


BACKWARD: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "layer norm": (lambda x, w, b: F.layer_norm(x + 5, (100,), w, b), ((24, 100), (100,), (100,))),
    "three axes": (lambda x, w, b: F.layer_norm(x + 5, (100,), w, b), ((3, 8, 100), (100,), (100,))),
    "RMS norm": (rms_norm, ((24, 100), (100,))),
    "what the rows store": (lambda x, w, b: F.gelu(F.layer_norm(x + 5, (64,), w, b)), ((16, 64), (64,), (64,))),
}


@slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "dtype"), in_two_types(BACKWARD, ("layer norm",)))
def test_sums_of_columns_beside_rows(name: str, dtype: torch.dtype) -> None:
    function, sizes = BACKWARD[name]
    inputs = [torch.randn(size).to(dtype).requires_grad_() for size in sizes]
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    found = kernels_of(programs[1])
    assert any(isinstance(op, kernel.ScanOp) for func in found for op in func.walk())
    texts = list(emit_module(found).values())
    assert any("acc = acc + " in text.source for text in texts), "what is carried is in registers"
    assert_compiles(texts)


ROWS = """
func.func @main(%x : tensor<9x333xf32>, %m : tensor<9x2xf32>) -> tensor<9x333xf32> {
  %y = loops.nest (%i : 9, %j : 333) outs(%o : tensor<9x333xf32>) schedule #loops.schedule<lanes = 256> {
    %a = loops.load %x[%i, %j] : tensor<9x333xf32>
    %b = loops.load %m[%i, 1] : tensor<9x2xf32>
    %c = elem.sub %a, %b : f32
    loops.store %c, %o[%i, %j] : tensor<9x333xf32>
  }
  func.return %y : tensor<9x333xf32>
}"""


def test_a_load_of_a_row_is_two_loads_for_all_lanes() -> None:
    (text,) = texts_of(on_cuda(parse(ROWS)))
    assert "tl.load(m + row * 2 + 1)" in text.source
    assert "tl.load(m + last * 2 + 1)" in text.source
    assert "j // 333" not in text.source


def test_rows_shorter_than_a_tile_are_divided() -> None:
    (text,) = texts_of(on_cuda(parse(ROWS.replace("333", "100"))))
    assert "j // 100" in text.source


@slow
def test_rows_that_end_within_a_tile() -> None:
    check(parse(ROWS))
    check(parse(ROWS.replace("333", "257")))
    check(parse(ROWS.replace("333", "100")))
