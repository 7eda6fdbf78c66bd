"""What tilings cost: what is counted of kernels whose counts can be told by hand, and what follows from that."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.gpu_schedules import bound
from benchmarks.random_nests import analysed, nest_of, with_choices
from cuesta.dialects import kernel
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.schedule.gpu.schedule_gpu import choose, usual_tiling
from cuesta.targets.reference import check_equivalent
from cuesta.transforms.tilings import times
from cuesta.transforms.tilings.cost import TileCosts, cheapest, ranked, time_whole
from cuesta.transforms.tilings.space import has_tilings, refinements, tilings
from cuesta.transforms.tilings.times import Counts, ideal_of, time_of
from tests.support.lowering import to_kernel
from tests.support.triton_interpreter import parse


def pointwise(kind: str, body: str, sizes: str = "4096x4096") -> NestAnalysis:
    rows, columns = sizes.split("x")
    text = f"""
    func.func @main(%x : tensor<{sizes}xf32{kind}>) -> tensor<{sizes}xf32, #aten.layout<device = "cuda:0">> {{
      %y = loops.nest (%i : {rows}, %j : {columns}) outs(%o : tensor<{sizes}xf32, #aten.layout<device = "cuda:0">>) {{
        %v = loops.load %x[{body}] : tensor<{sizes}xf32{kind}>
        %w = elem.exp %v : f32
        loops.store %w, %o[%i, %j] : tensor<{sizes}xf32, #aten.layout<device = "cuda:0">>
      }}
      func.return %y : tensor<{sizes}xf32, #aten.layout<device = "cuda:0">>
    }}"""
    return analysed(parse(text))


PLAIN = ', #aten.layout<device = "cuda:0">'


def rows(sizes: str, dims: str, stages: int = 1) -> str:
    """Sums over `%j` of `%x[dims]`, of so many functions of it, one after the other."""
    first, second = sizes.split("x")
    around, along = (first, second) if dims == "%i, %j" else (second, first)
    reads = "\n".join(
        f"""%s{k} = loops.reduce sum (%j : {along}) {{
          %v = loops.load %x[{dims}] : tensor<{sizes}xf32{PLAIN}>
          {f"%w = elem.mul %v, %s{k - 1} : f32" if k else "%w = elem.exp %v : f32"}
          loops.yield %w : f32
        }} : f32"""
        for k in range(stages)
    )
    return f"""
    func.func @main(%x : tensor<{sizes}xf32{PLAIN}>) -> tensor<{around}xf32{PLAIN}> {{
      %y = loops.nest (%i : {around}) outs(%o : tensor<{around}xf32{PLAIN}>) {{
        {reads}
        loops.store %s{stages - 1}, %o[%i] : tensor<{around}xf32{PLAIN}>
      }}
      func.return %y : tensor<{around}xf32{PLAIN}>
    }}"""


def counts(analysis: NestAnalysis, **choices: int) -> Counts:
    return TileCosts(analysis, REFERENCE).counts(choices)


def test_a_copy_moves_each_byte_once_in_vectors() -> None:
    one = counts(pointwise(PLAIN, "%i, %j"), along=1, lanes=1024, warps=4)
    assert one.memory == one.cache == 2 * 4 * 4096 * 4096, "all sectors are whole"
    assert one.loads == 2 * 4096 * 4096 / 4, "a thread has 16 bytes"
    assert one.lines == 2 * 4 * 4096 * 4096 / 128, "a warp has whole lines"
    assert one.programs == 4096 * 4, "both axes are one when merged"
    assert (one.steps, one.again) == (1, 0)


def test_lanes_across_what_lies_in_memory_touch_a_sector_each() -> None:
    across = pointwise(', #aten.layout<strides = [1, 4096], device = "cuda:0">', "%i, %j")
    flat = counts(across, along=1, lanes=1024, warps=4)
    square = counts(across, along=1, lanes=32, across=2, height=32, warps=4)
    assert flat.memory == square.memory
    assert flat.cache == (4 + 32) * 4096 * 4096, "every element of what is read brings a sector"
    assert square.cache == 8 * 4096 * 4096, "both sides are whole lines"
    assert flat.lines > 4 * square.lines
    assert time_of(flat, REFERENCE) > 2 * time_of(square, REFERENCE)


def test_rows_that_begin_anywhere_cost_more() -> None:
    aligned = counts(pointwise(PLAIN, "%i, %j", "4096x4096"), along=1, lanes=1024, warps=4)
    odd = counts(
        pointwise(', #aten.layout<strides = [4097, 1], device = "cuda:0">', "%i, %j"), along=1, lanes=1024, warps=4
    )
    assert odd.loads > aligned.loads, "no vectors"
    assert odd.cache > aligned.cache, "sectors of which a part is wanted"


def test_sectors_that_are_stored_in_part_are_read() -> None:
    """A softmax over 64 channels that lie last, stored by channels of 182,485 pixels: 86 us on an H100 in tiles of 8
    rows, 52 of 32, 41 of 128.
    """
    across, lanes = ', #aten.layout<strides = [1, 4096], device = "cuda:0">', {"along": 1, "across": 2, "warps": 4}
    even = counts(pointwise(across, "%i, %j", "4096x4096"), lanes=8, height=64, **lanes)
    odd = counts(pointwise(across, "%i, %j", "4096x4095"), lanes=8, height=64, **lanes)
    longer = counts(pointwise(across, "%i, %j", "4096x4095"), lanes=64, height=8, **lanes)
    assert even.broken == 0, "runs of 32 bytes that begin at sectors"
    assert odd.broken == 4096 * 512 * 1.75, "of 8 places of a run in its sectors, one is whole"
    assert longer.broken == odd.broken / 8
    assert time_of(odd, REFERENCE) > 1.3 * time_of(replace(odd, broken=0.0), REFERENCE)


def test_what_a_tile_holds_is_read_once() -> None:
    analysis = analysed(parse(rows("1024x4096", "%i, %j", stages=2)))
    whole = counts(analysis, along=1, rows=1, lanes=4096, warps=8)
    looped = counts(analysis, along=1, rows=1, lanes=1024, warps=4)
    assert whole.again == 0 and whole.kept > 0
    assert looped.again == pytest.approx(4 * 1024 * 4096 * (1024 * 4096 * 4 / REFERENCE.cache)), "what no cache has"
    assert (looped.steps, whole.steps) == (2 * 1 + 1, 1 + 1), "four steps read at a time; the last one stores"
    assert looped.single_steps == 2 * 3
    assert looped.cache == 2 * 4 * 1024 * 4096 + 32 * 1024, "a sector for every result besides"
    assert time_of(looped, REFERENCE) > time_of(whole, REFERENCE)


def test_what_a_processor_still_holds_does_not_come_again() -> None:
    columns = analysed(parse(rows("16x65536", "%j, %i")))
    window = counts(columns, along=1, rows=512, lanes=1, warps=8)
    assert window.cache == 4 * 16 * 65536 + 4 * 65536
    assert window.single_steps == 16


def test_threads_that_want_more_registers_than_there_are_take_longer() -> None:
    one = counts(pointwise(PLAIN, "%i, %j"), along=1, lanes=1024, warps=4)
    assert time_of(replace(one, pointers=400.0), REFERENCE) > 1.5 * time_of(one, REFERENCE)


@pytest.mark.parametrize(
    ("text", "choices", "better"),
    [
        # Softmax over channels, pixels of which lie together: 9 times slower by rows, measured.
        pytest.param(
            rows("32x131072", "%j, %i", 2), {"along": 1, "rows": 1, "lanes": 32, "warps": 1}, "along", id="columns"
        ),
        pytest.param(rows("65536x64", "%i, %j"), {"along": 1, "rows": 512, "lanes": 1, "warps": 8}, "lanes", id="rows"),
    ],
)
def test_a_cliff_is_left(text: str, choices: dict[str, int], better: str) -> None:
    found = cheapest(analysed(parse(text)), REFERENCE, choices)
    assert found != choices
    costs = TileCosts(analysed(parse(text)), REFERENCE)
    assert costs.time(found) < 0.7 * costs.time(choices)
    assert better in found


@pytest.mark.parametrize(("stages", "tile"), [(1, (512, 1)), (2, (64, 32))])
def test_short_columns_that_are_read_again_stay_in_registers(stages: int, tile: tuple[int, int]) -> None:
    usual = usual_tiling(analysed(parse(rows("32x65536", "%j, %i", stages))), REFERENCE)
    assert usual is not None
    assert (usual["rows"], usual["lanes"]) == tile


def test_what_is_near_the_time_of_memory_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = pointwise(PLAIN, "%i, %j")
    monkeypatch.setattr(TileCosts, "best", lambda self: pytest.fail("it was looked for a better one"))
    usual = usual_tiling(analysis, REFERENCE)
    assert usual is not None
    assert cheapest(analysis, REFERENCE, usual) == usual


def pooled(images: int) -> str:
    """Greatest of windows of 3 x 3 x 3 in steps of 2, whose digits lanes along the window would have to compute."""
    outer, inner = f"{images}x256x16x16x16xf32{PLAIN}", f"{images}x256x7x7x7xf32{PLAIN}"
    return f"""
    func.func @main(%x : tensor<{outer}>) -> tensor<{inner}> {{
      %y = loops.nest (%n : {images}, %c : 256, %d : 7, %h : 7, %w : 7) outs(%o : tensor<{inner}>) {{
        %m = loops.reduce maximum (%i : 3, %j : 3, %k : 3) {{
          %v = loops.load %x[%n, %c, %d * 2 + %i, %h * 2 + %j, %w * 2 + %k] : tensor<{outer}>
          loops.yield %v : f32
        }} : f32
        loops.store %m, %o[%n, %c, %d, %h, %w] : tensor<{inner}>
      }}
      func.return %y : tensor<{inner}>
    }}"""


def test_a_processor_holds_what_the_innermost_steps_touch() -> None:
    # 512 points in steps of two elements touch so much that the planes of a window come again, but not its rows.
    def sectors(text: str) -> float:
        alone = counts(analysed(parse(text)), along=0, rows=512, lanes=1, warps=8)
        return (alone.cache / alone.programs - 512 * 4) / REFERENCE.sector  # without what is stored

    one = sectors(pooled(64).replace("%i : 3, %j : 3, %k : 3", "%i : 1, %j : 1, %k : 1"))
    assert 3 * one < sectors(pooled(64)) < 27 * one / 2


def test_digits_of_windows_count_in_tiles_of_rows() -> None:
    analysis = analysed(parse(pooled(64)))
    tiled = counts(analysis, along=0, rows=512, lanes=8, warps=8)
    assert tiled.digits == tiled.programs * 4 * 512 * 8 * 2, "four steps, two of three digits"
    assert counts(analysis, along=0, rows=512, lanes=1, warps=8).digits == 0
    assert counts(analysed(parse(rows("4096x1024", "%i, %j"))), along=0, rows=8, lanes=512, warps=8).digits == 0


def test_small_windows_of_many_points_have_a_lane_each() -> None:
    """On an H100 so it took 117 us, and 212 in tiles of 1024 points and 8 elements of their windows."""
    analysis = analysed(parse(pooled(64)))
    usual = usual_tiling(analysis, REFERENCE)
    assert usual is not None and usual["lanes"] == 1
    assert cheapest(analysis, REFERENCE, usual)["lanes"] == 1


def test_time_is_at_least_that_of_memory() -> None:
    for text in (rows("1024x4096", "%i, %j", 2), rows("4096x1024", "%j, %i")):
        analysis = analysed(parse(text))
        for one in tilings(analysis, REFERENCE):
            counted = counts(analysis, **one)
            assert time_of(counted, REFERENCE) >= ideal_of(counted, REFERENCE)
        whole, ideal = time_whole(nest_of(parse(text)), REFERENCE)
        assert 1 < ideal < whole


def biased(height: int, width: int, rows: int = 1) -> str:
    """Rows, to each of which the same rows are added."""
    x, b = f"tensor<{height}x{width}xf32{PLAIN}>", f"tensor<{width}xf32{PLAIN}>"
    adds = "\n".join(
        f"%w{k} = loops.load %b{k}[%j] : {b}\n %v{k + 1} = elem.add %v{k}, %w{k} : f32" for k in range(rows)
    )
    return f"""
    func.func @main(%x : {x}, {", ".join(f"%b{k} : {b}" for k in range(rows))}) -> {x} {{
      %y = loops.nest (%i : {height}, %j : {width}) outs(%o : {x}) {{
        %v0 = loops.load %x[%i, %j] : {x}
        {adds}
        loops.store %v{rows}, %o[%i, %j] : {x}
      }}
      func.return %y : {x}
    }}"""


def running(kind: str, points: int, columns: int, *, down: bool) -> str:
    """Running values of columns, or of rows."""
    sizes, place = (f"{points}x{columns}", "%j, %i") if down else (f"{columns}x{points}", "%i, %j")
    x, y = f"tensor<{sizes}xf32{PLAIN}>", f"tensor<{sizes}xi64{PLAIN}>"
    places = ("%r, %k", f"loops.store %k, %p[{place}] : {y}") if "arg" in kind else ("%r", "")
    results = ("%y, %z", f"%o : {x}, %p : {y}", f"{x}, {y}") if "arg" in kind else ("%y", f"%o : {x}", x)
    return f"""
    func.func @main(%x : {x}) -> ({results[2]}) {{
      {results[0]} = loops.nest (%i : {columns}) outs({results[1]}) {{
        loops.scan (%j : {points}) {{
          %v = loops.load %x[{place}] : {x}
          {places[0]} = loops.running {kind} %v : f32
          loops.store %r, %o[{place}] : {x}
          {places[1]}
        }}
      }}
      func.return {results[0]} : {results[2]}
    }}"""


def test_rows_that_are_one_piece_are_read_in_vectors_and_what_they_share_is_not() -> None:
    """`%b[%i mod 1367]` ends where a row does, within a vector of four."""
    odd, even = (counts(analysed(parse(biased(4096, width))), along=0, lanes=1024, warps=4) for width in (1367, 1368))
    assert odd.loads == pytest.approx(4096 * 1367 * (2 / 4 + 1))
    assert even.loads == pytest.approx(4096 * 1368 * 3 / 4)
    # The threads have four neighbours of everything: what is no vector is found in four loads, each in all lines of the
    # warp, of which there are five where they begin anywhere.
    assert odd.lines == pytest.approx(4096 * 1367 * (2 / 32 + 5 / 32), rel=0.02)


def test_tiles_of_rows_share_what_rows_share() -> None:
    analysis = analysed(parse(biased(65536, 1367, 4)))
    usual = usual_tiling(analysis, REFERENCE)
    assert usual is not None and "height" not in usual
    found = cheapest(analysis, REFERENCE, usual)
    assert found["height"] >= 8 and found["along"] == 1
    costs = TileCosts(analysis, REFERENCE)
    assert costs.time(found) < 0.8 * costs.time(usual)


def test_short_columns_are_scanned_whole_or_one_by_one() -> None:
    """Steps of 4 took five times as long as a tile of all 10 points; of 100 points there are steps."""
    short = list(tilings(analysed(parse(running("last_argmax", 10, 1315840, down=True))), REFERENCE))
    assert {one["lanes"] for one in short} <= {1, 16}
    assert any(
        1 < one["lanes"] < 128 for one in tilings(analysed(parse(running("sum", 100, 65536, down=True))), REFERENCE)
    )


def test_loads_after_stores_wait() -> None:
    """What a lane scans one by one it stores: 43 steps took 23.5 us on an H100 when each waited for memory. Now eight
    read at a time, in 6 groups. A sum stores nothing.
    """
    scan = counts(analysed(parse(running("sum", 43, 52224, down=True))), along=1, rows=128, lanes=1, warps=2)
    total = counts(analysed(parse(rows("43x52224", "%j, %i"))), along=1, rows=128, lanes=1, warps=2)
    assert (scan.steps, scan.single_steps) == (6, 43 - 6)
    assert total.single_steps == 43 and total.steps <= 2


def test_threads_scan_columns_by_themselves_where_there_are_enough() -> None:
    for kind in ("sum", "last_argmax"):
        analysis = analysed(parse(running(kind, 512, 126528, down=True)))
        usual = usual_tiling(analysis, REFERENCE)
        assert usual is not None
        found, costs = cheapest(analysis, REFERENCE, usual), TileCosts(analysis, REFERENCE)
        assert found["rows"] >= 32 * found["warps"] and found["lanes"] <= 64
        assert costs.counts(found).scans * 4 < costs.counts(usual).scans
    for text in (running("sum", 1024, 4887, down=True), running("sum", 17, 9437175, down=False)):
        few = analysed(parse(text))
        usual = usual_tiling(few, REFERENCE)
        assert usual is not None and cheapest(few, REFERENCE, usual) == usual


def test_steps_of_scans_are_those_of_the_machine_code() -> None:
    """Of 64 f32 of a thread that has them alone 124 additions; of 32 of one that shares 256 points of a column with
    seven, each of which stands between others, 419, and as many selections and loads besides.
    """
    analysis = analysed(parse(running("sum", 512, 65536, down=True)))
    alone = counts(analysis, along=1, rows=128, lanes=16, warps=1)
    shared = counts(analysis, along=1, rows=32, lanes=256, warps=8)
    elements = 512 * 65536
    assert alone.scans / elements == pytest.approx(2 * 2)
    assert (alone.meets, shared.meets > 0) == (0, True)
    assert 6 < shared.scans / alone.scans < 16


@pytest.mark.parametrize(
    "text",
    [
        *(rows("24x40", "%i, %j", 2), rows("40x24", "%j, %i"), rows("7x129", "%i, %j", 2), biased(19, 37)),
        *(running("sum", 37, 66, down=True), running("last_argmax", 20, 70, down=True)),
    ],
)
def test_every_tiling_means_the_same(text: str) -> None:
    module = parse(text)
    analysis = analysed(module)
    assert has_tilings(analysis)
    every = list(tilings(analysis, REFERENCE))
    every += [
        more
        for one in random.Random(0).sample(every, min(4, len(every)))
        for more in refinements(analysis, REFERENCE, one)
    ]
    for one in every:
        after = with_choices(module, one)
        to_kernel(after, machine=REFERENCE)
        check_equivalent(module, after, pass_name=str(one))
        (func,) = (op for op in after.walk() if isinstance(op, kernel.FuncOp))
        assert f"warps = {one['warps']}" in str(func.properties["schedule"])


def turned(axis: int, points: int, last: int) -> str:
    """What lies along the first axis is stored along the last two, of which the last is short."""
    x, y = f"tensor<{last}x{points}x{axis}xf32{PLAIN}>", f"tensor<{axis}x{points}x{last}xf32{PLAIN}>"
    return f"""
    func.func @main(%x : {x}) -> {y} {{
      %y = loops.nest (%i : {axis}, %j : {points}, %k : {last}) outs(%o : {y}) {{
        %v = loops.load %x[%k, %j, %i] : {x}
        loops.store %v, %o[%i, %j, %k] : {y}
      }}
      func.return %y : {y}
    }}"""


def test_short_last_axes_are_one_with_those_before_them() -> None:
    """Three numbers are no row: it took 9 times as long as TorchInductor where they were one."""
    found = choose(analysed(parse(turned(48, 596752, 3))), REFERENCE)
    tiles = [one.tile for one in found.parallel]
    assert tiles == [16, 128], "along the first axis, and along the other two as one"
    every = [one.get("joined") for one in tilings(analysed(parse(turned(48, 4096, 32))), REFERENCE)]
    assert not any(every), "near miss: the last axis fills a warp"


def products_of_images(strides: str) -> str:
    one, other = (f"tensor<32x240x784xf32, #aten.layout<strides = {lie}>>" for lie in ("[188160, 784, 1]", strides))
    return f"""
    func.func @main(%x : {one}, %y : {other}) -> tensor<32x240xf32> {{
      %z = loops.nest (%i : 32, %j : 240) outs(%o : tensor<32x240xf32>) {{
        %s = loops.reduce sum (%k : 784) {{
          %a = loops.load %x[%i, %j, %k] : {one}
          %b = loops.load %y[%i, %j, %k] : {other}
          %c = elem.mul %a, %b : f32
          loops.yield %c : f32
        }} : f32
        loops.store %s, %o[%i, %j] : tensor<32x240xf32>
      }}
      func.return %z : tensor<32x240xf32>
    }}"""


def test_what_one_tensor_has_in_rows_and_another_in_columns_is_reduced_in_tiles_of_both() -> None:
    """A row in one tile took 45 us, and 27 to 34 in tiles. Near miss: rows of both."""
    mixed, rows = (
        choose(analysed(parse(products_of_images(lie))), REFERENCE) for lie in ("[188160, 1, 240]", "[188160, 784, 1]")
    )
    ((_, lanes),) = mixed.loops.values()
    assert 16 <= lanes <= 256
    ((_, lanes),) = rows.loops.values()
    assert lanes == 1024


def test_tiles_along_joined_axes_mean_the_same() -> None:
    module = parse(turned(10, 50, 3))
    analysis = analysed(module)
    joined = [one for one in tilings(analysis, REFERENCE) if "joined" in one]
    joined += [{"along": 2, "lanes": 8, "joined": 2, "across": 1, "height": 32, "warps": 1}]
    assert len(joined) > 2
    for one in joined:
        after = with_choices(module, one)
        to_kernel(after, machine=REFERENCE)
        check_equivalent(module, after, pass_name=str(one))


def test_more_joined_axes_than_there_are_are_told() -> None:
    module = with_choices(parse(turned(10, 50, 3)), {"along": 1, "lanes": 32, "joined": 4})
    with pytest.raises(CuestaError, match="joined = 4, but it has 3 parallel axes when merged"):
        to_kernel(module, machine=REFERENCE)
    module = with_choices(parse(turned(10, 50, 3)), {"joined": 2})
    with pytest.raises(CuestaError, match="says joined, but not along"):
        to_kernel(module, machine=REFERENCE)
    module = with_choices(parse(turned(10, 50, 3)), {"along": 3, "lanes": 32, "joined": 2})
    with pytest.raises(CuestaError, match="along = 3, but it has 2 parallel axes when merged"):
        to_kernel(module, machine=REFERENCE)


def test_tilings_are_ranked_and_distinct() -> None:
    analysis = analysed(parse(rows("4096x1024", "%i, %j", 2)))
    found = ranked(analysis, REFERENCE)
    assert len({tuple(sorted(one.items())) for one in found}) == len(found) > 10
    costs = TileCosts(analysis, REFERENCE)
    times = [costs.time(one) for one in found]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "choices", [{"along": 2, "rows": 4, "lanes": 64}, {"along": 1, "rows": 4, "lanes": 1, "across": 3, "height": 4}]
)
def test_an_axis_that_there_is_not_is_told(choices: dict[str, int]) -> None:
    module = with_choices(parse(rows("64x64", "%i, %j")), choices)
    with pytest.raises(CuestaError, match="but it has 1 parallel axes when merged"):
        to_kernel(module, machine=REFERENCE)


@pytest.mark.parametrize(
    "choices",
    [
        {"along": 1, "rows": 4, "lanes": 1, "height": 4},
        {"along": 1, "rows": 4, "lanes": 1, "across": 1, "height": 4},
        {"along": 0, "rows": 4, "lanes": 1, "across": 1, "height": 4},
        {"height": 4},
    ],
)
def test_a_height_along_no_axis_of_its_own_is_told(choices: dict[str, int]) -> None:
    module = with_choices(parse(rows("64x64", "%i, %j")), choices)
    with pytest.raises(CuestaError, match="not along and across two axes"):
        to_kernel(module, machine=REFERENCE)


def maxima_and_masks(stored: str) -> NestAnalysis:
    """Maxima over 4 numbers that are 8192 apart, and what is stored of whether each is one."""
    text = f"""
    func.func @main(%x : tensor<64x4x8192xf32{PLAIN}>)
        -> (tensor<64x8192xf32{PLAIN}>, tensor<64x4x8192x{stored}{PLAIN}>) {{
      %m, %e = loops.nest (%i : 64, %j : 8192)
          outs(%o : tensor<64x8192xf32{PLAIN}>, %p : tensor<64x4x8192x{stored}{PLAIN}>) {{
        %s = loops.reduce maximum (%k : 4) {{
          %v = loops.load %x[%i, %k, %j] : tensor<64x4x8192xf32{PLAIN}>
          loops.yield %v : f32
        }} : f32
        loops.store %s, %o[%i, %j] : tensor<64x8192xf32{PLAIN}>
        loops.for (%k : 4) {{
          %v = loops.load %x[%i, %k, %j] : tensor<64x4x8192xf32{PLAIN}>
          %b = elem.eq %s, %v : f32
          {"%c = elem.convert %b : i1 to f32" if stored == "f32" else "%c = elem.or %b, %b : i1"}
          loops.store %c, %p[%i, %k, %j] : tensor<64x4x8192x{stored}{PLAIN}>
        }}
      }}
      func.return %m, %e : tensor<64x8192xf32{PLAIN}>, tensor<64x4x8192x{stored}{PLAIN}>
    }}"""
    return analysed(parse(text))


def test_threads_have_as_many_rows_as_the_widest_vector_and_warps_exchange_the_rest() -> None:
    # 16 bytes of bools are 16 rows of each thread, so that 64 threads are 16 along 256 rows and 4 along what is
    # reduced; of f32 alone they are 64 along the rows, which have all of it. One warp tells itself.
    masks, numbers = (TileCosts(maxima_and_masks(stored), REFERENCE) for stored in ("i1", "f32"))
    two = {"along": 1, "rows": 256, "lanes": 4, "warps": 2}
    assert masks.counts(two).exchanged == 64 * 8192, "of each row, what one of two warps came to"
    assert numbers.counts(two).exchanged == 0
    assert masks.counts({**two, "rows": 128, "warps": 1}).exchanged == 0
    assert masks.time(two) > 1.25 * masks.time({**two, "rows": 128, "warps": 1})
    assert masks.counts(masks.best()).exchanged == 0


def test_what_is_changed_in_order_keeps_its_tiles() -> None:
    text = f"""
    func.func @main(%x : tensor<60x20xf32{PLAIN}>, %k : tensor<60xi64{PLAIN}>) -> tensor<90x20xf32{PLAIN}> {{
      %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32{PLAIN}>) {{
        loops.scan (%i : 60) {{
          %n = loops.load %k[%i] : tensor<60xi64{PLAIN}>
          %r = loops.bound %n, 90 : i64
          %a = loops.load %x[%i, %j] : tensor<60x20xf32{PLAIN}>
          loops.combine assign %a, %o[%r, %j] : tensor<90x20xf32{PLAIN}>
        }}
      }}
      func.return %y : tensor<90x20xf32{PLAIN}>
    }}"""
    module = parse(text)
    assert not has_tilings(analysed(module))
    tiled = with_choices(module, {"along": 1, "rows": 4, "lanes": 16, "warps": 4})
    plain = with_choices(module, {"warps": 4})
    texts = []
    for one in (tiled, plain):
        to_kernel(one, machine=REFERENCE)
        texts.append([str(op) for op in one.walk() if isinstance(op, kernel.FuncOp)])
    assert texts[0] == texts[1] != []


def test_what_a_tiling_leaves_out_is_one_lane() -> None:
    module = parse(rows("24x40", "%i, %j"))
    after = with_choices(module, {"along": 1})
    to_kernel(after, machine=REFERENCE)
    check_equivalent(module, after, pass_name="along alone")


def test_the_bound_is_of_what_ran() -> None:
    assert bound({"times": [3.0, 2.0, 0.0]}) == 1.5


def halves(height: int, half: int) -> NestAnalysis:
    """Both halves of rows, read and stored by one point."""
    x = f"tensor<{height}x{2 * half}xf32{PLAIN}>"
    text = f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%i : {height}, %j : {half}) outs(%o : {x}) {{
        %a = loops.load %x[%i, %j] : {x}
        %b = loops.load %x[%i, %j + {half}] : {x}
        %c = elem.exp %a : f32
        %d = elem.mul %b, %c : f32
        loops.store %c, %o[%i, %j] : {x}
        loops.store %d, %o[%i, %j + {half}] : {x}
      }}
      func.return %y : {x}
    }}"""
    return analysed(parse(text))


