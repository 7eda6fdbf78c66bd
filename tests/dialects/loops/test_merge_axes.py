"""The order of the points of a nest: that of the memory that most of its bytes come from, or go to."""

from __future__ import annotations

import pytest

from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.memory_orders import best_order
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.dialects.loops.structure import NestOp
from cuesta.transforms.reductions.domains import Runs
from cuesta.transforms.reductions.members import members_of
from tests.support.triton_interpreter import check, parse


def merged(text: str) -> NestAnalysis:
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, NestOp))
    analysis = analyse(nest, {}, [True])
    merge_axes(analysis)
    return analysis


def of_columns(rows: int) -> str:
    """A part of so many rows of 65 columns, of 512; the result has the parts of a column side by side."""
    kind, out = f"tensor<{512 * rows}x65xf32>", "tensor<65x512xf32>"
    return f"""
    func.func @main(%x : {kind}) -> {out} {{
      %y = loops.nest (%c : 65, %p : 512) outs(%o : {out}) {{
        %m = loops.reduce maximum (%r : {rows}) {{
          %v = loops.load %x[%p * {rows} + %r, %c] : {kind}
          loops.yield %v : f32
        }} : f32
        loops.store %m, %o[%c, %p] : {out}
      }}
      func.return %y : {out}
    }}"""


@pytest.mark.parametrize(("rows", "order"), [(512, [1, 0]), (8, [1, 0]), (4, [0, 1])])
def test_what_is_read_decides_where_it_is_much_more(rows: int, order: list[int]) -> None:
    """By axis: the columns are 0, the parts 1."""
    assert merged(of_columns(rows)).root.axes == order


def test_a_window_reads_no_more_than_there_is() -> None:
    """Nine elements for every point, of a tensor that is no larger than the result: that decides, as it did."""
    text = """
    func.func @main(%x : tensor<66x130xf32>) -> tensor<128x64xf32> {
      %y = loops.nest (%i : 64, %j : 128) outs(%o : tensor<128x64xf32>) {
        %m = loops.reduce maximum (%a : 3, %b : 3) {
          %v = loops.load %x[%i + %a, %j + %b] : tensor<66x130xf32>
          loops.yield %v : f32
        } : f32
        loops.store %m, %o[%j, %i] : tensor<128x64xf32>
      }
      func.return %y : tensor<128x64xf32>
    }"""
    assert merged(text).root.axes == [1, 0]


def loss(device: str, channels: int, pixels: int = 65536) -> str:
    """A sum over images, of one tensor that lies channels last, and one that does not."""
    where = f'device = "{device}"'
    last = f"tensor<8x{channels}x{pixels}xf32, #aten.layout<strides = [{channels * pixels}, 1, {channels}], {where}>>"
    plain, out = f"tensor<8x{channels}x{pixels}xf32, #aten.layout<{where}>>", f"tensor<8xf32, #aten.layout<{where}>>"
    return f"""
    func.func @main(%x : {last}, %y : {plain}) -> {out} {{
      %z = loops.nest (%i : 8) outs(%o : {out}) {{
        %s = loops.reduce sum (%c : {channels}, %p : {pixels}) {{
          %b = loops.load %y[%i, %c, %p] : {plain}
          %a = loops.load %x[%i, %c, %p] : {last}
          %d = elem.mul %a, %b : f32
          loops.yield %d : f32
        }} : f32
        loops.store %s, %o[%i] : {out}
      }}
      func.return %z : {out}
    }}"""


@pytest.mark.parametrize(
    ("device", "channels", "order"),
    [
        ("cuda:0", 4, [2, 1]),
        ("cuda:0", 64, [2, 1]),
        ("cpu", 4, [1, 2]),  # where vectors go along pixels
    ],
)
def test_a_sum_on_a_gpu_comes_in_the_order_of_the_fewest_sectors(device: str, channels: int, order: list[int]) -> None:
    """By axis: the channels are 1, the pixels 2."""
    (reduction,) = merged(loss(device, channels)).root.loops
    assert reduction.axes == order


@pytest.mark.parametrize("usual", [(0, 1), (1, 0)])
def test_an_order_stays_where_no_other_is_clearly_better(usual: tuple[int, int]) -> None:
    many, alike = [[4, 4 * 4096], [4 * 65536, 4]], [[4, 4 * 64], [4, 4 * 64]]
    assert best_order((4096, 65536), many, usual) == usual, "one of them goes across, whatever the order"
    assert best_order((64, 65536), alike, usual) == (1, 0), "both lie so"
    few = [[4, 4 * 64], [4 * 65536, 4]]
    assert best_order((64, 65536), few, usual) == (1, 0)


def test_parts_of_such_a_sum_are_pieces_of_pixels_with_all_their_channels() -> None:
    module = parse(loss("cuda:0", 4).replace("8x", "1x").replace("%i : 8", "%i : 1"))
    (nest,) = (op for op in entry_block(module).ops if isinstance(op, NestOp))
    members = members_of(nest)
    assert members
    parts = Runs(analyse(nest, {}, [True]), members).parts(8192)
    assert parts.outer == (32,) and parts.inner == (2048, 4)


@pytest.mark.parametrize("channels", [3, 4])
def test_it_is_computed_right(channels: int) -> None:
    module = parse(loss("cuda:0", channels, 100))
    check(module)
