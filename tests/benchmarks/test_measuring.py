"""What the benchmark measures is what it says it measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks import timing
from benchmarks.case import Case, Prepared
from benchmarks.fused import CASES
from benchmarks.measure import REFUSED, checked
from benchmarks.memory import fresh_peak, kept_tensors, resident, rewind_peak
from benchmarks.session import Session
from benchmarks.tables import CASES as ALL
from benchmarks.tables import SETS


def halved(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


def vector(*, gradient: bool = False) -> tuple[torch.Tensor]:
    return (torch.randn(1000, requires_grad=gradient),)


def test_names_are_unique() -> None:
    assert len(ALL) == sum(map(len, SETS.values()))


def test_a_case_has_the_same_numbers_at_every_making() -> None:
    case = Case("halved", lambda: (halved, vector()))
    first, second = Prepared(case).tensors(), Prepared(case).tensors()
    assert torch.equal(first[0], second[0])


def test_bytes_of_inference_are_inputs_and_outputs() -> None:
    assert Prepared(Case("halved", lambda: (halved, vector()))).bytes_moved() == 8000


def test_bytes_of_an_input_written_to_count_twice() -> None:
    def add_in_place(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)

    case = Case("in place", lambda: (add_in_place, (*vector(), *vector())))
    assert Prepared(case).bytes_moved() == 12000


def test_bytes_of_an_expanded_input_are_those_in_memory() -> None:
    case = Case("expanded", lambda: (halved, (torch.ones(10, 1).expand(10, 100),)))
    assert Prepared(case).bytes_moved() == 40 + 4000


def test_bytes_of_training_hold_both_passes() -> None:
    """Forward reads x and writes y; backward reads x and the cotangent, and writes the gradient."""
    case = Case("halved", lambda: (halved, vector(gradient=True)), training=True)
    assert Prepared(case).bytes_moved() == 5 * 4000


def test_a_copy_moves_as_many_bytes() -> None:
    target = timing.copy_of(4096)()
    assert isinstance(target, torch.Tensor) and 2 * target.nbytes == 4096


def test_sides_are_sampled_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(timing, "_waited", lambda: 0.0)
    order: list[str] = []
    sides: dict[str, Callable[[], object]] = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    samples = timing.in_turns(sides, 0.0)
    assert {name: len(values) for name, values in samples.milliseconds.items()} == {"a": 7, "b": 7}
    # After five calls of each to warm up and to see what it costs: one call untimed and one timed, beginning in turns.
    assert "".join(order[10:18]) == "aabbbbaa"


@pytest.mark.parametrize(("disturbed_until", "kept", "busy"), [(4, 7, False), (10**9, 21, True)])
def test_disturbed_rounds_are_left_out(
    monkeypatch: pytest.MonkeyPatch, disturbed_until: int, kept: int, busy: bool
) -> None:
    """Each reading of the clock of waiting shows a second more, up to a time."""
    readings = iter(range(10**6))
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(timing, "_waited", lambda: float(min(next(readings), 4 + disturbed_until)))
    samples = timing.in_turns({"only": lambda: None}, 0.0)
    assert (len(samples.milliseconds["only"]), samples.kept_disturbed) == (kept, busy)
    assert samples.disturbed == (21 if busy else 2)


def test_a_wrong_result_is_told() -> None:
    prepared = Prepared(Case("halved", lambda: (halved, vector())))
    assert checked(prepared, halved)["problem"] is None
    problem = checked(prepared, lambda x: x * 0.501)["problem"]
    assert problem is not None and problem.startswith("wrong: 1 of ")


def test_a_refused_graph_is_told() -> None:
    """The text is that of the compiler's warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.compile(halved, backend="cuesta")(torch.empty(3, device="meta"))
    assert any(str(warning.message).startswith(REFUSED) for warning in caught)

    def refusing(x: torch.Tensor) -> torch.Tensor:
        warnings.warn(f"{REFUSED}: for some reason", stacklevel=1)
        return halved(x)

    problem = checked(Prepared(Case("halved", lambda: (halved, vector()))), refusing)["problem"]
    assert problem == f"refused: {REFUSED}: for some reason"


def test_the_peak_is_of_what_is_gone_again() -> None:
    before = resident()
    rewind_peak()
    torch.ones(2**26).sum()
    grown = fresh_peak() - before
    assert 2**28 * 0.95 < grown < 2**28 * 1.2


def test_kept_tensors_are_found() -> None:
    before = kept_tensors([])
    known, kept = torch.ones(1000), torch.ones(3000)
    assert kept_tensors([known]) - before == kept.nbytes


@pytest.mark.slow
def test_a_case_that_fails_does_not_stop_the_rest(tmp_path: Path) -> None:
    session = Session(sides=("cuesta",), device="cpu", seconds=0.01, inductor_cache=tmp_path)
    results = dict(session.run(["no such case", "tiny"]))
    assert "KeyError: 'no such case'" in results["no such case"]["error"]
    assert results["tiny"]["problem"] is None and results["tiny"]["cuesta_ms"] > 0


WITH_SUITE = {"cat-relu-scale", "softmax", "average-pool", "cross-entropy-training", "tiny"}
"""Cases that run with the suite, beside `make test-thorough`: they are large, and the benchmark itself checks each."""
assert {case.name for case in CASES} >= WITH_SUITE


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.slow if case.name in WITH_SUITE else pytest.mark.thorough)
        for case in CASES
    ],
)
def test_workloads_are_right(case: Case) -> None:
    torch._dynamo.reset()
    prepared = Prepared(case)
    with torch.set_grad_enabled(case.training):
        assert checked(prepared, torch.compile(prepared.function, backend="cuesta", fullgraph=True))["problem"] is None
