"""Windows that slide: what they compute, through the reference interpreter, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import kernel, loops
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE, Machine, state_machine
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.schedule.gpu import sliding_windows
from cuesta.lowering.schedule.gpu.schedule_choices import candidates
from cuesta.lowering.schedule.gpu.schedule_gpu import usual_tiling
from cuesta.lowering.schedule.gpu.sliding_windows import best_slide
from cuesta.pipeline import Stage, run_pipeline
from cuesta.targets.reference import check_equivalent
from tests.support.triton_interpreter import check as check_on_cuda
from tests.support.triton_interpreter import parse

pytestmark = pytest.mark.slow

LOWERING = Stage("loops-to-kernel{target=cuda}", "")


@dataclass(frozen=True)
class Windows:
    """Square windows over images: their size, how far they are apart, the padding; and how far a program slides. With
    `last` the images lie as channels do that are last; `weighted` windows have weights, other ones for each image.
    """

    kind: str = "maximum"
    element: str = "f32"
    size: int = 3
    stride: int = 1
    padding: int = 0
    images: tuple[int, int, int] = (2, 17, 11)
    slide: int | None = None
    last: bool = False
    weighted: bool = False

    def type_of(self, element: str, *sizes: int) -> str:
        layout = f", #aten.layout<strides = [1, {sizes[2] * sizes[0]}, {sizes[0]}]>" if self.last else ""
        return f"tensor<{'x'.join(map(str, sizes))}x{element}{layout}>"

    def text(self) -> str:
        count, *sides = self.images
        rows, columns = ((side + 2 * self.padding - self.size) // self.stride + 1 for side in sides)
        source = self.type_of(self.element, *self.images)
        out, number = self.type_of("f32", count, rows, columns), self.type_of("i64", count, rows, columns)
        weights = f"tensor<{count}x{self.size}x{self.size}xf32>"
        argument = f", %h : {weights}" if self.weighted else ""
        product = f"""%g = loops.load %h[%n, %i, %j] : {weights}
              %c = elem.mul %b, %g : f32"""
        is_arg = self.kind.startswith("arg")
        places = [
            f"{axis} * {self.stride} + {offset} - {self.padding}" for axis, offset in (("%y", "%i"), ("%x", "%j"))
        ]
        masks = "\n".join(
            f"""%place{k} = loops.index [{place}] : i64
            %end{k} = elem.constant {side} : i64
            %low{k} = elem.ge %place{k}, %zero : i64
            %high{k} = elem.lt %place{k}, %end{k} : i64
            %in{k} = elem.and %low{k}, %high{k} : i1"""
            for k, (place, side) in enumerate(zip(places, sides, strict=True))
        )
        masked = " if %in else %other" if self.padding else ""
        schedule = "" if self.slide is None else f" schedule #loops.schedule<slide = {self.slide}>"
        return f"""
        func.func @main(%s : {source}{argument}) -> ({out}{f", {number}" if is_arg else ""}) {{
          %r, %q = loops.nest (%n : {count}, %y : {rows}, %x : {columns}) outs(%o : {out}, %p : {number}){schedule} {{
            %zero = elem.constant 0 : i64
            %other = elem.constant {"0.0" if self.kind in ("sum", "argmin") else "-inf"} : {self.element}
            %v{", %w" if is_arg else ""} = loops.reduce {self.kind} (%i : {self.size}, %j : {self.size}) {{
              {masks}
              %in = elem.and %in0, %in1 : i1
              %a = loops.load %s[%n, {places[0]}, {places[1]}]{masked} : {source}
              %b = elem.convert %a : {self.element} to f32
              {product if self.weighted else ""}
              loops.yield {"%c" if self.weighted else "%b"} : f32
            }} : f32{", i64" if is_arg else ""}
            loops.store %v, %o[%n, %y, %x] : {out}
            loops.store {"%w" if is_arg else "%zero"}, %p[%n, %y, %x] : {number}
          }}
          func.return %r{", %q" if is_arg else ""} : {out}{f", {number}" if is_arg else ""}
        }}"""

    def inputs(self) -> list[torch.Tensor]:
        """Many equal numbers, some NaN and infinities. No product is -0: a sum from 0 on, and one without, differ."""
        weights = [torch.randint(0, 4, (self.images[0], self.size, self.size)).float()] if self.weighted else []
        x = torch.randint(0 if self.weighted else -3, 4, self.images).float()
        if self.kind != "sum":
            chance = torch.rand(self.images)
            x = torch.where(chance < 0.05, torch.nan, torch.where(chance > 0.95, -torch.inf, x))
        x = x.to(torch.bfloat16 if self.element == "bf16" else torch.float32)
        return [x.permute(1, 2, 0).contiguous().permute(2, 0, 1) if self.last else x, *weights]


def lowered(text: str) -> ModuleOp:
    module = parse(text)
    run_pipeline(make_context(), module, [LOWERING], verify_each=True)
    return module


def loads(module: ModuleOp) -> int:
    return sum(isinstance(op, kernel.LoadOp) for op in module.walk())


CASES = [
    *(Windows(kind, slide=4) for kind in ("sum", "maximum", "minimum", "argmax", "argmin", "argmax_last_nan")),
    Windows(slide=5, images=(2, 12, 11)),
    Windows("argmax", stride=2, padding=1, slide=3),
    Windows("argmax", size=2, padding=1, slide=2, images=(3, 4, 4)),
    Windows("maximum", "bf16", size=5, padding=2, slide=8),
    Windows("sum", size=4, slide=14),
    Windows("sum", "bf16", stride=2, slide=7, images=(2, 17, 40)),
    # A lane has several neighbours.
    Windows("argmax_last_nan", stride=2, padding=1, slide=3, images=(2, 12, 16)),
    Windows("maximum", "bf16", size=5, padding=2, slide=4, images=(2, 9, 20)),
    Windows("sum", "bf16", padding=1, slide=5, images=(3, 11, 14)),
    Windows("maximum", "bf16", size=2, slide=4, images=(2, 10, 12)),
    # Depthwise convolutions, and images that are channels last.
    Windows("sum", padding=1, slide=4, weighted=True),
    Windows("sum", "bf16", stride=2, slide=3, images=(2, 17, 40), weighted=True),
    Windows("sum", padding=1, slide=4, images=(12, 20, 18), last=True, weighted=True),
    Windows("sum", "bf16", size=5, padding=2, slide=2, images=(8, 24, 20), last=True, weighted=True),
    Windows("maximum", padding=1, slide=4, images=(16, 11, 9), last=True),
]


@pytest.mark.parametrize("windows", CASES, ids=str)
def test_a_schedule_that_slides_computes_the_same(windows: Windows) -> None:
    torch.manual_seed(0)
    before, after = parse(windows.text()), lowered(windows.text())
    assert not any(isinstance(op, kernel.ReduceOp) for op in after.walk())
    check_equivalent(before, after, windows.inputs(), exact=True, pass_name=LOWERING.name, seed=0)


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("windows", [*CASES[3:8], *CASES[-9:]], ids=str)
def test_the_same_as_a_triton_kernel(windows: Windows) -> None:
    torch.manual_seed(0)
    check_on_cuda(parse(windows.text()), windows.inputs())


def test_rows_are_loaded_once() -> None:
    assert loads(lowered(Windows(slide=8, images=(2, 18, 11)).text())) == (8 + 2) * 3
    assert loads(lowered(Windows(slide=8, stride=2, images=(2, 33, 11)).text())) == (8 * 2 + 1) * 3


def test_rows_are_reduced_once() -> None:
    module = lowered(Windows(slide=8, images=(2, 18, 11)).text())
    maxima = sum(op.name == "elem.maximum" for op in module.walk())
    assert maxima == (8 + 2) * 2 + 8 * 2


def test_neighbours_of_a_lane_share_a_row() -> None:
    for padding in (0, 1):
        module = lowered(Windows(slide=4, padding=padding, images=(2, 18 - 2 * padding, 18 - 2 * padding)).text())
        assert loads(module) == (4 + 2) * (4 + 2)
    text = print_text(module)
    # All of a row but its first and last element lies in the image; where those do is one condition for every row.
    assert text.count("elem.lt") == text.count("elem.ge") == 2


def test_sums_of_products_are_fused() -> None:
    text = print_text(lowered(Windows("sum", slide=4, weighted=True).text()))
    assert text.count("elem.multiply_add") == 4 * 6 and text.count("elem.mul %") == 4 * 3  # one product in each row
    assert "elem.multiply_add" not in print_text(lowered(Windows("maximum", slide=4, weighted=True).text()))


def test_lanes_go_along_the_channels_that_lie_together() -> None:
    def lanes(windows: Windows) -> list[object]:
        return [op.uppers.results[-1] for op in lowered(windows.text()).walk() if isinstance(op, kernel.ForOp)]

    (along,) = lanes(Windows(images=(64, 256, 256), last=True, slide=4))
    (other,) = lanes(Windows(images=(64, 256, 256), slide=4))
    assert along != other
    text = print_text(lowered(Windows(images=(64, 256, 256), last=True, slide=4).text()))
    assert "vector" in text and text.count("kernel.load") == (4 + 2) * 3 * 4, "four channels of each lane"


def test_stores_come_after_all_loads() -> None:
    text = print_text(lowered(Windows(slide=4).text()))
    assert text.rindex("kernel.load") < text.index("kernel.store")


def test_the_last_tile_stores_only_what_is_its_own() -> None:
    dividing, other = (lowered(Windows(slide=slide).text()) for slide in (5, 4))  # of 15 rows
    assert " if " not in print_text(dividing)
    assert print_text(other).count(" if ") == 4 * 2  # both outs


def test_by_itself_where_windows_overlap_and_there_is_enough_to_do() -> None:
    def slides(windows: Windows) -> bool:
        return not any(isinstance(op, kernel.ReduceOp) for op in lowered(windows.text()).walk())

    many = (4096, 128, 128)
    assert slides(Windows(images=many))
    assert slides(Windows("argmax", stride=2, padding=1, images=many))
    assert not slides(Windows(size=2, stride=2, images=many))
    assert not slides(Windows(size=11, images=many))
    assert not slides(Windows(images=(1, 32, 32)))
    assert not slides(Windows(images=many, slide=1))


def test_a_tuner_tries_other_distances() -> None:
    module = parse(Windows(images=(4096, 130, 128)).text())
    nests = [op for op in module.walk() if isinstance(op, loops.NestOp)]
    analysis = analyse(nests[0], {}, (True, True))
    merge_axes(analysis)
    tried = candidates(analysis, REFERENCE)
    assert tried[:3] == [{"slide": 1}, {"slide": 8}, {"slide": 16}]
    assert tried[3:] and all("along" in one for one in tried[3:])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(("sum", "maximum", "minimum", "argmax", "argmin", "argmax_last_nan")),
    element=st.sampled_from(("f32", "bf16")),
    size=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    images=st.tuples(st.integers(1, 3), st.integers(5, 20), st.integers(5, 20)),
    slide=st.integers(1, 9),
    last=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_windows_that_nobody_thought_of(seed: int, **choices: Any) -> None:
    """Of several zeros an extreme may be any: only sums have weights."""
    torch.manual_seed(seed)
    windows = Windows(**{**choices, "weighted": choices["weighted"] and choices["kind"] == "sum"})
    before, after = parse(windows.text()), lowered(windows.text())
    check_equivalent(before, after, windows.inputs(), exact=True, pass_name=LOWERING.name, seed=0)


BESIDE = [Windows("argmax", size=7, stride=7, images=(3, 70, 63)), Windows("sum", size=6, stride=7, images=(3, 70, 63))]


@pytest.mark.parametrize("windows", BESIDE, ids=str)
def test_large_windows_side_by_side_are_a_lane_each(windows: Windows) -> None:
    torch.manual_seed(0)
    before, after = parse(windows.text()), parse(windows.text())
    machine = Machine(processors=1)
    (nest,) = (op for op in after.walk() if isinstance(op, loops.NestOp))
    analysis = analyse(nest, {}, [True] * len(nest.results))
    merge_axes(analysis)
    tiling = usual_tiling(analysis, machine)
    assert tiling is not None
    assert (tiling["along"], tiling["lanes"]) == (0, 1)
    nest.properties["schedule"] = loops.ScheduleAttr.of(tiling)  # whether or not another costs less
    state_machine(after, machine)
    run_pipeline(make_context(), after, [LOWERING], verify_each=True)
    (reduce,) = (op for op in after.walk() if isinstance(op, kernel.ReduceOp))
    assert reduce.lanes == 1
    assert len(reduce.induction_variables) == 2
    assert reduce.results[0].type == reduce.yielded.type
    check_equivalent(before, after, windows.inputs(), exact=True, pass_name=LOWERING.name, seed=0)


def test_the_axes_that_nobody_slides_along_fill_the_lanes() -> None:
    """Of images that are one row of five windows, five points would be left for 128 lanes."""
    text = Windows("maximum", size=4, stride=4, padding=2, images=(1 << 20, 3, 19)).text()
    (nest,) = (op for op in parse(text).walk() if isinstance(op, loops.NestOp))
    analysis = analyse(nest, {}, [True] * len(nest.results))
    merge_axes(analysis)
    assert [analysis.sizes[axis] for axis in analysis.root.axes] == [1 << 20, 5]
    assert best_slide(analysis, REFERENCE, None) is None


def test_what_all_lanes_share_is_no_reason_to_slide() -> None:
    text = """
    func.func @main(%x : tensor<64x8x65536xf32>, %w : tensor<8xf32>) -> tensor<64x65536xf32> {
      %y = loops.nest (%i : 64, %k : 65536) outs(%o : tensor<64x65536xf32>) {
        %s = loops.reduce sum (%j : 8) {
          %a = loops.load %x[%i, %j, %k] : tensor<64x8x65536xf32>
          %b = loops.load %w[%j] : tensor<8xf32>
          %c = elem.mul %a, %b : f32
          loops.yield %c : f32
        } : f32
        loops.store %s, %o[%i, %k] : tensor<64x65536xf32>
      }
      func.return %y : tensor<64x65536xf32>
    }"""
    assert any(isinstance(op, kernel.ReduceOp) for op in lowered(text).walk())
    shared = text.replace("[%j] : tensor<8xf32>", "[%j, %k] : tensor<8x65536xf32>").replace(
        "%w : tensor<8xf32>", "%w : tensor<8x65536xf32>"
    )
    assert not any(isinstance(op, kernel.ReduceOp) for op in lowered(shared).walk())


def test_what_is_computed_of_each_element_is_not_written_out_over_and_over() -> None:
    """Programs share a row of `%w`, and nothing of what they compute."""
    text = """
    func.func @main(%x : tensor<16x512x4096xf32>, %w : tensor<16x4096xf32>) -> tensor<512x4096xf32> {
      %y = loops.nest (%i : 512, %k : 4096) outs(%o : tensor<512x4096xf32>) {
        %s = loops.reduce maximum (%j : 16) {
          %a = loops.load %x[%j, %i, %k] : tensor<16x512x4096xf32>
          %b = loops.load %w[%j, %k] : tensor<16x4096xf32>
          %c = elem.minimum %a, %b : f32
          loops.yield %c : f32
        } : f32
        loops.store %s, %o[%i, %k] : tensor<512x4096xf32>
      }
      func.return %y : tensor<512x4096xf32>
    }"""
    assert not any(isinstance(op, kernel.ReduceOp) for op in lowered(text).walk()), "a few ops are"
    many = "\n".join(f"%t{k} = elem.tanh %{f't{k - 1}' if k else 'c'} : f32" for k in range(5))
    text = text.replace("loops.yield %c", f"{many}\n          loops.yield %t4")
    assert any(isinstance(op, kernel.ReduceOp) for op in lowered(text).walk())


def test_no_farther_than_pays_where_a_text_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows two apart, one row in three is shared: two points do nearly as well as eight."""

    def distance(windows: Windows) -> int | None:
        (nest,) = (op for op in parse(windows.text()).walk() if isinstance(op, loops.NestOp))
        analysis = analyse(nest, {}, [True] * len(nest.results))
        merge_axes(analysis)
        slide = best_slide(analysis, REFERENCE, None, 2)
        return None if slide is None else slide.points

    many = Windows("argmax", stride=2, padding=1, images=(4096, 128, 128))
    assert distance(many) == 8
    monkeypatch.setattr(sliding_windows, "LONG", 400)
    assert distance(many) == 2
    assert distance(replace(many, stride=1)) == 4, "where rows are shared, more points are faster"
    assert distance(replace(many, kind="maximum")) == 8, "a step is one op where no place is asked for"


