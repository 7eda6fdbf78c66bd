"""Scans on the GPU, by Triton's interpreter: running values, and elements that are changed in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta.testing import assert_close_to_float64
from cuesta.transforms.reductions import when
from tests.support.triton_interpreter import check, interpreted_cuda, on_cuda, parse
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")
pytestmark = pytest.mark.slow

ON_DEVICE = ', #aten.layout<device = "cuda:0">'
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


@pytest.mark.parametrize("kind", ["sum", "prod", "logaddexp"])
@pytest.mark.parametrize("sizes", [(40, 8), (3, 45)])
def test_running_values_from_the_end(kind: str, sizes: tuple[int, int]) -> None:
    """One tile holds a row, and of 45 points 64 lanes: those without one give nothing to those before them."""
    text = scan(kind, "f32", sizes, 1).replace("[%i0, %i1]", f"[%i0, {sizes[1] - 1} - %i1]")
    (kernel_text,) = texts_of(on_cuda(parse(text)))
    assert "reverse=True" in kernel_text.source
    check(parse(text), [torch.rand(sizes) + 0.5], ulps=SUM_ULPS)


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


SCANS: dict[str, Callable[[Tensor], Any]] = {
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum over rows": lambda x: x.cumsum(0),
    "cumprod": lambda x: (x / 2).cumprod(-1),
    "logcumsumexp": lambda x: (x * 9).logcumsumexp(-1),
    "cummax": lambda x: x.cummax(-1),
    "cummin over rows": lambda x: x.cummin(0),
    "cumsum of what is computed": lambda x: x.exp().cumsum(-1) * x,
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("cumsum of what is computed", torch.float32),
        ("logcumsumexp", torch.float32),
        ("cummin over rows", torch.float32),
        ("cummax", torch.bfloat16),
        *(
            pytest.param(name, dtype, marks=pytest.mark.thorough)
            for name in SCANS
            for dtype in (torch.float32, torch.bfloat16)
        ),
    ],
)
def test_in_parts(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in (("SCAN_LEAST", 16), ("TILE", 32), ("WORTH", 1e9)):
        monkeypatch.setattr(when, constant, value)
    function = SCANS[name]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    x = torch.randn(40, 53).to(dtype)
    with interpreted_cuda() as programs:
        if name.startswith(("cummax", "cummin")):
            x = x.round().where(torch.rand(x.shape) > 0.01, torch.nan)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0, equal_nan=True)
        else:
            assert_close_to_float64(compiled, function, [x])
    kernels = texts_of(programs[0])
    assert len(kernels) >= 3
    assert_compiles(kernels)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_backwards_is_one_nest(axis: int, parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from the end is stored from the end: the scan itself is not stored."""
    if parts:
        for constant, value in (("SCAN_LEAST", 16), ("TILE", 32), ("WORTH", 1e9)):
            monkeypatch.setattr(when, constant, value)

    def function(x: Tensor) -> Tensor:
        return x.flip(axis).cumsum(axis).flip(axis) * x

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    with interpreted_cuda() as programs:
        assert_close_to_float64(compiled, function, [torch.randn(40, 53)])
    kernels = texts_of(programs[0])
    assert parts or len(kernels) == 1
    assert all(kernel.source.count("tl.store") == 1 for kernel in kernels if not parts)
    assert_compiles(kernels)


def test_places_are_scanned_in_addresses_and_stored_in_64_bits() -> None:
    """An i64 goes from lane to lane in two moves."""
    program = scan("last_argmax", "f32", (40, 300), 1).replace("xf32>", f"xf32{ON_DEVICE}>")
    (text,) = texts_of(parse(program.replace("xi64>", f"xi64{ON_DEVICE}>")))
    assert "tl.int32)" in text.source and "tl.int64)" in text.source.split("associative_scan", 1)[1]
    assert "tl.int64" not in text.source.split("associative_scan", 1)[0]
