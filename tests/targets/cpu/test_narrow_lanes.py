"""Lanes of one and two bytes that lie apart: no machine gathers those, so they are loaded and changed one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuesta
from cuesta.dialects import kernel
from cuesta.targets.cpu.emit_kernel import KernelEmitter
from tests.support.text import parse

ROWS, COLUMNS = 37, 6


def program(element: str, kind: str) -> str:
    """Rows x, into which the elements of y are combined where an index says: each lane has a row."""
    vector, table = f"vector<8x{element}>", f"tensor<{ROWS}x{COLUMNS}x{element}>"
    pointer = f"!kernel.ptr<{element}>"
    return f"""
builtin.module {{
  kernel.func @copy_0(%x: {pointer}) outs(%o: {pointer}) schedule #kernel.schedule<grid = [], parallel = 0> {{
    kernel.for (%k = 0 to {ROWS * COLUMNS} lanes 8) {{
      %a = kernel.load %x[%k] : {vector}
      kernel.store %a, %o[%k] : {vector}
    }}
  }}
  kernel.func @scatter_0(%i: !kernel.ptr<i64>, %y: {pointer}) outs(%o: {pointer}) updates 1
      schedule #kernel.schedule<grid = [], parallel = 0> {{
    kernel.for (%r = 0 to {ROWS} lanes 8) {{
      kernel.scan (%c = 0 to {COLUMNS}) {{
        %p = kernel.load %i[%c] : i64
        %q = kernel.bound %p, {COLUMNS} wrap : i64
        %a = kernel.load %y[%r * {COLUMNS} + %c] : {vector}
        kernel.combine {kind} %a, %o[%r * {COLUMNS} + %q] : {vector}
      }}
    }}
  }}
  func.func @main(%x: {table}, %i: tensor<{COLUMNS}xi64>, %y: {table}) -> {table} {{
    %w = kernel.launch @copy_0(%x) : ({table}) -> ({table})
    %z = kernel.launch @scatter_0(%i, %y, %w) : (tensor<{COLUMNS}xi64>, {table}, {table}) -> ({table})
    func.return %z : {table}
  }}
}}
"""


@pytest.mark.parametrize("kind", ["sum", "maximum", "assign"])
@pytest.mark.parametrize(("element", "dtype"), [("i8", torch.int8), ("ui8", torch.uint8), ("i16", torch.int16)])
def test_changes_of_narrow_elements(element: str, dtype: torch.dtype, kind: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randint(0, 200, (ROWS, COLUMNS), generator=generator).to(dtype) for _ in range(2))
    index = torch.tensor([5, 0, -1, 0, 3, 3])
    expected = x.clone()
    for column, place in enumerate(index.tolist()):
        match kind:
            case "sum":
                expected[:, place] += y[:, column]
            case "maximum":
                expected[:, place] = torch.maximum(expected[:, place], y[:, column])
            case _:
                expected[:, place] = y[:, column]
    file = tmp_path / "kernel.mlir"
    file.write_text(program(element, kind))
    assert torch.equal(cuesta.load(file)(x, index, y)[0], expected)


@pytest.mark.parametrize(("element", "gathers"), [("i8", False), ("i16", False), ("i32", True)])
def test_only_what_a_machine_gathers_is_gathered(element: str, gathers: bool) -> None:
    module = parse(program(element, "sum"))
    func = [op for op in module.walk() if isinstance(op, kernel.FuncOp)][1]
    text = KernelEmitter(func, []).emit().text
    assert ("@llvm.masked.gather" in text) is gathers
    assert ("@llvm.masked.scatter" in text) is gathers
