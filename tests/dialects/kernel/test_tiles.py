"""Tiles of two dimensions: lane loops in lane loops."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.kernel.shapes import join, spreads_to
from cuesta.targets import reference
from tests.support.levels import check_text
from tests.support.text import parse, refused

SOFTMAX = """
kernel.func @k(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3]> {
  %p = kernel.program_id 0
  kernel.for (%i = %p * 4 to min(%p * 4 + 4, 10) lanes 4) {
    %m = kernel.reduce maximum (%j = 0 to 6 lanes 8 dim 1) {
      %a = kernel.load %x[%i * 6 + %j] : vector<4x8xf32>
      kernel.yield %a : vector<4x8xf32>
    } : vector<4xf32>
    %mm = kernel.broadcast %m : vector<4xf32> to vector<4x8xf32>
    kernel.for (%j = 0 to 6 lanes 8 dim 1) {
      %a = kernel.load %x[%i * 6 + %j] : vector<4x8xf32>
      %b = elem.sub %a, %mm : vector<4x8xf32>
      %k = kernel.index [%j] : vector<1x8xi64>
      %kf = elem.convert %k : vector<1x8xi64> to vector<1x8xf32>
      %kk = kernel.broadcast %kf : vector<1x8xf32> to vector<4x8xf32>
      %c = elem.add %b, %kk : vector<4x8xf32>
      kernel.store %c, %y[%i * 6 + %j] : vector<4x8xf32>
    }
  }
}
func.func @main(%x : tensor<10x6xf32>) -> tensor<10x6xf32> {
  %y = kernel.launch @k(%x) : (tensor<10x6xf32>) -> (tensor<10x6xf32>)
  func.return %y : tensor<10x6xf32>
}
"""


def test_the_text_parses_back() -> None:
    check_text(parse(SOFTMAX), generic=True)


def test_what_a_tile_means() -> None:
    x = torch.randn(10, 6)
    (y,) = reference.run(parse(SOFTMAX), [x])
    assert isinstance(y, torch.Tensor) and torch.equal(y, x - x.amax(1, keepdim=True) + torch.arange(6.0))


@pytest.mark.parametrize(
    "body, message",
    [
        ("kernel.for (%i = 0 to 4 lanes 4) { kernel.for (%j = 0 to 8 lanes 8) { } }", "dim 0, but 1 lane loops"),
        ("kernel.for (%i = 0 to 4 lanes 4 dim 1) { }", "dim 1, but 0 lane loops"),
        ("%b = kernel.broadcast %v : vector<4xf32> to vector<8x4xf32>", "kernel.broadcast does not make"),
        ("%b = kernel.broadcast %v : vector<4xf32> to f32", "kernel.broadcast does not make"),
        (
            """kernel.for (%i = 0 to 4 lanes 4) {
              %m = kernel.reduce sum (%j = 0 to 8 lanes 8 dim 1) { kernel.yield %v : vector<4xf32> } : vector<4xf32>
            }""",
            "8 lanes yield a vector",
        ),
        (
            """kernel.for (%i = 0 to 4 lanes 4) {
              %m = kernel.reduce sum (%j = 0 to 8 lanes 8 dim 1) {
                %w = kernel.broadcast %v : vector<4xf32> to vector<4x8xf32>
                kernel.yield %w : vector<4x8xf32>
              } : vector<4x8xf32>
            }""",
            "gives vector<4xf32>",
        ),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    schedule = "schedule #kernel.schedule<grid = [1]>"
    constant = "%v = elem.constant 1.0 : vector<4xf32>"
    refused(f"kernel.func @k() outs(%y : !kernel.ptr<f32>) {schedule} {{ {constant} {body} }}", message)


def test_shapes() -> None:
    assert join((4,), (1, 8)) == (4, 8)
    assert join((), (1, 8)) == (1, 8)
    with pytest.raises(ValueError, match="do not fit"):
        join((4,), (8,))
    assert spreads_to((1, 8), (4, 8)) and not spreads_to((4, 8), (4,))
