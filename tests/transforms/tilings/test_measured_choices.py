"""Nests that were chosen otherwise once, and took 1.3 to 2.9 times as long on an H200 (`make bench-gpu-schedules`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import analysed, nests_in, traced
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.dialects.loops.split_axes import usual_step
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.lowering.schedule.gpu.schedule_gpu import choose
from cuesta.lowering.schedule.schedule import Schedule
from cuesta.transforms.tilings.cost import TileCosts
from cuesta.transforms.tilings.times import time_of
from tests.support.triton_interpreter import parse


def large(line: str) -> NestAnalysis:
    """The nest of a program that has the most points."""
    every = nests_in(on_cuda(import_graph(traced(line, "cpu")).module))
    return max((analysed(one) for one in every), key=lambda one: math.prod(map(one.estimate, one.sizes)))


def programs(analysis: NestAnalysis, schedule: Schedule) -> int:
    sizes = {axis.axis: analysis.estimate(analysis.sizes[axis.axis]) for axis in schedule.parallel}
    return math.prod(-(-sizes[axis.axis] // (axis.tile or 1)) for axis in schedule.parallel)


def tile(schedule: Schedule) -> int:
    """The elements of a program."""
    inner = max((lanes for _, lanes in schedule.loops.values()), default=1)
    return math.prod(axis.tile or 1 for axis in schedule.parallel) * inner


CHOICES: dict[str, Callable[[NestAnalysis, Schedule], bool]] = {
    # A processor begins a program in 158 clocks: 279,308 programs of one row took 172 us, tiles of all rows 75.
    "bf16 279308x3x81x1 | roll 0": lambda nest, one: programs(nest, one) < 100_000,
    # 262,144 programs: 163 us, and 104.
    "f32 262144x63x1x3x2 | amin_kept 1": lambda nest, one: programs(nest, one) < 200_000,
    # Warps that exchange what they came to, for each pixel: 335 us, and 115.
    "bf16 2x4096x513x13 last | layer_norm": lambda nest, one: one.choices["warps"] == 1,
    # Subroutines, for which the elements of a thread wait one after the other: 77 us, and 40.
    "f32 2x131071x3x4x3 | l2_norm 3": lambda nest, one: tile(one) <= 8 * 32 * int(one.choices["warps"]),
    # Columns that fill no sector: 220 us in tiles of 32 columns, and 129 of 8.
    "f32 1x3x8193x2048x2 | argmin 3": lambda nest, one: max(axis.tile or 1 for axis in one.parallel) <= 8,
    # An index that goes around once moves like any other: lanes along both sides, 582 us, and 260.
    "f32 153x2047x1x404 last | roll 1": lambda nest, one: len([a for a in one.parallel if (a.tile or 1) > 16]) == 2,
    # 15 warps of a processor that go down columns one by one: 19 us, in tiles of 32 points 10; and 10 since they read
    # for several points at a time.
    "f32 27x98304 | cumsum 0": lambda nest, one: max(lanes for _, lanes in one.loops.values()) == 1,
    # Windows that share nothing, and where memory is the limit: 122 us, and 92; 60 and 45.
    "f32 428x16x1025x12 last | max_pool 4 4 2": lambda nest, one: not one.slides,
    "f32 1024x2x33x256 | max_pool 2 1 0": lambda nest, one: not one.slides,
    "bf16 64x16x4096 | max_pool 4 2 2": lambda nest, one: not one.slides,
    # Windows that share elements are no rows of an odd length: 64 us, and 30.
    "f32 2x1x4194305 | max_pool 11 2 3": lambda nest, one: not one.loops or tile(one) < 4096,
    # Ten rows read the same four, and when the next one begins no cache has them any more: 113 us, and 61.
    "f32 10x2097151 | batch_norm": lambda nest, one: len([a for a in one.parallel if (a.tile or 1) >= 8]) == 2,
    # Programs of 32 warps, which have more registers than is thought, are alone on a processor: 1385 us, and 473.
    "bf16 10x48x512x512 last | softmax 3": lambda nest, one: int(one.choices["warps"]) <= 16,
    # 33 points of the last axis are half a tile of 64: 75 us, and 39 with lanes along three axes as one.
    "bf16 33x5x40000x3 | permute 3 2 1 0": lambda nest, one: sorted(a.tile or 1 for a in one.parallel)[-2:] > [4, 128],
    "f32 45x7x20000x4 | permute 3 2 1 0": lambda nest, one: sorted(a.tile or 1 for a in one.parallel)[-2:] > [4, 64],
    # Lanes go down their columns by themselves: 17.0 us in a tile of all points, 10.5 in steps of eight, and 9.6.
    "bf16 2x2x33x65536 | mean_kept 0 2": lambda nest, one: tile(one) == 128 and one.choices["warps"] == 1,
    # 256 short columns: 208 us, and 162.
    "f32 64x8193x8x19x1 | rms_norm 2": lambda nest, one: tile(one) == 512 and one.choices["warps"] == 4,
    # 145 programs take as long as 264: 12.2 us, and 8.
    "f32 3x8193x26x3 | argmin 2": lambda nest, one: not 132 < programs(nest, one) < 250,
}


@pytest.mark.parametrize("line", CHOICES)
def test_what_was_measured_is_chosen(line: str) -> None:
    nest = large(line)
    schedule = choose(nest, REFERENCE)
    assert CHOICES[line](large(line), schedule), schedule


def test_windows_that_share_much_still_slide() -> None:
    assert choose(large("f32 8x96x64x64x16 | max_pool 3 1 1"), REFERENCE).slides


def test_windows_with_edges_slide_where_they_overlap() -> None:
    """Points alone took 335 us on an H200, 271 sliding; averages of three 274 and 255."""
    for line in ("f32 32x64x256x256 | max_pool 2 1 1", "f32 64x128x16384 | avg_pool 3 1 1"):
        assert choose(large(line), REFERENCE).slides


def test_gradients_of_pooling_slide() -> None:
    """Four places of each point are compared: 329 us on an H200 when they do not, 133 when they do."""
    every = nests_in(on_cuda(import_graph(traced("bf16 64x64x112x112 train | max_pool 3 2 1", "cpu")).module))
    sliding = [choose(analysed(one), REFERENCE).slides for one in every]
    assert sliding == [True, True], "the forward pass, and the backward pass"


def test_programs_begin_one_after_the_other() -> None:
    """Nothing else that many small programs do hides it; few do not notice."""
    costs = TileCosts(large("bf16 279308x3x81x1 | roll 0"), REFERENCE)
    rows = costs.counts({"along": 1, "lanes": 256, "warps": 1})
    assert time_of(rows, REFERENCE) * REFERENCE.processors * 1980 > 158 * rows.programs
    half = costs.counts({"along": 1, "lanes": 256, "warps": 2})
    assert time_of(half, REFERENCE) == time_of(rows, REFERENCE), "whatever their warps are"


def test_warps_exchange_what_they_came_to_for_every_row() -> None:
    costs = TileCosts(large("bf16 2x4096x513x13 last | layer_norm"), REFERENCE)
    each = [costs.counts({"along": 2, "rows": 128, "lanes": 16, "warps": warps}) for warps in (1, 2, 4, 8)]
    assert each[0].exchanged == 0
    assert [one.exchanged / each[1].exchanged for one in each[1:]] == [1, 3, 7], "for each warp but one"


def test_warps_exchange_rows_that_lie_side_by_side_however_long_they_are() -> None:
    """64 rows of 64 by 32 warps: 9.9 us, and 6.2 by two. Near miss: rows whose points lie side by side."""
    across = TileCosts(large("bf16 1x128x64x64 last | logsumexp 3"), REFERENCE)
    along = TileCosts(large("bf16 1x128x64x64 | logsumexp 3"), REFERENCE)
    tile = {"along": 1, "rows": 64, "lanes": 64, "warps": 32}
    assert across.counts(tile).exchanged == 128 * 2 * 64 * 31
    assert along.counts(tile).exchanged == 0


def test_what_the_cache_still_has_is_not_read_again() -> None:
    """Rows of 3 in steps of one and of two numbers: of what all programs hold that run together, nothing is lost."""
    costs = TileCosts(large("f32 2x2047x16x128x3 | l2_norm 4"), REFERENCE)
    short = costs.counts({"along": 1, "rows": 128, "lanes": 2, "warps": 2})
    assert short.again < 0.1 * short.memory
    long = TileCosts(large("f32 2048x54853 | l2_norm 1"), REFERENCE)
    assert (
        long.counts({"along": 1, "rows": 1, "lanes": 4096, "warps": 8}).again
        > 0.2 * long.counts({"along": 1, "rows": 1, "lanes": 4096, "warps": 8}).memory
    )


def test_an_index_that_goes_around_once_moves_by_one() -> None:
    nest = large("f32 153x2047x1x404 last | roll 1")
    (load,) = (access for access in nest.accesses.values() if not access.is_store)
    assert [usual_step(load, axis, nest) for axis in nest.root.axes] == [826988, 1, 2047]


def test_an_index_that_goes_around_at_every_second_point_does_not() -> None:
    vector = 'tensor<8191xf32, #aten.layout<device = "cuda:0">>'
    nest = analysed(
        parse(f"""
    func.func @main(%x : {vector}) -> {vector} {{
      %y = loops.nest (%i : 8191) outs(%o : {vector}) {{
        %v = loops.load %x[%i mod 2] : {vector}
        loops.store %v, %o[%i] : {vector}
      }}
      func.return %y : {vector}
    }}""")
    )
    load, store = nest.accesses.values()
    assert (usual_step(load, 0, nest), usual_step(store, 0, nest)) == (None, 1)
