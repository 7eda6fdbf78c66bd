"""`kernel.within` on the Triton target: what a text accesses beyond its memory is masked, and an IndexError."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.locations import print_text
from cuesta.pipeline import CHECK_BOUNDS, run_pipeline
from cuesta.targets.program import KernelText
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.targets.triton.emit_kernel import emit_kernel
from tests.support.triton_interpreter import InterpreterError, ask, on_cuda, parse, to_host

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

HOPPER = 90
NOTHING = -(1 << 63)
ON_CUDA = '#aten.layout<device = "cuda:0">'


def checked(text: str) -> dict[str, KernelText]:
    """The Triton texts of a program at the `host` level, with checks."""
    module = parse(text)
    run_pipeline(make_context(), module, [CHECK_BOUNDS])
    return {op.sym_name: emit_kernel(op) for op in module.body.ops if isinstance(op, kernel.FuncOp)}


def one_kernel(body: str, size: int = 60, out: int = 60, choices: str = "", grid: str = "6", updates: str = "") -> str:
    """A program that launches one kernel on tensors of `size` and `out` elements."""
    x, y = f"tensor<{size}xf32, {ON_CUDA}>", f"tensor<{out}xf32, {ON_CUDA}>"
    return f"""
kernel.func @k_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) {updates}
    schedule #kernel.schedule<grid = [{grid}], target = cuda, warps = 1{choices}> {{
  %p = kernel.program_id 0
{body}
}}
host.func @main(%x : {x}) -> ({y}) {{
  %y = host.alloc : {y}
  host.launch @k_0(%x, %y) : {x}, {y}
  host.return %y : {y}
}}
"""


ROWS = """\
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[LOADED] : vector<8xf32>
    %b = elem.add %a, %a : vector<8xf32>
    kernel.store %b, %o[STORED] : vector<8xf32>
  }"""


def rows(loaded: str = "%p * 10 + %j", stored: str = "%p * 10 + %j", **rest: Any) -> str:
    return one_kernel(ROWS.replace("LOADED", loaded).replace("STORED", stored), **rest)


def interpret(text: KernelText, programs: int, arguments: Sequence[Any]) -> list[Any]:
    return ask("kernel", text, programs, list(arguments))


def failures(report: torch.Tensor) -> dict[int, tuple[int, int]]:
    """By the number of a check, the element that was asked for, and how many there are."""
    return {
        place: (element, size)
        for place, (element, size) in enumerate(report.view(-1, 2).tolist())
        if element != NOTHING
    }


def run_kernel(text: str, x: torch.Tensor, out: torch.Tensor, programs: int = 6) -> dict[int, tuple[int, int]]:
    """Runs the kernel on memory that may be larger than the program says; gives what it reports."""
    (kernel_text,) = checked(text).values()
    count = len(re.findall(r"functions\.outside\(", kernel_text.source))
    arguments: list[Any] = [x, out]
    if count:
        arguments.append(torch.full((2 * count,), NOTHING))
    given = interpret(kernel_text, programs, arguments)
    out.copy_(given[1])
    return failures(given[2]) if count else {}


def loaded(folder: Path, text: str, *arguments: Any) -> list[torch.Tensor]:
    file = folder / "edited.mlir"
    file.write_text(text)
    return ask("load", str(file), list(arguments), {})


def test_what_is_proved_is_not_checked() -> None:
    (text,) = checked(rows()).values()
    assert "report" not in text.source and len(text.signature) == 2
    module = parse(rows())
    (func,) = (op for op in module.body.ops if isinstance(op, kernel.FuncOp))
    assert emit_kernel(func).source == text.source


@pytest.mark.parametrize("index", [32, 64])
def test_no_memory_beyond_a_buffer_is_touched(index: int) -> None:
    text = rows(stored="%p * 20 + %j", choices=f", index = {index}")
    x, out = torch.arange(60.0), torch.full((200,), -7.0)
    (element, size) = run_kernel(text, x, out)[0]
    assert size == 60 and 60 <= element < 110
    expected = torch.full((200,), -7.0)
    for p in range(3):
        expected[p * 20 : p * 20 + 10] = 2 * x[p * 10 : p * 10 + 10]
    assert torch.equal(out, expected)


@pytest.mark.parametrize(
    "addresses", ["%p * 10 + %j + 1", "%p * 10 - %j - 1", "(%p * 10 + %j) * 3", "70 - %p * 10 - %j"]
)
def test_what_is_not_there_is_not_read(addresses: str) -> None:
    out = torch.zeros(60)
    assert run_kernel(rows(loaded=addresses), torch.full((2000,), float("nan")), out)
    wrong = torch.full((2000,), float("nan"))
    wrong[:60] = 1
    out = torch.full((60,), 5.0)
    assert run_kernel(rows(loaded="%p * 10 + %j + 1"), wrong, out) == {0: (60, 60)}
    assert torch.equal(out, torch.tensor([2.0] * 59 + [0.0]))


MASKED = """\
  kernel.for (%j = 0 to 10 lanes 8) {
    %n = kernel.index [%p * 10 + %j] : vector<8xi64>
    %l = elem.constant LIMIT : vector<8xi64>
    %m = elem.lt %n, %l : vector<8xi64>
    %z = elem.constant 4.0 : vector<8xf32>
    %a = kernel.load %x[%p * 10 + %j + 5] if %m else %z : vector<8xf32>
    kernel.store %a, %o[%p * 10 + %j] : vector<8xf32>
  }"""


def test_only_active_lanes_are_checked() -> None:
    out, x = torch.zeros(60), torch.arange(70.0)
    assert run_kernel(one_kernel(MASKED.replace("LIMIT", "55")), x, out) == {}
    assert torch.equal(out, torch.cat([x[5:60], torch.full((5,), 4.0)]))
    assert run_kernel(one_kernel(MASKED.replace("LIMIT", "56")), x, out) == {0: (60, 60)}


def test_a_tile_without_points() -> None:
    """What does not vary along a tile is loaded also where it has no point: not from where there is nothing."""
    body = """\
  kernel.for (%j = 0 to 2 - %p lanes 8) {
    %a = kernel.load %x[%p * 25] : f32
    %b = kernel.broadcast %a : f32 to vector<8xf32>
    kernel.store %b, %o[%p * 2 + %j] : vector<8xf32>
  }"""
    out, x = torch.zeros(12), torch.arange(200.0)
    assert run_kernel(one_kernel(body, size=26, out=12), x, out) == {}
    assert out.tolist() == [0, 0, 25, *[0] * 9]
    assert run_kernel(one_kernel(body, size=25, out=12), x, out) == {0: (25, 25)}


def test_a_row_is_not_loaded_at_the_ends_of_a_tile_without_points() -> None:
    body = """\
  kernel.for (%j = %p * 8 to min(20, %p * 8 + 8) lanes 8) {
    %a = kernel.load %x[%j floordiv 10] : vector<8xf32>
    kernel.store %a, %o[%j] : vector<8xf32>
  }"""
    right = checked(one_kernel(body, size=2, out=20, grid="3"))["k_0"]
    assert "row" in right.source and "report" not in right.source
    beyond = checked(one_kernel(body, size=2, out=20, grid="300"))["k_0"]
    assert "row" not in beyond.source and "report" in beyond.source
    out, x = torch.zeros(20), torch.arange(5.0)
    assert run_kernel(one_kernel(body, size=2, out=20, grid="300"), x, out, programs=300) == {}
    assert out.tolist() == [0.0] * 10 + [1.0] * 10


def test_arithmetic_with_32_bits_is_not_believed() -> None:
    """Within bounds as integers; but 32 bits do not hold what is divided."""
    body = """\
  %a = kernel.load %x[(%p * 1000000) floordiv 999999] : f32
  kernel.store %a, %o[%p] : f32"""
    narrow, wide = (
        checked(one_kernel(body, 5001, 5000, f", index = {index}", "5000"))["k_0"].source for index in (32, 64)
    )
    assert "report" in narrow and "report" not in wide
    terms = one_kernel("  %a = kernel.load %x[%p * 1000000000 + 5] : f32\n  kernel.store %a, %o[%p] : f32")
    text = checked(terms.replace("warps = 1", "warps = 1, index = 32"))["k_0"]
    report = interpret(text, 6, [torch.zeros(60), torch.zeros(60), torch.full((2,), NOTHING)])[2]
    assert failures(report)[0][1] == 60


def test_numbers_beyond_64_bits_are_not_believed() -> None:
    body = """\
  %a = kernel.load %x[(%p * 281474976710655) floordiv 281474976710653] : f32
  kernel.store %a, %o[%p] : f32"""
    assert "report" in checked(one_kernel(body, 40001, 40000, "", "40000"))["k_0"].source


def test_several_checks_and_the_first_that_fails(tmp_path: Path) -> None:
    text = rows(loaded="%p * 10 + %j + LOADED", stored="%p * 10 + %j + STORED")
    x = torch.arange(60.0)

    def said(load: int, store: int) -> str:
        with pytest.raises(InterpreterError) as caught:
            loaded(tmp_path, text.replace("LOADED", str(load)).replace("STORED", str(store)), x)
        return str(caught.value)

    assert re.search(r"IndexError|OutOfRangeError", said(1, 0))
    assert "edited.mlir:6  kernel.load of %x in @k_0: element 60 is not one of the 60 that there are" in said(1, 1)
    assert "edited.mlir:8  kernel.store of %o in @k_0: element 60 is not one of the 60 that there are" in said(0, 1)
    (right,) = loaded(tmp_path, text.replace("LOADED", "0").replace("STORED", "0"), x)
    assert torch.equal(right, 2 * x)


def test_two_kernels_report_side_by_side(tmp_path: Path) -> None:
    kind = f"tensor<60xf32, {ON_CUDA}>"
    first, second = (one_kernel(MASKED.replace("LIMIT", limit)).partition("host.func")[0] for limit in ("55", "56"))
    text = f"""{first}{second.replace("@k_0", "@k_1")}
