"""No edit of a text can do harm: what is wrong with it is said with its line, before it runs or when it does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError


def loaded(folder: Path, text: str, **options: object) -> object:
    file = folder / "edited.mlir"
    file.write_text(text)
    return cuesta.load(file, options=options)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises((CuestaError, ParseError)) as caught:
        loaded(folder, text)
    assert "edited.mlir" in str(caught.value)
    return str(caught.value)


KERNEL = """\
kernel.func @scale_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [6], parallel = 0, unroll = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%p * 10 + %j] : vector<8xf32>
    %b = elem.add %a, %a : vector<8xf32>
    kernel.store %b, %o[%p * 10 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<6x10xf32>) -> tensor<6x10xf32> {
  %y = kernel.launch @scale_0(%x) : (tensor<6x10xf32>) -> (tensor<6x10xf32>)
  func.return %y : tensor<6x10xf32>
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "%x[%p * 10 + %j]",
            "%x[%p * 10 + %j + 1]",
            r"edited.mlir:5  kernel.load of %x in @scale_0: element 60 is not",
        ),
        ("%x[%p * 10 + %j]", "%x[%p * 10 - %j - 1]", r"edited.mlir:5  kernel.load of %x .* element -"),
        ("%o[%p * 10 + %j]", "%o[%p * 4611686018427387903 + %j]", "too great a number"),
        ("%o[%p * 10 + %j]", "%o[%p * 20 + %j]", r"edited.mlir:7  kernel.store of %o in @scale_0: element 60"),
        ("grid = [6]", "grid = [7]", r"edited.mlir:5  kernel.load .* is not one of the 60"),
        ("0 to 10", "0 to 11", r"edited.mlir:5  kernel.load"),
        ("-> (tensor<6x10xf32>)", "-> (tensor<3x10xf32>)", "func.return"),
    ],
)
def test_an_access_beyond_a_buffer(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in KERNEL
    with pytest.raises((IndexError, CuestaError, ParseError), match=message):
        loaded(tmp_path, KERNEL.replace(old, new))(torch.randn(6, 10))  # pyright: ignore[reportCallIssue]
    x = torch.randn(6, 10)
    assert torch.equal(loaded(tmp_path, KERNEL)(x)[0], x * 2)  # pyright: ignore[reportCallIssue]


def test_what_is_proved_is_not_checked(tmp_path: Path) -> None:
    loaded(tmp_path, KERNEL, dump=str(tmp_path / "dump"))
    texts = [file.read_text() for file in (tmp_path / "dump" / "000_loaded").glob("*check-bounds.mlir")]
    assert len(texts) == 1 and "kernel.within" not in texts[0]
    loaded(tmp_path, KERNEL.replace("%x[%p * 10 + %j]", "%x[%p * 10 + %j + 1]"), dump=str(tmp_path / "dump"))
    (text,) = (tmp_path / "dump" / "001_loaded").glob("*check-bounds.mlir")
    assert 'kernel.within [%p * 10 + %j + 1], 60, "kernel.load of %x"' in text.read_text()
    again = cuesta.load(text)
    with pytest.raises(
        IndexError, match=r"check-bounds.mlir:\d+, .*edited.mlir:5  kernel.load of %x in @scale_0: element 60"
    ):
        again(torch.randn(6, 10))
    loaded(tmp_path, KERNEL.replace("%j] :", "%j + 0] :"), checks="off", dump=str(tmp_path / "dump"))
    assert not list((tmp_path / "dump" / "002_loaded").glob("*check-bounds.mlir"))


MASKED = KERNEL.replace(
    "%a = kernel.load %x[%p * 10 + %j] : vector<8xf32>",
    """%n = kernel.index [%p * 10 + %j] : vector<8xi64>
    %l = elem.constant LIMIT : vector<8xi64>
    %m = elem.lt %n, %l : vector<8xi64>
    %z = elem.constant 0.0 : vector<8xf32>
    %a = kernel.load %x[%p * 10 + %j + 5] if %m else %z : vector<8xf32>""",
)


def test_only_active_lanes_are_checked(tmp_path: Path) -> None:
    x = torch.randn(6, 10)
    (result,) = loaded(tmp_path, MASKED.replace("LIMIT", "55"))(x)  # pyright: ignore[reportCallIssue]
    expected = torch.cat([x.flatten()[5:], torch.zeros(5)]).view(6, 10) * 2
    assert torch.equal(result, expected)
    with pytest.raises(
        IndexError, match=r"edited.mlir:9  kernel.load of %x in @scale_0: element 60 is not one of the 60"
    ):
        loaded(tmp_path, MASKED.replace("LIMIT", "56"))(x)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8", "6", "6 lanes: they are a power of two"),
        ("8", "65536", "lanes: they are a power of two, up to 1024"),
        ("unroll = 1", "unroll = 3", "the choice unroll of a schedule is a power of two from 1 to 16, not 3"),
        ("unroll = 1", "unrol = 1", "no choice of a schedule is called unrol"),
        ("parallel = 0", "parallel = 2", "is 0 or 1, not 2"),
        ("0 to 10 lanes", "20 to 10 lanes", "it ends before it begins"),
        ("%o[%p * 10 + %j]", "%x[%p * 10 + %j]", "writes to what is neither an out"),
        ("%x[%p * 10 + %j]", "%x[(%p * 10 + %j) mod 0]", "edited.mlir:5"),
        ("%x[%p * 10 + %j]", "%x[(%p * 10 + %j) mod -3]", "edited.mlir:5"),
        ("grid = [6]", "grid = [8796093022208]", "more than anyone waits for"),
        ("@scale_0", "@malloc", "is no name for a kernel"),
        ("@scale_0", '@"a b"', "edited.mlir"),
        ("grid = [6]", "grid = [s0]", "s0"),
        (
            "%p = kernel.program_id 0",
            "%p = kernel.program_id 0\n  %s = kernel.local 4000000 : !kernel.ptr<f32>",
            "scratch",
        ),
        ("(tensor<6x10xf32>) -> (", "(tensor<6x10xf64>) -> (", "f64"),
    ],
)
def test_a_kernel_that_no_machine_runs(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in KERNEL
    assert message in refusal(tmp_path, KERNEL.replace(old, new))


LOCAL = """\
kernel.func @turn_0(%x : !kernel.ptr<f32>, %i : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [6], parallel = 1, unroll = 1> {
  %p = kernel.program_id 0
  %s = kernel.local 10 : !kernel.ptr<f32>
  kernel.for (%j = 0 to 10) {
    %a = kernel.load %x[%p * 10 + %j] : f32
    kernel.store %a, %s[%j + SHIFT] : f32
  }
  kernel.for (%j = 0 to 10) {
    %n = kernel.load %i[%j] : i64
    %k = kernel.bound %n, BOUND : i64
    %a = kernel.load %s[%k] : f32
    kernel.store %a, %o[%p * 10 + %j] : f32
  }
}
func.func @main(%x : tensor<6x10xf32>, %i : tensor<10xi64>) -> tensor<6x10xf32> {
  %y = kernel.launch @turn_0(%x, %i) : (tensor<6x10xf32>, tensor<10xi64>) -> (tensor<6x10xf32>)
  func.return %y : tensor<6x10xf32>
}
"""


def test_scratch_memory_and_indices_made_of_data(tmp_path: Path) -> None:
    x, order = torch.randn(6, 10), torch.randperm(10)
    right = LOCAL.replace("SHIFT", "0").replace("BOUND", "10")
    assert torch.equal(loaded(tmp_path, right)(x, order)[0], x[:, order])  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        IndexError, match=r"edited.mlir:7  kernel.store of %s in @turn_0: element 10 is not one of the 10"
    ):
        loaded(tmp_path, LOCAL.replace("SHIFT", "1").replace("BOUND", "10"))(x, order)  # pyright: ignore[reportCallIssue]
    wider = loaded(tmp_path, LOCAL.replace("SHIFT", "0").replace("BOUND", "1000"))
    assert torch.equal(wider(x, order)[0], x[:, order])  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        IndexError, match=r"edited.mlir:12  kernel.load of %s in @turn_0: element 999 is not one of the 10"
    ):
        wider(x, torch.full((10,), 999))  # pyright: ignore[reportCallIssue]
    with pytest.raises(IndexError, match="index 1000 is out of bounds for dimension with size 1000"):
        wider(x, torch.full((10,), 1000))  # pyright: ignore[reportCallIssue]


