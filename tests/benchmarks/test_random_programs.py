"""Random problems as lines: they say what they are, run as they say, and become smaller."""

from __future__ import annotations

import argparse
import random

import pytest
import torch

import cuesta
from benchmarks import gpu
from benchmarks.case import Prepared
from benchmarks.random_programs import ALL_KINDS, DTYPES, KINDS, Program, Unsuitable, draw
from benchmarks.random_steps import USUAL_STEPS
from benchmarks.search import programs, shrunk, slowness
from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_line_says_the_program(kind: str) -> None:
    for seed in range(6):
        program = draw(kind, seed)
        assert Program.parse(str(program)) == program == draw(kind, seed)
        assert len(program.made()) == len(program.steps)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("f32", "does not begin with a type"),
        ("f12 3x4 | relu", "does not begin with a type"),
        ("f32 3x4 lost | relu", "does not begin with a type"),
        ("f32 3xy | relu", "invalid literal"),
        ("f32 3x4 | relux", "there is no step 'relux'"),
    ],
)
def test_what_is_no_program_is_told(line: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Program.parse(line)


@pytest.mark.parametrize(
    "line", ["f32 3x4 | sum 2", "f32 3x4 | conv 8 3 1 1 0", "f32 3x4 | argmax 0 | relu", "f32 3 | part 0 5 1"]
)
def test_what_does_not_go_together_is_unsuitable(line: str) -> None:
    with pytest.raises(Unsuitable):
        Program.parse(line).made()


def test_smaller_programs_are_smaller_and_run() -> None:
    program = Program.parse("f32 8x6x9x16 last train | conv 4 3 1 1 1 | relu | mean 2 3")
    smaller = [str(one) for one in program.smaller()]
    assert "f32 8x6x9x16 last train | conv 4 3 1 1 1 | relu" in smaller
    assert "f32 8x6x9x16 train | conv 4 3 1 1 1 | relu | mean 2 3" in smaller
    assert "f32 8x6x5x16 last train | conv 4 3 1 1 1 | relu | mean 2 3" in smaller, "what is odd stays odd"
    assert all(Program.parse(one).made() for one in smaller)


def options(**given: object) -> argparse.Namespace:
    standard = {
        "below": 0.9,
        "part": 0.5,
        "shrink_seconds": 60.0,
        "seconds": 60.0,
        "lines": [],
        "file": None,
        "seeds": "0-1",
    }
    return argparse.Namespace(**{**standard, "kinds": "operator", "skip_inductor": True, "texts": None, **given})


def test_a_cliff_is_slower_than_the_better_of_both_or_than_memory() -> None:
    chosen = options()
    assert slowness({"eager_ms": 1.0, "inductor_ms": 2.0, "cuesta_ms": 2.0}, chosen).startswith("0.50 of the better")
    assert slowness({"eager_ms": 2.0, "cuesta_ms": 2.0, "copy_ms": 0.5}, chosen).startswith("0.25 of copy")
    assert not slowness({"eager_ms": 2.0, "cuesta_ms": 2.0, "copy_ms": 0.5, "library_calls": 1}, chosen)
    assert not slowness({"error": "it did not run"}, chosen)


def test_the_search_finds_the_smallest_program_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    run = gpu.Run(options())

    def compile_all(names: list[str], *, fresh: bool) -> None:
        for name in names:
            slow = "argmax" in name and Program.parse(name).sizes[0] >= 100
            run.rows[name] = {"eager_ms": 1.0, "cuesta_ms": 3.0 if slow else 1.0}

    monkeypatch.setattr(run, "compile_all", compile_all)
    line = "f32 512x64 train | relu | tanh | argmax 1"
    found = shrunk(run, [line], options())
    assert found == {line: "f32 128x2 | argmax 1"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kinds": "operators"}, "there is no 'operators'"),
        ({"seeds": "1-x"}, "neither a number nor two"),
        ({"lines": ["f32 3 | foo"]}, "there is no step 'foo'"),
        ({"file": "/no/such/file"}, "No such file"),
    ],
)
def test_wrong_options_of_the_search_are_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(SystemExit, match=told):
        programs(options(**given))


def test_the_lines_of_cliffs_are_programs() -> None:
    lines = gpu.lines_of(gpu.CLIFFS)
    assert len(lines) == len(set(lines)) > 10
    assert all(Program.parse(line).made() and str(Program.parse(line)) == line for line in lines)


# -- what they compute -------------------------------------------------------------------------------------------------


def tiny(program: Program) -> Program:
    """With sizes that an interpreter can go through, odd and even, and f32."""
    rng = random.Random(str(program))
    sizes = tuple(1 if size == 1 else rng.choice((2, 3, 5, 8, 17, 33)) for size in program.sizes)
    while torch.Size(sizes).numel() > 4000:
        sizes = tuple(max(1, size // 2) for size in sizes)
    steps = tuple(
        (name, (4, *rest[1:]) if name in ("conv", "upconv") and rest[0] else rest) for name, rest in program.steps
    )
    return Program("f32", sizes, program.marks, steps)


def small_programs(kind: str, seeds: range) -> list[Program]:
    found: list[Program] = []
    for seed in seeds:
        program = tiny(draw(kind, seed))
        try:
            if all(DTYPES[program.dtype].is_floating_point for _ in program.made()):
                found.append(program)
        except Unsuitable:
            continue
    return found


def check(program: Program) -> None:
    prepared = Prepared(program.case("cpu"))
    training = prepared.case.training and torch.is_floating_point(prepared.call(prepared.function))
    compiled = torch.compile(prepared.function, backend="cuesta", dynamic=False)
    assert_close_to_float64(compiled, prepared.function, prepared.inputs, gradients=training)


SEEDS = [
    range(3),
    pytest.param(range(3, 11), marks=pytest.mark.slow),
    pytest.param(range(11, 200), marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("kind", ["operator", "neighbourhood", "odd"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_small_ones_on_the_processor(kind: str, seeds: range) -> None:
    for program in small_programs(kind, seeds):
        torch._dynamo.reset()
        cuesta.clear_records()
        check(program)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["operator", "neighbourhood"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_small_ones_as_triton_kernels(kind: str, seeds: range) -> None:
    for program in small_programs(kind, seeds):
        with interpreted_cuda():
            check(program)


@pytest.mark.slow
def test_every_step_is_drawn() -> None:
    """Most of them, by sixty programs of each kind at the latest."""
    drawn: set[str] = set()
    for seed in range(60):
        drawn |= {name for kind in KINDS for name, _ in draw(kind, seed).steps}
        if len(drawn) > 0.8 * len(USUAL_STEPS):
            return
    pytest.fail(f"{len(drawn)} of {len(USUAL_STEPS)} steps were drawn")
