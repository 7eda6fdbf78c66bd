"""Neighbours that Triton's compiler does not see: it is told of them, so that the threads of a warp lie along them."""

from __future__ import annotations

import re

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from cuesta.targets.triton.compilation import _compiled
from tests.support.triton_interpreter import check, on_cuda, parse
from tests.support.triton_kernels import texts_of

pytest.importorskip("triton")


def columns(count: int, rows: int = 24, parts: int = 8, scalar: str = "f32", at: str = "%c") -> ModuleOp:
    """The greatest of so many rows, column by column, of each part."""
    kind, out = f"tensor<{parts * rows}x{count}x{scalar}>", f"tensor<{count}x{parts}xf32>"
    value = "%v" if scalar == "f32" else "%w"
    return parse(f"""
    func.func @main(%x : {kind}) -> {out} {{
      %y = loops.nest (%c : {count}, %p : {parts}) outs(%o : {out})
          schedule #loops.schedule<along = 0, rows = 32, lanes = 32, warps = 4> {{
        %m = loops.reduce maximum (%r : {rows}) {{
          %v = loops.load %x[%p * {rows} + %r, {at}] : {kind}
          {"" if scalar == "f32" else f"%w = elem.convert %v : {scalar} to f32"}
          loops.yield {value} : f32
        }} : f32
        loops.store %m, %o[%c, %p] : {out}
      }}
      func.return %y : {out}
    }}""")


def order_of_threads(module: ModuleOp) -> list[int]:
    """The dimensions of the blocks that are loaded, the one that neighbouring threads lie along first."""
    (text,) = texts_of(on_cuda(module))
    layouts = str(_compiled(text, ("cuda", 90, 32), aligned=True).asm["ttgir"])
    (loaded,) = re.findall(r"tt\.load .*(#blocked\d*)>", layouts)
    (order,) = re.findall(rf"{loaded} = .*order = \[(\d), (\d)\]", layouts)
    return [int(dimension) for dimension in order]


@pytest.mark.parametrize("count", [65, 33])
def test_threads_lie_along_what_is_side_by_side(count: int) -> None:
    module = columns(count)
    (text,) = texts_of(on_cuda(module))
    assert "tl.max_contiguous(" in text.source
    assert order_of_threads(module) == [0, 1]
    check(on_cuda(columns(count)), [torch.randn(192, count)])


def test_two_at_a_time_are_not_read() -> None:
    """The first of two neighbours is at an even place in half of the rows only."""
    for scalar in ("f32", "bf16"):
        (text,) = texts_of(on_cuda(columns(65, scalar=scalar)))
        found = str(_compiled(text, ("cuda", 90, 32), aligned=True).asm["ptx"])
        loads = re.findall(r"ld\.global[\w.:]*\.([bu]\d+)", found)
        assert loads
        assert set(loads) <= {"b32" if scalar == "f32" else "b16", "u32" if scalar == "f32" else "u16"}
        assert not re.search(r"ld\.global\S*\.v\d", found)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (columns(64), "rows begin at even places, and Triton's compiler sees that"),
        (columns(66), "as few as two are seen"),
        (columns(65, at="64 - %c"), "backwards"),
    ],
    ids=["64", "66", "backwards"],
)
def test_nothing_is_said(module: ModuleOp, why: str) -> None:
    (text,) = texts_of(on_cuda(module))
    assert "max_contiguous" not in text.source, why
