"""Sets of indices, against sets that Python counts."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from cuesta.explain.index_sets import Part, Touched, clipped, stretch, union_of


@pytest.mark.parametrize("seed", range(60))
def test_a_stretch_is_what_a_linear_expression_gives(seed: int) -> None:
    drawn = random.Random(seed)
    terms = [(drawn.choice([-8, -3, -1, 1, 2, 3, 4, 8, 12]), drawn.randint(1, 5)) for _ in range(drawn.randint(0, 3))]
    constant = drawn.randint(-5, 5)
    points = itertools.product(*(range(count) for _, count in terms))
    wanted = {constant + sum(step * i for (step, _), i in zip(terms, point, strict=True)) for point in points}
    found = stretch(terms, constant)
    if found is not None:
        assert set(found) == wanted
        assert set(clipped(found, 7)) == {value for value in wanted if 0 <= value < 7}
    else:
        steps = np.diff(sorted(wanted))
        assert len(set(steps)) > 1, "an even stretch was not seen"


def test_no_points_are_no_stretch() -> None:
    assert stretch([(1, 0), (2, 3)], 5) == range(0)


@pytest.mark.parametrize("seed", range(60))
def test_a_union_counts_every_element_once(seed: int) -> None:
    drawn = random.Random(seed)
    rows, columns = drawn.randint(1, 9), drawn.randint(1, 9)
    every: list[Touched] = []
    wanted: set[tuple[int, ...]] = set()
    for _ in range(drawn.randint(1, 6)):
        parts: list[Part] = []
        chosen: list[list[int]] = []
        for axis, size in enumerate((rows, columns)):
            if drawn.random() < 0.6:
                start = drawn.randrange(size)
                values = range(start, drawn.randint(start, size), drawn.randint(1, 2))
                values = range(values.start, values.start + values.step * len(values), values.step)
                parts.append(Part((axis,), values, len(values), len(values) == size))
            else:
                picked = sorted(drawn.sample(range(size), drawn.randint(0, size)))
                parts.append(Part((axis,), np.array(picked, dtype=np.int64), len(picked), len(picked) == size))
            found = parts[-1].indices
            assert found is not None
            chosen.append([int(value) for value in found])
        every.append(Touched(tuple(parts)))
        wanted |= set(itertools.product(*chosen))
    assert union_of(every, rows * columns) == (len(wanted), True)


def test_what_is_not_known_to_overlap_is_said() -> None:
    some = Touched((Part((0,), None, 3, False),))
    others = Touched((Part((0,), None, 4, False),))
    assert union_of([some, others], 100) == (7, False)
    assert union_of([some, others], 5) == (5, False)
    assert union_of([], 5) == (0, True)
