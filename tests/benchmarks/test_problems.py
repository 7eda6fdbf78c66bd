"""Problems of a folder are compiled, checked, measured and told, on the CPU."""

from __future__ import annotations

import json
import multiprocessing
import threading
from pathlib import Path

import pytest
import torch

from benchmarks import problem_worker, problems
from benchmarks.problem_worker import (
    Memory,
    Worker,
    case_of,
    check,
    distances,
    loaded,
    memory_of,
    problems_of,
    rounded_to_tf32,
)

SUM = """
import torch

class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim, self.weight = dim, torch.nn.Parameter(torch.randn(30))

    def forward(self, x):
        return (x * self.weight).sum(self.dim)

def get_init_inputs():
    return [1]

def get_inputs():
    return [torch.rand(40, 30)]
"""
ARGMAX = """
import os
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return x.relu(), (x + y).argmax(0)

def get_init_inputs():
    return []

def get_inputs():
    rows = 3 if os.environ.get("SMALL") else 300
    return [torch.randn(rows, 50), torch.randn(50)]
"""
BROKEN = SUM.replace("x * self.weight", "x * self.weigth")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"a_sum": SUM, "b_argmax": ARGMAX, "_common": "raise ValueError"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def memory(total: int, slots: int = 2) -> Memory:
    return Memory(total, multiprocessing.get_context("spawn"), slots)


def worker(folder: Path, dtype: str = "f32") -> Worker:
    return Worker(("cuesta",), problems_of(folder, []), "cpu", dtype, memory(2**40), 0)


def test_problems_are_the_files_of_a_folder_the_longest_first(folder: Path) -> None:
    assert len(SUM) > len(ARGMAX)
    assert list(problems_of(folder, [])) == ["a_sum", "b_argmax"]
    assert list(problems_of(folder, ["b_", "q"])) == ["b_argmax"]
    with pytest.raises(ValueError, match="has one of q in its name"):
        problems_of(folder, ["q"])
    with pytest.raises(SystemExit, match="no problem in"):
        problems.main([str(folder / "none")])


def test_a_problem_has_the_same_numbers_again(folder: Path) -> None:
    case = case_of("a_sum", loaded(folder / "a_sum.py"), "cpu", "bf16")
    first, second = ([*made.parameters(), *inputs] for made, inputs in (case.make(), case.make()))  # type: ignore
    assert len(first) == 2 and all(one.dtype == torch.bfloat16 for one in first)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_the_memory_of_a_problem_is_told_without_computing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_worker, "ROOM", 0)
    text = SUM.replace("(x * self.weight).sum(self.dim)", "x.exp().log().sum(self.dim)")
    (tmp_path / "large.py").write_text(text.replace("torch.rand(40, 30)", "torch.rand(2**20, 2**20)"))
    needed = memory_of(case_of("large", loaded(tmp_path / "large.py"), "cpu", "f32"))
    large, small = 4 * 2**40, 4 * 2**20
    # The input; two steps at once, with half as much for copies; and the exact result. The weight is small.
    assert needed == pytest.approx(large + 1.5 * 2 * large + small, rel=1e-6)


