"""Dimensions of one element change no kernel. `make fuzz-ones` tries as many problems as it is told."""

from __future__ import annotations

from unittest import mock

import pytest

from cuesta.transforms.reductions import backward_readers
from tests.fuzz.ones import Problem, complaints, drawn

pytest.importorskip("triton")

FOUND = (
    Problem("f32", (3000, 32), "cumsum_back", (1,)),
    Problem("f32", (3000,), "cumsum_back", (0,)),
    Problem("f32", (3000, 662), "logsumexp", (0, 1)),
)
"""What the search has found."""
DRAWN = [problem for problem in map(drawn, range(60)) if problem is not None]


@pytest.mark.parametrize("problem", FOUND, ids=str)
def test_what_was_found_stays_mended(problem: Problem) -> None:
    assert complaints(problem) == []


@pytest.mark.parametrize("problem", DRAWN, ids=str)
@pytest.mark.every(4)
def test_kernels_are_those_without_dimensions_of_one_element(problem: Problem) -> None:
    assert complaints(problem) == []


def test_a_pattern_that_does_not_fire_is_found() -> None:
    plain = backward_readers._backwards

    def only_of_indices(load: object, *rest: object) -> object:
        places = load.map.results  # type: ignore[attr-defined]
        return None if 0 in places else plain(load, *rest)  # type: ignore[arg-type]

    with mock.patch.object(backward_readers, "_backwards", only_of_indices):
        assert complaints(FOUND[0])


def test_axes_move_with_what_comes_before_them() -> None:
    problem = Problem("f32", (3, 4), "sum", (0, 1))
    assert [str(one) for one in problem.variants()] == [
        "f32 1x3x4 | sum 1 2",
        "f32 3x1x4 | sum 0 2",
        "f32 3x4x1 | sum 0 1",
        "f32 3x4x1x1 | sum 0 1",
    ]
    assert len(DRAWN) > 10
