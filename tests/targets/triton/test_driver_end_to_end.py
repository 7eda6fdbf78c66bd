"""A program for a CUDA device through the whole compiler to its launches, with a device that only takes notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.compiler import Dump, compile_module
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.targets.program import DeviceKernel, MachineCode
from cuesta.targets.triton import build, driver
from tests.support.triton_interpreter import on_cuda, parse

pytest.importorskip("triton")

PROGRAM = """
func.func @main(%x : tensor<64x100xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<64x100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  %z, %k = loops.extern "aten.sort.default"(%y) : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xi64>)
  %w = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %a = loops.load %z[%i] : tensor<64xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<64xf32>
  }
  func.return %y, %w : tensor<64xf32>, tensor<64xf32>
}
"""


def test_the_wrapper_launches_what_was_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launches: list[tuple[Any, ...]] = []

    def launcher(kernel: DeviceKernel, code: MachineCode) -> driver.Launch:
        assert code.binary[:4] == b"\x7fELF"
        return lambda *arguments: launches.append((kernel.name, kernel.device, *arguments))

    empty_strided = torch.empty_strided

    def on_the_host(*sizes: Any, device: str | None = None, **rest: Any) -> torch.Tensor:
        return empty_strided(*sizes, **rest)

    monkeypatch.setattr(driver, "launcher", launcher)
    monkeypatch.setattr(driver, "current_stream", lambda device: 77)
    monkeypatch.setattr(build, "architecture_of", lambda device: 90)
    monkeypatch.setattr(torch, "empty_strided", on_the_host)
    record = CompileRecord(kind="inference")
    dump = Dump.create(str(tmp_path), "inference")
    kept: list[Any] = []
    function = compile_module(on_cuda(parse(PROGRAM)), Options(), record, dump, kept.append)
    x = torch.randn(64, 100)
    y, w = function([x])
    assert [(name, device, programs, stream) for name, device, programs, stream, *_ in launches] == [
        ("launch_sum_0", 0, 64, 77),
        ("launch_exp_1", 0, 1, 77),
    ]
    assert launches[0][4:] == (x.data_ptr(), y.data_ptr())
    assert launches[1][5] == w.data_ptr()
    assert record.kernels == 2
    text = (dump.folder / "kernels.py").read_text()
    assert "def sum_0(" in text and "def exp_1(" in text
    assert "current_stream(0)" in (dump.folder / "wrapper.py").read_text()
