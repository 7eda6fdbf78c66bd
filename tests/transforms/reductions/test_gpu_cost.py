"""Which rows are computed in parts on a GPU, by the cost model; and that every byte and program moves the choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuesta.dialects.core.machine import REFERENCE
from cuesta.transforms.reductions import gpu_cost
from cuesta.transforms.reductions.gpu_cost import Rows
from cuesta.transforms.reductions.when import WORTH

MACHINE = REFERENCE
ELEMENTS = 2**26


def softmax(columns: int, width: int = 4) -> Rows:
    """A softmax of about 2²⁶ elements: three stages, the last of which stores."""
    rows = ELEMENTS // columns
    total = rows * columns
    aligned = columns * width % 16 == 0
    return Rows(rows, columns, total, total * width, total * width, stages=3, after=1, aligned=aligned)


def is_split(rows: Rows) -> bool:
    return gpu_cost.of_parts(rows, MACHINE) <= WORTH * gpu_cost.of_whole_rows(rows, MACHINE)


@pytest.mark.parametrize(("columns", "split"), [(128, False), (4096, False), (32768, False), (400_000, True)])
@pytest.mark.parametrize("width", [2, 4])
def test_rows_that_a_tile_holds_stay_whole_and_long_ones_are_split(columns: int, split: bool, width: int) -> None:
    assert is_split(softmax(columns, width)) == split


def test_what_an_h200_showed() -> None:
    assert is_split(softmax(65535))  # 0.48 of copy whole, 0.63 in parts
    assert is_split(softmax(65535, 2))
    assert not is_split(softmax(65536))  # group norm: 0.70 whole, 0.66 in parts
    assert is_split(softmax(2**22))  # layer norm of 16 rows: 0.18 whole, 0.65 in parts


def test_few_rows_of_any_length_that_pays_a_launch_are_split() -> None:
    few = replace(softmax(2**22), programs=1)
    assert gpu_cost.of_whole_rows(few, MACHINE) > 10 * gpu_cost.of_parts(few, MACHINE)
    elements = 64 * 40_000  # which 64 programs read in the time of two launches
    assert not is_split(Rows(64, 40_000, elements, 4 * elements, 4 * elements, stages=3, after=1))


def test_several_tensors_that_stages_share_do_not_fit_one_tile() -> None:
    one = softmax(32768)
    assert gpu_cost.of_whole_rows(replace(one, kept=2), MACHINE) > gpu_cost.of_whole_rows(one, MACHINE)


def test_parallelism() -> None:
    assert gpu_cost.parallelism(16, MACHINE) == pytest.approx(2 * 16 / 132)
    assert gpu_cost.parallelism(132, MACHINE) == 1
    assert gpu_cost.parallelism(198, MACHINE) < 0.8
    assert gpu_cost.parallelism(10_000, MACHINE) == 1


@pytest.mark.parametrize(
    ("points", "size", "rows", "part"),
    [
        (65536, 2100225, 18, 73728),  # 594 programs, 66 of which the others wait for
        (131072, 1000000, 100, 77824),
        (65536, 1 << 26, 1, 65536),  # full parts of 1024 programs
        (8192, 8192 * 17 + 1, 300, 8192),  # one tile
    ],
)
def test_parts_are_so_long_that_all_processors_are_at_work(points: int, size: int, rows: int, part: int) -> None:
    assert gpu_cost.filled(points, size, rows, MACHINE) == part


def test_parts_are_about_as_long_as_was_asked_for() -> None:
    for size in range(1_000_000, 9_000_000, 333_333):
        for rows in (1, 3, 7, 40):
            part = gpu_cost.filled(65536, size, rows, MACHINE)
            assert 32768 < part <= 131072 and (part == 65536 or part % gpu_cost.WALKED == 0)
