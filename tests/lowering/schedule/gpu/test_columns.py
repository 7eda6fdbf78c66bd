"""Tiles of columns on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.random_nests import analysed
from cuesta.context import make_context
from cuesta.dialects import kernel, loops
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.loops.analysis import analyse
from cuesta.lowering.schedule.gpu.columns import (
    MANY_ARG_TILES,
    Columns,
    are_stepped,
    few_tile,
    scanned_tile,
    short_tile,
    tile_of,
)
from cuesta.lowering.schedule.gpu.schedule_gpu import usual_tiling
from cuesta.pipeline import Stage, run_pipeline
from tests.support.text import parse

COLUMNS = """
func.func @main(%x : tensor<NUMBERx4096x1024xf32>) -> tensor<NUMBERx1024xf32> {
  %y = loops.nest (%i : NUMBER, %j : 1024) outs(%o : tensor<NUMBERx1024xf32>) {
    %s = loops.reduce sum (%k : 4096) {
      %a = loops.load %x[%i, %k, %j] : tensor<NUMBERx4096x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<NUMBERx1024xf32>
  }
  func.return %y : tensor<NUMBERx1024xf32>
}
"""


@pytest.mark.parametrize(("number", "bits", "inner"), [(400, 32, 4), (600, 64, 32)])
def test_tiles_are_small_also_where_addresses_take_64_bits(number: int, bits: int, inner: int) -> None:
    module = parse(COLUMNS.replace("NUMBER", str(number)))
    run_pipeline(make_context(), module, [Stage("loops-to-kernel{target=cuda}", "under test")])
    (func,) = [op for op in module.walk() if isinstance(op, kernel.FuncOp)]
    assert func.schedule.choices["index"] == bits
    (reduce,) = [op for op in func.walk() if isinstance(op, kernel.ReduceOp)]
    assert reduce.lanes == inner


@pytest.mark.parametrize(
    ("shape", "width", "indexed", "wide", "tile"),
    [
        ((64, 2048, 2047), 4, False, False, (64, 32, 16)),
        ((128, 4096, 4095), 4, False, True, (64, 32, 16)),
        ((8, 8191, 1023), 4, False, False, (32, 128, 16)),
        ((64, 2048, 2047), 4, True, False, (32, 64, 16)),
        ((128, 4096, 4095), 4, True, True, (32, 64, 8)),
        ((128, 4096, 4095), 2, False, True, (32, 64, 8)),
        ((1, 282, 246578), 2, False, False, (512, 8, 16)),
        ((1, 2000, 100002), 2, False, False, (256, 16, 16)),
        ((128, 300, 255), 2, False, False, (32, 512, 8)),
        ((128, 4096, 4095), 2, True, True, (32, 16, 4)),
        ((8, 8191, 1023), 2, True, False, (32, 256, 32)),
    ],
)
def test_columns_in_rows_that_begin_anywhere(
    shape: tuple[int, int, int], width: int, indexed: bool, wide: bool, tile: tuple[int, int, int]
) -> None:
    batch, points, beside = shape
    given = Columns(
        batch * beside, beside, points, width, 0, known=True, running=False, indexed=indexed, wide=wide, aligned=False,
        stores=False,
    )  # fmt: skip
    found = tile_of(given, REFERENCE)
    assert (found.columns, found.points, found.warps) == tile


def test_three_tensors_that_are_read_again_leave_tiles_of_powers_of_two() -> None:
    given = Columns(1 << 20, 4096, 60, 4, 3, known=True, running=False, indexed=False, wide=False)
    tile = tile_of(given, REFERENCE)
    assert (tile.columns, tile.points, tile.warps) == (32, 64, 8)


@pytest.mark.parametrize(("width", "longest"), [(4, 4096), (2, 2048)])
def test_columns_of_which_a_tile_holds_no_whole_sector_are_not_kept(width: int, longest: int) -> None:
    """A tile of 4096 rows of 8 bf16 reads each sector twice: it took 1.8 times as long as steps of 32 columns."""
    given = Columns(1 << 15, 1 << 15, longest, width, 1, known=True, running=False, indexed=False, wide=False)
    kept = tile_of(given, REFERENCE)
    assert kept.points == longest and kept.columns * width == REFERENCE.sector
    longer = tile_of(replace(given, points=longest + 1), REFERENCE)
    assert (longer.columns, longer.points, longer.warps) == (32, 256, 16)


def test_very_many_columns_of_16_bits_that_are_read_again_go_in_narrow_steps() -> None:
    given = Columns(98304, 98304, 2048, 2, 1, known=True, running=False, indexed=False, wide=False)
    tile = tile_of(given, REFERENCE)
    assert (tile.columns, tile.points, tile.warps) == (64, 64, 16)
    shorter = tile_of(replace(given, points=1024), REFERENCE)
    assert shorter.points == 1024, "whole columns, which are read once"
    assert tile_of(replace(given, width=4), REFERENCE).points == 2048


PIECES = """
func.func @main(%x : tensor<NUMBERxPOINTSxCOLUMNSxf32>) -> tensor<NUMBERxCOLUMNSxf32> {
  %y = loops.nest (%i : NUMBER, %j : COLUMNS) outs(%o : tensor<NUMBERxCOLUMNSxf32>) {
    %s = loops.reduce sum (%k : POINTS) {
      %a = loops.load %x[%i, %k, %j] : tensor<NUMBERxPOINTSxCOLUMNSxf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<NUMBERxCOLUMNSxf32>
  }
  func.return %y : tensor<NUMBERxCOLUMNSxf32>
}
"""


@pytest.mark.parametrize(
    ("number", "points", "beside", "tile"),
    [
        (300, 4000, 2, (2, 4096, 16)),
        (3072, 2048, 2, (2, 2048, 16)),
        (3000, 64, 3, (4, 64, 1)),
        (40, 65000, 6, (1, 4096, 16)),
        (3000, 4000, 8, None),  # they fill a sector
    ],
)
def test_few_columns_that_are_one_piece_of_memory_are_read_like_a_row(
    number: int, points: int, beside: int, tile: tuple[int, int, int] | None
) -> None:
    text = PIECES
    for name, value in (("NUMBER", number), ("POINTS", points), ("COLUMNS", beside)):
        text = text.replace(name, str(value))
    found = usual_tiling(analysed(parse(text)), REFERENCE)
    assert found is not None
    if tile is None:
        assert found["lanes"] * found["rows"] < 4096
    else:
        assert (found["along"], found["rows"], found["lanes"], found["warps"]) == (1, *tile)


def test_few_columns_that_are_read_again_have_programs_of_many_threads() -> None:
    given = Columns(1000, 1000, 8192, 2, 1, known=True, running=False, indexed=False, wide=False)
    tile = tile_of(given, REFERENCE)
    assert (tile.columns, tile.points, tile.warps) == (16, 256, 32)


@pytest.mark.parametrize(
    ("points", "width", "aligned", "reductions", "tile"),
    [
        (32, 4, True, 2, (64, 32, 4)),
        (32, 4, False, 2, (64, 32, 4)),
        (24, 2, False, 2, (64, 32, 8)),
        (16, 2, False, 2, (128, 16, 8)),
        (16, 2, True, 2, None),
        (15, 2, False, 2, None),
        (15, 4, True, 1, None),
        (8, 4, False, 1, (64, 8, 4)),  # RMS norms of 64x8193x8x19: 208 us with 256 columns, 162
        (12, 4, False, 2, (64, 16, 2)),  # softmaxes of 5000x12x300: 53 us of columns by themselves, 42
        (4, 4, False, 1, None),
    ],
)
def test_short_columns_that_are_read_again(
    points: int, width: int, aligned: bool, reductions: int, tile: tuple[int, int, int] | None
) -> None:
    found = short_tile(points, width, aligned, reductions)
    assert (None if found is None else (found.columns, found.points, found.warps)) == tile


def test_short_columns_are_one_tile() -> None:
    given = Columns(1 << 20, 4096, 100, 4, 0, known=True, running=False, indexed=True, wide=False)
    tile = tile_of(given, REFERENCE)
    assert (tile.columns, tile.points, tile.warps) == (32, 128, 2)


@pytest.mark.parametrize(
    ("every", "points", "width", "tile"),
    [
        (8192, 8192, 2, (64, 256, 32)),
        (8192, 8192, 4, (32, 256, 32)),
        (8190, 8192, 2, (32, 256, 32)),  # rows of 16 bits that begin in the middle of a segment
        (2000, 20000, 4, (32, 128, 16)),
        (3072, 32768, 4, (32, 256, 32)),
        (16384, 171, 2, (64, 8, 4)),  # 7.3 us; with (128, 4, 4) 7.1, (32, 8, 4) 7.0
        (317184, 65, 4, (128, 1, 1)),  # 35.1 with (128, 4, 4), 26.1
        (200000, 90, 2, (128, 1, 1)),  # 20.2 with (64, 8, 4), 15.2
        (70000, 1001, 2, (64, 8, 4)),  # 46.8; with (128, 4, 4) 43.0, (128, 1, 1) 82
        (300000, 66, 4, (128, 1, 1)),
        (300000, 68, 4, (128, 4, 4)),
        (70000, 1000, 4, (128, 4, 4)),
        (16384, 64, 4, (32, 64, 4)),  # lanes of their own are as good
        (8192, 500, 4, (32, 512, 8)),
        (1024, 100, 4, (8, 128, 4)),
    ],
)
def test_tiles_that_were_measured(every: int, points: int, width: int, tile: tuple[int, int, int]) -> None:
    given = Columns(every, every, points, width, 0, known=True, running=False, indexed=False, wide=False, stores=False)
    found = tile_of(given, REFERENCE)
    assert (found.columns, found.points, found.warps) == tile


@pytest.mark.parametrize(
    ("points", "every", "stores", "stepped"),
    [
        (262, 65536, False, True),
        (262, 65536, True, False),
        (262, 32768, False, False),  # two programs of four warps on a processor
        (200, 32768, False, True),
        (200, 8192, False, False),
    ],
)
def test_columns_that_are_gone_down_in_steps_fill_processors(
    points: int, every: int, stores: bool, stepped: bool
) -> None:
    given = Columns(every, every, points, 4, 0, known=True, running=False, indexed=False, wide=False, stores=stores)
    assert are_stepped(given, REFERENCE) == stepped
    assert not are_stepped(replace(given, reads=3), REFERENCE)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(
    ("every", "points", "aligned", "tile"),
    [
        (65536, 1024, True, (128, 32, 8)),
        (8192, 4096, True, (32, 64, 16)),
        (4096, 4096, True, None),
        (8192, 4096, False, None),
    ],
)
def test_many_columns_whose_greatest_has_a_place(
    every: int, points: int, aligned: bool, tile: tuple[int, int, int] | None, width: int
) -> None:
    given = Columns(
        every, every, points, width, 0, known=True, running=False, indexed=True, wide=False, aligned=aligned
    )
    found = tile_of(given, REFERENCE)
    assert ((found.columns, found.points, found.warps) in MANY_ARG_TILES) == (tile is not None)
    assert tile in (None, (found.columns, found.points, found.warps))


def test_few_columns_have_programs_of_more_threads() -> None:
    many = Columns(1 << 20, 4096, 4096, 4, 0, known=True, running=False, indexed=False, wide=False, stores=False)
    few = Columns(4096, 4096, 4096, 4, 0, known=True, running=False, indexed=False, wide=False)
    assert tile_of(many, REFERENCE).warps == 4
    assert tile_of(few, REFERENCE).warps == 32


@pytest.mark.parametrize(("size", "along"), [(129, 0), (520, 0), (512, 1), (1000, 1)])
def test_axes_are_one_where_the_last_tile_is_mostly_empty(size: int, along: int) -> None:
    text = COLUMNS.replace("NUMBER", "400").replace("1024", str(size))
    module = parse(text)
    (nest,) = [op for op in module.walk() if isinstance(op, loops.NestOp)]
    tiling = usual_tiling(analyse(nest, {}, (True,)), REFERENCE)
    assert tiling is not None and tiling["along"] == along


@pytest.mark.parametrize(
    ("every", "points", "width", "aligned", "stores", "tile"),
    [
        (256 * 64, 256, 4, True, False, (32, 256, 4)),  # 27 us of an H100 with (64, 256, 32), 13.5
        (9792, 88, 4, True, True, (32, 128, 8)),
        (6592, 244, 2, True, True, (16, 256, 8)),
        (16 * 18666, 128, 2, False, True, (64, 128, 4)),  # 100 us with (32, 128, 2), 71
        (14151, 650, 4, False, True, (16, 1024, 16)),
        (260 * 108, 512, 2, False, False, (32, 512, 8)),  # 26 us of an H200 with (64, 512, 16), 19
        (30000, 512, 4, True, True, (16, 512, 8)),  # 53 with (32, 512, 8), 43
        (20000, 1000, 4, True, True, (16, 1024, 16)),  # 67 with 8 warps, 55
        (30 * 300, 2000, 4, False, True, (8, 2048, 16)),
        (500 * 108, 256, 4, False, True, (32, 256, 8)),  # 52 with (64, 256, 8), 42
        (256 * 2048, 128, 2, True, False, (32, 128, 2)),  # 89 us with (64, 128, 4), with what follows, 62
        (256 * 2048, 128, 4, True, False, (32, 128, 2)),
    ],
)
def test_tiles_of_what_is_read_again(
    every: int, points: int, width: int, aligned: bool, stores: bool, tile: tuple[int, int, int]
) -> None:
    given = Columns(
        every, every, points, width, 1, known=True, running=False, indexed=False, wide=False,
        aligned=aligned, stores=stores,
    )  # fmt: skip
    found = tile_of(given, REFERENCE)
    assert (found.columns, found.points, found.warps) == tile


@pytest.mark.parametrize(("aligned", "columns"), [(True, 32), (False, 128)])
def test_scans_of_columns_that_begin_anywhere_are_of_more_columns(aligned: bool, columns: int) -> None:
    given = Columns(452830, 452830, 48, 4, 0, True, running=True, indexed=False, wide=False, aligned=aligned)
    assert tile_of(given, REFERENCE).columns == columns


ROWS = """
func.func @main(%x : tensor<NUMBERxPOINTSxELEMENT>) -> tensor<NUMBERxf32> {
  %y = loops.nest (%i : NUMBER) outs(%o : tensor<NUMBERxf32>) {
    %s = loops.reduce sum (%k : POINTS) {
      %a = loops.load %x[%i, %k] : tensor<NUMBERxPOINTSxELEMENT>
      %b = elem.convert %a : ELEMENT to f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%i] : tensor<NUMBERxf32>
  }
  func.return %y : tensor<NUMBERxf32>
}
"""


@pytest.mark.parametrize(
    ("number", "points", "element", "tile"),
    [
        (393216, 511, "f32", (2, 512, 1)),
        (314572, 200, "f32", (4, 256, 1)),
        (205200, 511, "bf16", (4, 512, 2)),
        (104857, 1000, "bf16", (2, 1024, 2)),
        (8000, 500, "bf16", (2, 512, 1)),  # few: so many warps would leave processors without a program
        (62914, 1000, "f32", (1, 1024, 2)),
    ],
)
def test_many_rows_share_programs(number: int, points: int, element: str, tile: tuple[int, int, int]) -> None:
    text = ROWS.replace("NUMBER", str(number)).replace("POINTS", str(points)).replace("ELEMENT", element)
    if element == "f32":
        text = text.replace("      %b = elem.convert %a : f32 to f32\n", "").replace("yield %b", "yield %a")
    (nest,) = [op for op in parse(text).walk() if isinstance(op, loops.NestOp)]
    tiling = usual_tiling(analyse(nest, {}, (True,)), REFERENCE)
    assert tiling is not None and (tiling["rows"], tiling["lanes"], tiling["warps"]) == tile


def test_columns_that_come_backwards_are_columns() -> None:
    """A sum of 1024 rows of 1000 bf16, the last number first, took 11 us on an H100 with a program for each, 6 so."""
    text = COLUMNS.replace("NUMBER", "1").replace("%k, %j]", "%k, -%j + 1023]")
    (nest,) = [op for op in parse(text).walk() if isinstance(op, loops.NestOp)]
    tiling = usual_tiling(analyse(nest, {}, [True]), REFERENCE)
    assert tiling is not None
    assert tiling["rows"] >= 8


PAIRS = """
func.func @main(%x : tensor<6144x2x128x16xf32, #aten.layout<strides = [4096, 1, 32, 2], device = "cuda:0">>)
    -> tensor<6144x2x16xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 6144, %c : 2, %w : 16) outs(%o : tensor<6144x2x16xf32, #aten.layout<device = "cuda:0">>) {
    %m = loops.reduce maximum (%k : 128) {
      %a = loops.load %x[%i, %c, %k, %w]
          : tensor<6144x2x128x16xf32, #aten.layout<strides = [4096, 1, 32, 2], device = "cuda:0">>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%i, %c, %w] : tensor<6144x2x16xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<6144x2x16xf32, #aten.layout<device = "cuda:0">>
}
"""


def test_columns_that_fill_no_sector_along_their_axis_are_one_with_those_of_others() -> None:
    """Pairs of channels that lie together had programs of two columns: 94 us on an H200, and 36 of all axes as one."""
    nest = next(op for op in parse(PAIRS).walk() if isinstance(op, loops.NestOp))
    tiling = usual_tiling(analyse(nest, {}, [True]), REFERENCE)
    assert tiling is not None and tiling["along"] == 0 and tiling["rows"] >= 32


@pytest.mark.parametrize(
    ("points", "beside", "width", "values", "tile"),
    [
        (32, 1835575, 4, 1, (256, 1, 2)),
        (17, 1835575, 4, 1, (256, 1, 2)),
        (16, 1835574, 2, 1, (64, 16, 4)),
        (32, 50000, 4, 1, (32, 32, 4)),
        (32, 1835575, 4, 2, (32, 32, 4)),  # an extreme and its place
        (2, 3, 4, 1, (256, 2, 4)),  # 59 us of an H200 with (512, 2, 4), 50
        (8, 6, 4, 1, (64, 8, 4)),
        (8, 6, 2, 1, (128, 8, 4)),  # 48 with (256, 8, 4), 29
        (12, 7, 2, 1, (32, 16, 4)),
        (24, 20, 4, 1, (32, 32, 4)),  # 55 with (256, 1, 2), 45
    ],
)
def test_short_columns_that_are_scanned(
    points: int, beside: int, width: int, values: int, tile: tuple[int, int, int]
) -> None:
    every = beside * (400000 if beside < 100 else 1)
    found = scanned_tile(points, every, beside, width, values, REFERENCE)
    assert (found.columns, found.points, found.warps) == tile


@pytest.mark.parametrize(
    ("columns", "width", "tile"),
    [
        (256, 4, (8, 256, 32)),
        (1000, 4, (16, 128, 16)),
        (2048, 4, (32, 128, 16)),
        (512, 2, (16, 256, 32)),
        (2048, 2, (32, 512, 32)),
        (4096, 2, (64, 128, 16)),
    ],
)
def test_few_long_columns_have_bytes_side_by_side_before_they_have_processors(
    columns: int, width: int, tile: tuple[int, int, int]
) -> None:
    few = Columns(
        columns, columns, 8192, width, 0, known=True, running=False, indexed=False, wide=False, stores=False,
        aligned=False,
    )  # fmt: skip
    found = tile_of(few, REFERENCE)
    assert (found.columns, found.points, found.warps) == tile
    assert few_tile(few, REFERENCE) == found
    near_misses = [
        {"side_by_side": 4},
        {"in_vectors": False},
        {"stores": True},
        {"indexed": True},
        {"points": 500},
        {"every": 1 << 20},
        {"reads": 3},
    ]
    assert not any(few_tile(replace(few, **one), REFERENCE) for one in near_misses)


@pytest.mark.parametrize(("at", "columns"), [("%j", 16), ("-%j + 1023", 8)])
def test_columns_that_are_read_backwards_are_no_vectors(at: str, columns: int) -> None:
    text = COLUMNS.replace("%x[%i, %k, %j]", f"%x[%i, %k, {at}]").replace("NUMBER", "1")
    (nest,) = [op for op in parse(text).walk() if isinstance(op, loops.NestOp)]
    tiling = usual_tiling(analyse(nest, {}, (True,)), REFERENCE)
    assert tiling is not None and tiling["rows"] == columns
