"""Graphs for CUDA devices where something is missing: Triton, a driver that takes our code, memory."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cuesta.compiler
from cuesta.compiler import compile_graph
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.targets.program import CudaError
from tests.support.tensors import FakeOn


def doubled(device: str, times: int = 1) -> torch.fx.GraphModule:
    """x · 2ⁿ on a device."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    value.meta["val"] = FakeOn(device)
    for _ in range(times):
        value = graph.call_function(torch.ops.aten.add.Tensor, (value, value))
        value.meta["val"] = FakeOn(device)
    graph.output((value,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


OPTIONS = Options(cache=False)


def test_without_triton_a_graph_runs_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "triton" else find(name, *rest)
    )
    with pytest.warns(UserWarning, match="no target for the device cuda:0 without Triton; `pip install triton`"):
        function = compile_graph(doubled("cuda:0"), CompileRecord("inference"), OPTIONS)
    assert torch.equal(function([torch.ones(4)])[0], torch.full((4,), 2.0))


def refusing(error: Exception) -> Callable[..., Any]:
    def compile_module(*arguments: Any) -> Any:
        raise error

    return compile_module


def test_what_the_driver_refuses_runs_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    error = CudaError("CUDA error 222: the PTX is too new; the driver is for CUDA 11.4, and torch was built with 12.8")
    monkeypatch.setattr(cuesta.compiler, "compile_module", refusing(error))
    with pytest.warns(UserWarning, match=r"runs a graph in eager: CUDA error 222: .* the driver is for CUDA 11\.4"):
        function = compile_graph(doubled("cuda:0"), CompileRecord("inference"), OPTIONS)
    assert torch.equal(function([torch.ones(4)])[0], torch.full((4,), 2.0))


def test_out_of_memory_is_nobodys_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    error = torch.cuda.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(cuesta.compiler, "compile_module", refusing(error))
    with pytest.raises(torch.cuda.OutOfMemoryError):
        compile_graph(doubled("cuda:0"), CompileRecord("inference"), OPTIONS)


@pytest.mark.parametrize(("device", "times", "workers"), [("cuda:0", 60, [6]), ("cuda:0", 3, []), ("cpu", 60, [])])
def test_large_graphs_for_a_device_have_workers_get_ready(
    device: str, times: int, workers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuesta.targets.triton import workers as module

    asked: list[int] = []

    class Pool:
        def prepare(self, count: int) -> None:
            asked.append(count)

    monkeypatch.setattr(module, "pool", Pool)
    monkeypatch.setattr(cuesta.compiler, "compile_module", lambda *arguments: lambda args: args)
    compile_graph(doubled(device, times), CompileRecord("inference"), OPTIONS)
    assert asked == workers
