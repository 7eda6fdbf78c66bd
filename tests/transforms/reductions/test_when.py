"""What is chosen for nests that reduce, on a GPU; nothing is computed."""

from __future__ import annotations

from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import traced
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.reductions.when import choose_part_on_gpu
from tests.support.text import parse


def group_norm(channels: int, layout: str) -> dict[str, int]:
    """The choice for a norm of 256 groups of so many of 16 channels, of 65536 points."""
    images, width = 16 * channels, 512 // channels
    x = f'tensor<{images}x16x128x{width}xf32, #aten.layout<{layout}device = "cuda:0">>'
    at = f"%n, %g * {channels} + %c, %h, %w"
    body = f"%a = loops.load %x[{at}] : {x}"
    text = f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%n : {images}, %g : {16 // channels}) outs(%o : {x}) {{
        %s = loops.reduce sum (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          loops.yield %a : f32
        }} : f32
        %k = elem.constant 1.52587890625e-05 : f32
        %m = elem.mul %s, %k : f32
        %q = loops.reduce sum (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          %d = elem.sub %a, %m : f32
          %e = elem.mul %d, %d : f32
          loops.yield %e : f32
        }} : f32
        %v = elem.rsqrt %q : f32
        loops.for (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          %d = elem.sub %a, %m : f32
          %e = elem.mul %d, %v : f32
          loops.store %e, %o[{at}] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def last(width: int) -> str:
    """The layout of images of 128 x `width` points, channels last."""
    return f"strides = [{2048 * width}, 1, {16 * width}, 16], "


def test_groups_that_share_sectors_are_taken_in_parts() -> None:
    """Two groups of four f32 lie in a sector, of which each program would read the half."""
    assert "part" in group_norm(4, last(128)) and "cooperative" not in group_norm(4, last(128))
    assert group_norm(8, last(64)) == {}, "a group has sectors of its own"


def norm_of_columns(columns: int, points: int, last: str) -> dict[str, int]:
    """The choice for columns over their norms, and the derivative of that, which adds up what the norm gave."""
    x = f'tensor<{columns // 15}x{points}x15xf32, #aten.layout<device = "cuda:0">>'
    text = f"""
    func.func @main(%x : {x}) -> ({x}, {x}) {{
      %y, %z = loops.nest (%i : {columns // 15}, %j : 15) outs(%o : {x}, %p : {x}) {{
        %s = loops.reduce sum (%k : {points}) {{
          %a = loops.load %x[%i, %k, %j] : {x}
          %q = elem.mul %a, %a : f32
          loops.yield %q : f32
        }} : f32
        %r = elem.sqrt %s : f32
        loops.for (%k : {points}) {{
          %a = loops.load %x[%i, %k, %j] : {x}
          %d = elem.div %a, %r : f32
          loops.store %d, %o[%i, %k, %j] : {x}
        }}
        %t = loops.reduce sum (%k : {points}) {{
          %a = loops.load %o[%i, %k, %j] : {x}
          %d = elem.div %a, %r : f32
          loops.yield %d : f32
        }} : f32
        loops.for (%k : {points}) {{
          %a = loops.load %x[%i, %k, %j] : {x}
          %d = elem.mul %a, {last} : f32
          loops.store %d, %p[%i, %k, %j] : {x}
        }}
      }}
      func.return %y, %z : {x}, {x}
    }}
    """
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_six_launches_are_not_two() -> None:
    """On an H100 510 columns of 817 f32 took 22.5 us in six kernels, and 10.5 as one with tiles of 8 columns."""
    assert norm_of_columns(510, 817, "%t") == {}
    assert "part" in norm_of_columns(510, 32768, "%t")


def statistics(images: int, channels: int, size: int, dtype: str) -> dict[str, int]:
    """The choice for means and variances of images, channels last."""
    strides = f"[{channels * size * size}, 1, {channels * size}, {channels}]"
    x = f'tensor<{images}x{channels}x{size}x{size}x{dtype}, #aten.layout<strides = {strides}, device = "cuda:0">>'
    y = f'tensor<{images * channels}xf32, #aten.layout<device = "cuda:0">>'
    at = f"%i floordiv {channels}, %i mod {channels}, %h, %w"
    read = f"%b = loops.load %x[{at}] : {x}\n" + (
        "%a = elem.add %b, %b : f32" if dtype == "f32" else f"%a = elem.convert %b : {dtype} to f32"
    )
    text = f"""
    func.func @main(%x : {x}) -> {y} {{
      %y = loops.nest (%i : {images * channels}) outs(%o : {y}) {{
        %s = loops.reduce sum (%h : {size}, %w : {size}) {{
          {read}
          loops.yield %a : f32
        }} : f32
        %n = elem.constant {size * size}.0 : f32
        %m = elem.div %s, %n : f32
        %v = loops.reduce sum (%h : {size}, %w : {size}) {{
          {read}
          %d = elem.sub %a, %m : f32
          %q = elem.mul %d, %d : f32
          loops.yield %q : f32
        }} : f32
        loops.store %v, %o[%i] : {y}
      }}
      func.return %y : {y}
    }}
    """
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_long_columns_of_few_channels_are_in_parts_and_short_ones_in_tiles() -> None:
    """Whole, the first took 37 us on an H100, in 32 programs; the second 14.8 in tiles of 8 columns, in parts 16.0."""
    assert "part" in statistics(16, 16, 127, "f32")
    assert statistics(128, 16, 57, "bf16") == {}


def sums(number: int, columns: int, points: int = 4000) -> dict[str, int]:
    """The choice for sums of so many numbers, so many of them beside each other, so many times."""
    x, y = (
        f'tensor<{sizes}xf32, #aten.layout<device = "cuda:0">>'
        for sizes in (f"{number}x{points}x{columns}", f"{number}x{columns}")
    )
    text = f"""
    func.func @main(%x : {x}) -> {y} {{
      %y = loops.nest (%n : {number}, %c : {columns}) outs(%o : {y}) {{
        %s = loops.reduce sum (%k : {points}) {{
          %a = loops.load %x[%n, %k, %c] : {x}
          loops.yield %a : f32
        }} : f32
        loops.store %s, %o[%n, %c] : {y}
      }}
      func.return %y : {y}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_few_columns_that_are_one_piece_are_no_strips() -> None:
    assert sums(300, 2) == {}
    assert sums(20, 2, 8000) == {"part": 1024}, "near miss: so few that processors have none"


def batch_norm(images: int, inner: int) -> dict[str, int]:
    """The choice for a norm of 24 channels, of so many images of so many numbers each."""
    x = f'tensor<{images}x24x{inner}xf32, #aten.layout<device = "cuda:0">>'
    body = f"%a = loops.load %x[%n, %c, %w] : {x}"
    text = f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%c : 24) outs(%o : {x}) {{
        %s = loops.reduce sum (%n : {images}, %w : {inner}) {{
          {body}
          loops.yield %a : f32
        }} : f32
        %k = elem.constant 1.0e-06 : f32
        %m = elem.mul %s, %k : f32
        loops.for (%n : {images}, %w : {inner}) {{
          {body}
          %d = elem.sub %a, %m : f32
          loops.store %d, %o[%n, %c, %w] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_programs_do_not_meet_over_short_pieces_of_memory() -> None:
    """26 numbers are 104 bytes, between those of other channels: programs that met took 2.4 times as long as parts."""
    assert "part" in batch_norm(98304, 26) and "cooperative" not in batch_norm(98304, 26)
    assert "cooperative" in batch_norm(40000, 64), "near miss: pieces of two segments"


def norm_down(rows: int, columns: int) -> dict[str, int]:
    """The choice for columns of bf16 less their means."""
    x = f'tensor<{rows}x{columns}xbf16, #aten.layout<device = "cuda:0">>'
    body = f"%b = loops.load %x[%n, %c] : {x} %a = elem.convert %b : bf16 to f32"
    text = f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%c : {columns}) outs(%o : {x}) {{
        %s = loops.reduce sum (%n : {rows}) {{
          {body}
          loops.yield %a : f32
        }} : f32
        %k = elem.constant 1.0e-04 : f32
        %m = elem.mul %s, %k : f32
        %q = loops.reduce sum (%n : {rows}) {{
          {body}
          %d = elem.sub %a, %m : f32
          %e = elem.mul %d, %d : f32
          loops.yield %e : f32
        }} : f32
        loops.for (%n : {rows}) {{
          {body}
          %d = elem.sub %a, %q : f32
          %e = elem.convert %d : f32 to bf16
          loops.store %e, %o[%n, %c] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_few_long_columns_that_are_gone_down_again_are_in_parts() -> None:
    """64 programs of 16 columns took 137 us on an H200, where TorchInductor took 59."""
    assert "part" in norm_down(19866, 1024)
    assert norm_down(8192, 1024) == {}, "near miss: shorter ones"


def chosen(line: str) -> list[dict[str, int]]:
    """What is chosen for the nests of a random program that have parts."""
    module = on_cuda(import_graph(traced(line, "cpu")).module)
    stages = default_stages()
    run_pipeline(make_context(), module, stages[: [stage.label for stage in stages].index("choose-parts")])
    nests = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    return [choice for nest in nests if (choice := choose_part_on_gpu(nest, REFERENCE))]


def test_few_long_rows_wait_alone() -> None:
    """Rows of 32772 f32, of which there are 68: 44 us on an H200, 19 in parts. Near misses: 31 softmaxes of 24576, 9.1
    and 11.9; 2314 norms.
    """
    assert chosen("f32 4x17x4x8193x1 | variance 0 3") == [{"part": 8192}]
    assert chosen("f32 31x1x24576x1 | softmax 2") == []
    assert chosen("bf16 1157x2x24576 | instance_norm") == []


def test_a_part_of_columns_that_are_one_piece_has_all_of_them_in_its_tile() -> None:
    """Of 8192 points of three columns it had 32768 elements, and took 229 us; 50."""
    assert chosen("bf16 16777216x1x3 | logsumexp 0") == [{"part": 2048}]


def gradient_of_weights(rows: int, *, beside: bool) -> dict[str, int]:
    """The choice for sums of 256 columns of so many rows, of their product with a number for each row if `beside`."""
    kind, numbers = (f'tensor<{sizes}xf32, #aten.layout<device = "cuda:0">>' for sizes in (f"{rows}x256", rows))
    out = 'tensor<256xf32, #aten.layout<device = "cuda:0">>'
    times = f"%b = loops.load %m[%i] : {numbers}\n %c = elem.mul %a, %b : f32" if beside else "%c = elem.abs %a : f32"
    module = parse(f"""
    func.func @main(%x : {kind}, %m : {numbers}) -> {out} {{
      %y = loops.nest (%j : 256) outs(%o : {out}) {{
        %s = loops.reduce sum (%i : {rows}) {{
          %a = loops.load %x[%i, %j] : {kind}
          {times}
          loops.yield %c : f32
        }} : f32
        loops.store %s, %o[%j] : {out}
      }}
      func.return %y : {out}
    }}""")
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    return choose_part_on_gpu(nest, REFERENCE)


def test_parts_of_columns_that_read_several_things_are_longer() -> None:
    """Near misses: one thing, and fewer than eight such parts."""
    assert gradient_of_weights(65536, beside=True) == {"part": 2048}
    assert gradient_of_weights(65536, beside=False) == {"part": 256}
    assert gradient_of_weights(16384 - 256, beside=True).get("part", 0) < 2048


def greatest_and_how_often(rows: int, columns: int) -> dict[str, int]:
    """The choice for the greatest of so many numbers, and how many of a table are as great."""
    x, y, z = (
        f'tensor<{sizes}, #aten.layout<device = "cuda:0">>' for sizes in (f"{rows}xf32", f"{rows}x{columns}xf32", "i64")
    )
    text = f"""
    func.func @main(%x : {x}, %y : {y}) -> {z} {{
      %z = loops.nest () outs(%o : {z}) {{
        %m = loops.reduce maximum (%i : {rows}) {{
          %a = loops.load %x[%i] : {x}
          loops.yield %a : f32
        }} : f32
        %s = loops.reduce sum (%i : {rows}, %j : {columns}) {{
          %a = loops.load %y[%i, %j] : {y}
          %e = elem.eq %m, %a : f32
          %n = elem.convert %e : i1 to i64
          loops.yield %n : i64
        }} : i64
        loops.store %s, %o[] : {z}
      }}
      func.return %z : {z}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def test_what_a_later_reduction_reads_counts() -> None:
    """A gradient of `amax` over both axes of 16384 by 64 f32 took 115 us by one program, and 13.5 in parts."""
    assert "part" in greatest_and_how_often(16384, 64)
    assert greatest_and_how_often(16384, 1) == {}


def test_what_is_read_again_from_the_cache_costs_less() -> None:
    """A batch norm of 6268 by 256 f32 took 21 us in one kernel on an H200, and 15 in three."""
    line = "f32 6268x256 | batch_norm_train"
    module = on_cuda(import_graph(traced(line, "cpu")).module)
    stages = default_stages()
    labels = [stage.label for stage in stages]
    run_pipeline(make_context(), module, stages[: labels.index("choose-parts")])
    found = [choose_part_on_gpu(op, REFERENCE) for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    assert any("part" in one for one in found)
