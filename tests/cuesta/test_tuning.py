"""Measuring programs, with a clock of our own: there is no device here."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from xdsl.dialects.builtin import ModuleOp

import cuesta.staging
import cuesta.tuning
from cuesta.compiler import compile_module
from cuesta.dialects import loops
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.core.tracing import active_trace
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.dump import Dump
from cuesta.lowering.schedule import measure_unsure
from cuesta.lowering.schedule.gpu.schedule_choices import candidates
from cuesta.options import Options
from cuesta.pipeline import default_stages
from cuesta.record import CompileRecord
from cuesta.staging import can_ask
from cuesta.tuning import FEWEST, MOST, Timings, Tuner, arguments_of, rounds_for, tuners_for, worth_timing
from tests.support.triton_interpreter import on_cuda, parse

EXP = """
func.func @main(%x : tensor<600x300xf32>) -> tensor<600x300xf32> {
  %y = loops.nest (%i : 600, %j : 300) outs(%o : tensor<600x300xf32>) {
    %a = loops.load %x[%i, %j] : tensor<600x300xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<600x300xf32>
  }
  func.return %y : tensor<600x300xf32>
}
"""
QUESTION = [parse(EXP), parse(EXP.replace("f32>) {", "f32>) schedule #loops.schedule<unroll = 2> {"))]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    return tmp_path


class Clock:
    """Gives the times it was made with, in turn; counts how often it is asked."""

    def __init__(self, *times: float) -> None:
        self.times = times
        self.asked = 0
        self.devices: list[str] = []

    def __call__(self, functions: Sequence[Any], arguments: Sequence[Any], device: str) -> list[float]:
        self.asked += 1
        self.devices.append(device)
        return list(self.times[: len(functions)])


def tuner(clock: Any, *, keep: bool = True) -> Tuner:
    stages = tuners_for(Options(), default_stages(tune=True))["tune-kernels"].stages
    return Tuner(stages, clock, Timings.chosen_by(Options()) if keep else None)


def built(monkeypatch: pytest.MonkeyPatch, *functions: Any) -> None:
    rest = iter(functions * 10)
    monkeypatch.setattr(Tuner, "build", lambda self, module: next(rest))


def test_what_was_measured_is_remembered(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    built(monkeypatch, print, print)
    clock = Clock(3.5, 2.25)
    assert tuner(clock)([QUESTION]) == [[3.5, 2.25]]
    (file,) = (here / "timings").iterdir()
    assert tuner(clock)([QUESTION]) == [[3.5, 2.25]]
    assert clock.asked == 1
    assert tuner(clock)([QUESTION[::-1]]) == [[3.5, 2.25]]
    assert clock.asked == 2, "another question"
    file.write_text(file.read_text().replace("3.5", "9.5"))
    assert tuner(clock)([QUESTION]) == [[3.5, 2.25]]
    assert clock.asked == 3, "a damaged file counts as none"
    assert tuner(clock)([QUESTION]) == [[3.5, 2.25]]
    assert clock.asked == 3, "and is replaced"


def test_what_was_asked_for_last_is_kept(tmp_path: Path) -> None:
    wide = Timings(tmp_path, 10**6)
    for age, key in enumerate(("first", "second", "third")):
        wide.store(key, [1.5, 2.5])
        os.utime(wide.path(key), (1000 + age, 1000 + age))
    size = wide.path("first").stat().st_size
    assert wide.load("first", 2) == [1.5, 2.5], "which makes it the last that was used"
    Timings(tmp_path, 3 * size).store("fourth", [1.5, 2.5])
    assert {file.stem for file in tmp_path.iterdir()} == {"first", "third", "fourth"}


def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    built(monkeypatch, print, print)
    monkeypatch.setenv("CUESTA_CACHE", "0")
    clock = Clock(3.5, 2.25)
    for _ in range(2):
        assert tuner(clock)([QUESTION]) == [[3.5, 2.25]]
    assert clock.asked == 2
    assert not list(here.iterdir())


def test_a_program_that_cannot_be_built_takes_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    built(monkeypatch, print, None, print)
    three = [*QUESTION, QUESTION[1]]
    for _ in range(2):  # measured, and from disk
        assert tuner(Clock(5.0, 4.0))([three]) == [[5.0, math.inf, 4.0]]


def test_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    built(monkeypatch, None, print)
    clock = Clock(5.0)
    assert tuner(clock)([QUESTION]) == [[math.inf, 0.0]]
    assert not clock.asked


def test_a_program_that_takes_nothing_is_measured_where_its_result_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    func.func @main() -> tensor<600xf32, #aten.layout<device = "cuda:1">> {
      %y = loops.nest (%i : 600) outs(%o : tensor<600xf32, #aten.layout<device = "cuda:1">>) {
        %a = elem.constant 4.0 : f32
        loops.store %a, %o[%i] : tensor<600xf32, #aten.layout<device = "cuda:1">>
      }
      func.return %y : tensor<600xf32, #aten.layout<device = "cuda:1">>
    }
    """
    built(monkeypatch, print, print)
    clock = Clock(5.0, 4.0)
    one = tuner(clock, keep=False)
    assert one.measured([parse(text)] * 2, [parse(text)] * 2) == [5.0, 4.0]
    assert clock.devices == ["cuda:1"]