def test_a_row_is_no_window() -> None:
    """Rows of 64 that lie side by side: the lanes of a tile are along the rows."""
    text = """
    func.func @main(%x : tensor<65536x64xf32>) -> tensor<65536xf32> {
      %y = loops.nest (%i : 65536) outs(%o : tensor<65536xf32>) {
        %s = loops.reduce sum (%j : 8, %k : 8) {
          %a = loops.load %x[%i, %j * 8 + %k] : tensor<65536x64xf32>
          loops.yield %a : f32
        } : f32
        loops.store %s, %o[%i] : tensor<65536xf32>
      }
      func.return %y : tensor<65536xf32>
    }"""
    (reduce,) = (op for op in lowered(text).walk() if isinstance(op, kernel.ReduceOp))
    assert reduce.lanes == 64


@pytest.mark.parametrize(("width", "lanes"), [(16, True), (13, False)])
def test_windows_whose_rows_are_whole_vectors_have_lanes_along_them(width: int, lanes: bool) -> None:
    """A norm of 32 planes of rows of 16, 262,143 of them: 283 us on an H100 with a window for each lane, 191 so."""
    x = f"tensor<32x65536x{width}xf32>"
    text = f"""
    func.func @main(%x : {x}) -> tensor<65536xf32> {{
      %y = loops.nest (%i : 65536) outs(%o : tensor<65536xf32>) {{
        %s = loops.reduce sum (%j : 32, %k : {width}) {{
          %a = loops.load %x[%j, %i, %k] : {x}
          loops.yield %a : f32
        }} : f32
        loops.store %s, %o[%i] : tensor<65536xf32>
      }}
      func.return %y : tensor<65536xf32>
    }}"""
    (reduce,) = (op for op in lowered(text).walk() if isinstance(op, kernel.ReduceOp))
    assert (reduce.lanes > 1) == lanes


