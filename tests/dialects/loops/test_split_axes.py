"""Axes that are two in memory."""

from __future__ import annotations

import pytest

from cuesta.dialects import loops
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.split_axes import step
from tests.support.text import parse

NEST = """
func.func @main(%x : tensor<8x24xf32>) -> tensor<192xf32> {
  %y = loops.nest (%p : 192) outs(%o : tensor<192xf32>) {
    %a = loops.load %x[INDEX] : tensor<8x24xf32>
    loops.store %a, %o[%p] : tensor<192xf32>
  }
  func.return %y : tensor<192xf32>
}"""


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("%p floordiv 24, %p mod 24", 1),
        ("%p mod 8, %p floordiv 8", 24),
        ("0, %p floordiv 8", 0),
        ("%p floordiv 24, %p mod 12", None),  # two divisors
        ("%p floordiv 25, 0", None),  # one that does not divide the axis
    ],
)
def test_how_an_address_moves_along_the_inner_of_two_axes(index: str, expected: int | None) -> None:
    (nest,) = [op for op in parse(NEST.replace("INDEX", index)).walk() if isinstance(op, loops.NestOp)]
    analysis = analyse(nest, {}, (True,))
    (load,) = [access for op, access in analysis.accesses.items() if isinstance(op, loops.LoadOp)]
    assert step(load.address, analysis.root.axes[0], analysis) == expected