def test_too_little_memory_leaves_the_default_this_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(functions: Sequence[Any], arguments: Sequence[Any], device: str) -> list[float]:
        raise torch.cuda.OutOfMemoryError("out of memory")

    built(monkeypatch, print, print)
    assert tuner(full)([QUESTION]) == [[math.inf, math.inf]]
    assert tuner(Clock(3.5, 2.25))([QUESTION]) == [[3.5, 2.25]], "that is not kept"


def test_arguments_have_the_types_that_a_program_takes() -> None:
    text = """
    func.func @main(%a : tensor<4x8xf32, #aten.layout<strides = [1, 4]>>, %b : tensor<5xi64>,
                    %c : tensor<3x5xbf16, #aten.layout<strides = [0, 2]>>, %d : tensor<2xi1>,
                    %e : tensor<0x3xf16>, %f : tensor<f64>) {
      func.return
    }
    """
    a, b, c, d, e, f = arguments_of(parse(text))
    assert [tuple(one.shape) for one in (a, b, c, d, e, f)] == [(4, 8), (5,), (3, 5), (2,), (0, 3), ()]
    assert a.stride() == (1, 4) and c.stride() == (0, 2)
    assert (b == 0).all() and (a != 0).all()
    assert [one.dtype for one in (b, c, d, f)] == [torch.int64, torch.bfloat16, torch.bool, torch.float64]


def test_nothing_is_fake_while_a_graph_is_compiled() -> None:
    seen: list[Any] = []

    def clock(functions: Sequence[Any], arguments: Sequence[Any], device: str) -> list[float]:
        seen.extend([*arguments, *functions[0](list(arguments)), torch.zeros(3)])
        return [1.0, 1.0]

    state = torch.random.get_rng_state()
    with FakeTensorMode():
        assert tuner(clock, keep=False)([[QUESTION[0], QUESTION[0]]]) == [[1.0, 1.0]]
    x, y, z = seen
    assert not any(isinstance(one, FakeTensor) for one in (x, y, z))
    assert torch.allclose(y, x.exp())
    assert torch.equal(torch.random.get_rng_state(), state), "the user's random numbers are not touched"


def test_a_program_is_built_and_runs_from_where_it_stands() -> None:
    found = tuner(Clock())
    module = found.to_host(QUESTION[0])
    assert module is not None
    function = found.build(module)
    assert function is not None
    x = torch.randn(600, 300)
    (y,) = function([x])
    assert torch.allclose(y, x.exp())


