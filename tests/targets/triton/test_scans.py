"""Scans on the GPU, by Triton's interpreter: running values, and elements that are changed in order."""

from __future__ import annotations

import pytest
import torch

from tests.support.triton_interpreter import check, parse

pytest.importorskip("triton")
pytestmark = pytest.mark.slow

SUM_ULPS = 200.0
"""The reference adds up in float64; a sum of 3000 numbers in f32, one after the other, is this much worse at most."""


def scan(kind: str, element: str, sizes: tuple[int, int], scanned: int) -> str:
    arg = "arg" in kind
    x, y = (f"tensor<{sizes[0]}x{sizes[1]}x{one}>" for one in (element, "i64" if arg else element))
    other = 1 - scanned
    return f"""
    func.func @main(%x : {x}) -> {y} {{
      %y = loops.nest (%i{other} : {sizes[other]}) outs(%o : {y}) {{
        loops.scan (%i{scanned} : {sizes[scanned]}) {{
          %a = loops.load %x[%i0, %i1] : {x}
          {"%v, %r" if arg else "%r"} = loops.running {kind} %a : {element}
          loops.store %r, %o[%i0, %i1] : {y}
        }}
      }}
      func.return %y : {y}
    }}"""


@pytest.mark.parametrize(
    "sizes, axis",
    [
        ((3, 100), 1),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (((2, 3000), 1), ((50, 7), 0), ((40, 30), 0), ((5, 1), 1))
        ),
    ],
)
def test_running_sums(sizes: tuple[int, int], axis: int) -> None:
    check(parse(scan("sum", "f32", sizes, axis)), ulps=SUM_ULPS)
    check(parse(scan("sum", "i64", sizes, axis)), [torch.randint(-99, 99, sizes)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prod", "logaddexp", "last_argmax", "last_argmin"])
def test_other_running_values(kind: str) -> None:
    for sizes, axis in (((3, 40), 1), ((40, 5), 0)):
        x = torch.randn(sizes)
        if "arg" in kind:  # ties, and NaN
            x = torch.randint(0, 3, sizes).float().where(torch.rand(sizes) > 0.05, torch.nan)
        check(parse(scan(kind, "f32", sizes, axis)), [x], ulps=SUM_ULPS)


@pytest.mark.slow  # the interpreter takes the points one by one
@pytest.mark.parametrize("kind", ["prod", "logaddexp", "last_argmax"])
def test_other_running_values_carried_from_tile_to_tile(kind: str) -> None:
    check(parse(scan(kind, "f32", (2, 2100), 1)), [torch.rand(2, 2100) / 4 + 0.88], ulps=SUM_ULPS)


@pytest.mark.parametrize("kind", ["assign", "sum", "maximum"])
def test_elements_changed_in_order(kind: str) -> None:
    text = f"""
    func.func @main(%x : tensor<30x20xf32>, %k : tensor<30xi64>) -> tensor<9x20xf32> {{
      %y = loops.nest (%j : 20) outs(%o : tensor<9x20xf32>) {{
        loops.for (%i : 9) {{
          %one = elem.constant 1.0 : f32
          loops.store %one, %o[%i, %j] : tensor<9x20xf32>
        }}
        loops.scan (%i : 30) {{
          %n = loops.load %k[%i] : tensor<30xi64>
          %r = loops.bound %n, 9 : i64
          %a = loops.load %x[%i, %j] : tensor<30x20xf32>
          loops.combine {kind} %a, %o[%r, %j] : tensor<9x20xf32>
        }}
      }}
      func.return %y : tensor<9x20xf32>
    }}"""
    check(parse(text), [torch.randn(30, 20), torch.randint(0, 9, (30,))])
