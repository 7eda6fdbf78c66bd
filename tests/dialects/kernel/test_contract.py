"""`kernel.contract`: its text, what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.kernel.contract import PRECISIONS
from cuesta.targets import reference
from tests.support.text import parse, refused, round_trip

CONTRACT = """
kernel.func @k(%x: !kernel.ptr<f16>, %w: !kernel.ptr<f16>) outs(%y: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2, 1], target = cuda, group = 8> {
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  kernel.for (%i = %p * 4 to min(%p * 4 + 4, 7) lanes 4) {
    kernel.for (%j = %q * 8 to min(%q * 8 + 8, 5) lanes 8 dim 1) {
      %s = kernel.contract (%k = 0 to 6 lanes 4 dim 2) {
        %a = kernel.load %x[%i * 6 + %k] : vector<4x1x4xf16>
        %b = kernel.load %w[%j + %k * 5] : vector<1x8x4xf16>
        kernel.factors %a, %b : vector<4x1x4xf16>, vector<1x8x4xf16>
      } : vector<4x8xf32>
      kernel.store %s, %y[%i * 5 + %j] : vector<4x8xf32>
    }
  }
}
func.func @main(%x: tensor<7x6xf16>, %w: tensor<6x5xf16>) -> tensor<7x5xf32> {
  %y = kernel.launch @k(%x, %w) : (tensor<7x6xf16>, tensor<6x5xf16>) -> (tensor<7x5xf32>)
  func.return %y : tensor<7x5xf32>
}
"""
FACTORS = "kernel.factors %a, %b : vector<4x1x4xf16>, vector<1x8x4xf16>"
END = "} : vector<4x8xf32>\n      kernel.store %s, %y[%i * 5 + %j] : vector<4x8xf32>"


@pytest.mark.parametrize("precision", ["", *PRECISIONS])
def test_round_trip(precision: str) -> None:
    text = CONTRACT
    if precision:
        text = text.replace("f16", "f32").replace("kernel.contract (", f"kernel.contract {precision} (")
    round_trip(text)


def test_what_it_means() -> None:
    x, w = torch.randn(7, 6).half(), torch.randn(6, 5).half()
    (y,) = reference.run(parse(CONTRACT), [x, w])
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, (x.double() @ w.double()).float()), (
        "products of f16 are exact, and so are few sums in float64"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes 4 dim 2) {", "lanes 4 dim 1) {", "an index of type vector<1x4xindex> does not fit"),
        ("%k = 0 to 6 lanes", "%l = 0 to 1, %k = 0 to 6 lanes", "kernel.contract has one axis with lanes"),
        (END, "} : vector<4x8xf16>", "kernel.contract gives vector<4x8xf32>"),
        ("kernel.contract (", "kernel.contract bf16x6 (", "kernel.contract bf16x6: only factors of f32 have one of"),
        (FACTORS, "kernel.yield %a : vector<4x1x4xf16>", "kernel.yield gives one value, at the end of a kernel.reduce"),
        (
            FACTORS,
            "kernel.factors %b, %a : vector<1x8x4xf16>, vector<4x1x4xf16>",
            "do not fit 4 lanes",
        ),
        (
            FACTORS,
            "%c = elem.convert %b : vector<1x8x4xf16> to vector<1x8x4xf32>\n"
            "kernel.factors %a, %c : vector<4x1x4xf16>, vector<1x8x4xf32>",
            "multiplies f16, bf16 or f32 of one type",
        ),
        (END, END + "\nkernel.factors %s, %s : vector<4x8xf32>, vector<4x8xf32>", "gives two values, at the end of"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    assert old in CONTRACT
    refused(CONTRACT.replace(old, new, 1), message)