DYNAMIC = """\
kernel.func @scale_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0)
    schedule #kernel.schedule<grid = [s0], parallel = 1, grain = 5, unroll = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%p * 10 + %j] : vector<8xf32>
    kernel.store %a, %o[%p * 10 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>)
    -> tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>> attributes {sym.symbols = #sym.symbols<s0 in [0, 100]>} {
  %y = kernel.launch @scale_0(%x) : (tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>)
    -> (tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>)
  func.return %y : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>
}
"""


def test_symbolic_sizes(tmp_path: Path) -> None:
    function = loaded(tmp_path, DYNAMIC)
    for size in (0, 1, 7, 100):
        x = torch.randn(size, 10)
        assert torch.equal(function(x)[0], x)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"make s0 101, but @main says s0 in \[0, 100\]"):
        function(torch.randn(101, 10))  # pyright: ignore[reportCallIssue]
    beyond = loaded(tmp_path, DYNAMIC.replace("grid = [s0]", "grid = [s0 + 1]"))
    with pytest.raises(
        IndexError, match=r"edited.mlir:5  kernel.load of %x in @scale_0: element 70 is not one of the 70"
    ):
        beyond(torch.randn(7, 10))  # pyright: ignore[reportCallIssue]
    assert "less than 1" in refusal(tmp_path, DYNAMIC.replace("%x[%p * 10 + %j]", "%x[(%p * 10 + %j) mod s0]"))
    assert "does not declare" in refusal(tmp_path, DYNAMIC.replace("s0 in", "s1 in"))


