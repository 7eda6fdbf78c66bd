"""Random problems on random machines: what a schedule makes of a problem is what the problem means, whatever the GPU.

`make test` tries a few, `make test-thorough` more, `make fuzz-machines` as many as it is told.
"""

from __future__ import annotations

from unittest import mock

import pytest

from tests.fuzz import machines
from tests.fuzz.machines import Drawn, complaints, drawn

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.every(3)
def test_schedules_mean_the_same_on_every_machine(seed: int) -> None:
    one = drawn(seed)
    assert complaints(one) in ([], None), one


def test_problems_and_machines_are_of_many_kinds() -> None:
    every = [drawn(seed) for seed in range(60)]
    assert len({one.line.split("|")[1].split()[0] for one in every}) > 30
    assert len({str(one.facts) for one in every}) > 50


def test_another_program_is_found() -> None:
    """The host's program of another problem, of the same types, in the place of the right one."""
    one = Drawn("f32 40x30 | relu", {"processors": 2})
    assert complaints(one) == []
    lower = machines.to_host

    def another(module: machines.ModuleOp) -> machines.ModuleOp:
        text = machines.print_text(lower(module))
        assert "elem.lt" in text
        return machines.parse(text.replace("elem.lt", "elem.gt"))

    with mock.patch.object(machines, "to_host", another):
        found = complaints(one)
    assert found and "result 0" in found[0]
