"""Programs that meet, on a CUDA device: right whatever runs beside them, and when some do not wait for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.targets.triton import emit_meet
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.reductions import gpu_cost, when

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu

CASES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "softmax": (lambda x: x.softmax(-1), ((70, 65535),)),
    "log-softmax": (lambda x: x.log_softmax(-1), ((40, 100_000),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x + 3, w.shape, w, b), ((40, 70_000), (70_000,), (70_000,))),
    "rows of half a device": (lambda x: F.layer_norm(x + 3, x.shape[1:]), ((4, 1 << 20),)),
    "batch norm": (lambda x: F.batch_norm(x + 3, None, None, training=True), ((8, 16, 64, 64),)),
    "group norm": (lambda x: F.group_norm(x + 3, 32), ((8, 64, 100, 100),)),
}


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs meet wherever they can. Memory holds no results of an earlier test."""
    monkeypatch.setattr(when, "MEET", True)
    monkeypatch.setattr(when, "WORTH", 1e9)
    monkeypatch.setattr(gpu_cost, "of_meeting", lambda *_: 0.0)
    everything = [torch.full((1 << size,), torch.nan, device="cuda") for size in range(4, 26) for _ in range(3)]
    del everything


def compiled(function: Any) -> Any:
    torch._dynamo.reset()
    alone: dict[str, Any] = {"measure_unsure": False}  # nobody asks whether parts in kernels of their own are faster
    return torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False, options=alone)


def assert_right(name: str, dtype: torch.dtype) -> None:
    function, sizes = CASES[name]
    inputs = [torch.randn(size, device="cuda", dtype=dtype) for size in sizes]
    assert_close_to_float64(compiled(function), function, inputs, ulps=8.0)
    assert cuesta.records[-1].kernels == 2


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("patience", [emit_meet.PATIENCE, 0, 1, 30])
def test_right(name: str, dtype: torch.dtype, patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit_meet, "PATIENCE", patience)
    assert_right(name, dtype)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs take turns, wherever they could meet."""
    monkeypatch.setattr(gpu_cost, "of_turns", lambda *_: -1.0)


@pytest.mark.usefixtures("turns")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lag", [1, 1 << 20, 1 << 40])
def test_turns(name: str, dtype: torch.dtype, lag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cost, "LAG", lag)
    assert_right(name, dtype)


@pytest.mark.parametrize("patience", [emit_meet.PATIENCE, 3, None])
def test_calls_streams_and_graphs(patience: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without patience, in turns."""
    if patience is None:
        monkeypatch.setattr(gpu_cost, "of_turns", lambda *_: -1.0)
    else:
        monkeypatch.setattr(emit_meet, "PATIENCE", patience)
    x = torch.randn(256, 65535, device="cuda")
    truth = x.double().softmax(-1)

    def check(results: list[Tensor]) -> None:
        torch.cuda.synchronize()
        for result in results:
            assert torch.isfinite(result).all()
            assert (result.double() - truth).abs().max() < 1e-6 * truth.max()

    softmax = compiled(lambda x: x.softmax(-1))
    check([softmax(x) for _ in range(20)][-2:])
    for count in (2, 8):
        streams = [torch.cuda.Stream() for _ in range(count)]
        results: list[Tensor] = []
        for _ in range(5):
            for stream in streams:
                with torch.cuda.stream(stream):
                    results.append(softmax(x))
        check(results[-count:])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(x)
    for _ in range(5):
        y.fill_(torch.nan)
        graph.replay()
    check([y])


def test_groups_that_fill_the_device_on_several_streams() -> None:
    """No two of them fit at once."""
    x = torch.randn(8, 1 << 22, device="cuda")
    truth = F.layer_norm(x.double(), (1 << 22,))
    norm = compiled(lambda x: F.layer_norm(x, x.shape[1:]))
    norm(x)
    assert cuesta.records[-1].kernels == 2
    torch.cuda.synchronize()
    results: list[Tensor] = []
    for stream in [torch.cuda.Stream() for _ in range(4)]:
        with torch.cuda.stream(stream):
            results += [norm(x) for _ in range(3)]
    torch.cuda.synchronize()
    for result in results[::3]:
        torch.testing.assert_close(result.double(), truth, rtol=1e-5, atol=1e-5)
