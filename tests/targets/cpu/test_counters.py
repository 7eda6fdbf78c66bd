"""Loop counters, of which LLVM is not told that they count, and what is known of them in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import cuesta
from cuesta.dialects import kernel
from cuesta.targets.cpu.emit_kernel import KernelEmitter
from tests.support.text import parse


def program(first: int, last: int, index: str) -> str:
    """Copies x[index] to y[i - first] for each i from `first` on, `last` excluded; x has 64 elements."""
    size = last - first
    place = f"%i - {first}" if first > 0 else f"%i + {-first}" if first else "%i"
    return f"""
builtin.module {{
  kernel.func @copy_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {{
    kernel.for (%i = {first} to {last} lanes 8) {{
      %a = kernel.load %x[{index}] : vector<8xf32>
      kernel.store %a, %o[{place}] : vector<8xf32>
    }}
  }}
  func.func @main(%x: tensor<64xf32>) -> tensor<{size}xf32> {{
    %y = kernel.launch @copy_0(%x) : (tensor<64xf32>) -> (tensor<{size}xf32>)
    func.return %y : tensor<{size}xf32>
  }}
}}
"""


def emitted(text: str) -> str:
    """The kernel in LLVM IR."""
    (func,) = [op for op in parse(text).walk() if isinstance(op, kernel.FuncOp)]
    return KernelEmitter(func, []).emit().text


@pytest.mark.parametrize(
    ("first", "index", "of", "divides"),
    [
        (0, "(%i * 2) floordiv 3", lambda i: i * 2 // 3, "udiv"),
        (5, "(%i * 2) mod 7", lambda i: i * 2 % 7, "urem"),
        (0, "(%i floordiv 5 + %i mod 3) floordiv 3", lambda i: (i // 5 + i % 3) // 3, "udiv"),
        # Near misses: what may be negative is divided as such, a counter or a difference.
        (-9, "%i floordiv 3 + 3", lambda i: i // 3 + 3, "sdiv"),
        (0, "(%i - 5) mod 7", lambda i: (i - 5) % 7, "srem"),
    ],
)
def test_what_is_not_negative_divides_as_such(
    tmp_path: Path, first: int, index: str, of: Callable[[int], int], divides: str
) -> None:
    text = program(first, first + 43, index)
    lines = emitted(text)
    assert f" {divides} " in lines
    assert (" sdiv " in lines or " srem " in lines) == (divides in ("sdiv", "srem"))
    (tmp_path / "copy.mlir").write_text(text)
    x = torch.arange(64.0)
    (y,) = cuesta.load(tmp_path / "copy.mlir")(x)
    assert y.tolist() == [float(of(i)) for i in range(first, first + 43)]


def test_llvm_sees_no_recurrence() -> None:
    """Each phi of a counter takes what an empty piece of assembly gives, that of the programs as well."""
    lines = emitted(program(0, 64, "%i")).splitlines()
    counters = [line for line in lines if "= phi i64" in line]
    assert len(counters) == 2
    for line in counters:
        following = line.split("[ ")[-1].split(",")[0]
        assert any(f'{following} = call i64 asm ""' in other for other in lines)


def test_a_quotient_that_lanes_share_is_computed_once() -> None:
    text = program(0, 64, "((%i * 2) mod 7) * 2 + %p floordiv 3").replace("grid = []", "grid = [6]")
    lines = emitted(text.replace("kernel.for", "%p = kernel.program_id 0\n    kernel.for", 1))
    assert any(" udiv i64 " in line for line in lines.splitlines()) and " udiv <8 x i64> " not in lines


def test_rows_that_stand_side_by_side_have_one_address() -> None:
    text = """
builtin.module {
  kernel.func @t_0(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
    kernel.for (%i = 0 to 64 lanes 16) {
      kernel.for (%j = 0 to 64 lanes 16 dim 1) {
        %a = kernel.load %x[%j * 64 + %i] : vector<16x16xf32>
        kernel.store %a, %o[%i * 96 + %j] : vector<16x16xf32>
      }
    }
  }
}
"""
    lines = emitted(text)
    assert lines.count("store <16 x float>") == 16 and lines.count(", 96\n") == 1
