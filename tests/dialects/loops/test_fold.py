"""`loops.fold`: its text, what it means, and each way to get it wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets import reference
from tests.support.text import parse, refused, round_trip

FOLD = """
func.func @main(%x: tensor<6x70xf32>) -> tensor<6xf32> {
  %y = loops.nest (%i : 6) outs(%o: tensor<6xf32>) {
    %low = elem.constant -inf : f32
    %zero = elem.constant 0.0 : f32
    %m, %l = loops.fold (%c : 7) from (%low, %zero) carries (%mm: f32, %ll: f32) {
      %t = loops.reduce maximum (%j : 10) {
        %a = loops.load %x[%i, %c * 10 + %j] : tensor<6x70xf32>
        loops.yield %a : f32
      } : f32
      %m1 = elem.maximum %mm, %t : f32
      %d = elem.sub %mm, %m1 : f32
      %f = elem.exp %d : f32
      %s = loops.reduce sum (%j : 10) {
        %a = loops.load %x[%i, %c * 10 + %j] : tensor<6x70xf32>
        %b = elem.sub %a, %m1 : f32
        %e = elem.exp %b : f32
        loops.yield %e : f32
      } : f32
      %q = elem.mul %ll, %f : f32
      %l1 = elem.add %q, %s : f32
      loops.carry %m1, %l1 : f32, f32
    } : f32, f32
    %g = elem.log %l : f32
    %r = elem.add %g, %m : f32
    loops.store %r, %o[%i] : tensor<6xf32>
  }
  func.return %y : tensor<6xf32>
}
"""
"""log Σ exp of each row, ten elements at a time: the greatest so far, and the sum less that."""


def test_round_trip() -> None:
    round_trip(FOLD)


def test_points_come_in_order() -> None:
    x = torch.randn(6, 70)
    (y,) = reference.run(parse(FOLD), [x])
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, x.logsumexp(1))


def test_without_a_point_it_gives_what_it_begins_with() -> None:
    (y,) = reference.run(parse(FOLD.replace("(%c : 7)", "(%c : 0)")), [torch.randn(6, 70)])
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.full((6,), -torch.inf)), "log 0 and the least of all maxima"


def test_the_first_point_comes_first() -> None:
    text = """
    func.func @main(%x : tensor<3x4xf32>) -> tensor<3xf32> {
      %y = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
        %one = elem.constant 1.0 : f32
        %two = elem.constant 2.0 : f32
        %r = loops.fold (%a : 2, %b : 2) from (%one) carries (%s : f32) {
          %u = loops.load %x[%i, %a * 2 + %b] : tensor<3x4xf32>
          %v = elem.mul %s, %two : f32
          %w = elem.add %v, %u : f32
          loops.carry %w : f32
        } : f32
        loops.store %r, %o[%i] : tensor<3xf32>
      }
      func.return %y : tensor<3xf32>
    }
    """
    x = torch.arange(12.0).reshape(3, 4)
    (y,) = reference.run(parse(text), [x])
    expected = ((((1 * 2 + x[:, 0]) * 2 + x[:, 1]) * 2 + x[:, 2]) * 2) + x[:, 3]
    assert isinstance(y, torch.Tensor) and torch.equal(y, expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("from (%low, %zero)", "from (%low)", "carries 2 values, but begins with 1"),
        ("loops.carry %m1, %l1 : f32, f32", "loops.carry %m1 : f32", "carried values are of the types"),
        ("loops.carry %m1, %l1 : f32, f32", "loops.yield %m1 : f32", "at the end of a loops.reduce"),
    ],
)
def test_what_is_wrong_is_refused(old: str, new: str, message: str) -> None:
    assert old in FOLD
    refused(FOLD.replace(old, new), message)
