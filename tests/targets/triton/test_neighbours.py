"""Neighbouring elements that one lane loads or stores one by one: as vectors, and only where that is right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.targets.triton.emit_kernel import emit_kernel
from tests.support.triton_interpreter import check, on_cuda, parse, run
from tests.support.triton_kernels import kernels_of

pytestmark = pytest.mark.slow

pytest.importorskip("triton")


def program(body: str) -> str:
    return f"""
    func.func @main(%x : tensor<4096xf32>, %m : tensor<512xi1>) -> (tensor<512xf32>, tensor<512xf32>) {{
      %y, %z = loops.nest (%i : 512) outs(%o : tensor<512xf32>, %p : tensor<512xf32>) {{
        {body}
        loops.store %a, %o[%i] : tensor<512xf32>
        loops.store %b, %p[%i] : tensor<512xf32>
      }}
      func.return %y, %z : tensor<512xf32>, tensor<512xf32>
    }}"""


def loads(first: str, second: str, condition: str = "") -> str:
    return f"""%a = loops.load %x[{first}]{condition} : tensor<4096xf32>
        %b = loops.load %x[{second}]{condition} : tensor<4096xf32>"""


MASKED = """%c = loops.load %m[%i] : tensor<512xi1>
        %zero = elem.constant 0.0 : f32
        """


def text_of(module: Any) -> str:
    return "\n".join(emit_kernel(op).source for op in kernels_of(on_cuda(module)))


TOGETHER = {
    "pairs": loads("%i * 2", "%i * 2 + 1"),
    "the second first": loads("%i * 2 + 1", "%i * 2"),
    "pairs of four": loads("%i * 4 + 2", "%i * 4 + 3"),
    "masked alike": MASKED + loads("%i * 2 + 6", "%i * 2 + 7", " if %c else %zero"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_loads_that_go_together(name: str) -> None:
    module = parse(program(TOGETHER[name]))
    assert text_of(module).count("tl.split") == 1
    check(module, [torch.randn(4096), torch.rand(512) < 0.5])


APART = {
    "not where vectors begin": loads("%i * 2 + 1", "%i * 2 + 2"),
    "at no alignment": loads("%i * 3", "%i * 3 + 1"),
    "not side by side": loads("%i * 4", "%i * 4 + 2"),
    "masked differently": MASKED
    + """%a = loops.load %x[%i * 2] if %c else %zero : tensor<4096xf32>
        %b = loops.load %x[%i * 2 + 1] : tensor<4096xf32>""",
    "the same for all lanes": loads("0", "1"),
}


@pytest.mark.parametrize("name", APART)
def test_loads_that_do_not(name: str) -> None:
    module = parse(program(APART[name]))
    assert "tl.split" not in text_of(module)
    check(module, [torch.randn(4096), torch.rand(512) < 0.5])


def test_what_is_stored_side_by_side() -> None:
    text = """
    func.func @main(%x : tensor<512xf32>) -> tensor<512x4xf32> {
      %y = loops.nest (%i : 512) outs(%o : tensor<512x4xf32>) {
        %zero = elem.constant 0.0 : f32
        %a = loops.load %x[%i] : tensor<512xf32>
        %b = elem.exp %a : f32
        loops.store %b, %o[%i, 1] : tensor<512x4xf32>
        loops.store %zero, %o[%i, 2] : tensor<512x4xf32>
        loops.store %a, %o[%i, 0] : tensor<512x4xf32>
        loops.store %a, %o[%i, 3] : tensor<512x4xf32>
      }
      func.return %y : tensor<512x4xf32>
    }"""
    module = parse(text)
    source = text_of(module)
    assert source.count("tl.store") == 1
    assert source.count("tl.join") == 3
    check(module, [torch.randn(512)])


@pytest.mark.parametrize("columns", [4, 5])
def test_what_all_lanes_store_lies_together(columns: int) -> None:
    """Not where vectors begin, and not under one mask; of every fifth column, lanes do not store neighbours."""
    text = f"""
    func.func @main(%x : tensor<512xf32>) -> tensor<{512 * columns + 1}xf32> {{
      %y = loops.nest (%i : 512) outs(%o : tensor<{512 * columns + 1}xf32>) {{
        %half = elem.constant 256 : i64
        %n = loops.index [%i] : i64
        %c = elem.lt %n, %half : i64
        %d = elem.ge %n, %half : i64
        %a = loops.load %x[%i] : tensor<512xf32>
        %b = elem.exp %a : f32
        loops.store %a, %o[%i * {columns} + 1] : tensor<{512 * columns + 1}xf32>
        loops.store %a, %o[%i * {columns} + 2] if %c : tensor<{512 * columns + 1}xf32>
        loops.store %b, %o[%i * {columns} + 2] if %d : tensor<{512 * columns + 1}xf32>
        loops.store %b, %o[%i * {columns} + 3] : tensor<{512 * columns + 1}xf32>
        loops.store %a, %o[%i * {columns} + 4] : tensor<{512 * columns + 1}xf32>
      }}
      func.return %y : tensor<{512 * columns + 1}xf32>
    }}"""
    module = parse(text)
    assert text_of(module).count("tl.store") == (2 if columns == 4 else 5)
    x = torch.randn(512)
    (ours,) = run(on_cuda(module), [x])
    expected = torch.stack([x, torch.where(torch.arange(512) < 256, x, x.exp()), x.exp(), x], 1)
    stored = ours[1:].view(512, columns)[:, :4]
    torch.testing.assert_close(stored, expected)
