"""Quotients of the points of a tile: one division for all of them."""

from __future__ import annotations

import re

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from tests.support.triton_interpreter import check, on_cuda, parse
from tests.support.triton_kernels import texts_of


def channels(inner: tuple[int, int], lanes: int, *, rows: int = 1) -> ModuleOp:
    """Sums of seven images for each of five channels."""
    height, width = inner
    kind = f"tensor<7x5x{height}x{width}xf32>"
    return parse(f"""
    func.func @main(%x : {kind}) -> tensor<5xf32> {{
      %y = loops.nest (%c : 5) outs(%o : tensor<5xf32>)
          schedule #loops.schedule<along = 1, rows = {rows}, lanes = {lanes}, warps = 4> {{
        %s = loops.reduce sum (%n : 7, %i : {height}, %j : {width}) {{
          %v = loops.load %x[%n, %c, %i, %j] : {kind}
          loops.yield %v : f32
        }} : f32
        loops.store %s, %o[%c] : tensor<5xf32>
      }}
      func.return %y : tensor<5xf32>
    }}""")


def divided(module: ModuleOp) -> list[str]:
    """What is divided in its only kernel."""
    (text,) = texts_of(on_cuda(module))
    return re.findall(r"(\w+)\)? // \d+", text.source)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    ("inner", "lanes"),
    [
        ((9, 7), 32),
        ((9, 7), 64),  # tiles that can have points of three images
        ((5, 13), 64),
        ((3, 11), 16),
    ],
)
def test_a_tile_has_one_division(inner: tuple[int, int], lanes: int, rows: int) -> None:
    module = channels(inner, lanes, rows=rows)
    assert divided(module) == ["j_start"]
    check(on_cuda(channels(inner, lanes, rows=rows)), [torch.randn(7, 5, *inner)])


@pytest.mark.parametrize(
    ("inner", "lanes"),
    [
        ((9, 8), 32),  # four elements are a vector, and have one quotient
        ((3, 3), 32),  # more images than two
    ],
)
def test_near_misses_divide_every_point(inner: tuple[int, int], lanes: int) -> None:
    module = channels(inner, lanes)
    assert divided(module) == ["j"]
    check(on_cuda(channels(inner, lanes)), [torch.randn(7, 5, *inner)])


def test_addresses_of_64_bits() -> None:
    (text,) = texts_of(on_cuda(channels((9001, 9001), 1024)))
    assert re.findall(r">= 81018001\)\.to\((.*?)\)", text.source) == ["tl.int64"]


def test_loops_that_go_along_together_have_the_same_quotients() -> None:
    kind = "tensor<7x5x63xf32>"
    text = f"""
    func.func @main(%x : {kind}, %g : {kind}) -> (tensor<5xf32>, tensor<5xf32>) {{
      %y, %z = loops.nest (%c : 5) outs(%o : tensor<5xf32>, %p : tensor<5xf32>)
          schedule #loops.schedule<along = 1, rows = 1, lanes = 32, warps = 1> {{
        %s = loops.reduce sum (%n : 7, %j : 63) {{
          %v = loops.load %x[%n, %c, %j] : {kind}
          loops.yield %v : f32
        }} : f32
        %t = loops.reduce sum (%n : 7, %j : 63) {{
          %v = loops.load %x[%n, %c, %j] : {kind}
          %w = loops.load %g[%n, %c, %j] : {kind}
          %u = elem.mul %v, %w : f32
          loops.yield %u : f32
        }} : f32
        loops.store %s, %o[%c] : tensor<5xf32>
        loops.store %t, %p[%c] : tensor<5xf32>
      }}
      func.return %y, %z : tensor<5xf32>, tensor<5xf32>
    }}"""
    assert divided(parse(text)) == ["j_start"]
    check(on_cuda(parse(text)), [torch.randn(7, 5, 63), torch.randn(7, 5, 63)])
