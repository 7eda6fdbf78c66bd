"""`elem.dot` in Triton kernels, by Triton's interpreter: what the reference interpreter has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuesta.targets.reference import run as run_reference
from tests.support.triton_interpreter import on_cuda, parse, run

pytest.importorskip("triton")

TEXT = """
func.func @main(%a : tensor<5x70xi32>, %b : tensor<5x70xi32>) -> (tensor<5x70xRESULT>, tensor<5xRESULT>) {
  %y = loops.nest (%i : 5, %j : 70) outs(%o : tensor<5x70xRESULT>) {
    %1 = loops.load %a[%i, %j] : tensor<5x70xi32>
    %2 = loops.load %b[%i, %j] : tensor<5x70xi32>
    %3 = elem.dot PARTS of %1, %2 : i32
    loops.store %3, %o[%i, %j] : tensor<5x70xRESULT>
  }
  %z = loops.nest (%i : 5) outs(%o : tensor<5xRESULT>) {
    %s = loops.reduce sum (%j : 70) {
      %1 = loops.load %a[%i, %j] : tensor<5x70xi32>
      %2 = loops.load %b[%i, %j] : tensor<5x70xi32>
      %3 = elem.dot PARTS of %1, %2 : i32
      loops.yield %3 : RESULT
    } : RESULT
    loops.store %s, %o[%i] : tensor<5xRESULT>
  }
  func.return %y, %z : tensor<5x70xRESULT>, tensor<5xRESULT>
}"""


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "result"), [("bf16", "f32"), ("i8", "i32")])
def test_dots_and_their_sums(parts: str, result: str) -> None:
    module = parse(TEXT.replace("PARTS", parts).replace("RESULT", result))
    if parts == "bf16":
        inputs = [torch.randn(5, 140).bfloat16().view(torch.int32) for _ in range(2)]
    else:
        inputs = [torch.randint(-(2**31), 2**31, (5, 70)).int() for _ in range(2)]
    expected, actual = run_reference(module, inputs), run(on_cuda(module), inputs)
    for one, other in zip(expected, actual, strict=True):
        assert isinstance(one, Tensor)
        torch.testing.assert_close(other, one, rtol=1e-5 if parts == "bf16" else 0, atol=1e-5 if parts == "bf16" else 0)