def test_parts_that_one_point_touches_are_all_of_a_tensor_once() -> None:
    for height, half in ((256, 4096), (131072, 4)):
        counted = counts(halves(height, half), along=0, lanes=1024, warps=4)
        assert counted.memory == 2 * 4 * height * 2 * half, "each half is read, and stored, once"
        assert counted.again == 0


def test_sectors_that_parts_fill_together_are_whole() -> None:
    """Rows of 8 numbers, of which one store takes 16 bytes and another the next 16."""
    narrow = counts(halves(131072, 4), along=0, lanes=1024, warps=4)
    wide = counts(halves(256, 2048), along=0, lanes=1024, warps=4)
    assert narrow.broken <= 4 * narrow.programs, "the ends of what a program stores"
    assert narrow.cache < 1.02 * wide.cache, "the second part finds what came with the first"


def test_windows_of_one_tensor_overlap() -> None:
    """What the neighbours of a point read is read by them, too: no second tensor."""
    x = f"tensor<512x512xf32{PLAIN}>"
    text = f"""
    func.func @main(%x : {x}) -> tensor<511x511xf32{PLAIN}> {{
      %y = loops.nest (%i : 511, %j : 511) outs(%o : tensor<511x511xf32{PLAIN}>) {{
        %a = loops.load %x[%i, %j] : {x}
        %b = loops.load %x[%i + 1, %j] : {x}
        %c = elem.add %a, %b : f32
        loops.store %c, %o[%i, %j] : tensor<511x511xf32{PLAIN}>
      }}
      func.return %y : tensor<511x511xf32{PLAIN}>
    }}"""
    counted = counts(analysed(parse(text)), along=0, lanes=1024, warps=4)
    assert counted.memory == 2 * 4 * 511 * 511
    assert 0 < counted.again < 0.1 * counted.memory, "the cache has it"


