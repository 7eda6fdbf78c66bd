"""Reductions over the same points of what they read both: in one loop, and when not."""

from __future__ import annotations

import re

import pytest
import torch

from benchmarks.random_nests import analysed
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule.gpu.schedule_gpu import usual_tiling
from cuesta.targets.program import KernelText
from cuesta.transforms.reductions import when
from cuesta.transforms.tilings.cost import TileCosts
from tests.support.triton_interpreter import check, parse
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")

X, V = "tensor<4x40000xf32>", "tensor<4xf32>"
SUM = "%s = loops.reduce sum (%k : 40000) { %a = loops.load %x[%i, %k] : X\n loops.yield %a : f32 } : f32"
SHIFTED = """
%c = loops.load %m[%i] : V
%t = loops.reduce sum (%k : 40000) {
  %a = loops.load %x[%i, %k] : X
  %b = loops.load %g[%i, %k] : X
  %d = elem.sub %b, %c : f32
  %w = elem.mul %a, %d : f32
  loops.yield %w : f32
} : f32
"""


def program(*stages: str, on_device: bool = True) -> str:
    """Of two tensors and a vector: stages that give %s and %t."""
    text = f"""
    func.func @main(%x : X, %g : X, %m : V) -> (V, V) {{
      %p, %q = loops.nest (%i : 4) outs(%o : V, %n : V) {{
        {"".join(f"{stage}{chr(10)}" for stage in stages)}
        loops.store %s, %o[%i] : V
        loops.store %t, %n[%i] : V
      }}
      func.return %p, %q : V, V
    }}"""
    device = ', #aten.layout<device = "cuda:0">>' if on_device else ">"
    return re.sub(r"\b[XV]\b", lambda found: {"X": X, "V": V}[found[0]].replace(">", device), text)


def loops_in(texts: list[KernelText]) -> int:
    return sum(len(re.findall(r"for \w+ in (?:tl\.)?range", text.source)) for text in texts)


@pytest.fixture(autouse=True)
def whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few they are."""
    monkeypatch.setattr(when, "LARGE_GPU", 1 << 30)


def test_what_both_read_is_read_once() -> None:
    texts = texts_of(parse(program(SUM, SHIFTED)))
    loops = [text for text in texts if "for " in text.source]
    assert len(loops) == 1
    assert loops_in(loops) == 1
    assert len(re.findall(r"tl\.load\(x ", loops[0].source)) == len(re.findall(r"tl\.load\(g ", loops[0].source)) == 1
    assert_compiles(texts)


def test_in_the_other_order_what_is_free_between_them_comes_before() -> None:
    (text,) = [text for text in texts_of(parse(program(SHIFTED, SUM))) if "for " in text.source]
    assert loops_in([text]) == 1


def test_a_constant_between_them() -> None:
    """It is written where it is read; an op that is not one of a loop was looked up, and is none that Triton has."""
    second = SHIFTED.replace(
        "%c = ", "%e = elem.constant 3 : i64\n%f = elem.convert %e : i64 to f32\n%h = elem.constant 0.5 : f32\n%c = "
    )
    second = second.replace("%w = elem.mul %a, %d : f32", "%v = elem.mul %a, %d : f32\n%w = elem.mul %v, %h : f32")
    texts = [text for text in texts_of(parse(program(SUM, second))) if "for " in text.source]
    assert loops_in(texts) == 1
    check(parse(program(SUM, second, on_device=False)))


@pytest.mark.parametrize(
    "second",
    [
        SHIFTED.replace("%d = elem.sub %b, %c", "%d = elem.sub %b, %s"),  # it needs the first sum
        SHIFTED.replace("%x[%i, %k]", "%g[%i, %k]"),  # it reads nothing that the first one does
        SHIFTED.replace("%c = loops.load %m[%i] : V", "%c = elem.exp %s : f32"),  # it needs what needs that
    ],
)
def test_apart(second: str) -> None:
    assert loops_in(texts_of(parse(program(SUM, second)))) == 2


@pytest.mark.slow
def test_the_results_are_those_of_two_loops() -> None:
    inputs = [torch.randn(4, 40000), torch.randn(4, 40000), torch.randn(4)]
    check(parse(program(SUM, SHIFTED, on_device=False)), inputs, ulps=200.0)
    check(parse(program(SUM.replace("sum", "maximum"), SHIFTED, on_device=False)), inputs, ulps=200.0)


def test_a_walk_counts_what_both_read_once() -> None:
    def moved(text: str) -> float:
        analysis = analysed(parse(text))
        tiling = usual_tiling(analysis, REFERENCE)
        assert tiling is not None
        counts = TileCosts(analysis, REFERENCE).counts(tiling)
        return counts.memory + counts.again

    together = moved(program(SUM, SHIFTED))
    apart = moved(program(SUM, SHIFTED.replace("%d = elem.sub %b, %c", "%d = elem.sub %b, %s")))
    numbers = 4 * 40000 * 4
    assert apart - together == pytest.approx(numbers * numbers / REFERENCE.cache), "as far as no cache has them"