def test_a_process_waits_for_memory_until_it_is_there_or_nobody_is_at_anything() -> None:
    shared = memory(100)
    shared.hold(0, 10, 60)
    waiting = threading.Thread(target=shared.hold, args=(1, 5, 50), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    shared.hold(0, 20)  # done, and it keeps some
    waiting.join(10)
    assert not waiting.is_alive()
    shared.hold(1, 0)
    shared.hold(1, 0, 1000)  # more than there is, but nobody else needs any


def test_results_are_held_to_eager_s_distance_or_a_part_of_the_largest_number() -> None:
    exact = [torch.tensor([1.0, -200.0, torch.nan, torch.inf]), torch.tensor([1, 2, 3])]
    ours = [torch.tensor([1.0, -200.01, torch.nan, torch.inf]), torch.tensor([1, 2, 4])]
    off = distances(ours, exact)
    assert off == [pytest.approx(0.01, rel=1e-3), 1]
    with pytest.raises(AssertionError, match="result 1: 1 apart, 0 is allowed"):
        check(ours, exact, [0.0, 0.0], 1e-4)
    check(ours, exact, [0.0, 1.0], 1e-4)
    with pytest.raises(AssertionError, match=r"result 0: 0\.00999 apart, 0\.0066 is allowed"):
        check(ours, exact, [0.0022, 1.0], 1e-5)
    with pytest.raises(AssertionError, match="result 0: inf apart"):
        check([torch.tensor([1.0, torch.nan, torch.nan, torch.inf])], exact[:1], [0.0], 1e-4)
    with pytest.raises(AssertionError, match=r"\(3,\), not \(4,\)"):
        check([torch.ones(3)], exact[:1], [0.0], 1e-4)


def test_numbers_are_rounded_to_tf32() -> None:
    step = 2.0**-10
    given = [1 + step / 2, 1 + step / 2 - 2**-23, -1 - step / 2, 1 + step, 0.0, torch.inf, -torch.inf, 2.0**-126]
    expected = [1 + step, 1.0, -1 - step, 1 + step, 0.0, torch.inf, -torch.inf, 2.0**-126]
    assert rounded_to_tf32(torch.tensor(given)).tolist() == expected
    assert rounded_to_tf32(torch.tensor([torch.nan])).isnan().all()
    whole = torch.tensor([4097])
    assert rounded_to_tf32(whole) is whole


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_worker_compiles_checks_and_measures(folder: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_worker, "SECONDS", 0.001)
    one = worker(folder, dtype)
    row = one.compile("a_sum")
    size = 2 if dtype == "bf16" else 4
    assert row["errors"] == {} and row["kernels"] == 1 and row["bytes"] == size * (40 * 30 + 30) + 4 * 40
    assert one.kept == size * 30, "inputs are not kept"
    assert set(one.measure("a_sum")) == {"eager_ms", "cuesta_ms"}
    assert one.kept == 0 and not one.ready


def test_what_is_wrong_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(function: object, side: str) -> object:
        return lambda x: torch.zeros(40)

    monkeypatch.setattr(problem_worker, "compiled", other)
    assert worker(folder).compile("a_sum")["errors"]["cuesta"].startswith("wrong: result 0")


def test_a_problem_that_lacks_memory_is_tried_again_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = worker(folder)
    make, asked = one._compiled, []

    def once(case: problem_worker.Case) -> object:
        asked.append(list(one.memory._more))
        if len(asked) == 1:
            raise torch.OutOfMemoryError("no")
        return make(case)

    monkeypatch.setattr(one, "_compiled", once)
    assert one.compile("a_sum")["errors"] == {}
    assert asked[0][0] < 2**33 and asked[1][0] == 2**40


@pytest.mark.slow
@pytest.mark.usefixtures("spawned")
def test_the_command(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "b_broken.py").write_text(BROKEN)
    path = tmp_path / "found.json"
    common = [str(folder), "--device", "cpu", "--skip-inductor", "--workers", "1", "--json", str(path)]
    problems.main([*common, "--seconds", "300"])
    told = capfd.readouterr().out
    assert "a vs eager" in told and "b vs the better of both" in told
    assert "not run: 1 ['b_broken']" in told and "wrong or failed in Cuesta: 0 []" in told
    rows = json.loads(path.read_text())["rows"]
    assert rows["a_sum"]["cuesta_ms"] > 0 and rows["a_sum"]["copy_ms"] > 0 and "weigth" in rows["b_broken"]["error"]
    problems.main([*common, "--seconds", "0"])
    assert "not run: 3 ['a_sum', 'b_argmax', 'b_broken']" in capfd.readouterr().out