HOST = """\
kernel.func @copy_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
host.func @main(%x : tensor<20xf32>) -> (tensor<20xf32>, tensor<2x8xf32>, tensor<4xi64>) {
  %a = host.alloc : tensor<192xui8>
  %b = host.place %a at 0 : tensor<192xui8> to tensor<20xf32>
  host.launch @copy_0(%x, %b) : tensor<20xf32>, tensor<20xf32>
  %c = host.alloc : tensor<20xf32>
  host.launch @copy_0(%b, %c) : tensor<20xf32>, tensor<20xf32>
  host.free %a, %b : tensor<192xui8>, tensor<20xf32>
  %v = host.reinterpret %c offset 4 : tensor<20xf32> to tensor<2x8xf32>
  %w = host.reinterpret %c offset 0 : tensor<20xf32> to tensor<5x4xf32>
  %m = host.extern pure "aten.argmax.default"(%w, 0) : (tensor<5x4xf32>) -> tensor<4xi64>
  host.return %c, %v, %m : tensor<20xf32>, tensor<2x8xf32>, tensor<4xi64>
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "host.return",
            "host.free %c : tensor<20xf32>\n  host.return",
            "edited.mlir:17  host.return: uses %c, which is freed",
        ),
        (
            "host.return",
            "host.free %a : tensor<192xui8>\n  host.return",
            "edited.mlir:16  host.free: frees %a, which is",
        ),
        ("host.free %a, %b :", "host.free %b, %b :", "edited.mlir"),
        ("@copy_0(%b, %c) :", "@copy_0(%b, %x) :", "writes to %x, an argument that `aten.writes_to` does not name"),
        ("at 0", "at 128", "edited.mlir:8  host.place"),
        ("<192xui8> to tensor<20xf32>", "<192xui8> to tensor<4000xf32>", "edited.mlir"),
        ("(tensor<5x4xf32>) -> tensor<4xi64>", "(tensor<5x4xf32>) -> tensor<4xmoon>", "edited.mlir"),
        ('"aten.argmax.default"', '"aten.argmoon.default"', "torch has no overload aten.argmoon.default"),
        ('"aten.argmax.default"(%w, 0)', '"aten.relu_.default"(%x)', "edited.mlir"),
        ("host.alloc : tensor<20xf32>", "host.alloc : tensor<2000000000000xf32>", "edited.mlir"),
    ],
)
def test_a_host_program_that_breaks_the_rules(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in HOST
    assert message in refusal(tmp_path, HOST.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("offset 4", "offset 5", "edited.mlir:13  host.reinterpret: sizes .2, 8. and strides .8, 1. from 5 on"),
        (
            "tensor<20xf32> to tensor<5x4xf32>",
            "tensor<20xf32> to tensor<5x4xf32, #s>",
            r"edited.mlir:15  host.reinterpret",
        ),
        (
            "4xi64",
            "8xi64",
            r"edited.mlir:15  aten.argmax.default gave .* \(4,\) .* but the text says torch.int64 and \(8,\)",
        ),
        ("4xi64", "4xi32", "aten.argmax.default gave a tensor of torch.int64"),
        ("(%w, 0)", "(%w, 7)", "edited.mlir:15  IndexError: Dimension out of range"),
        ("(%w, 0)", "(%w, 1)", r"edited.mlir:15  aten.argmax.default gave a tensor of torch.int64 and size \(5,\)"),
    ],
)
def test_what_is_seen_when_a_host_program_runs(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in HOST
    text = HOST.replace(old, new)
    if "#s" in text:
        text = "#s = #aten.layout<strides = [7, 1]>\n" + text.replace(
            "(tensor<5x4xf32>) ->", "(tensor<5x4xf32, #s>) ->"
        )
    function = loaded(tmp_path, text)
    with pytest.raises((RuntimeError, CuestaError), match=message):
        function(torch.randn(20))  # pyright: ignore[reportCallIssue]
    x = torch.arange(20.0)
    copy, part, index = loaded(tmp_path, HOST)(x)  # pyright: ignore[reportCallIssue]
    assert torch.equal(copy, x) and torch.equal(part, x[4:].view(2, 8)) and index.tolist() == [4] * 4


@torch.library.custom_op("cuesta_test::raise_to", mutates_args=("c",))
def raise_to(c: Tensor, x: Tensor) -> None:
    """An operator that changes an argument."""
    c.add_(x)


LENDING = """\
host.func @main(%c : tensor<4xf32>, %x : tensor<4xf32>) -> (tensor<4xf32>) {
  %op = host.operator "cuesta_test.raise_to.default"
  %all = host.eager "higher_order.auto_functionalized_v2"(
    %op, x = %x, _c_base_index = 0, _all_bases = [%c], _only_clone_these_bases = [])
    : (!host.object, tensor<4xf32>, tensor<4xf32>) -> !host.object
  %one = host.eager "operator.getitem"(%all, 1) : (!host.object) -> !host.object
  %n = host.check "o" %one : !host.object to tensor<4xf32>
  %k = host.eager "aten.copy_.default"(%c, %n) : (tensor<4xf32>, tensor<4xf32>) -> !host.object
  host.return %x : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(%c, %n)", "(%x, %n)"),
        ("(%c, %n)", "(%c, %x)"),
        ("[%c]", "[%x]"),
        (LENDING[LENDING.index("  %k") : LENDING.index("  host.return")], ""),
    ],
)
def test_an_operator_changes_an_argument_that_gets_what_it_made(tmp_path: Path, old: str, new: str) -> None:
    assert old in LENDING
    c, x = torch.ones(4), torch.full((4,), 2.0)
    loaded(tmp_path, LENDING)(c, x)  # pyright: ignore[reportCallIssue]
    assert c.tolist() == [3.0] * 4 and x.tolist() == [2.0] * 4
    assert "edited.mlir:3  host.eager: changes a tensor itself" in refusal(tmp_path, LENDING.replace(old, new))


