"""`kernel.running backwards`: its text, what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.texts.kernels import kernels_are_sane
from cuesta.targets import reference
from tests.support.text import parse, refused, round_trip

SCAN = """
kernel.func @sums(%x: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3]> {
  %p = kernel.program_id 0
  kernel.scan (%k = 0 to 5 lanes 8) {
    %v = kernel.load %x[%p * 5 + %k] : vector<8xf32>
    %s = kernel.running sum backwards %v : vector<8xf32>
    kernel.store %s, %o[%p * 5 + %k] : vector<8xf32>
  }
}
func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %y = kernel.launch @sums(%x) : (tensor<3x5xf32>) -> (tensor<3x5xf32>)
  func.return %y : tensor<3x5xf32>
}
"""
PLACES = SCAN.replace("%s = kernel.running sum", "%s, %n = kernel.running last_argmax")


def test_text_and_meaning() -> None:
    round_trip(SCAN)
    x = torch.randn(3, 5)
    (result,) = reference.run(parse(SCAN), [x])
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, x.flip(1).cumsum(1).flip(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLACES, "kernel.running last_argmax does not go backwards: its places count from the start"),
        (SCAN.replace("to 5 lanes", "to 9 lanes"), "only where the lanes of a scan hold all of its points"),
        (SCAN.replace("to 5 lanes", "to %p lanes"), "only where the lanes of a scan hold all of its points"),
        (SCAN.replace("(%k = 0", "(%j = 0 to 1, %k = 0"), "only where the lanes of a scan hold all of its points"),
        (SCAN.replace("sum backwards", "backwards sum"), "as the kind of a running value"),
    ],
)
def test_refused(text: str, message: str) -> None:
    refused(text, message)


def test_the_cpu_has_none() -> None:
    (found,) = [message for _, message in kernels_are_sane(parse(SCAN))]
    assert found == "the CPU target has no running values that go backwards"
    assert not list(kernels_are_sane(parse(SCAN.replace("[3]>", "[3], target = cuda>"))))