def test_the_clock_is_asked_under_max_autotune_only(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    pytest.importorskip("triton")
    from tests.support.fake_cuda import install

    install(monkeypatch)
    monkeypatch.setattr(cuesta.tuning, "arguments_of", lambda program: [])
    (nest,) = (op for op in parse(EXP).walk() if isinstance(op, loops.NestOp))
    analysis = analyse(nest, {}, [True])
    merge_axes(analysis)
    tried = candidates(analysis, REFERENCE)
    best = "#loops.schedule<" + ", ".join(f"{name} = {value}" for name, value in tried[1].items()) + ">"
    for mode, options, asked in (
        ("default", {}, 0),
        ("reduce-overhead", {}, 0),
        ("default", {"max_autotune": True}, 1),
        ("max-autotune-no-cudagraphs", {}, 1),
    ):
        clock = Clock(9.0, 8.0, 1.0, *(7.0 for _ in tried[2:]))
        monkeypatch.setattr(cuesta.tuning, "cuda_timer", clock)
        dump = Dump.create(str(here / "dumps"), "inference")
        options = {"cache": False, "dump": str(here), **options}
        compile_module(on_cuda(parse(EXP)), Options.parse(mode, options), CompileRecord(kind="inference"), dump)
        assert clock.asked == asked
        tuned = next((path.read_text() for path in dump.folder.iterdir() if "tune-kernels" in path.name), "")
        assert (best in tuned) == bool(asked)
        assert ("measured, µs: 9.0  8.0  1.0" in (dump.folder / "tuning.txt").read_text()) if asked else True


def test_what_a_nest_has_is_asked_about_by_default_where_the_model_is_not_sure(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    pytest.importorskip("triton")
    from tests.support.fake_cuda import install

    install(monkeypatch)
    monkeypatch.setattr(cuesta.tuning, "arguments_of", lambda program: [])
    monkeypatch.setattr(measure_unsure, "DOUBTED", -100.0)
    for there, options, asked in (
        (True, {}, 1),
        (False, {}, 0),
        (True, {"measure_unsure": False}, 0),
        (True, {"target": "reference"}, 0),
    ):
        monkeypatch.setattr(cuesta.staging, "can_ask", lambda there=there: there)
        clock = Clock(9.0, 1.0, 8.0, 7.0, 7.0)
        monkeypatch.setattr(cuesta.tuning, "cuda_timer", clock)
        dump = Dump.create(str(here / "dumps"), "inference")
        compile_module(
            on_cuda(parse(EXP)),
            Options.parse("default", {"cache": False, "dump": str(here), **options}),
            CompileRecord(kind="inference"),
            dump,
        )
        assert clock.asked == asked
        text = next(path.read_text() for path in dump.folder.iterdir() if "measure-unsure" in path.name)
        assert ("#loops.schedule<" in text) == bool(asked)


@pytest.mark.parametrize(("there", "capturing"), [(True, False), (True, True), (False, False)])
def test_a_device_that_is_recorded_is_not_asked(monkeypatch: pytest.MonkeyPatch, there: bool, capturing: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    assert can_ask() == (there and not capturing)


def test_what_is_timed_is_no_part_of_the_trace(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    pytest.importorskip("triton")
    from tests.support.fake_cuda import install

    install(monkeypatch)
    monkeypatch.setattr(cuesta.tuning, "arguments_of", lambda program: [])
    monkeypatch.setattr(measure_unsure, "DOUBTED", -100.0)
    monkeypatch.setattr(cuesta.staging, "can_ask", lambda: True)
    traces: list[object] = []
    asked = Tuner.to_host

    def to_host(self: Tuner, program: ModuleOp) -> ModuleOp | None:
        traces.append(active_trace())
        return asked(self, program)

    monkeypatch.setattr(Tuner, "to_host", to_host)
    monkeypatch.setattr(cuesta.tuning, "cuda_timer", Clock(1.0, *[9.0] * 4))
    dump = Dump.create(str(here / "dumps"), "inference")
    options = {"cache": False, "trace": True, "dump": str(here)}
    compile_module(on_cuda(parse(EXP)), Options.parse("default", options), CompileRecord("inference"), dump)
    assert len(traces) > 1
    assert traces == [None] * len(traces)


def test_a_cpu_has_nothing_to_tune() -> None:
    clock = Clock(1.0, 2.0)
    options = Options(max_autotune=True, cache=False)
    record = CompileRecord(kind="inference")
    compiled = compile_module(parse(EXP), options, record)
    x = torch.randn(600, 300)
    assert torch.allclose(compiled([x])[0], x.exp())
    assert clock.asked == 0


def test_the_tuner_takes_the_stages_that_are_left() -> None:
    images, found = tuners_for(Options(max_autotune=True), default_stages(tune=True)).values()
    assert images.stages[0].name == "assign-layouts"
    names = [stage.name for stage in found.stages]
    assert names[0] == "sum-columns-with-rows"
    assert not any(name.startswith("tune-kernels") for name in names)
    assert isinstance(QUESTION[0], ModuleOp)


def test_what_is_asked_about_asks_nothing_itself_and_goes_through_the_stages_behind_who_asks() -> None:
    found = tuners_for(Options(), default_stages())
    assert list(found) == ["measure-layouts", "measure-parts", "measure-unsure"]
    images, first, second = ([stage.label for stage in tuner.stages] for tuner in found.values())
    assert images[0] == "assign-layouts" and images[-len(first) :] == first
    assert first[0] == "choose-parts" and second[0] == "nest-products" and first[-len(second) :] == second
    assert not {*images, *first} & {"measure-layouts", "measure-parts", "measure-unsure", "tune-kernels"}
    assert found["measure-parts"].log is found["measure-unsure"].log


def test_what_is_hopeless_is_not_run_again() -> None:
    """A library's kernel of last resort takes a second, where another takes a millisecond."""
    assert worth_timing([900.0, 1_000_000.0, 2_000.0, math.inf]) == [0, 2]
    assert worth_timing([5.0, 400.0]) == [0, 1], "the host may have been what was waited for"
    assert worth_timing([math.inf, math.inf]) == [] == worth_timing([])


def test_what_takes_long_is_run_seldom() -> None:
    times = (0.0, 10.0, 1_000.0, 50_000.0, 900_000.0)
    assert [rounds_for(together) for together in times] == [MOST, MOST, 20, FEWEST, 1]