DEEP = "func.func @main(%x : tensor<6x10xf32>) -> tensor<6x10xf32> {\n" + "".join(
    f"loops.for (%i{level} : 6) {{\n" for level in range(2000)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (KERNEL.replace("!kernel.ptr<f32>", "!kernel.ptr<>", 1), "has another number of parameters"),
        (KERNEL.replace("program_id 0", f"program_id {10**30}"), "out of range"),
        (KERNEL.replace("%p * 10 + %j]", f"{'(' * 3000}%p * 10 + %j{')' * 3000}]", 1), "nested more deeply than"),
        (KERNEL.replace("%p * 10 + %j]", f"{'-' * 3000}%p]", 1), "nested more deeply than"),
        (KERNEL.replace("!kernel.ptr<f32>", f"{'tuple<' * 3000}f32{'>' * 3000}", 1), "nested more deeply than"),
        (DEEP, "nested more deeply than"),
    ],
    ids=["no element type", "no axis", "parentheses", "signs", "types", "loops"],
)
def test_what_a_parser_falls_over_is_said_in_words(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


ATEN = """\
func.func @main(%x : tensor<8x16xf32>) -> TYPE {
  %y = OP : (tensor<8x16xf32>) -> TYPE loc("model.py":42:7)
  func.return %y : TYPE
}
"""


@pytest.mark.parametrize(
    ("op", "kind", "message"),
    [
        ("aten.argmax.default(%x, 0)", "tensor<8xi64>", "gives torch.int64 of size (16,), not tensor<8xi64>"),
        (
            "aten.relu.default(%x)",
            "tensor<80000000xf32>",
            "gives torch.float32 of size (8, 16), not tensor<80000000xf32>",
        ),
        ("aten.relu.default(%x)", "tensor<8x16xf64>", "gives torch.float32"),
        ("aten.view.default(%x, [4, 33])", "tensor<4x33xf32>", "invalid for input of size 128"),
        ("aten.sum.dim_IntList(%x, [2])", "tensor<8xf32>", "Dimension out of range"),
        ("aten.expand.default(%x, [8, 16])", "tensor<8x17xf32>", "gives torch.float32 of size (8, 16)"),
    ],
)
def test_types_of_calls_are_what_torch_gives(tmp_path: Path, op: str, kind: str, message: str) -> None:
    said = refusal(tmp_path, ATEN.replace("OP", op).replace("TYPE", kind))
    name = op.partition("(")[0]
    lines = said.splitlines()
    assert lines[0].startswith(f"{tmp_path}/edited.mlir:2  {name}: ") and message in lines[0]
    assert lines[1].endswith('loc("model.py":42:7)') and lines[2].index("^") == lines[1].index(name)
    assert "  from: model.py:42" in lines


def test_a_loops_text(tmp_path: Path) -> None:
    text = """\
func.func @main(%x : tensor<6x10xf32>, %i : tensor<10xi64>) -> tensor<6x10xf32> {
  %y = loops.nest (%p : 6, %j : 10) outs(%o : tensor<6x10xf32>) {
    %n = loops.load %i[%j] : tensor<10xi64>
    %k = loops.bound %n, 10 : i64
    %a = loops.load %x[%p, %k] : tensor<6x10xf32>
    loops.store %a, %o[%p, %j] : tensor<6x10xf32>
  }
  func.return %y : tensor<6x10xf32>
}
"""
    x, order = torch.randn(6, 10), torch.randperm(10)
    assert torch.equal(loaded(tmp_path, text)(x, order)[0], x[:, order])  # pyright: ignore[reportCallIssue]
    wider = loaded(tmp_path, text.replace("%n, 10", "%n, 64"))
    assert torch.equal(wider(x, order)[0], x[:, order])  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        IndexError, match=r"edited.mlir:5  kernel.load of %x in @gather_0: element 60 is not one of the 60"
    ):
        wider(x, torch.full((10,), 30))  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%x[%p * 10 + %j]", "%x[%p * 10 + %j + 60]", "never one of the 60 elements of %x"),
        ("%x[%p * 10 + %j]", "%x[%j - 10]", "never one of the 60 elements of %x"),
        ("%o[%p * 10 + %j]", "%o[%p + 60]", "writes"),
    ],
)
def test_what_is_never_in_bounds_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    if message == "writes":  # a scalar for a scalar
        text = KERNEL.replace(" lanes 8", "").replace("vector<8xf32>", "f32").replace(old, new)
        message = "never one of the 60 elements of %o"
    else:
        text = KERNEL.replace(old, new)
    said = refusal(tmp_path, text).splitlines()
    assert message in said[0] and said[2].strip(" |").startswith("^")
    with pytest.raises(IndexError):  # near misses: it may be in bounds, or not run
        loaded(tmp_path, KERNEL.replace("%x[%p * 10 + %j]", "%x[%p * 10 + %j + 59]"))(torch.randn(6, 10))  # pyright: ignore[reportCallIssue]
    x = torch.randn(6, 10)
    nothing = KERNEL.replace("0 to 10", "0 to 0").replace("%p * 10 + %j]", "%p * 10 + %j + 60]")
    loaded(tmp_path, nothing)(x)  # pyright: ignore[reportCallIssue]
    masked = MASKED.replace("LIMIT", "0").replace("%j + 5]", "%j + 500]")
    (zeros,) = loaded(tmp_path, masked)(x)  # pyright: ignore[reportCallIssue]
    assert not zeros.any()
    never = KERNEL.replace("func.func @main(", UNUSED + "func.func @main(")
    assert torch.equal(loaded(tmp_path, never)(x)[0], x * 2)  # pyright: ignore[reportCallIssue]