host.func @main(%x : {kind}) -> ({kind}) {{
  %y = host.alloc : {kind}
  host.launch @k_0(%x, %y) : {kind}, {kind}
  %z = host.alloc : {kind}
  host.launch @k_1(%y, %z) : {kind}, {kind}
  host.return %z : {kind}
}}
"""
    with pytest.raises(InterpreterError, match=r"edited.mlir:23  kernel.load of %x in @k_1: element 60 is not one"):
        loaded(tmp_path, text, torch.arange(60.0))
    (result,) = loaded(tmp_path, text.replace(" 56 ", " 55 "), torch.arange(60.0))
    assert result.tolist() == [*range(10, 60), *[4.0] * 10]


SYMBOLIC = '#aten.layout<sizes = [s0, 10], strides = [10, 1], device = "cuda:0">'
DYNAMIC = f"""\
kernel.func @k_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0)
    schedule #kernel.schedule<grid = [s0], target = cuda, warps = 1> {{
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 10 lanes 16) {{
    %a = kernel.load %x[%p * 10 + %j] : vector<16xf32>
    kernel.store %a, %o[%p * 10 + %j] : vector<16xf32>
  }}
}}
host.func @main(%x : tensor<?x10xf32, {SYMBOLIC}>) -> (tensor<?x10xf32, {SYMBOLIC}>)
    attributes {{sym.symbols = #sym.symbols<s0 in [0, 100]>}} {{
  %y = host.alloc : tensor<?x10xf32, {SYMBOLIC}>
  host.launch @k_0(%x, %y) : tensor<?x10xf32, {SYMBOLIC}>, tensor<?x10xf32, {SYMBOLIC}>
  host.return %y : tensor<?x10xf32, {SYMBOLIC}>
}}
"""


def test_symbolic_sizes(tmp_path: Path) -> None:
    assert "report" not in checked(DYNAMIC)["k_0"].source
    for size in (0, 1, 7):
        x = torch.randn(size, 10)
        (result,) = loaded(tmp_path, DYNAMIC, x)
        assert torch.equal(result, x)
        (result,) = loaded(tmp_path, DYNAMIC.replace("warps = 1", "warps = 1, index = 32"), x)
        assert torch.equal(result, x)
    beyond = DYNAMIC.replace("grid = [s0]", "grid = [s0 + 1]")
    with pytest.raises(InterpreterError, match=r"edited.mlir:5  kernel.load of %x in @k_0: element 7\d is not .* 70 "):
        loaded(tmp_path, beyond, torch.randn(7, 10))


def test_changes_in_order_and_in_any_order() -> None:
    scan = """\
  kernel.scan (%r = 0 to 3) {
    kernel.for (%j = 0 to 8 lanes 8) {
      %a = kernel.load %x[%r * 8 + %j] : vector<8xf32>
      kernel.combine sum %a, %o[%p * 8 + %j + SHIFT] : vector<8xf32>
    }
  }"""
    for shift, sizes in (("0", {}), ("3", {0: 24})):
        text = one_kernel(scan.replace("SHIFT", shift), size=24, out=24, grid="3", updates="updates 1")
        out, x = torch.zeros(40), torch.arange(40.0)
        found = run_kernel(text, x, out, programs=3)
        assert {place: size for place, (_, size) in found.items()} == sizes
        sums = x[:24].view(3, 8).sum(0).repeat(3)
        first = int(shift)
        assert torch.equal(out[first:24], sums[: 24 - first]) and not out[24:].any()


@pytest.mark.slow
def test_products(tmp_path: Path) -> None:
    program = """
