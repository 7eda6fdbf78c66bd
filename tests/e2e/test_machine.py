"""A program is compiled for the machine that its text states, and a dump states the one it was compiled for."""

from __future__ import annotations

from pathlib import Path

import torch

import cuesta
from cuesta.machine import detect

COPY = """
builtin.module STATED {
  func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
    %y = loops.nest (%i : 100) outs(%o: tensor<100xf32>) {
      %a = loops.load %x[%i] : tensor<100xf32>
      %b = elem.add %a, %a : f32
      loops.store %b, %o[%i] : tensor<100xf32>
    }
    func.return %y : tensor<100xf32>
  }
}
"""


def kernel_text(tmp_path: Path, text: str) -> str:
    file, dump = tmp_path / "copy.mlir", tmp_path / "dump"
    file.write_text(text)
    x = torch.randn(100)
    (y,) = cuesta.load(file, options={"dump": str(dump)})(x)
    assert torch.equal(y, x + x)
    (found,) = dump.glob("*/*_loops-to-kernel.mlir")
    return found.read_text()


def test_a_text_that_states_a_machine_is_compiled_for_it(tmp_path: Path) -> None:
    text = kernel_text(tmp_path, COPY.replace("STATED", "attributes {cuesta.machine = #cuesta.machine<lanes = 2>}"))
    assert "vector<2xf32>" in text
    assert "cuesta.machine = #cuesta.machine<lanes = 2, processors = 132>" in text


def test_a_text_that_states_none_is_compiled_for_the_machine_at_hand(tmp_path: Path) -> None:
    machine = detect()
    text = kernel_text(tmp_path, COPY.replace(" STATED", ""))
    assert f"vector<{machine.lanes}xf32>" in text
    assert f"cuesta.machine = #cuesta.machine<{machine}>" in text