UNUSED = """\
kernel.func @unused_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [6]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p + 1000] : f32
  kernel.store %a, %o[%p] : f32
}
"""


def test_a_size_is_taken_to_be_positive_only_where_it_must_be(tmp_path: Path) -> None:
    """A loop that does not run says nothing of what comes after it."""
    text = DYNAMIC.replace("grid = [s0]", "grid = [1]").replace(
        "  kernel.for (%j = 0 to 10 lanes 8) {",
        """\
  kernel.for (%k = 0 to s0) {
    %b = kernel.load %x[%k * 10] : f32
    kernel.store %b, %o[%k * 10] : f32
  }
  %c = kernel.load %x[s0 * 10 - 1] : f32
  kernel.store %c, %o[s0 * 10 - 1] : f32
  kernel.for (%j = 0 to 0 lanes 8) {""",
    )
    function = loaded(tmp_path, text)
    x = torch.randn(3, 10)
    assert function(x)[0][2, 9] == x[2, 9]  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        IndexError, match=r"edited.mlir:8  kernel.load of %x in @scale_0: element -1 is not one of the 0"
    ):
        function(torch.randn(0, 10))  # pyright: ignore[reportCallIssue]


def test_a_division_of_integers_does_not_trap(tmp_path: Path) -> None:
    """Also where everything that the kernel accesses is proved to be there."""
    text = KERNEL.replace("!kernel.ptr<f32>", "!kernel.ptr<i64>").replace("xf32", "xi64")
    by_data = text.replace("elem.add %a, %a", "elem.trunc_div %a, %a")
    x = torch.arange(-3, 57).view(6, 10)
    assert torch.equal(loaded(tmp_path, by_data)(x)[0], (x != 0).long())  # pyright: ignore[reportCallIssue]
    for number, name in ((0, "trunc_div"), (-1, "trunc_div"), (-1, "fmod"), (0, "fmod")):
        by_number = text.replace(
            "%b = elem.add %a, %a", f"%c = elem.constant {number} : vector<8xi64>\n    %b = elem.{name} %a, %c"
        )
        least = torch.full((6, 10), -(2**63))
        loaded(tmp_path, by_number)(least)  # pyright: ignore[reportCallIssue]


