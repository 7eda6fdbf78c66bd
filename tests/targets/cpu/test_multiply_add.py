"""a · b + c, rounded once or twice: as compiled code, in every type that a processor computes in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuesta

TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16}

TEXT = """
builtin.module {
  func.func @main(%a : tensor<37xT>, %b : tensor<37xT>, %c : tensor<37xT>) -> tensor<37xT> {
    %y = loops.nest (%i : 37) outs(%o : tensor<37xT>) {
      %1 = loops.load %a[%i] : tensor<37xT>
      %2 = loops.load %b[%i] : tensor<37xT>
      %3 = loops.load %c[%i] : tensor<37xT>
      %4 = elem.multiply_add %1, %2, %3 : T
      loops.store %4, %o[%i] : tensor<37xT>
    }
    func.return %y : tensor<37xT>
  }
}"""


@pytest.mark.parametrize("name", TYPES)
def test_once_or_twice(name: str, tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(TEXT.replace("xT>", f"x{name}>").replace(": T", f": {name}"))
    a, b, c = (torch.randn(37, generator=torch.Generator().manual_seed(seed)).to(TYPES[name]) for seed in range(3))
    (ours,) = cuesta.load(path)(a, b, c)
    twice, once = a * b + c, (a.double() * b.double() + c.double()).to(TYPES[name])
    assert ((ours == twice) | (ours == once)).all()
    assert ours.isfinite().all() and ours.dtype == TYPES[name]
