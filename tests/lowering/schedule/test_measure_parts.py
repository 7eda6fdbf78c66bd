"""`measure-parts` with somebody who makes the times up: what is asked about, and what becomes of the answers."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule import measure_unsure
from cuesta.lowering.schedule.gpu.schedule_choices import parts_to_try
from cuesta.lowering.schedule.measure_parts import MeasurePartsPass
from cuesta.lowering.schedule.tune_kernels import measuring
from cuesta.transforms.reductions.choose_parts import ChoosePartsPass
from cuesta.transforms.reductions.when import choose_part_on_gpu
from tests.lowering.schedule.test_tune_kernels import Asked, choices
from tests.support.triton_interpreter import on_cuda, parse


def norms(rows: int, points: int, schedule: str = "") -> str:
    """Rows over the root of the sum of their squares."""
    x = f"tensor<{rows}x{points}xf32>"
    return f"""
func.func @main(%x : {x}) -> {x} {{
  %y = loops.nest (%i : {rows}) outs(%o : {x}) {schedule} {{
    %s = loops.reduce sum (%k : {points}) {{
      %a = loops.load %x[%i, %k] : {x}
      %q = elem.mul %a, %a : f32
      loops.yield %q : f32
    }} : f32
    %r = elem.rsqrt %s : f32
    loops.for (%k : {points}) {{
      %a = loops.load %x[%i, %k] : {x}
      %d = elem.mul %a, %r : f32
      loops.store %d, %o[%i, %k] : {x}
    }}
  }}
  func.return %y : {x}
}}"""


def after(text: str, asked: Asked) -> ModuleOp:
    """A program behind the pass."""
    module = on_cuda(parse(text))
    with measuring(asked):
        MeasurePartsPass().apply(make_context(), module)
    module.verify()
    return module


def part_of(text: str) -> int:
    """The points of the parts of a program's nest; 0 where it has none."""
    found = re.search(r"part = (\d+)", text)
    return int(found[1]) if found else 0


def test_the_fastest_parts_are_written_down_and_who_chooses_parts_takes_them_over() -> None:
    asked = Asked(lambda text: 5.0 if part_of(text) == 2048 else 9.0)
    module = after(norms(16, 442368), asked)
    assert choices(module) == [{"part": 2048}]
    ChoosePartsPass().apply(make_context(), module)
    assert choices(module) == [{"part": 2048}]
    ((first, *others),) = asked.questions
    assert part_of(first) == 0 and "schedule<" not in first, "the first is what is chosen without asking"
    assert sorted(part_of(other) for other in others if "part" in other) == [2048, 16384]


def test_what_would_be_in_parts_may_be_better_whole() -> None:
    asked = Asked(lambda text: 5.0 if "along" in text else 9.0)
    (chosen,) = choices(after(norms(96, 131072), asked))
    assert "along" in chosen and "part" not in chosen


def test_tilings_of_the_whole_are_asked_about_with_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A max pool of 11 by 11 by 11 took 215 us, in parts 177, and 109 in a tiling that was not asked about any more."""
    monkeypatch.setattr(measure_unsure, "DOUBTED", -1e9)
    asked = Asked(lambda text: 5.0 if "along" in text else 7.0 if "part" in text else 9.0)
    (chosen,) = choices(after(norms(132, 60000), asked))
    assert "along" in chosen
    assert (
        any("part" in text for text in asked.questions[0]) and sum("along" in text for text in asked.questions[0]) > 1
    )


def test_nothing_is_written_where_what_is_chosen_is_best() -> None:
    module = after(norms(16, 442368), Asked(lambda text: 9.0 if "schedule<" in text else 8.9))
    assert choices(module) == [{}]


@pytest.mark.parametrize(
    "text",
    [
        norms(16, 442368, "schedule #loops.schedule<part = 1024>"),
        norms(16384, 4096),
        norms(16, 4096),
        norms(16, 442368).replace("rsqrt", "exp").replace("tensor<16x", "tensor<?x").replace("%i : 16", "%i : s0"),
    ],
    ids=["it has a schedule", "every processor has rows", "it is soon done", "a size is not known"],
)
def test_near_misses(text: str) -> None:
    if "s0" in text:
        text = text.replace("xf32>", "xf32, #aten.layout<sizes = [s0, 442368]>>")
    asked = Asked(lambda text: 5.0 if "part" in text else 9.0)
    before = print_text(on_cuda(parse(text)))
    assert print_text(after(text, asked)) == before
    assert asked.questions == []


def test_nothing_changes_without_a_device() -> None:
    module = on_cuda(parse(norms(16, 442368)))
    before = print_text(module)
    MeasurePartsPass().apply(make_context(), module)
    assert print_text(module) == before


def test_autotuning_tries_the_same_parts() -> None:
    nest = next(op for op in entry_block(on_cuda(parse(norms(16, 442368)))).ops if isinstance(op, loops.NestOp))
    chosen, tried = choose_part_on_gpu(nest, REFERENCE), parts_to_try(nest, REFERENCE)
    assert {"part": 16384} in tried and {"part": 2048} in tried and chosen
    assert len(tried) == len({tuple(sorted(one.items())) for one in tried})
