"""Tiles of many rows on a GPU."""

from __future__ import annotations

import pytest

from benchmarks.random_nests import analysed, with_choices
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule.gpu.schedule_gpu import choose, usual_tiling
from cuesta.targets.reference import check_equivalent
from tests.support.lowering import to_kernel
from tests.support.triton_interpreter import parse

PLAIN = ', #aten.layout<device = "cuda:0">'


def rows(number: int, points: int, *, apart: int | None = None, stores: bool = False) -> str:
    """Sums of rows of so many numbers, `apart` elements from one another; or the rows divided by their sums."""
    apart = points if apart is None else apart
    given = f'tensor<{number}x{points}xf32, #aten.layout<strides = [{apart}, 1], device = "cuda:0">>'
    load = f"loops.load %x[%i, %j] : {given}"
    total = f"%s = loops.reduce sum (%j : {points}) {{ %v = {load} loops.yield %v : f32 }} : f32"
    made = f"tensor<{number}x{points}xf32{PLAIN}>" if stores else f"tensor<{number}xf32{PLAIN}>"
    end = f"loops.store %s, %o[%i] : {made}"
    if stores:
        end = (
            f"loops.for (%j : {points}) {{ %v = {load} %q = elem.div %v, %s : f32 "
            f"loops.store %q, %o[%i, %j] : {made} }}"
        )
    return f"""
    func.func @main(%x : {given}) -> {made} {{
      %y = loops.nest (%i : {number}) outs(%o : {made}) {{
        {total}
        {end}
      }}
      func.return %y : {made}
    }}"""


@pytest.mark.parametrize(
    ("points", "stores", "tile"),
    [
        (11, False, (128, 4, 4)),
        (17, False, (128, 4, 4)),
        (35, False, (128, 16, 16)),
        (11, True, (32, 8, 4)),
        (17, True, (32, 8, 4)),
        (25, True, (32, 16, 4)),
    ],
)
def test_odd_rows_are_gone_along_in_steps(points: int, stores: bool, tile: tuple[int, int, int]) -> None:
    found = usual_tiling(analysed(parse(rows(1000000, points, stores=stores))), REFERENCE)
    assert found is not None and (found["rows"], found["lanes"], found["warps"]) == tile


@pytest.mark.parametrize(
    ("number", "points", "apart"),
    [
        (1000000, 18, None),  # pairs are vectors
        (1000000, 17, 20),  # rows begin where vectors do
        (1000000, 31, None),  # few lanes are without a point
        (1000000, 65, None),  # too long
        (1000, 17, None),  # few rows
    ],
)
def test_near_misses_have_one_tile_for_a_row(number: int, points: int, apart: int | None) -> None:
    found = usual_tiling(analysed(parse(rows(number, points, apart=apart))), REFERENCE)
    assert found is not None and found["lanes"] >= points


def test_a_few_hundred_numbers_have_twice_the_rows() -> None:
    found = usual_tiling(analysed(parse(rows(400000, 511))), REFERENCE)
    assert found == {"along": 1, "rows": 2, "lanes": 512, "warps": 1}


@pytest.mark.parametrize("stores", [False, True])
def test_odd_rows_mean_the_same(stores: bool) -> None:
    tile = usual_tiling(analysed(parse(rows(1000000, 11, stores=stores))), REFERENCE)
    assert tile is not None
    small = parse(rows(300, 11, stores=stores))
    changed = with_choices(small, tile)
    to_kernel(changed, machine=REFERENCE)
    assert f"lanes {tile['lanes']}" in str(changed)
    check_equivalent(small, changed, pass_name="rows")


def read_twice(points: int, tensors: int, element: str = "bf16") -> str:
    """Sums of products of rows of one or two tensors, which are read again."""
    given = f"tensor<2048x{points}x{element}{PLAIN}>"
    loads = " ".join(f"%v{k} = loops.load %x{k}[%i, %j] : {given}" for k in range(tensors))
    operands = f"%v0, %v{tensors - 1}"
    parameters = ", ".join(f"%x{k} : {given}" for k in range(tensors))
    return f"""
    func.func @main({parameters}) -> {given} {{
      %y = loops.nest (%i : 2048) outs(%o : {given}) {{
        %s = loops.reduce sum (%j : {points}) {{
          {loads} %p = elem.mul {operands} : {element} loops.yield %p : {element}
        }} : {element}
        loops.for (%j : {points}) {{
          {loads} %p = elem.mul {operands} : {element} %q = elem.sub %p, %s : {element}
          loops.store %q, %o[%i, %j] : {given}
        }}
      }}
      func.return %y : {given}
    }}"""


@pytest.mark.parametrize(
    ("points", "tensors", "element", "lanes"),
    [
        (32768, 1, "bf16", 4096),
        (16384, 2, "bf16", 8192),
        (16384, 1, "bf16", 16384),  # one tile holds it, and leaves room for another program
        (8192, 2, "bf16", 8192),
        (16384, 2, "f32", 16384),
    ],
)
def test_long_rows_of_16_bits_are_read_again_from_the_cache(
    points: int, tensors: int, element: str, lanes: int
) -> None:
    found = usual_tiling(analysed(parse(read_twice(points, tensors, element))), REFERENCE)
    assert found is not None and (found["rows"], found["lanes"]) == (1, lanes)


