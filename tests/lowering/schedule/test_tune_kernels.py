"""`tune-kernels` with somebody who makes the times up: what is asked, and what becomes of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import kernel, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.lowering.schedule import tune_kernels
from cuesta.lowering.schedule.tune_kernels import GAIN, TuneKernelsPass, measuring
from cuesta.targets.reference import check_equivalent
from tests.support.levels import check_text
from tests.support.lowering import to_kernel
from tests.support.triton_interpreter import on_cuda, parse

ROWS = """
func.func @main(%x : tensor<64x40xf32>, %z : tensor<64x40xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 40) {
      %a = loops.load %x[%i, %j] : tensor<64x40xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  %w = loops.nest (%n : 64) outs(%other : tensor<64xf32>) {
    %s = loops.reduce sum (%m : 40) {
      %a = loops.load %z[%n, %m] : tensor<64x40xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %other[%n] : tensor<64xf32>
  }
  func.return %y, %w : tensor<64xf32>, tensor<64xf32>
}
"""

PRODUCT = """
func.func @main(%a : tensor<70x64xf16>, %w : tensor<50x64xf16>, %b : tensor<50xf16>) -> tensor<70x50xf16> {
  %t = loops.view %w by (d0, d1) -> (d1, d0) : tensor<50x64xf16> to TRANSPOSED
  %m = loops.extern pure "aten.addmm.default"(%b, %a, %t) : (
    tensor<50xf16>, tensor<70x64xf16>, TRANSPOSED) -> tensor<70x50xf16>
  %y = loops.nest (%i : 70, %j : 50) outs(%o : tensor<70x50xf16>) {
    %0 = loops.load %m[%i, %j] : tensor<70x50xf16>
    %1 = elem.convert %0 : f16 to f32
    %2 = elem.tanh %1 : f32
    %3 = elem.convert %2 : f32 to f16
    loops.store %3, %o[%i, %j] : tensor<70x50xf16>
  }
  func.return %y : tensor<70x50xf16>
}
""".replace("TRANSPOSED", "tensor<64x50xf16, #aten.layout<strides = [1, 64]>>")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs so small that the interpreter is done soon are worth measuring here."""
    monkeypatch.setattr(tune_kernels, "SMALL", 1000)


class Asked:
    """Answers by a rule from the text of a program to its time; keeps the questions."""

    def __init__(self, rule: Callable[[str], float], *, check: bool = False) -> None:
        self.rule, self.check = rule, check
        self.questions: list[list[str]] = []

    def __call__(self, questions: Sequence[Sequence[ModuleOp]]) -> list[list[float]]:
        for question in questions if self.check else ():
            for program in question:
                program.verify()
                check_text(program)
            for program in question[1:]:
                check_equivalent(question[0], program, exact="aten.addmm" not in print_text(question[0]))
        texts = [[print_text(program) for program in question] for question in questions]
        self.questions += texts
        return [[self.rule(text) for text in question] for question in texts]


def tuned(text: str, rule: Callable[[str], float], *, check: bool = False) -> tuple[ModuleOp, Asked]:
    module, asked = on_cuda(parse(text)), Asked(rule, check=check)
    with measuring(asked):
        TuneKernelsPass().apply(make_context(), module)
    module.verify()
    return module, asked


def choices(module: ModuleOp) -> list[dict[str, int]]:
    return [op.choices for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


def test_nobody_measures_and_nothing_changes() -> None:
    module = on_cuda(parse(ROWS))
    before = print_text(module)
    TuneKernelsPass().apply(make_context(), module)
    assert print_text(module) == before


def test_the_fastest_schedule_is_written_into_every_nest_that_is_alike() -> None:
    module, asked = tuned(ROWS, lambda text: 50.0 if "warps = 1>" in text else 100.0, check=True)
    assert len(asked.questions) == 1, "the two nests are one question"
    assert len(asked.questions[0]) == len(set(asked.questions[0])) > 3
    assert "schedule" not in asked.questions[0][0], "the first is the default"
    first, second = choices(module)
    assert first == second
    assert first["warps"] == 1
    to_kernel(module)
    (func,) = [op for op in module.body.ops if isinstance(op, kernel.FuncOp)]
    assert func.schedule.choices["warps"] == 1


@pytest.mark.parametrize("other", [100.0, 100.0 * GAIN, math.inf])
def test_the_default_stays_unless_another_is_clearly_faster(other: float) -> None:
    module, _ = tuned(ROWS, lambda text: other if "schedule" in text else 100.0)
    assert choices(module) == [{}, {}]


def test_where_nothing_runs_the_default_stays() -> None:
    module, _ = tuned(ROWS, lambda text: math.inf)
    assert choices(module) == [{}, {}]


def test_what_somebody_chose_is_not_measured() -> None:
    text = ROWS
    for out in ("outs(%o : tensor<64xf32>)", "outs(%other : tensor<64xf32>)"):
        text = text.replace(out, f"{out} schedule #loops.schedule<warps = 2>")
    module, asked = tuned(text, lambda text: 1.0)
    assert not asked.questions
    assert choices(module) == [{"warps": 2}, {"warps": 2}]


@pytest.mark.parametrize(
    "text",
    [
        ROWS.replace("64", "2"),  # small
        ROWS.replace("loops.load %x[%i, %j]", "loops.load %x[%i, %at]").replace(
            "%a = loops.load %x",
            "%at_i = loops.index [%j] : i64\n      %at = loops.bound %at_i, 40 : i64\n      %a = loops.load %x",
        ),
    ],
)
def test_what_cannot_be_measured_or_does_not_matter(text: str) -> None:
    _, asked = tuned(text, lambda text: 1.0)
    assert sum("loops.bound" in one for question in asked.questions for one in question) == 0
    assert len(asked.questions) == (0 if "64" not in text else 1)


def test_a_product_is_fused_with_what_follows_when_that_is_faster() -> None:
    module, asked = tuned(PRODUCT, lambda text: 20.0 if "depth" in text and "rows = 64" in text else 30.0, check=True)
    product = asked.questions[-1]
    assert "aten.addmm" in product[0] and "elem.tanh" in product[0], "against the library, and the kernel after it"
    assert all("depth" in text and "extern" not in text for text in product[1:])
    assert len(product) > 3
    (found,) = choices(module)
    assert found["rows"] == 64
    assert not any(isinstance(op, loops.ExternOp) for op in entry_block(module).ops)
    check_equivalent(on_cuda(parse(PRODUCT)), module, exact=False)


@pytest.mark.parametrize("fused", [31.0, math.inf])
def test_a_product_stays_a_call_when_that_is_faster(fused: float) -> None:
    module, asked = tuned(PRODUCT, lambda text: fused if "depth" in text else 30.0)
    assert len(asked.questions) == 2
    assert any(isinstance(op, loops.ExternOp) for op in entry_block(module).ops)


def test_the_library_is_given_the_best_schedule_of_the_kernel_after_it() -> None:
    _, asked = tuned(PRODUCT, lambda text: 10.0 if "lanes = 512" in text else 30.0)
    nest, product = asked.questions
    assert "extern" not in nest[0]
    assert "lanes = 512" in product[0]


def test_so_is_a_convolution_that_is_a_product() -> None:
    last = "tensor<2x32x6x6xf16, #aten.layout<strides = [1152, 1, 192, 32]>>"
    text = f"""
    func.func @main(%x : {last}, %w : tensor<32x32x1x1xf16>) -> {last} {{
      %m = loops.extern pure "aten.convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (
        {last}, tensor<32x32x1x1xf16>) -> {last}
      %y = loops.nest (%n : 2, %c : 32, %i : 6, %j : 6) outs(%o : {last}) {{
        %0 = loops.load %m[%n, %c, %i, %j] : {last}
        %1 = elem.convert %0 : f16 to f32
        %2 = elem.tanh %1 : f32
        %3 = elem.convert %2 : f32 to f16
        loops.store %3, %o[%n, %c, %i, %j] : {last}
      }}
      func.return %y : {last}
    }}
    """
    for fast in (10.0, 40.0):
        module, asked = tuned(text, lambda text, fast=fast: fast if "depth" in text else 30.0)
        product = asked.questions[-1]
        assert "aten.convolution" in product[0] and len(product) > 3
        assert all("depth" in text and "extern" not in text for text in product[1:])
        calls = [op for op in entry_block(module).ops if isinstance(op, loops.ExternOp)]
        assert len(calls) == (fast > 30.0)
        check_equivalent(on_cuda(parse(text)), module, exact=False)


def test_products_of_f32_are_rounded_only_where_that_is_allowed() -> None:
    text = PRODUCT.replace("f16", "f32").replace("%1 = elem.convert %0 : f32 to f32", "%1 = elem.abs %0 : f32")
    text = text.replace("%3 = elem.convert %2 : f32 to f32", "%3 = elem.abs %2 : f32")
    for tf32 in (False, True):
        module, asked = on_cuda(parse(text)), Asked(lambda text: 10.0 if "depth" in text else 30.0)
        with measuring(asked):
            TuneKernelsPass(tf32=tf32).apply(make_context(), module)
        (made,) = choices(module)
        assert (made.get("tf32"), made.get("bf16x6")) == ((1, None) if tf32 else (None, 1))


def test_layers_one_after_the_other() -> None:
    text = """
    func.func @main(%x : tensor<20x32xf16>, %v : tensor<32x24xf16>, %w : tensor<24x32xf16>) -> tensor<20x32xf16> {
      FIRST
      SECOND
      func.return %y2 : tensor<20x32xf16>
    }"""
    layer = """%mN = loops.extern pure "aten.mm.default"(%A, %B) : (
        tensor<20xKxf16>, tensor<KxCxf16>) -> tensor<20xCxf16>
      %yN = loops.nest (%i : 20, %j : C) outs(%o : tensor<20xCxf16>) {
        %0 = loops.load %mN[%i, %j] : tensor<20xCxf16>
        %1 = elem.neg %0 : f16
        loops.store %1, %o[%i, %j] : tensor<20xCxf16>
      }"""

    def written(number: str, a: str, b: str, points: str, columns: str) -> str:
        found = layer.replace("%A", a).replace("%B", b).replace("N", number)
        return (
            found.replace("xKx", f"x{points}x")
            .replace("<Kx", f"<{points}x")
            .replace("xCx", f"x{columns}x")
            .replace(": C)", f": {columns})")
        )

    text = text.replace("FIRST", written("1", "%x", "%v", "32", "24"))
    text = text.replace("SECOND", written("2", "%y1", "%w", "24", "32"))
    for first, second in ((True, True), (True, False), (False, True)):

        def rule(program: str, wanted: tuple[bool, bool] = (first, second)) -> float:
            fused = "depth" in program
            is_first = "tensor<32x24xf16" in program
            return 10.0 if fused and wanted[0 if is_first else 1] else 30.0

        module, asked = tuned(text, rule)
        assert len(asked.questions) == 4, "two kernels, two products"
        assert ["depth" in one for one in choices(module)] == [first, second]
        check_equivalent(on_cuda(parse(text)), module, exact=False)
