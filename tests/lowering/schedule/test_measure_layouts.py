"""`measure-layouts` with somebody who makes the times up: what is asked about, and what becomes of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.layout import strides_of, tensor_type_of
from cuesta.lowering.schedule import measure_layouts
from cuesta.lowering.schedule.measure_layouts import MeasureLayoutsPass
from cuesta.lowering.schedule.tune_kernels import measuring
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.views.assign_layouts import AssignLayoutsPass
from cuesta.transforms.views.convolution_costs import LayoutTimes, times_of
from tests.lowering.schedule.test_tune_kernels import Asked
from tests.support.levels import check_text
from tests.support.triton_interpreter import on_cuda, parse

X, W = "tensor<4x128x896x896xf32>", "tensor<128x32x3x3xf32>"
SAID = "none, [1, 1], [1, 1], [1, 1], false, [0, 0], 4"
FORWARD = f"""
func.func @main(%x : {X}, %w : {W}) -> {X} {{
  %y = loops.extern pure "aten.convolution.default"(%x, %w, {SAID}) ATTRIBUTES : ({X}, {W}) -> {X}
  func.return %y : {X}
}}"""
BACKWARD = f"""
func.func @main(%g : {X}, %x : {X}, %w : {W}) -> ({X}, {W}) {{
  %a, %b, %n = loops.extern pure "aten.convolution_backward.default"(%g, %x, %w, {SAID}, [true, true, false]) ATTRIBUTES
    : ({X}, {X}, {W}) -> ({X}, {W}, !aten.literal)
  func.return %a, %b : {X}, {W}
}}"""


def by_layout(first: float, last: float) -> Callable[[str], float]:
    """The time of a program by how the first argument of its call lies."""

    def time(text: str) -> float:
        call = next(line for line in text.splitlines() if "loops.extern" in line)
        return last if "strides" in call.partition(" : (")[2].partition("->")[0].split("f32", 2)[1] else first

    return time


def after(text: str, asked: Asked, attributes: str = "") -> ModuleOp:
    """A program behind the pass."""
    module = on_cuda(parse(text.replace(" ATTRIBUTES", attributes)))
    with measuring(asked):
        MeasureLayoutsPass().apply(make_context(), module)
    module.verify()
    check_text(module)
    return module


def call_of(module: ModuleOp) -> loops.ExternOp:
    (call,) = (op for op in entry_block(module).ops if isinstance(op, loops.ExternOp))
    return call


def lies_last(module: ModuleOp) -> bool:
    """Whether the call's first result is channels last, once layouts are assigned."""
    AssignLayoutsPass().apply(make_context(), module)
    module.verify()
    assert times_of(call_of(module)) is None, "nobody needs it any more"
    return strides_of(tensor_type_of(call_of(module).results[0]))[1] == 1