def test_an_index_that_has_no_value_is_looked_at_where_it_is_used(tmp_path: Path) -> None:
    """LLVM may say of a float that no integer is whatever it likes, once for the bound and once for the address."""
    text = LOCAL.replace("SHIFT", "0").replace(
        "%k = kernel.bound %n, BOUND : i64",
        """%f = elem.constant 1.0e+30 : f64
    %h = elem.convert %f : f64 to i64
    %k = kernel.bound %h, 10 : i64""",
    )
    folder = tmp_path / "dump"
    function = loaded(tmp_path, text, dump=str(folder))
    x = torch.randn(6, 10)
    try:  # of what has no value, one is taken: it is in bounds, or it is not
        (result,) = function(x, torch.arange(10))  # pyright: ignore[reportCallIssue]
    except IndexError as error:
        assert "out of bounds for dimension with size 10" in str(error)
    else:
        assert bool((result[:, :1] == x).any(1).all()) and bool((result == result[:, :1]).all())
    assert "freeze" in next(folder.rglob("kernels.ll")).read_text()
    plain = tmp_path / "plain"
    loaded(tmp_path, LOCAL.replace("SHIFT", "0").replace("BOUND", "10"), dump=str(plain))
    assert "freeze" not in next(plain.rglob("kernels.ll")).read_text()


def test_every_choice_that_a_schedule_makes_is_known(tmp_path: Path) -> None:
    from cuesta.dialects.texts.kernels import CHOICES
    from cuesta.lowering.schedule.choices import CHOICES as OF_NESTS

    assert {
        "reread",
        "reversed",
        "stages",
        "group",
        "warps",
        "unroll",
        "parallel",
        "whole",
    } <= CHOICES.keys() & OF_NESTS.keys()


