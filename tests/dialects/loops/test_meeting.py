"""`loops.meet`: its text, what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets import reference
from cuesta.targets.reference.errors import InterpreterError
from tests.support.text import means_rows_less_their_sum, parse, refused, round_trip

MEETING = """
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %y, %t = loops.nest (%i : 4, %p : 4) outs(%o: tensor<4x32xf32>, %u: tensor<4x4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %u[%i, %p] : tensor<4x4xf32>
    loops.meet last 1
    %v = loops.reduce sum (%k : 4) {
      %a = loops.load %u[%i, %k] : tensor<4x4xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      %b = elem.sub %a, %v : f32
      loops.store %b, %o[%i, %p * 8 + %j] : tensor<4x32xf32>
    }
  }
  func.return %y : tensor<4x32xf32>
}
"""


def test_round_trip() -> None:
    round_trip(MEETING)


def test_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    means_rows_less_their_sum(MEETING, "loops", monkeypatch)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    loops.meet last 1\n", ""),
        # Those of another row have not come.
        ("load %u[%i, %k]", "load %u[%k, %i]"),
    ],
)
def test_what_others_stored_is_read_after_a_meeting_only(old: str, new: str) -> None:
    with pytest.raises(InterpreterError, match="another point of the domain stored"):
        reference.run(parse(MEETING.replace(old, new)), [torch.randn(4, 32)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("last 1", "last 3", "loops.meet along 3 axes: the nest has 2"),
        ("last 1", "last 0", "loops.meet along 0 axes"),
        ("    loops.meet last 1\n", "    loops.meet last 1\n    loops.meet last 1\n", "a nest has one meeting"),
        ("      %a = loops.load %u", "      loops.meet last 1\n      %a = loops.load %u", "in nothing within it"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    refused(MEETING.replace(old, new), message)