@pytest.mark.parametrize("text", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize(("first", "last"), [(90000.0, 400.0), (400.0, 90000.0)])
def test_what_a_call_takes_is_stated_and_who_assigns_layouts_believes_it(text: str, first: float, last: float) -> None:
    asked = Asked(by_layout(first, last))
    module = after(text, asked)
    assert times_of(call_of(module)) == LayoutTimes(first, last)
    assert lies_last(module) == (last < first)
    ((one, other),) = asked.questions
    assert "ATTRIBUTES" not in one and one != other


@pytest.mark.parametrize("text", [FORWARD, BACKWARD], ids=["forward", "backward"])
def test_a_question_is_the_call_with_images_in_either_layout_and_nothing_else(text: str) -> None:
    """On its way down it keeps the layout that is asked about, whatever a table says."""
    lowered: list[list[str]] = []
    behind = default_stages()
    behind = behind[[stage.label for stage in behind].index("assign-layouts") :]

    def measure(questions: Sequence[Sequence[ModuleOp]]) -> list[list[float]]:
        for question in questions:
            for program in question:
                program.verify()
                check_text(program)
                run_pipeline(make_context(), program, behind)
            arguments = [[argument.type for argument in entry_block(program).args] for program in question]
            assert arguments[0] == arguments[1], "all take the same"
            lowered.append([print_text(program) for program in question])
        return [[1.0, 2.0] for _ in questions]

    module = on_cuda(parse(text.replace(" ATTRIBUTES", "")))
    with measuring(measure):
        MeasureLayoutsPass().apply(make_context(), module)
    ((first, last),) = lowered
    for found, is_last in ((first, False), (last, True)):
        (call,) = (line for line in found.splitlines() if "host.extern" in line)
        given, _, made = call.partition(" : (")[2].partition("->")
        images = 2 if text is BACKWARD else 1
        assert given.count("strides") == images * is_last and made.count("strides") == is_last
        assert "times" not in found and not {"host.launch", "kernel.func"} & {*found.replace("(", " ").split()}


def test_calls_that_are_alike_are_asked_about_once() -> None:
    call = FORWARD.strip().splitlines()[1]
    text = FORWARD.replace(call, f"{call}\n{call.replace('%y =', '%z =')}").replace("return %y", "return %z")
    asked = Asked(by_layout(3.0, 2.0))
    module = after(text, asked)
    assert len(asked.questions) == 1
    assert [times_of(op) for op in entry_block(module).ops if isinstance(op, loops.ExternOp)] == [LayoutTimes(3, 2)] * 2


def test_near_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    def questions(text: str, attributes: str = "") -> int:
        after(text, asked := Asked(by_layout(3.0, 2.0)), attributes)
        return len(asked.questions)

    assert questions(FORWARD) == 1
    stated = " {times = {channels_first = 1.0 : f64, channels_last = 2.0 : f64}}"
    assert questions(FORWARD, stated) == 0, "it says so"
    small = FORWARD.replace("896x896", "6x6")
    assert questions(small) == 0, "it is soon done"
    rows = FORWARD.replace("4x128x896x896", "4x128x1x1")
    assert questions(rows) == 0, "there is no choice"
    some = FORWARD.replace(X, "tensor<?x128x896x896xf32, #aten.layout<sizes = [s0, 128, 896, 896]>>")
    some = some.replace("{\n", "attributes {sym.symbols = #sym.symbols<s0 in [2, inf]>} {\n", 1)
    assert questions(some) == 0, "nobody knows how many images there are"
    monkeypatch.setattr(measure_layouts, "MOST", 0)
    assert questions(FORWARD) == 0, "there are others that take longer"


def test_a_processor_is_not_asked() -> None:
    asked = Asked(by_layout(3.0, 2.0))
    with measuring(asked):
        MeasureLayoutsPass().apply(make_context(), module := parse(FORWARD.replace(" ATTRIBUTES", "")))
    assert not asked.questions and "times" not in print_text(module)


@pytest.mark.parametrize(("gain", "is_last"), [(400.0, False), (4e6, True)])
def test_on_a_processor_a_microsecond_is_worth_fewer_bytes(gain: float, is_last: bool) -> None:
    """The images have 1.6 GB each: a processor copies one in 0.16 s, a GPU in 0.8 ms."""
    stated = f" {{times = {{channels_first = {gain + 1.0} : f64, channels_last = 1.0 : f64}}}}"
    assert lies_last(parse(FORWARD.replace(" ATTRIBUTES", stated))) == is_last


def test_what_cannot_be_run_leaves_it_to_the_table() -> None:
    for first, last in ((math.inf, 2.0), (2.0, math.inf)):
        assert times_of(call_of(after(FORWARD, Asked(by_layout(first, last))))) is None


@pytest.mark.parametrize(
    "stated", ["3.0 : f64", "{channels_first = 3.0 : f64}", "{channels_first = 3.0 : f64, channels_last = -1.0 : f64}"]
)
def test_other_times_are_refused(stated: str) -> None:
    module = on_cuda(parse(FORWARD.replace(" ATTRIBUTES", f" {{times = {stated}}}")))
    with pytest.raises(CuestaError, match=r"`times` of a convolution is \{channels_first = us, "):
        AssignLayoutsPass().apply(make_context(), module)
