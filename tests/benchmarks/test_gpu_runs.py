"""What the benchmark on a CUDA device does around its processes, which need one."""

from __future__ import annotations

import argparse

import torch

from benchmarks.case import Case, Prepared
from benchmarks.contraction_cases import contraction_cases
from benchmarks.gpu import Run, is_large
from benchmarks.gpu_worker import moving_step


def test_what_runs_with_cuda_graphs_joins_the_row_of_its_case() -> None:
    options = argparse.Namespace(skip_inductor=False, seconds=60.0)
    run, graphs = Run(options), Run(options, "-graphs")
    assert graphs.sides == ["inductor-graphs", "cuesta-graphs"]
    run.rows = {"a": {"errors": {}, "eager_ms": 3.0, "cuesta_ms": 2.0}, "b": {"error": "died"}, "c": {"errors": {}}}
    graphs.rows = {
        "a": {"errors": {"inductor-graphs": "no"}, "eager_ms": 9.0, "cuesta-graphs_ms": 1.0},
        "b": {"errors": {}, "inductor-graphs_ms": 4.0},
        "c": {"error": "not compiled in time"},
    }
    run.add(graphs)
    expected = {"eager_ms": 3.0, "cuesta_ms": 2.0, "cuesta-graphs_ms": 1.0, "errors": {"inductor-graphs": "no"}}
    assert run.rows["a"] == expected
    assert run.rows["b"] == {"error": "died", "errors": {}, "inductor-graphs_ms": 4.0}
    assert run.rows["c"]["errors"] == {"cuesta-graphs": "not compiled in time"}


def test_a_program_is_large_by_the_bytes_of_its_input() -> None:
    assert is_large("bf16 16384x8192 | relu")
    assert not is_large("bf16 16384x8191 | relu")
    assert is_large("f32 8192x8192 | relu")


def test_inputs_that_move_hold_the_same_and_lie_elsewhere_from_call_to_call() -> None:
    seen: list[tuple[int, float]] = []

    def function(x: torch.Tensor, factor: float) -> None:
        seen.append((x.data_ptr(), float(x.sum()) * factor))

    prepared = Prepared(Case("a", lambda: (function, (torch.ones(3), 2.0))))
    step = moving_step(prepared, function)
    for _ in range(4):
        step()
    places = [place for place, _ in seen]
    assert places[0] == places[2] != places[1] == places[3]
    assert {value for _, value in seen} == {6.0}


def test_products_attention_and_a_loss_are_rows() -> None:
    """None of them moves its bytes only, and what a name says of training the case does."""
    cases = contraction_cases()
    assert {name.partition(",")[0].split()[0] for name in cases} == {*("attention", "product", "convolution", "loss")}
    assert len({name.partition(",")[2].split(" 1")[0] for name in cases if name.startswith("product")}) == 11
    assert sum(name.startswith("convolution, ") for name in cases) >= 12
    for name, case in cases.items():
        assert (case.name, case.training, case.bound) == (name, "trained" in name, "arithmetic")


class Answering:
    """A process that measures what it is asked to, but for one case, at which it never ends."""

    def __init__(self) -> None:
        self.process = argparse.Namespace(kill=self.kill)
        self.alive = True

    def kill(self) -> None:
        self.alive = False

    def ask(self, verb: str, name: str, seconds: float) -> dict[str, object]:
        if not self.alive:
            return {"error": "the process died"}
        return {"error": f"no answer in {seconds} s"} if name == "endless" else {"cuesta_ms": 1.0}


def test_who_gives_no_answer_gives_none_later_and_after_the_time_nothing_is_measured() -> None:
    run = Run(argparse.Namespace(skip_inductor=True, seconds=60.0))
    one, other = Answering(), Answering()
    cases = {"first": one, "endless": one, "behind it": one, "elsewhere": other}
    run.owners = cases  # pyright: ignore[reportAttributeAccessIssue]
    run.rows = {name: {} for name in cases}
    run.measure_all()
    assert run.rows["first"] == run.rows["elsewhere"] == {"cuesta_ms": 1.0}
    assert run.rows["behind it"] == {"error": "the process died"} and not one.alive
    run.end = 0.0
    run.rows = {name: {} for name in cases}
    run.measure_all()
    assert all(row == {"error": "no time left"} for row in run.rows.values())