def test_what_is_read_again_after_more_than_a_cache_holds_is_read_from_memory() -> None:
    """Ten rows read the same one; between two of them lies all that a row touches. Near miss: what a cache holds."""
    far, near = (TileCosts(analysed(parse(biased(10, width, 4))), REFERENCE) for width in (2097152, 65536))
    rows = {"along": 1, "lanes": 1024, "warps": 4}
    tile = {"along": 1, "lanes": 64, "across": 2, "height": 16, "warps": 4}
    assert far.counts(rows).again == pytest.approx(9 * 4 * 4 * 2097152)
    assert far.counts(tile).again == 0, "a tile of all rows reads it once"
    assert near.counts(rows).again == 0


def test_a_program_more_is_a_round_more() -> None:
    """Of what a processor does by itself: 145 programs took as long as 264."""
    costs = TileCosts(analysed(parse(rows("26x73737", "%j, %i"))), REFERENCE)
    some = costs.counts({"along": 1, "rows": 512, "lanes": 1, "warps": 8})
    assert some.programs == 145
    time = [time_of(replace(some, programs=count), REFERENCE) - times.LAUNCH for count in (132, 133, 264)]
    assert time[1] > 1.1 * time[0]
    assert time[1] > time[2]


def test_registers_are_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of 32 warps is alone as soon as its threads have more than 32: that is counted where they might. Near
    miss: of four warps a processor has many, with some registers more as well.
    """
    counts = TileCosts(analysed(parse(biased(65536, 1368))), REFERENCE).counts({"along": 0, "lanes": 4096, "warps": 32})
    few = replace(counts, warps=4, programs=8 * counts.programs)
    unsure = [time_of(one, REFERENCE) for one in (counts, few)]
    monkeypatch.setattr(times, "UNSURE", (1.0,))
    sure = [time_of(one, REFERENCE) for one in (counts, few)]
    assert unsure[0] > 1.02 * sure[0]
    assert unsure[1] < 1.02 * sure[1]
