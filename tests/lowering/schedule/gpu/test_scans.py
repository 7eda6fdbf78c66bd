"""Tiles of rows that are scanned on a GPU."""

from __future__ import annotations

import pytest

from benchmarks.random_nests import analysed, with_choices
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule.gpu.schedule_gpu import chosen_tiling
from cuesta.targets.reference import check_equivalent
from tests.support.lowering import to_kernel
from tests.support.triton_interpreter import check, on_cuda, parse


def running_sums(rows: int, points: int, *, turned: bool) -> str:
    """Running sums of rows, stored like them, or the first of all rows first."""
    made = f"tensor<{points}x{rows}xf32>" if turned else f"tensor<{rows}x{points}xf32>"
    return f"""
    func.func @main(%x : tensor<{rows}x{points}xf32>) -> {made} {{
      %y = loops.nest (%i : {rows}) outs(%o : {made}) {{
        loops.scan (%j : {points}) {{
          %a = loops.load %x[%i, %j] : tensor<{rows}x{points}xf32>
          %r = loops.running sum %a : f32
          loops.store %r, %o[{"%j, %i" if turned else "%i, %j"}] : {made}
        }}
      }}
      func.return %y : {made}
    }}"""


@pytest.mark.parametrize(
    ("points", "turned", "tile"),
    [
        (384, True, (32, 64, 16)),  # one row a program: 415 us, and 72 so
        (3000, True, (32, 64, 16)),
        (256, True, (8, 256, 8)),
        (384, False, (1, 512, 2)),
        (256, False, (4, 256, 4)),
    ],
)
def test_rows_that_are_stored_side_by_side_share_programs(
    points: int, turned: bool, tile: tuple[int, int, int]
) -> None:
    found = chosen_tiling(analysed(parse(running_sums(60000, points, turned=turned))), REFERENCE)
    assert found is not None and (found["rows"], found["lanes"], found["warps"]) == tile


def test_rows_of_16_bits_that_are_stored_side_by_side_fill_a_sector() -> None:
    """24.6 us in programs of 8 rows of 256, and 21.0 of 16; longer rows go in steps, as those of 32 bits do."""
    for points, tile in ((256, (16, 256, 4)), (384, (32, 64, 16))):
        text = running_sums(60000, points, turned=True).replace("xf32>", "xbf16>")
        text = text.replace("sum %a : f32", "sum %b : f32\n%c = elem.convert %r : f32 to bf16").replace(
            "%r, %o", "%c, %o"
        )
        text = text.replace("%r = loops", "%b = elem.convert %a : bf16 to f32\n%r = loops")
        found = chosen_tiling(analysed(parse(text)), REFERENCE)
        assert found is not None and (found["rows"], found["lanes"], found["warps"]) == tile


def test_few_rows_have_programs_of_their_own() -> None:
    found = chosen_tiling(analysed(parse(running_sums(1000, 3000, turned=True))), REFERENCE)
    assert found is not None and found["rows"] == 1


@pytest.mark.parametrize("points", [256, 300, 1001])
def test_they_compute_the_same(points: int) -> None:
    tile = chosen_tiling(analysed(parse(running_sums(60000, points, turned=True))), REFERENCE)
    assert tile is not None and tile["rows"] > 1
    module = on_cuda(with_choices(parse(running_sums(40, points, turned=True)), tile))
    check_equivalent(module, to_kernel(module.clone()))
    check(module)
