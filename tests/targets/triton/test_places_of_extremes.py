"""Lanes that each reduce by themselves: the loads of several rounds are begun together."""

from __future__ import annotations

import re

import pytest
import torch

from benchmarks.device_arithmetic import machine_code_of
from tests.support.triton_interpreter import check as check_on_cuda
from tests.support.triton_interpreter import parse
from tests.support.triton_kernels import texts_of

pytest.importorskip("triton")


def places(kind: str, rows: int, points: int) -> str:
    """The extremes of `points` numbers that lie 3 apart, and their places."""
    large = f'tensor<{rows}x{points}x3xf32, #aten.layout<device = "cuda:0">>'
    small, where = (f'tensor<{rows}x3x{kind}, #aten.layout<device = "cuda:0">>' for kind in ("f32", "i64"))
    schedule = "#loops.schedule<along = 0, rows = 128, lanes = 1, warps = 4>"
    return f"""
    func.func @main(%x : {large}) -> ({small}, {where}) {{
      %v, %p = loops.nest (%i : {rows}, %k : 3) outs(%a : {small}, %b : {where}) schedule {schedule} {{
        %e, %w = loops.reduce {kind} (%j : {points}) {{
          %y = loops.load %x[%i, %j, %k] : {large}
          loops.yield %y : f32
        }} : f32, i64
        loops.store %e, %a[%i, %k] : {small}
        loops.store %w, %b[%i, %k] : {where}
      }}
      func.return %v, %p : {small}, {where}
    }}"""


def test_rounds_begin_their_loads_together() -> None:
    """Each waited for memory: places of 26 numbers took 17.7 us on an H200."""
    (text,) = texts_of(parse(places("argmin", 24579, 26)))
    assert "in tl.range(0, 26, loop_unroll_factor=8):" in text.source
    loads = re.sub(r"\bEXIT.*", "", " ".join(re.findall(r"\b(LDG|FSETP|BRA|EXIT)\b", machine_code_of(text))))
    assert max(map(len, re.findall(r"(?:LDG ?)+", loads))) >= 4 * len("LDG "), loads
    (sums,) = texts_of(parse(places("argmin", 24579, 4)))
    assert "loop_unroll_factor" not in sums.source, "what is short is written out anyway"


def reduced(kind: str, rows: int, points: int, lanes: int = 1) -> str:
    """Numbers that lie 3 apart, `points` of each reduced."""
    large = f'tensor<{rows}x{points}x3xf32, #aten.layout<device = "cuda:0">>'
    small = f'tensor<{rows}x3xf32, #aten.layout<device = "cuda:0">>'
    schedule = f"#loops.schedule<along = 0, rows = 128, lanes = {lanes}, warps = 4>"
    return f"""
    func.func @main(%x : {large}) -> {small} {{
      %v = loops.nest (%i : {rows}, %k : 3) outs(%a : {small}) schedule {schedule} {{
        %e = loops.reduce {kind} (%j : {points}) {{
          %y = loops.load %x[%i, %j, %k] : {large}
          loops.yield %y : f32
        }} : f32
        loops.store %e, %a[%i, %k] : {small}
      }}
      func.return %v : {small}
    }}"""


def test_rounds_of_other_reductions_begin_their_loads_together() -> None:
    """Near misses: few rounds, which are written out anyway, and tiles of which a thread has many numbers."""
    (text,) = texts_of(parse(reduced("sum", 24579, 26)))
    assert "in tl.range(0, 26, loop_unroll_factor=8):" in text.source
    for near in (reduced("sum", 24579, 4), reduced("sum", 24579, 64, lanes=32)):
        assert all("loop_unroll_factor" not in one.source for one in texts_of(parse(near)))


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("kind", ["sum", "maximum"])
@pytest.mark.parametrize("points", [17, 33])
def test_the_same_value(kind: str, points: int) -> None:
    x = torch.randint(-9, 9, (50, points, 3), generator=torch.Generator().manual_seed(points)).float()
    check_on_cuda(parse(reduced(kind, 50, points)), [x])


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("kind", ["argmin", "argmax", "argmax_last_nan"])
@pytest.mark.parametrize("points", [17, 26, 33])
def test_the_same_place(kind: str, points: int) -> None:
    generator = torch.Generator().manual_seed(points)
    x = torch.randint(-3, 3, (50, points, 3), generator=generator).float()  # of equal ones the first
    x[torch.rand(x.shape, generator=generator) < 0.02] = torch.nan
    check_on_cuda(parse(places(kind, 50, points)), [x])