func.func @main(%x : tensor<32x48xf32>, %w : tensor<48x32xf32>) -> tensor<32x32xf32> {
  %y = loops.nest (%i : 32, %j : 32) outs(%o : tensor<32x32xf32>) {
    %s = loops.reduce sum (%k : 48) {
      %a = loops.load %x[%i, %k] : tensor<32x48xf32>
      %b = loops.load %w[%k, %j] : tensor<48x32xf32>
      %c = elem.mul %a, %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%i, %j] : tensor<32x32xf32>
  }
  func.return %y : tensor<32x32xf32>
}"""
    text = print_text(to_host(on_cuda(parse(program))))
    x, w = torch.randn(32, 48), torch.randn(48, 32)
    (result,) = loaded(tmp_path, text, x, w)
    torch.testing.assert_close(result, x @ w, rtol=1e-2, atol=1e-2)
    edited = re.sub(r"(kernel.load %w\[)([^\]]*)\]", r"\1\2 + 1]", text)
    assert edited != text
    (kernel_text,) = checked(edited).values()
    assert compile_kernel(kernel_text, HOPPER).binary[:4] == b"\x7fELF"
    with pytest.raises(InterpreterError, match=r"kernel.load of %w in @\w+: element 15\d\d is not one of the 1536"):
        loaded(tmp_path, edited, x, w)


CONTRACT = f"""\
kernel.func @k_0(%x : !kernel.ptr<bf16>, %w : !kernel.ptr<bf16>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [1], target = cuda, warps = 4> {{
  kernel.for (%i = 0 to 16 lanes 16) {{
    kernel.for (%j = 0 to 16 lanes 16 dim 1) {{
      %s = kernel.contract (%k = 0 to 40 lanes 16 dim 2) {{
        %a = kernel.load %x[%i * 40 + %k LEFT] : vector<16x1x16xbf16>
        %b = kernel.load %w[%k * 16 + %j RIGHT] : vector<1x16x16xbf16>
        kernel.factors %a, %b : vector<16x1x16xbf16>, vector<1x16x16xbf16>
      }} : vector<16x16xf32>
      kernel.store %s, %o[%i * 16 + %j] : vector<16x16xf32>
    }}
  }}
}}
host.func @main(%x : tensor<16x40xbf16, {ON_CUDA}>, %w : tensor<40x16xbf16, {ON_CUDA}>)
    -> (tensor<16x16xf32, {ON_CUDA}>) {{
  %y = host.alloc : tensor<16x16xf32, {ON_CUDA}>
  host.launch @k_0(%x, %w, %y) : tensor<16x40xbf16, {ON_CUDA}>, tensor<40x16xbf16, {ON_CUDA}>,
    tensor<16x16xf32, {ON_CUDA}>
  host.return %y : tensor<16x16xf32, {ON_CUDA}>
}}
"""


@pytest.mark.parametrize(("left", "right", "where"), [("+ 1", "", "%x"), ("", "+ 1", "%w"), ("", "", "")])
def test_contractions(tmp_path: Path, left: str, right: str, where: str) -> None:
    text = CONTRACT.replace("LEFT", left).replace("RIGHT", right)
    x, w = torch.randn(16, 40).bfloat16(), torch.randn(40, 16).bfloat16()
    (kernel_text,) = checked(text).values()
    assert ("report" in kernel_text.source) == bool(where)
    assert compile_kernel(kernel_text, HOPPER).binary[:4] == b"\x7fELF"
    if where:
        with pytest.raises(
            InterpreterError, match=rf"kernel.load of {where} in @k_0: element 640 is not one of the 640"
        ):
            loaded(tmp_path, text, x, w)
    else:
        torch.testing.assert_close(loaded(tmp_path, text, x, w)[0], x.float() @ w.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        rows(loaded="%p * 10 + %j + 1"),
        rows(stored="%p * 10 - %j"),
        rows(loaded="%p * 11", stored="%p * 10 + %j").replace(
            "kernel.load %x[%p * 11] : vector<8xf32>", "elem.constant 1.0 : vector<8xf32>"
        ),
        one_kernel(MASKED.replace("LIMIT", "56")),
        DYNAMIC.replace("grid = [s0]", "grid = [s0 + 1]"),
    ],
)
@pytest.mark.parametrize("index", ["", ", index = 32"])
def test_checked_kernels_compile(text: str, index: str) -> None:
    (kernel_text,) = checked(text.replace("warps = 1", f"warps = 1{index}")).values()
    assert compile_kernel(kernel_text, HOPPER).binary[:4] == b"\x7fELF"


def test_a_meeting_that_counts_beyond_its_memory() -> None:
    kind, counters = f"tensor<64xf32, {ON_CUDA}>", f"tensor<COUNTxi32, {ON_CUDA}>"
    text = f"""\
kernel.func @k_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>, %n : !kernel.ptr<i32>) updates 1
    schedule #kernel.schedule<grid = [2, 4], target = cuda, warps = 1> {{
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  %a = kernel.load %x[%p * 4 + %q] : f32
  kernel.store %a, %o[%p * 4 + %q] : f32
  kernel.meet %n last 1
  %b = kernel.load %o[%p * 4] : f32
  kernel.store %b, %o[%p * 4 + %q + 8] : f32
}}
host.func @main(%x : {kind}, %n : {counters}) -> ({kind}) attributes {{aten.writes_to = [1]}} {{
  %y = host.alloc : {kind}
  host.launch @k_0(%x, %y, %n) : {kind}, {kind}, {counters}
  host.return %y : {kind}
}}
"""
    assert "report" not in checked(text.replace("COUNT", "10"))["k_0"].source
    with pytest.raises(CuestaError, match=r"<test>:7  kernel.meet: counts in 10 elements; the launch gives it 9"):
        checked(text.replace("COUNT", "9"))
