"""The order of the points of a nest: that of the memory that most of its bytes come from, or go to."""

from __future__ import annotations

import pytest

from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.dialects.loops.structure import NestOp
from tests.support.triton_interpreter import parse


def merged(text: str) -> NestAnalysis:
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, NestOp))
    analysis = analyse(nest, {}, [True])
    merge_axes(analysis)
    return analysis


def of_columns(rows: int) -> str:
    """A part of so many rows of 65 columns, of 512; the result has the parts of a column side by side."""
    kind, out = f"tensor<{512 * rows}x65xf32>", "tensor<65x512xf32>"
    return f"""
    func.func @main(%x : {kind}) -> {out} {{
      %y = loops.nest (%c : 65, %p : 512) outs(%o : {out}) {{
        %m = loops.reduce maximum (%r : {rows}) {{
          %v = loops.load %x[%p * {rows} + %r, %c] : {kind}
          loops.yield %v : f32
        }} : f32
        loops.store %m, %o[%c, %p] : {out}
      }}
      func.return %y : {out}
    }}"""


@pytest.mark.parametrize(("rows", "order"), [(512, [1, 0]), (8, [1, 0]), (4, [0, 1])])
def test_what_is_read_decides_where_it_is_much_more(rows: int, order: list[int]) -> None:
    """By axis: the columns are 0, the parts 1."""
    assert merged(of_columns(rows)).root.axes == order


def test_a_window_reads_no_more_than_there_is() -> None:
    """Nine elements for every point, of a tensor that is no larger than the result: that decides, as it did."""
    text = """
    func.func @main(%x : tensor<66x130xf32>) -> tensor<128x64xf32> {
      %y = loops.nest (%i : 64, %j : 128) outs(%o : tensor<128x64xf32>) {
        %m = loops.reduce maximum (%a : 3, %b : 3) {
          %v = loops.load %x[%i + %a, %j + %b] : tensor<66x130xf32>
          loops.yield %v : f32
        } : f32
        loops.store %m, %o[%j, %i] : tensor<128x64xf32>
      }
      func.return %y : tensor<128x64xf32>
    }"""
    assert merged(text).root.axes == [1, 0]