def test_a_bias_is_no_reason_to_slide() -> None:
    """Windows that do not overlap share nothing else along images: 249 us on an H100, and 157 when none slides."""
    text = """
    func.func @main(%x : tensor<32x240x24x24x24xf32>, %c : tensor<240xf32>) -> tensor<32x240x6x6x6xf32> {
      %y = loops.nest (%n : 32, %k : 240, %h : 6, %i : 6, %j : 6) outs(%o : tensor<32x240x6x6x6xf32>) {
        %b = loops.load %c[%k] : tensor<240xf32>
        %s = loops.reduce maximum (%u : 4, %v : 4, %w : 4) {
          %a = loops.load %x[%n, %k, %h * 4 + %u, %i * 4 + %v, %j * 4 + %w] : tensor<32x240x24x24x24xf32>
          %d = elem.add %a, %b : f32
          loops.yield %d : f32
        } : f32
        loops.store %s, %o[%n, %k, %h, %i, %j] : tensor<32x240x6x6x6xf32>
      }
      func.return %y : tensor<32x240x6x6x6xf32>
    }"""
    assert any(isinstance(op, kernel.ReduceOp) for op in lowered(text).walk())


def rows(kind: str, element: str, size: int, padding: int, images: tuple[int, int], stride: int = 1) -> ModuleOp:
    """Windows along the rows of a matrix, for a GPU with one processor, for which little is enough."""
    count, side = images
    width = (side + 2 * padding - size) // stride + 1
    source, out = f"tensor<{count}x{side}x{element}>", f"tensor<{count}x{width}xf32>"
    module = parse(f"""
        func.func @main(%s : {source}) -> {out} {{
          %r = loops.nest (%n : {count}, %x : {width}) outs(%o : {out}) {{
            %zero = elem.constant 0 : i64
            %end = elem.constant {side} : i64
            %other = elem.constant {"0.0" if kind == "sum" else "-inf"} : {element}
            %v = loops.reduce {kind} (%i : {size}) {{
              %place = loops.index [%x * {stride} + %i - {padding}] : i64
              %low = elem.ge %place, %zero : i64
              %high = elem.lt %place, %end : i64
              %in = elem.and %low, %high : i1
              %a = loops.load %s[%n, %x * {stride} + %i - {padding}] if %in else %other : {source}
              %b = elem.convert %a : {element} to f32
              loops.yield %b : f32
            }} : f32
            loops.store %v, %o[%n, %x] : {out}
          }}
          func.return %r : {out}
        }}""")
    state_machine(module, replace(REFERENCE, processors=1))
    return module


