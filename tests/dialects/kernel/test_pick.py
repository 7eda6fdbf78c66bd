"""`kernel.pick`: its text, what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets import reference
from cuesta.targets.reference import kernel as reference_kernel
from cuesta.targets.reference.errors import InterpreterError
from tests.support.text import parse, refused, round_trip

PICKS = """
kernel.func @k(%x: !kernel.ptr<f32>, %y: !kernel.ptr<f32>) outs(%u: !kernel.ptr<f32>, %v: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2, 3], target = cuda> {
  %i = kernel.pick 0 of %x, %y : !kernel.ptr<f32>
  %o = kernel.pick 0 of %u, %v : !kernel.ptr<f32>
  %p = kernel.program_id 1
  %a = kernel.load %i[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%p] : f32
  %c = kernel.load %o[%p] : f32
}
func.func @main(%x: tensor<3xf32>, %y: tensor<5xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %u, %v = kernel.launch @k(%x, %y) : (tensor<3xf32>, tensor<5xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  func.return %u, %v : tensor<3xf32>, tensor<3xf32>
}
"""


def test_round_trip() -> None:
    round_trip(PICKS)


@pytest.mark.parametrize("points", [1, 1 << 20])
def test_what_it_means(monkeypatch: pytest.MonkeyPatch, points: int) -> None:
    """Whether the interpreter takes all programs at a time, or one after the other."""
    monkeypatch.setattr(reference_kernel, "POINTS_PER_CHUNK", points)
    x, y = torch.randn(3), torch.randn(5)
    torch.testing.assert_close(reference.run(parse(PICKS), [x, y]), [-x, -y[:3]], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%i[%p]", "%i[%p + 1]", "index -1 is out of range for memory"),
        ("store %b, %o[%p] : f32", "store %b, %u[%p] : f32", "two points of the domain store"),
        ("%b, %o[%p] : f32", "%b, %i[%p] : f32", "stores to an input"),
        ("load %o[%p] : f32", "load %o[2 - %p] : f32", "another point of the domain stored"),
    ],
)
def test_what_is_wrong_when_it_runs(old: str, new: str, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        reference.run(parse(PICKS.replace(old, new)), [torch.randn(3), torch.randn(5)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pick 0 of %x, %y", "pick 0 of %x", "kernel.pick 0 has 1 pointers; the grid is [2, 3]"),
        ("pick 0 of %x, %y", "pick 2 of %x, %y", "kernel.pick 2 has 2 pointers; the grid is [2, 3]"),
        ("pick 0 of %x, %y", "pick 0 of %x, %v", "kernel.pick takes inputs of the kernel, or outs of it"),
        ("%y: !kernel.ptr<f32>)", "%y: !kernel.ptr<f64>)", "f64"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    refused(PICKS.replace(old, new), message)


def test_it_stands_in_no_loop() -> None:
    text = PICKS.replace(
        "  %i = kernel.pick",
        "  kernel.for (%l = 0 to 1) {\n  %n = kernel.pick 0 of %x, %y : !kernel.ptr<f32>\n  }\n  %i = kernel.pick",
    )
    refused(text, "kernel.pick stands at the top of a kernel.func")