def scanned(number: int, points: int) -> str:
    """Running sums of rows."""
    given = f"tensor<{number}x{points}xf32{PLAIN}>"
    return f"""
    func.func @main(%x : {given}) -> {given} {{
      %y = loops.nest (%i : {number}) outs(%o : {given}) {{
        loops.scan (%j : {points}) {{
          %v = loops.load %x[%i, %j] : {given}
          %r = loops.running sum %v : f32
          loops.store %r, %o[%i, %j] : {given}
        }}
      }}
      func.return %y : {given}
    }}"""


@pytest.mark.parametrize(
    ("points", "tile"),
    [(130, (4, 256, 4)), (300, (1, 512, 2)), (667, (1, 1024, 4)), (1500, (1, 2048, 8)), (16384, (1, 2048, 8))],
)
def test_rows_that_a_tile_holds_are_scanned_in_one(points: int, tile: tuple[int, int, int]) -> None:
    """Also where a third of its lanes has no point: steps of 64 points took up to 7 times as long."""
    analysis = analysed(parse(scanned(100000, points)))
    found = usual_tiling(analysis, REFERENCE)
    assert found is not None and (found["rows"], found["lanes"], found["warps"]) == tile
    assert choose(analysis, REFERENCE).choices["warps"] == tile[2]


def minima(inner: int, dtype: str = "f32") -> str:
    """Minima over 256 and so many neighbours, which those of other rows lie between."""
    x = f"tensor<256x200000x{inner}x{dtype}{PLAIN}>"
    return f"""
    func.func @main(%x : {x}) -> tensor<200000x{dtype}{PLAIN}> {{
      %y = loops.nest (%i : 200000) outs(%o : tensor<200000x{dtype}{PLAIN}>) {{
        %s = loops.reduce minimum (%j : 256, %k : {inner}) {{
          %v = loops.load %x[%j, %i, %k] : {x}
          loops.yield %v : {dtype}
        }} : {dtype}
        loops.store %s, %o[%i] : tensor<200000x{dtype}{PLAIN}>
      }}
      func.return %y : tensor<200000x{dtype}{PLAIN}>
    }}"""


@pytest.mark.parametrize(("inner", "dtype", "wide"), [(2, "f32", True), (8, "bf16", True), (8, "f32", False)])
def test_rows_of_pieces_that_fill_no_sector_share_a_program(inner: int, dtype: str, wide: bool) -> None:
    """With two rows a program read half of each sector: 2.8 ms on an H200, and 0.6 with 512."""
    module = parse(minima(inner, dtype))
    schedule = choose(analysed(module), REFERENCE)
    tiles = [one.tile for one in schedule.parallel if one.tile is not None]
    assert bool(tiles) == wide and all(isinstance(tile, int) and tile >= 128 for tile in tiles)


def test_short_rows_have_more_warps_where_they_store_or_have_16_bits() -> None:
    for dtype, stores, tile in (
        ("f32", False, (64, 16, 2)),
        ("bf16", True, (64, 16, 4)),
        ("f32", True, (32, 16, 4)),  # log-softmaxes of 40000 by 12: 6.2 us, and 7.8 with 64 rows and two warps
    ):
        text = rows(500000, 16, stores=stores).replace("f32", dtype)
        found = usual_tiling(analysed(parse(text)), REFERENCE)
        assert found is not None and (found["rows"], found["lanes"], found["warps"]) == tile
    wide = usual_tiling(analysed(parse(rows(500000, 32, stores=True))), REFERENCE)
    assert wide is not None and (wide["rows"], wide["lanes"], wide["warps"]) == (32, 32, 4)


def test_rows_of_three_that_are_not_many_are_gone_along_by_lanes() -> None:
    assert tiling_of(300000, 3) == (256, 1, 4)
    assert tiling_of(3000000, 3) == (128, 4, 4), "near miss: 38 us, and 28 so"
    assert tiling_of(300000, 4) == (128, 4, 4), "near miss: rows that are vectors"
    assert tiling_of(10000, 3)[1] == 4, "near miss: too few for the processors"


def tiling_of(number: int, points: int) -> tuple[int, int, int]:
    """Rows, lanes and warps of a tile of rows that are divided by their sums."""
    found = usual_tiling(analysed(parse(rows(number, points, stores=True))), REFERENCE)
    assert found is not None
    return found["rows"], found["lanes"], found["warps"]


def test_long_rows_of_pieces_fill_sectors_together() -> None:
    text = minima(4, "bf16").replace("256", "8449").replace("200000", "NUMBER")
    found = usual_tiling(analysed(parse(text.replace("NUMBER", "512"))), REFERENCE)
    assert found is not None and (found["rows"], found["lanes"], found["warps"]) == (4, 2048, 16)
    few = usual_tiling(analysed(parse(text.replace("NUMBER", "100"))), REFERENCE)
    assert few is not None and few["rows"] == 1, "near miss: too few for the processors"


@pytest.mark.parametrize(
    ("number", "points", "warps"), [(128, 1000, 8), (128, 512, 4), (1, 256, 2), (128, 64, 1), (133, 1000, 2)]
)
def test_rows_that_have_a_processor_each_have_more_warps(number: int, points: int, warps: int) -> None:
    """Norms of 128 rows of 1000 f32 took 7.2 us with two warps, and 5.6 with eight. Near miss: a row more than there
    are processors.
    """
    found = usual_tiling(analysed(parse(rows(number, points, stores=True))), REFERENCE)
    assert found is not None and (found["rows"], found["warps"]) == (1, warps)
