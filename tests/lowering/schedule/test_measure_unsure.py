"""`measure-unsure` with somebody who makes the times up: what is asked about, and what becomes of the answers."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from benchmarks.random_nests import analysed
from cuesta.context import make_context
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule import measure_unsure, tune_kernels
from cuesta.lowering.schedule.gpu.schedule_gpu import chosen_tiling, usual_tiling
from cuesta.lowering.schedule.measure_unsure import ASKED, MeasureUnsurePass, doubted
from cuesta.lowering.schedule.tune_kernels import measuring
from cuesta.transforms.tilings.cost import costs_of
from tests.lowering.schedule.test_tune_kernels import ROWS, Asked, choices
from tests.support.triton_interpreter import on_cuda, parse


def pairs(rows: str = "524288", schedule: str = "") -> str:
    """Sums of 17 pairs of numbers: neither the pairs nor the 17 fill a warp."""
    return f"""
func.func @main(%x : tensor<{rows}x17x2xf32>) -> tensor<{rows}x2xf32> {{
  %y = loops.nest (%i : {rows}, %j : 2) outs(%o : tensor<{rows}x2xf32>) {schedule} {{
    %s = loops.reduce sum (%k : 17) {{
      %a = loops.load %x[%i, %k, %j] : tensor<{rows}x17x2xf32>
      loops.yield %a : f32
    }} : f32
    loops.store %s, %o[%i, %j] : tensor<{rows}x2xf32>
  }}
  func.return %y : tensor<{rows}x2xf32>
}}"""


SURE = """
func.func @main(%x : tensor<65536x1024xf32>) -> tensor<65536xf32> {
  %y = loops.nest (%i : 65536) outs(%o : tensor<65536xf32>) {
    %s = loops.reduce sum (%k : 1024) {
      %a = loops.load %x[%i, %k] : tensor<65536x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<65536xf32>
  }
  func.return %y : tensor<65536xf32>
}"""


TRANSPOSE = """
func.func @main(%x : tensor<33x5x40000x3xbf16>) -> tensor<3x40000x5x33xbf16> {
  %y = loops.nest (%i : 3, %j : 40000, %k : 5, %l : 33) outs(%o : tensor<3x40000x5x33xbf16>) {
    %a = loops.load %x[%l, %k, %j, %i] : tensor<33x5x40000x3xbf16>
    loops.store %a, %o[%i, %j, %k, %l] : tensor<3x40000x5x33xbf16>
  }
  func.return %y : tensor<3x40000x5x33xbf16>
}"""


UNKNOWN = (
    pairs()
    .replace("tensor<524288x17x2xf32>", "tensor<?x17x2xf32, #aten.layout<sizes = [s0, 17, 2]>>")
    .replace("tensor<524288x2xf32>", "tensor<?x2xf32, #aten.layout<sizes = [s0, 2]>>")
    .replace("%i : 524288", "%i : s0")
)


def after(text: str, asked: Asked) -> ModuleOp:
    """A program behind the pass."""
    module = on_cuda(parse(text))
    with measuring(asked):
        MeasureUnsurePass().apply(make_context(), module)
    module.verify()
    return module


def test_the_fastest_of_a_few_is_written_down() -> None:
    asked = Asked(lambda text: 5.0 if "schedule<" in text else 9.0)
    (chosen,) = choices(after(pairs(), asked))
    ((own, *others),) = asked.questions
    assert 1 <= len(others) <= ASKED
    assert "schedule<" not in own
    assert all(f"{name} = {value}" in others[0] for name, value in chosen.items())
    assert {"along", "rows", "lanes", "warps"} <= chosen.keys()


def test_what_is_usual_is_asked_about_where_the_model_has_another() -> None:
    """Means of 66 of 131072 bf16 took 17.0 us on an H200 as the model had them, 13.5 as usual: nobody asked."""
    module = on_cuda(parse(TRANSPOSE))
    usual, own = usual_tiling(analysed(module), REFERENCE), chosen_tiling(analysed(module), REFERENCE)
    assert usual != own
    asked = doubted(analysed(module), REFERENCE)
    assert asked[0] == usual and own not in asked and len(asked) <= ASKED


def test_what_a_nest_has_is_what_is_doubted() -> None:
    """Also where the model was not asked: running sums that are stored across took 5.8 times the best on an H200, and
    nobody asked, since the model would have had another tiling.
    """
    module = on_cuda(parse(SURE.replace("65536", "9000").replace("1024", "1201")))
    own, costs = chosen_tiling(analysed(module), REFERENCE), costs_of(analysed(module), REFERENCE)
    assert own is not None and own == usual_tiling(analysed(module), REFERENCE) and costs is not None
    assert costs.time(own) > costs.time(costs.best())
    asked = doubted(analysed(module), REFERENCE)
    assert asked and own not in asked


def test_what_it_has_is_kept_where_nothing_is_clearly_faster() -> None:
    asked = Asked(lambda text: 9.9 if "schedule<" in text else 10.0)
    assert choices(after(pairs(), asked)) == [{}]
    assert asked.questions


@pytest.mark.parametrize(
    "text",
    [
        SURE,  # about as fast as memory
        pairs(schedule="schedule #loops.schedule<warps = 2>"),  # somebody has chosen
        UNKNOWN,  # nobody knows how long it takes
        pairs(rows="2048"),  # done in a moment, whatever it has
    ],
)
def test_near_misses(text: str) -> None:
    asked = Asked(lambda text: 1.0 if "schedule<" in text else 9.0)
    before = print_text(on_cuda(parse(text)))
    assert print_text(after(text, asked)) == before
    assert not asked.questions


def test_without_anybody_to_ask_nothing_changes() -> None:
    module = on_cuda(parse(pairs()))
    before = print_text(module)
    MeasureUnsurePass().apply(make_context(), module)
    assert print_text(module) == before


def test_every_tiling_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nests that are small enough for the reference interpreter, and alike: they are asked about once."""
    monkeypatch.setattr(measure_unsure, "DOUBTED", -100.0)
    monkeypatch.setattr(tune_kernels, "SMALL", 1000)
    asked = Asked(lambda text: 5.0 if "schedule<" in text else 9.0, check=True)
    first, second = choices(after(ROWS, asked))
    assert len(asked.questions) == 1
    assert first == second != {}