ROWS: list[Any] = [
    ("sum", "f32", 8, 4, (40, 256)),  # 257 windows, as of average pooling
    ("maximum", "f32", 5, 2, (33, 64)),
    ("sum", "bf16", 3, 1, (70, 130)),
    ("maximum", "bf16", 5, 2, (7, 1200), 2),
]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_windows_that_overlap_along_the_lanes_only(case: Any) -> None:
    """Each of a lane's windows alone loads in instructions whose lanes lie apart: 2.37 ms on an H200 for 64x128x65536
    f32 in windows of 8, where TorchInductor took 1.63.
    """
    torch.manual_seed(0)
    _, element, size, _, (count, side), *stride = case
    before, after = rows(*case), rows(*case)
    run_pipeline(make_context(), after, [LOWERING], verify_each=True)
    assert not any(isinstance(op, kernel.ReduceOp) for op in after.walk())
    assert loads(after) == size + 3 * (stride[0] if stride else 1)
    x = torch.randint(-3, 4, (count, side)).to(torch.bfloat16 if element == "bf16" else torch.float32)
    check_equivalent(before, after, [x], exact=True, pass_name=LOWERING.name, seed=0)
    check_on_cuda(rows(*case), [x])


def test_rows_without_a_common_element_are_no_reason() -> None:
    """Nor are windows too large to be written out, so few that processors were idle, or that share little."""
    cases: list[Any] = [
        ("sum", "f32", 4, 0, (400, 256), 4),
        ("sum", "f32", 65, 0, (400, 256)),
        ("sum", "f32", 8, 4, (4, 256)),
        ("sum", "f32", 2, 0, (400, 256)),
        ("maximum", "bf16", 3, 1, (400, 1200), 2),
    ]
    for case in cases:
        module = rows(*case)
        run_pipeline(make_context(), module, [LOWERING], verify_each=True)
        assert any(isinstance(op, kernel.ReduceOp) for op in module.walk()), case
