"""Tiles of columns on a GPU."""

from __future__ import annotations

import pytest

from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.pipeline import Stage, run_pipeline
from tests.support.text import parse

COLUMNS = """
func.func @main(%x : tensor<NUMBERx4096x1024xf32>) -> tensor<NUMBERx1024xf32> {
  %y = loops.nest (%i : NUMBER, %j : 1024) outs(%o : tensor<NUMBERx1024xf32>) {
    %s = loops.reduce sum (%k : 4096) {
      %a = loops.load %x[%i, %k, %j] : tensor<NUMBERx4096x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<NUMBERx1024xf32>
  }
  func.return %y : tensor<NUMBERx1024xf32>
}
"""


@pytest.mark.parametrize(("number", "bits", "inner"), [(400, 32, 256), (600, 64, 64)])
def test_tiles_are_smaller_where_addresses_take_64_bits(number: int, bits: int, inner: int) -> None:
    module = parse(COLUMNS.replace("NUMBER", str(number)))
    run_pipeline(make_context(), module, [Stage("loops-to-kernel{target=cuda}", "under test")])
    (func,) = [op for op in module.walk() if isinstance(op, kernel.FuncOp)]
    assert func.schedule.choices["index"] == bits
    (reduce,) = [op for op in func.walk() if isinstance(op, kernel.ReduceOp)]
    assert reduce.lanes == inner
