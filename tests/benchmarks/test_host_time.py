"""What a step costs the host is what its table says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks import gpu, host_time
from benchmarks.gpu import Run, host_lines, side_table
from benchmarks.training_models import Sizes, made


def test_sides_take_turns_and_the_time_between_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only steps and what is between them move."""
    now = [0.0]
    order: list[str] = []
    monkeypatch.setattr(host_time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(host_time, "WARM_UP", 1)

    def step(name: str, seconds: float) -> Callable[[], None]:
        def call() -> None:
            order.append(name)
            now[0] += seconds

        return call

    sides = {"a": step("a", 2e-6), "b": step("b", 5e-6)}
    found = host_time.host_samples(sides, step("-", 1.0), rounds=3)
    assert {name: round(value, 3) for name, value in found.items()} == {"a": 2.0, "b": 5.0}
    assert "".join(order) == "-a-b-b-a-a-b-b-a-"


def test_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    taken = iter((9e-6, 1e-6, 2e-6, 50e-6))
    monkeypatch.setattr(host_time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(host_time, "WARM_UP", 1)

    def step() -> None:
        now[0] += next(taken)

    assert host_time.host_samples({"only": step}, lambda: None, rounds=3)["only"] == pytest.approx(2.0)


def test_the_table_has_ratios_and_gaps() -> None:
    rows = {"one": {"eager": 30.0, "inductor": 12.0, "cuesta": 10.0}, "two": {"eager": 5.0}}
    assert side_table("us", rows, ["eager", "inductor", "cuesta"]) == [
        "us      eager  inductor    cuesta     vs eager  vs inductor",
        "one        30        12        10         3.00         1.20",
        "two         5         -         -            -            -",
    ]


def test_an_error_is_told_and_what_is_left_out_is_not() -> None:
    assert host_lines({}, ["eager", "cuesta"]) == []
    launches = {"cuesta": {"us_per_launch": 4.0}}
    lines = host_lines({"launches": launches, "steps": {"error": "no answer in 600 s"}}, ["eager", "cuesta"])
    assert lines[1:] == ["host time of a step: no answer in 600 s"]
    lines = host_lines(
        {"launches": launches, "steps": {"mlp forward": {"eager": 2.0, "cuesta": 1.0}}}, ["eager", "cuesta"]
    )
    assert lines[0] == 'host cost of a launch: {"cuesta": {"us_per_launch": 4.0}}'
    assert lines[2].split() == ["mlp", "forward", "2", "1", "2.00"]


class FakeProcess:
    """A worker that is alive, or becomes ready, and answers with what it was asked."""

    def __init__(self, alive: bool) -> None:
        self.process = argparse.Namespace(is_alive=lambda: alive)
        self.pipe = argparse.Namespace(poll=lambda seconds: True, recv=self.read)
        self.was_read = False

    def read(self) -> dict[str, Any]:
        self.was_read = True
        return {}

    def ask(self, verb: str, name: str, seconds: float = 1) -> dict[str, Any]:
        return {"asked": verb}


@pytest.mark.parametrize("alive", [True, False])
def test_host_times_are_asked_of_a_process_that_lives(monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    """Where none does, a new one is started, whose first message says that it is ready."""
    run = Run(argparse.Namespace(skip_inductor=True, texts=None, seconds=60.0))
    fresh = FakeProcess(True)
    monkeypatch.setattr(gpu, "Process", lambda sides, texts: fresh)
    run.processes = [FakeProcess(alive)]  # pyright: ignore[reportAttributeAccessIssue]
    assert run.host_costs() == {"launches": {"asked": "launch costs"}, "steps": {"asked": "host times"}}
    assert fresh.was_read is not alive


@pytest.mark.slow
def test_every_model_is_timed_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_time, "WARM_UP", 1)
    monkeypatch.setattr(host_time, "SMALL", {**host_time.SMALL, "mlp": Sizes(layers=2, width=64, batch=8)})

    def compiled(function: Callable[..., object], side: str) -> Callable[..., object]:
        return torch.compile(function, backend=side, dynamic=False)

    found = host_time.host_times(["cuesta"], compiled, "cpu", rounds=2)
    assert list(found) == [f"{name} {kind}" for name in ("mlp", "gpt2") for kind in ("forward", "training step")]
    assert all(set(row) == {"eager", "cuesta"} and min(row.values()) > 0 for row in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(host_time.SMALL))
def test_models_have_the_same_weights_and_inputs_of_the_seed(name: str) -> None:
    (one, inputs), (two, other) = (made(name, host_time.SMALL[name], "cpu", seed=seed) for seed in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not any(torch.equal(inputs[key], other[key]) for key in inputs)


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(FakeProcess):
        def read(self) -> dict[str, Any]:
            raise EOFError

    run = Run(argparse.Namespace(skip_inductor=True, texts=None, seconds=60.0))
    monkeypatch.setattr(gpu, "Process", lambda sides, texts: Dying(True))
    lines = host_lines(run.host_costs(), ["eager", "cuesta"])
    assert lines[1] == "host time of a step: the process died: EOFError()"