def test_what_a_call_gives_depends_on_the_device(tmp_path: Path) -> None:
    """Statistics that nobody computes are tensors without elements on a CPU, and copies on a GPU."""
    text = """\
func.func @main(%x: tensor<4x3xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>)
    -> (tensor<4x3xf32>, tensor<3xf32>) {
  %y, %m, %s, %new_mean, %new_variance =
    aten._native_batch_norm_legit_functional.default(%x, none, none, %mean, %variance, false, 0.1, 1.0e-05)
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<4x3xf32>, tensor<0xf32>, tensor<0xf32>, tensor<3xf32>, tensor<3xf32>)
  func.return %y, %new_mean : tensor<4x3xf32>, tensor<3xf32>
}
"""
    x, mean = torch.randn(4, 3), torch.randn(3)
    y, kept = loaded(tmp_path, text)(x, mean, torch.ones(3))  # pyright: ignore[reportCallIssue]
    torch.testing.assert_close(y, (x - mean) / (1 + 1e-5) ** 0.5)
    assert torch.equal(kept, mean)
    assert "gives torch.float32 of size" in refusal(tmp_path, text.replace("tensor<0xf32>", "tensor<7xf32>"))


STRIDES = """\
kernel.func @k_0(%y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s1)
    schedule #kernel.schedule<grid = [s1], parallel = 0> {
  %p = kernel.program_id 0
  %a = kernel.load %y[%p] : f32
  kernel.store %a, %o[%p] : f32
}
func.func @main(%x : tensor<?x10xf32, #aten.layout<sizes = [s0, 10], strides = [s1, 1]>>,
    %y : tensor<?xf32, #aten.layout<sizes = [s1]>>) -> tensor<?xf32, #aten.layout<sizes = [s1]>>
    attributes {sym.symbols = #sym.symbols<s0 in [0, 100], s1 in [0, 100]>} {
  %z = kernel.launch @k_0(%y) : (tensor<?xf32, #aten.layout<sizes = [s1]>>)
    -> (tensor<?xf32, #aten.layout<sizes = [s1]>>)
  func.return %z : tensor<?xf32, #aten.layout<sizes = [s1]>>
}
"""


def test_a_stride_of_an_axis_with_one_element_says_nothing(tmp_path: Path) -> None:
    function = loaded(tmp_path, STRIDES)
    one_row, y = torch.randn(100).as_strided((1, 10), (90, 1)), torch.randn(5)
    assert torch.equal(function(one_row, y)[0], y)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="got strides"):
        function(torch.randn(2, 10), y)  # pyright: ignore[reportCallIssue]
    layout = "#aten.layout<sizes = [s0], strides = [s1]>"
    told_twice = STRIDES.replace("#aten.layout<sizes = [s1]>", layout)
    function = loaded(tmp_path, told_twice)
    with pytest.raises(TypeError, match=r"argument 1 of @main .* got strides"):
        function(one_row, torch.randn(1))  # pyright: ignore[reportCallIssue]


def test_the_last_of_several_programs_is_proved_to_stay_within(tmp_path: Path) -> None:
    """Programs that have some rows each, the last one fewer: where a loop ends is the lesser of two ends."""
    text = DYNAMIC.replace("grid = [s0]", "grid = [(s0 + 3) floordiv 4]").replace(
        "kernel.for (%j = 0 to 10 lanes 8)", "kernel.for (%i = %p * 4 to min(%p * 4 + 4, s0), %j = 0 to 10 lanes 8)"
    )
    text = text.replace("%p * 10 + %j]", "%i * 10 + %j]")

    def checks(name: str, text: str) -> int:
        loaded(tmp_path, text, dump=str(tmp_path / name))
        (checked,) = (tmp_path / name).rglob("*check-bounds.mlir")
        return checked.read_text().count("kernel.within")

    assert checks("right", text) == 0
    assert checks("beyond", text.replace(", s0), %j", ", s0 + 1), %j")) == 2
    assert checks("above", text.replace("%i = %p * 4 to", "%i = %p * 4 - 1 to")) == 2
    for size in (0, 1, 9):
        x = torch.randn(size, 10)
        assert torch.equal(loaded(tmp_path, text)(x)[0], x)  # pyright: ignore[reportCallIssue]
