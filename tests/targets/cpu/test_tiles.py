"""Kernels with lanes along two axes, written by hand: whatever the sizes, the CPU computes what the text says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuesta

ROWS, COLUMNS = 37, 45


def program(kernel_body: str, outs: str, inputs: str = "37x45, 45x37, 37, 45") -> str:
    names = ["%x", "%t", "%b", "%c"]
    types = [f"tensor<{shape.strip()}xf32>" for shape in inputs.split(",")]
    parameters = ", ".join(f"{name}: !kernel.ptr<f32>" for name in names)
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    return f"""
builtin.module {{
  kernel.func @tile_0({parameters}) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [], parallel = 0> {{
    {kernel_body}
  }}
  func.func @main({arguments}) -> {outs} {{
    %y = kernel.launch @tile_0(%x, %t, %b, %c) : ({", ".join(types)}) -> ({outs})
    func.return %y : {outs}
  }}
}}
"""


MIXED = """
    kernel.for (%i = 0 to 37 lanes 16) {
      %r = kernel.load %b[%i] : vector<16xf32>
      %s = kernel.broadcast %r : vector<16xf32> to vector<16x16xf32>
      kernel.for (%j = 0 to 45 lanes 16 dim 1) {
        %a = kernel.load %x[%i * 45 + %j] : vector<16x16xf32>
        %d = kernel.load %t[%j * 37 + %i] : vector<16x16xf32>
        %e = kernel.load %c[%j] : vector<1x16xf32>
        %f = kernel.broadcast %e : vector<1x16xf32> to vector<16x16xf32>
        %g = elem.mul %d, %s : vector<16x16xf32>
        %h = elem.add %g, %f : vector<16x16xf32>
        %k = elem.sub %h, %a : vector<16x16xf32>
        kernel.store %k, OUT : vector<16x16xf32>
      }
    }"""

ROW_SUMS = """
    kernel.for (%i = 0 to 37 lanes 4) {
      %s = kernel.reduce sum (%j = 0 to 45 lanes 8 dim 1) {
        %d = kernel.load %t[%j * 37 + %i] : vector<4x8xf32>
        kernel.yield %d : vector<4x8xf32>
      } : vector<4xf32>
      kernel.store %s, %o[%i] : vector<4xf32>
    }"""

MASKED = """
    %z = elem.constant 7.0 : vector<8x8xf32>
    %m = elem.constant 900 : vector<8x8xi64>
    kernel.for (%i = 0 to 37 lanes 8) {
      kernel.for (%j = 0 to 45 lanes 8 dim 1) {
        %n = kernel.index [%i * 45 + %j] : vector<8x8xi64>
        %w = elem.lt %n, %m : vector<8x8xi64>
        %d = kernel.load %t[%j * 37 + %i] if %w else %z : vector<8x8xf32>
        kernel.store %d, %o[%i * 45 + %j] : vector<8x8xf32>
      }
    }"""

THREE = """
    kernel.for (%i = 0 to 3 lanes 2) {
      kernel.for (%j = 0 to 12 lanes 4 dim 1) {
        kernel.for (%k = 0 to 45 lanes 8 dim 2) {
          %a = kernel.load %x[%i * 540 + %j * 45 + %k] : vector<2x4x8xf32>
          kernel.store %a, %o[%k * 36 + %j * 3 + %i] : vector<2x4x8xf32>
        }
      }
    }"""


def values() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, COLUMNS), (COLUMNS, ROWS), (ROWS,), (COLUMNS,))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def run(text: str, tmp_path: Path) -> torch.Tensor:
    file = tmp_path / "kernel.mlir"
    file.write_text(text)
    return cuesta.load(file)(*values())[0]


@pytest.mark.parametrize("out", ["rows", "columns"])
def test_loads_and_stores_along_either_axis(out: str, tmp_path: Path) -> None:
    x, t, b, c = values()
    expected = t.t() * b[:, None] + c - x
    place, shape = ("%o[%i * 45 + %j]", "37x45") if out == "rows" else ("%o[%j * 37 + %i]", "45x37")
    actual = run(program(MIXED.replace("OUT", place), f"tensor<{shape}xf32>"), tmp_path)
    torch.testing.assert_close(actual, expected if out == "rows" else expected.t(), rtol=1e-6, atol=1e-6)


def test_a_reduction_within_a_tile_runs_row_by_row(tmp_path: Path) -> None:
    _, t, _, _ = values()
    torch.testing.assert_close(run(program(ROW_SUMS, "tensor<37xf32>"), tmp_path), t.sum(0))


def test_masked_loads_within_a_tile(tmp_path: Path) -> None:
    _, t, _, _ = values()
    expected = torch.where(torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS) < 900, t.t(), 7.0)
    assert torch.equal(run(program(MASKED, "tensor<37x45xf32>"), tmp_path), expected)


def test_three_axes_with_lanes(tmp_path: Path) -> None:
    x, _, _, _ = values()
    actual = run(program(THREE, "tensor<45x12x3xf32>"), tmp_path)
    assert torch.equal(actual, x.flatten()[: 3 * 12 * 45].view(3, 12, 45).permute(2, 1, 0))


IN_TURN = """
    kernel.for (%i = 0 to COUNT lanes 16) {
      %a = kernel.load %x[%i] : vector<16xf32>
      %d = kernel.load %t[%i] : vector<16xf32>
      kernel.store %a, %o[%i * 2 FIRST] : vector<16xf32>
      %e = elem.add %a, %d : vector<16xf32>
      kernel.store %e, %o[%i * 2 SECOND] : vector<16xf32>
    }"""


@pytest.mark.parametrize(("first", "second"), [("", "+ 1"), ("+ 1", "")], ids=["in order", "backwards"])
@pytest.mark.parametrize("count", [1, 15, 16, 37])
def test_stores_between_each_other(tmp_path: Path, first: str, second: str, count: int) -> None:
    body = IN_TURN.replace("FIRST", first).replace("SECOND", second).replace("COUNT", str(count))
    text = program(body, f"tensor<{2 * count}xf32>", f"{count}, {count}, 1, 1")
    path = tmp_path / "in_turn.mlir"
    path.write_text(text, encoding="utf-8")
    x, t = torch.randn(count), torch.randn(count)
    expected = torch.stack([x, x + t] if first == "" else [x + t, x], 1).flatten()
    (actual,) = cuesta.load(path)(x, t, torch.zeros(1), torch.zeros(1))
    assert torch.equal(actual, expected)


def test_memory_is_asked_for_once_a_line() -> None:
    from cuesta.dialects import kernel
    from cuesta.targets.cpu.emit_kernel import KernelEmitter
    from tests.support.text import parse

    load = "kernel.load %x[%i * 45 + %j] : vector<4x16xf32>"
    body = ROW_SUMS.replace("0 to 37", "0 to 36").replace("lanes 8", "lanes 16").replace("4x8", "4x16")
    body = body.replace("kernel.load %t[%j * 37 + %i] : vector<4x16xf32>", f"{load} prefetch 96")
    func = next(op for op in parse(program(body, "tensor<37xf32>")).walk() if isinstance(op, kernel.FuncOp))
    text = KernelEmitter(func, []).emit().text
    # 45 points are a step of 32, two lines, and of 8, 4 and a single one, none, for four rows.
    assert text.count("@llvm.prefetch") == 4 * 2
    assert "i64 96" in text and "i64 112" in text


REST = """
    kernel.for (%i = 0 to 24 lanes 16) {
      kernel.for (%j = 0 to 44 lanes 16 dim 1) {
        %d = kernel.load %t[%j * 37 + %i] : vector<16x16xf32>
        kernel.store %d, %o[%i * 45 + %j] : vector<16x16xf32>
      }
    }"""


def test_what_is_left_over_of_a_tile_comes_by_halves() -> None:
    from cuesta.dialects import kernel
    from cuesta.targets.cpu.emit_kernel import KernelEmitter
    from tests.support.text import parse

    func = next(op for op in parse(program(REST, "tensor<37x45xf32>")).walk() if isinstance(op, kernel.FuncOp))
    text = KernelEmitter(func, []).emit().text
    # 24 rows are 16 and 8, 44 lanes are 32, 8 and 4: no element is moved by itself.
    assert "load float," not in text and "store float " not in text and "gather" not in text
