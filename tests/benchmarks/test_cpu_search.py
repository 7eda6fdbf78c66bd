"""The search for cliffs on the CPU: what is drawn for it, what a row says, and what becomes of a program that hangs."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest
import torch

from benchmarks import cpu_run
from benchmarks.gpu import lines_of
from benchmarks.random_programs import DTYPES, EXTENTS, LAYOUTS, STEPS, Program, draw
from benchmarks.search import slowness


@pytest.mark.parametrize("kind", ["operator", "odd"])
def test_programs_for_a_processor_are_of_its_size(kind: str) -> None:
    extent = EXTENTS["cpu"]
    for seed in range(40):
        program = draw(kind, seed, "cpu")
        size = math.prod(program.sizes) * DTYPES[program.dtype].itemsize
        assert extent.fewest_bytes <= size <= extent.most_bytes
        assert Program.parse(str(program)) == program == draw(kind, seed, "cpu")


def test_odd_programs_have_every_type_layout_and_most_steps() -> None:
    programs = [draw("odd", seed, "cpu") for seed in range(600)]
    assert {program.dtype for program in programs} == set(DTYPES)
    assert {mark for program in programs for mark in program.marks} == {*LAYOUTS, "train"}
    assert len({name for program in programs for name, _ in program.steps}) > 0.9 * (len(STEPS) - 6)


def inputs_of(line: str) -> list[torch.Tensor]:
    _, inputs = Program.parse(line).case("cpu").make()
    return [one for one in inputs if isinstance(one, torch.Tensor)]


def test_the_lines_that_are_kept_are_programs() -> None:
    lines = lines_of(Path(cpu_run.__file__).with_name("cpu_cliffs.txt"))
    assert len(lines) == len(set(lines)) > 10
    assert all(Program.parse(line).made() and str(Program.parse(line)) == line for line in lines)


@pytest.mark.parametrize(
    ("mark", "strides"),
    [
        ("last", (210, 1, 42, 6)),
        ("reversed", (1, 4, 24, 120)),
        ("strided", (420, 70, 14, 2)),
        ("narrow", (300, 50, 10, 1)),
        ("expanded", (0, 35, 7, 1)),
    ],
)
def test_a_mark_says_how_the_input_lies(mark: str, strides: tuple[int, ...]) -> None:
    inputs = inputs_of(f"i8 4x6x5x7 {mark} | negate")
    assert [one.stride() for one in inputs] == [strides]
    assert inputs[0].shape == (4, 6, 5, 7)


def test_indices_are_inputs_within_their_bounds() -> None:
    x, source, index = inputs_of("f32 30x4 train | scatter_add 0")
    assert index.dtype == torch.int64 and index.shape == (30, 4) and int(index.max()) < 30
    assert x.requires_grad and source.requires_grad and not index.requires_grad


def test_a_row_says_the_times_and_what_eager_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_run, "SECONDS", 0.001)
    told: list[str] = []
    row = cpu_run.row_of("f32 50x30 reversed | sum 0", ["cuesta"], 1, 0.0, told.append)
    assert told == ["compiling and comparing cuesta", "measuring"]
    assert row["errors"] == {} and row["kernels"] == 1 and row["bytes"] == 4 * (50 * 30 + 30)
    assert min(row["eager_ms"], row["cuesta_ms"], row["copy_ms"]) > 0
    assert set(cpu_run.row_of("c64 50x30 | cummin 0", ["cuesta"], 1, 0.0, told.append)) == {"unsuitable"}


def test_what_is_slow_is_measured_twice_and_the_better_time_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([{"eager_ms": 1.0, "cuesta_ms": 3.0}, {"eager_ms": 2.0, "cuesta_ms": 1.0}])
    monkeypatch.setattr(cpu_run, "_times", lambda steps, threads: next(taken))
    row = cpu_run.row_of("f32 50x30 | relu", ["cuesta"], 1, 0.7, lambda stage: None)
    assert (row["eager_ms"], row["cuesta_ms"]) == (1.0, 1.0)


def test_what_any_call_costs_is_no_cliff() -> None:
    options = argparse.Namespace(below=0.7, part=0.0)
    assert not slowness({"eager_ms": 0.010, "cuesta_ms": 0.030, "call_ms": 0.020}, options)
    assert slowness({"eager_ms": 0.010, "cuesta_ms": 0.050, "call_ms": 0.020}, options).startswith("0.33")


@pytest.mark.slow
@pytest.mark.usefixtures("spawned")
def test_a_program_that_takes_too_long_is_stopped_and_the_next_one_runs() -> None:
    run = cpu_run.Run(argparse.Namespace(threads=1, below=0.0, skip_inductor=True, program_seconds=0.0))
    try:
        run.measure(["f32 8x8 | relu"])
        run.options.program_seconds = 60.0
        run.measure(["f32 8x9 | relu"])
    finally:
        run.stop()
    assert run.rows["f32 8x8 | relu"]["error"].startswith("it took longer than 0.0 s; at last: ")
    assert run.rows["f32 8x9 | relu"]["cuesta_ms"] > 0
