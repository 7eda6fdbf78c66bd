"""Sums of which one term is chosen: the ends of the range, −0, infinities and NaN, before and after the rewrite."""

from __future__ import annotations

import math

import pytest
import torch

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.pipeline import run_pipeline, stages_of
from cuesta.targets.reference import run
from tests.support.text import parse

TEXT = """
func.func @main(%v : tensor<11xKIND>, %w : tensor<11xi64>) -> tensor<11xKIND> {
  %y = loops.nest (%i : 11) outs(%o : tensor<11xKIND>) {
    %a = loops.load %v[%i] : tensor<11xKIND>
    %k = loops.load %w[%i] : tensor<11xi64>
    %zero = elem.constant ZERO : KIND
    %s = loops.reduce sum (%j : 5) {
      %n = loops.index [%j] : i64
      %e = elem.eq %k, %n : i64
      %t = elem.select %e, %a, %zero : KIND
      loops.yield %t : KIND
    } : KIND
    loops.store %s, %o[%i] : tensor<11xKIND>
  }
  func.return %y : tensor<11xKIND>
}
"""
PLACES = [-(2**63), -5, -1, 0, 1, 3, 4, 4, 5, 2**31, 2**63 - 1]


@pytest.mark.parametrize(("kind", "zero"), [("f32", "0.0"), ("f16", "0.0"), ("i64", "0"), ("i8", "0")])
def test_what_is_chosen_is_the_sum(kind: str, zero: str) -> None:
    before = parse(TEXT.replace("KIND", kind).replace("ZERO", zero))
    after = before.clone()
    run_pipeline(make_context(), after, stages_of("canonicalize,dce"))
    assert not any(isinstance(op, loops.ReduceOp) for op in after.walk())
    where = torch.tensor(PLACES)
    numbers = [-0.0, 1.0, math.nan, -0.0, math.nan, math.inf, -math.inf, 2.5, math.nan, 1.0, 7.0]
    dtype = {"f32": torch.float32, "f16": torch.float16, "i64": torch.int64, "i8": torch.int8}[kind]
    values = torch.tensor(numbers).to(dtype) if kind[0] == "f" else torch.arange(-5, 6).to(dtype)
    (expected,), (found,) = run(before, [values, where]), run(after, [values, where])
    assert isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor)
    chosen = torch.where((where >= 0) & (where < 5), values + 0, torch.zeros((), dtype=dtype))
    torch.testing.assert_close(found, chosen, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    if kind[0] == "f":
        assert torch.equal(torch.signbit(found.nan_to_num()), torch.signbit(expected.nan_to_num()))
