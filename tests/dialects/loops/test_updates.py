"""What a nest updates, `loops.atomic`, counted meetings: their text, what they mean, each way to get them wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.core.contracts import check_level
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.levels import LOOPS
from cuesta.targets import reference
from cuesta.targets.reference.errors import InterpreterError
from tests.support.text import parse, refused, round_trip

ATOMIC = """
func.func @main(%x: tensor<6xf32>) -> tensor<3xf32> {
  %f = loops.nest (%i : 3) outs(%o: tensor<3xf32>) {
    %one = elem.constant 1.0 : f32
    loops.store %one, %o[%i] : tensor<3xf32>
  }
  %y = loops.nest (%i : 6) outs(%o: tensor<3xf32>) updates(%f) {
    %a = loops.load %x[%i] : tensor<6xf32>
    loops.atomic sum %a, %o[%i mod 3] : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}
"""

COMBINE = """
func.func @main(%x: tensor<6xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %f = loops.nest (%i : 3) outs(%o: tensor<3xf32>) {
    %one = elem.constant 1.0 : f32
    loops.store %one, %o[%i] : tensor<3xf32>
  }
  %z, %y = loops.nest () outs(%l: tensor<f32>, %o: tensor<3xf32>) updates(%f) schedule #loops.schedule<unroll = 1> {
    loops.scan (%i : 6) {
      %a = loops.load %x[%i] : tensor<6xf32>
      loops.combine assign %a, %o[%i mod 3] : tensor<3xf32>
    }
    %b = loops.load %o[1] : tensor<3xf32>
    loops.store %b, %l[] : tensor<f32>
  }
  func.return %y, %z : tensor<3xf32>, tensor<f32>
}
"""

MEETING = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %count = loops.nest (%i : 36) outs(%n: tensor<36xi32>) {
    %zero = elem.constant 0 : i32
    loops.store %zero, %n[%i] : tensor<36xi32>
  }
  %y, %t, %m = loops.nest (%i : 4, %p : 8) outs(%o: tensor<4x8xf32>, %u: tensor<4x8xf32>, %n: tensor<36xi32>) updates(%count) {
    %a = loops.load %x[%i, %p] : tensor<4x8xf32>
    loops.store %a, %u[%i, %p] : tensor<4x8xf32>
    loops.meet %n last 1 : tensor<36xi32>
    %b = loops.load %u[%i, -%p + 7] : tensor<4x8xf32>
    loops.store %b, %o[%i, %p] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize("text", [ATOMIC, COMBINE, MEETING], ids=["atomic", "combine", "meeting"])
def test_round_trip(text: str) -> None:
    check_level(round_trip(text), LOOPS, established_by="a test")


def results(text: str, x: torch.Tensor) -> list[torch.Tensor]:
    return [value for value in reference.run(parse(text), [x]) if isinstance(value, torch.Tensor)]


def test_what_it_means() -> None:
    x = torch.arange(6.0)
    (y,) = results(ATOMIC, x)
    assert torch.equal(y, 1 + x.reshape(2, 3).sum(0))
    y, z = results(COMBINE, x)
    assert torch.equal(y, x[3:])
    assert float(z) == 4
    x = torch.randn(4, 8)
    (y,) = results(MEETING, x)
    assert torch.equal(y, x.flip(1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("updates(%f)", "updates(%f, %f)", "updates 2 values, but there are 1 outs"),
        ("updates(%f)", "updates(%x)", "tensor<6xf32>"),
        ("updates(%f) ", "", "loops.atomic changes what the nest updates"),
        ("loops.atomic sum %a, %o[%i mod 3]", "loops.store %a, %o[%i mod 3]", "it is combined, not stored"),
        ("loops.atomic sum", "loops.atomic prod", "prod"),
        ("loops.atomic sum", "loops.atomic maximum", "loops.atomic maximum is not defined on f32"),
        ("    loops.atomic", "    %b = loops.load %o[0] : tensor<3xf32>\n    loops.atomic", "what other points may be"),
    ],
)
def test_what_is_wrong_is_refused(old: str, new: str, message: str) -> None:
    assert old in ATOMIC
    refused(ATOMIC.replace(old, new), message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("loops.meet %n last 1 : tensor<36xi32>", "loops.meet %u last 1 : tensor<4x8xf32>", "counts in the last out"),
        ("36", "35", "not in as many i32 as there are groups and points"),
        ("i32", "i64", "not in as many i32 as there are groups and points"),
        ("loops.meet %n last 1", "loops.meet %n last 3", "along 3 axes"),
    ],
)
def test_a_meeting_counts_in_memory_of_its_own(old: str, new: str, message: str) -> None:
    assert old in MEETING
    refused(MEETING.replace(old, new), message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("func.return %y : tensor<3xf32>", "func.return %f : tensor<3xf32>"),
        ("%a = loops.load %x[%i] : tensor<6xf32>", "%a = loops.load %f[%i mod 3] : tensor<3xf32>"),
    ],
)
def test_nobody_else_uses_what_is_taken_over(old: str, new: str) -> None:
    with pytest.raises(CuestaError, match="updates what is not the result of a nest, or has other users"):
        check_level(parse(ATOMIC.replace(old, new)), LOOPS, established_by="a test")


def test_two_points_do_not_store_one_element() -> None:
    text = ATOMIC.replace("(%i : 3)", "(%i : 2)")
    with pytest.raises(InterpreterError, match="never stored"):
        reference.run(parse(text), [torch.arange(6.0)])
